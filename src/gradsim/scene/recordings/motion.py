"""Prescribed motion: vertices that follow a table of times with positions, or with poses of a rigid frame."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pydantic_core import core_schema

from gradsim.scene.body import UNIT_QUATERNION
from gradsim.scene.node import Node, Place, exactly_one, mistake, quote
from gradsim.scene.quantity import Count, Increasing, Quantity, Vector3, Vector4, plain, vector
from gradsim.scene.region import AnyRegion, Region


class _Vertices:
    """Annotate a list of different vertices."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        return {"type": "array", "items": Count(0).json_schema(), "minItems": 1}

    def _read(self, raw: Any) -> tuple[int, ...] | None:
        if raw is None:
            return None
        values = plain(raw)
        if not isinstance(values, list | tuple) or not values or len(set(values)) < len(values):
            raise mistake(f"got {quote(values)}; expected a list of different vertices, counted from 0.")
        return tuple(int(Count(0).read(k)) for k in values)


class _Positions:
    """Annotate positions [m] of vertices at several times, (times, vertices, 3)."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        point = {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3}
        return {"type": "array", "items": {"type": "array", "items": point}, "minItems": 2}

    def _read(self, raw: Any) -> tuple[tuple[tuple[float, ...], ...], ...] | None:
        if raw is None:
            return None
        try:
            table = np.array(plain(raw), np.float64)
        except (TypeError, ValueError):
            table = np.array([], np.float64)
        if table.ndim != 3 or table.shape[2] != 3 or len(table) < 2 or not np.isfinite(table).all():
            raise mistake(
                "expected for each time a list with a point [x, y, z] in m for each vertex, at two times or more."
            )
        return tuple(tuple(map(tuple, row)) for row in table.tolist())


class Pose(Node):
    """Place and orientation of a frame that vertices move with, such as that of a gripper.

    Attributes:
        position: A point of the frame [m].
        quat_xyzw: Orientation, frame to world.
    """

    position: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    quat_xyzw: Annotated[Vector4, UNIT_QUATERNION] = (0.0, 0.0, 0.0, 1.0)


class Motion(Node):
    """Vertices of a soft body that follow a recording, by a cubic through neighboring samples (`physics.soft.driven`).

    Attributes:
        vertices: The vertices by index, or
        region: the region of these, in the order of their indices.
        times: Times of the samples [s], from 0; before the first one and after the last the vertices stand still.
        positions: Positions of the vertices at each time [m], in the world, from which the body starts, or
        poses: poses of a rigid frame at each time, in the world, with which the vertices move from where they start.
        offset: Added to all positions [m].
        delay: Time of the first sample [s]; below 0 the scene begins within the recording.
        noise: Standard deviation of each number of the positions [m].
        angle_noise: Standard deviation of the orientations of `poses` about each axis [rad].
    """

    vertices: Annotated[tuple[int, ...] | None, _Vertices()] = None
    region: AnyRegion | None = None
    times: Annotated[tuple[float, ...], Increasing(Quantity("s"))] = Field(description="the times in s, from 0")
    positions: Annotated[tuple[tuple[tuple[float, ...], ...], ...] | None, _Positions()] = None
    poses: tuple[Pose, ...] = ()
    offset: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    delay: Annotated[float, Quantity("s")] = 0.0
    noise: Annotated[float, Quantity("m", lower=0.0)] = 0.0
    angle_noise: Annotated[float, Quantity("rad", lower=0.0)] = 0.0

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        yield from exactly_one(raw, ("vertices", "region"))
        yield from exactly_one(raw, ("positions", "poses"))

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        for key, table in (("positions", self.positions), ("poses", self.poses)):
            if table and len(table) != len(self.times):
                yield (key,), f"are given at {len(table)} times; expected {len(self.times)}, as in `times`."
        if self.positions and self.vertices and len(self.positions[0]) != len(self.vertices):
            yield (
                ("positions",),
                f"have {len(self.positions[0])} points each; expected {len(self.vertices)}, as in `vertices`.",
            )
        if self.angle_noise and not self.poses:
            yield ("angle_noise",), f"got {self.angle_noise:g}; it is that of `poses`, and `positions` are given."

    def of(self, rest: np.ndarray) -> np.ndarray:
        """Indices of the vertices.

        Args:
            rest: Vertices of the body at rest (n, 3) [m].

        Raises:
            InputError: If the region is empty, or an index is out of range.
        """
        if self.region is not None:
            return self.region.of(rest)
        Region(vertices=self.vertices).of(rest)  # for its errors
        return np.array(self.vertices)

    @property
    def start(self) -> np.ndarray:
        """Positions at the start, nearly (vertices, 3) [m]: linear between the samples."""
        table = np.array(self.positions)
        columns = [np.interp(-self.delay, self.times, column) for column in table.reshape(len(table), -1).T]
        return np.reshape(columns, table.shape[1:]) + self.offset

    @property
    def table(self) -> np.ndarray:
        """Positions (times, vertices, 3) [m], or positions and quaternions (times, 7) of poses, of continuous signs."""
        if self.positions is not None:
            return np.array(self.positions)
        q = np.array([pose.quat_xyzw for pose in self.poses])
        turns = np.sign((q[1:] * q[:-1]).sum(1, keepdims=True))
        q[1:] *= np.cumprod(np.where(turns == 0, 1.0, turns), 0)
        return np.concatenate([np.array([pose.position for pose in self.poses]), q], 1)


class _OneOrSeveral:
    """Annotate several motions, of which one may be given by itself."""

    def __get_pydantic_core_schema__(self, source, handler):
        several = lambda raw: (raw,) if isinstance(raw, Mapping | Motion) else raw
        return core_schema.no_info_before_validator_function(several, handler(source))

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        several = handler(core)
        return {"anyOf": [several["items"], several]}


Motions = Annotated[tuple[Motion, ...], _OneOrSeveral()]
