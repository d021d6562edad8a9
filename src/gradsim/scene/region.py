"""Parts of a soft body, chosen in the coordinates of its rest shape."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pydantic_core import core_schema

from gradsim.errors import InputError
from gradsim.scene.node import Node, Place, exactly_one, mistake, shown
from gradsim.scene.quantity import Count, Tuple, Vector3, plain, vector

SIDE = re.compile(r"(?:([+-])x)?(?:([+-])y)?(?:([+-])z)?")
NEAR = 1e-6  # of the body's size: as far from a side counts as on it

Corners = Annotated[tuple[Vector3, Vector3], Tuple(vector("m"), 2, "opposite corners [x, y, z]")]


class _Side:
    """Annotates a side, an edge or a corner, as text: "-x", "+x-y", "-x-y+z"."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def _read(self, given: Any) -> str:
        text = given.replace(" ", "") if isinstance(given, str) else ""
        if not text or not SIDE.fullmatch(text):
            raise mistake(f"got {shown(given)}; expected a side such as -x, an edge such as -x+y, or a corner -x+y-z.")
        return text


class _Indices:
    """Annotates a list of vertices."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def _read(self, given: Any) -> tuple[int, ...]:
        values = plain(given)
        if not isinstance(values, list | tuple) or not values:
            raise mistake(f"got {shown(values)}; expected a list of vertices, counted from 0.")
        return tuple(int(Count(0).read(k)) for k in values)


class Region(Node):
    """Some of a body's vertices. Text alone is a side.

    Coordinates are those of the rest shape about its centre, before the body is turned and moved.

    Attributes:
        side: Those that lie furthest out along one axis ("-x", a side), or along two or three ("-x+y", "-x+y-z").
        box: Those between two opposite corners [m], the faces included.
        vertices: Those with these indices.
    """

    side: Annotated[str | None, _Side()] = None
    box: Corners | None = None
    vertices: Annotated[tuple[int, ...] | None, _Indices()] = None

    @classmethod
    def faults(cls, given) -> Iterator[tuple[Place, str]]:
        yield from exactly_one(given, ("side", "box", "vertices"))

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        yield from box_conflicts(self.box)

    def of(self, rest: np.ndarray) -> np.ndarray:
        """Indices of its vertices among those of a body (n, 3) [m].

        Raises:
            InputError: If there are none.
        """
        if self.vertices is not None:
            if max(self.vertices) >= len(rest):
                raise InputError(f"names vertex {max(self.vertices)}; there are {len(rest)}, counted from 0.")
            return np.unique(self.vertices)
        low, high = rest.min(0), rest.max(0)
        if self.box is not None:
            found = inside(self.box, rest, NEAR * np.ptp(rest))
        else:
            found, near = np.ones(len(rest), bool), NEAR * (high - low).max()
            for axis, sign in enumerate(SIDE.fullmatch(self.side or "").groups()):  # pyright: ignore[reportOptionalMemberAccess]
                if sign:
                    found &= rest[:, axis] <= low[axis] + near if sign == "-" else rest[:, axis] >= high[axis] - near
        if not found.any():
            raise InputError(
                f"holds no vertex; at rest they lie between {_point(low)} and {_point(high)}, about the centre."
            )
        return found.nonzero()[0]


class _Sided:
    """Annotates a region that may be given as the text of a side."""

    def __get_pydantic_core_schema__(self, source, handler):
        long = lambda given: {"side": given} if isinstance(given, str) else given
        return core_schema.no_info_before_validator_function(long, handler(source))


AnyRegion = Annotated[
    Region, _Sided(), Field(description="a side such as -x, {box: [[...], [...]]} or {vertices: [...]}")
]


def without_vertices(place: Place, region: Region, rest: np.ndarray) -> Iterator[tuple[Place, str]]:
    """The fault that a region at a place of the scene holds no vertex, or one that is not there, if so."""
    try:
        region.of(rest)
    except InputError as error:
        yield place, str(error)


def inside(box: tuple[Vector3, Vector3], points: np.ndarray, margin: float = 0.0) -> np.ndarray:
    """Which of the points (n, 3) lie between two opposite corners."""
    return np.all((points >= np.array(box[0]) - margin) & (points <= np.array(box[1]) + margin), 1)


def box_conflicts(box: tuple[Vector3, Vector3] | None) -> Iterator[tuple[Place, str]]:
    """The fault that the corners of a box are the wrong way round, if so."""
    if box is not None and any(low > high for low, high in zip(*box, strict=True)):
        yield (
            ("box",),
            f"got {[list(corner) for corner in box]}; give the lower corner first: each number at most the other's.",
        )


def _point(x: np.ndarray) -> str:
    return f"({', '.join(f'{c:.4g}' for c in x)})"
