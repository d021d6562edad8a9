"""Regions of a soft body: sets of vertices, selected in the coordinates of the rest shape."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pydantic_core import core_schema

from gradsim.errors import InputError
from gradsim.scene.node import Node, Place, exactly_one, mistake, quote
from gradsim.scene.quantity import Count, Tuple, Vector3, plain, vector

SIDE = re.compile(r"(?:([+-])x)?(?:([+-])y)?(?:([+-])z)?")
SIDE_SCHEMA = {"type": "string", "pattern": r"^(?=.*[xyz])( *[+-] *x)?( *[+-] *y)?( *[+-] *z)? *$"}
SIDE_TOLERANCE = 1e-6  # tolerance of a side, in sizes of the body

Corners = Annotated[tuple[Vector3, Vector3], Tuple(vector("m"), 2, "opposite corners [x, y, z]")]


class _Side:
    """Annotate a side, an edge or a corner as text: "-x", "+x-y", "-x-y+z"."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        return dict(SIDE_SCHEMA)

    def _read(self, raw: Any) -> str:
        text = raw.replace(" ", "") if isinstance(raw, str) else ""
        if not text or not SIDE.fullmatch(text):
            raise mistake(f"got {quote(raw)}; expected a side such as -x, an edge such as -x+y, or a corner -x+y-z.")
        return text


class _Indices:
    """Annotate a list of vertex indices."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        return {"type": "array", "items": Count(0).json_schema(), "minItems": 1}

    def _read(self, raw: Any) -> tuple[int, ...]:
        values = plain(raw)
        if not isinstance(values, list | tuple) or not values:
            raise mistake(f"got {quote(values)}; expected a list of vertex indices, counted from 0.")
        return tuple(int(Count(0).read(k)) for k in values)


class Region(Node):
    """A set of vertices of a body; in a file, text is a side.

    Coordinates are relative to the center of the rest shape, before rotation and translation.

    Attributes:
        side: Extreme vertices along one axis ("-x", a side), or along two or three ("-x+y", "-x+y-z").
        box: Vertices in a closed box, by two opposite corners [m].
        vertices: Vertices by index.
    """

    side: Annotated[str | None, _Side()] = None
    box: Corners | None = None
    vertices: Annotated[tuple[int, ...] | None, _Indices()] = None

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        yield from exactly_one(raw, ("side", "box", "vertices"))

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        yield from box_conflicts(self.box)

    def of(self, rest: np.ndarray) -> np.ndarray:
        """Indices of the selected vertices.

        Args:
            rest: Vertices of the body at rest (n, 3) [m].

        Raises:
            InputError: If the region is empty, or an index is out of range.
        """
        if self.vertices is not None:
            if max(self.vertices) >= len(rest):
                raise InputError(
                    f"names vertex {max(self.vertices)}; the body has {len(rest)} vertices, counted from 0."
                )
            return np.unique(self.vertices)
        low, high = rest.min(0), rest.max(0)
        if self.box is not None:
            selected = inside(self.box, rest, SIDE_TOLERANCE * np.ptp(rest))
        else:
            selected, near = np.ones(len(rest), bool), SIDE_TOLERANCE * (high - low).max()
            for axis, sign in enumerate(SIDE.fullmatch(self.side or "").groups()):  # pyright: ignore[reportOptionalMemberAccess]
                if sign:
                    selected &= rest[:, axis] <= low[axis] + near if sign == "-" else rest[:, axis] >= high[axis] - near
        if not selected.any():
            raise InputError(
                f"contains no vertex; choose one within {_point(low)} to {_point(high)}, the extent of the body at rest."
            )
        return selected.nonzero()[0]


class _SideText:
    """Annotate a region that may be given as the text of a side."""

    def __get_pydantic_core_schema__(self, source, handler):
        expand = lambda raw: {"side": raw} if isinstance(raw, str) else raw
        return core_schema.no_info_before_validator_function(expand, handler(source))

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        return {"anyOf": [dict(SIDE_SCHEMA), handler(core)]}


AnyRegion = Annotated[
    Region, _SideText(), Field(description="a side such as -x, {box: [[...], [...]]} or {vertices: [...]}")
]


def region_errors(place: Place, region: Region, rest: np.ndarray) -> Iterator[tuple[Place, str]]:
    """Report an empty region, or a vertex index out of range."""
    try:
        region.of(rest)
    except InputError as error:
        yield place, str(error)


def inside(box: tuple[Vector3, Vector3], points: np.ndarray, margin: float = 0.0) -> np.ndarray:
    """Points (n, 3) in a box between two opposite corners, (n,) bool."""
    return np.all((points >= np.array(box[0]) - margin) & (points <= np.array(box[1]) + margin), 1)


def box_conflicts(box: tuple[Vector3, Vector3] | None) -> Iterator[tuple[Place, str]]:
    """Report a box whose corners are swapped."""
    if box is not None and any(low > high for low, high in zip(*box, strict=True)):
        yield (
            ("box",),
            f"got {[list(corner) for corner in box]}; give the lower corner first, in all three coordinates.",
        )


def _point(x: np.ndarray) -> str:
    return f"({', '.join(f'{c:.4g}' for c in x)})"
