"""Rods of a scene: cables, strings and wires that resist stretch, bending and twist."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from pydantic_core import core_schema

from gradsim.scene.node import Node, Place, exactly_one, mistake, quote
from gradsim.scene.quantity import Count, Quantity, plain, positive
from gradsim.scene.soft_body import Soft
from gradsim.scene.solid import Hysteresis, Relaxation

LENGTH = positive("m")
TIME = Quantity("s", lower=0.0, positive=True)
CURVATURE = Quantity("1/m")
ROD = (
    *("stretching", "bending", "bending_ratio", "twisting"),
    *("stretching_time", "bending_time", "twisting_time"),
    *("curvature1", "curvature2", "natural_twist"),
)


class _Points:
    """Annotate a list of points [m], at least three, no two neighbors in one place."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        point = {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3}
        return {"type": "array", "items": point, "minItems": 3}

    def _read(self, raw: Any) -> tuple[tuple[float, ...], ...] | None:
        if raw is None:
            return None
        try:
            points = np.array(plain(raw), np.float64)
        except (TypeError, ValueError):
            points = np.array([], np.float64)
        if points.ndim != 2 or points.shape[1] != 3 or len(points) < 3 or not np.isfinite(points).all():
            raise mistake(f"got {quote(raw)}; expected three or more points [x, y, z] in m.")
        lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
        if not lengths.min() > 1e-9 * lengths.sum():
            k = int(lengths.argmin())
            raise mistake(f"points {k} and {k + 1} are in one place; leave one of them out.")
        return tuple(map(tuple, points.tolist()))


class Line(Node):
    """A straight line along x, centered at the origin, of edges of equal length.

    Attributes:
        segments: Number of edges.
    """

    length: Annotated[float, LENGTH] = Field(description="the length in m")
    segments: Annotated[int, Count(2, 4096)] = 16


class RodShape(Node):
    """Center line of a rod at the start: exactly one of the following.

    Attributes:
        line: A straight line.
        points: Vertices in order [m].
    """

    line: Line | None = None
    points: Annotated[tuple[tuple[float, ...], ...] | None, _Points()] = None

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        if not set(raw) - set(cls.known_keys()):
            yield from exactly_one(raw, cls.known_keys())

    @property
    def vertices(self) -> np.ndarray:
        """Vertices (n, 3) [m]."""
        if self.points is not None:
            return np.array(self.points)
        assert self.line is not None
        x = (np.arange(self.line.segments + 1) / self.line.segments - 0.5) * self.line.length
        return np.stack([x, 0 * x, 0 * x], 1)


class RodPlasticity(Node):
    """Bending, and twist, that stays beyond a yield moment, with the law of `gradsim.physics.forces.rod_plasticity`.

    In a steady bend at a rate of curvature κ' the moment is yield_moment + bending time κ'.

    Attributes:
        yield_moment: Bending moment, of both axes together, at which the rod yields [N m].
        yield_torque: Torque at which it yields without bending [N m]; by default twist is elastic.
        time: Time in which a moment beyond yields [s]. Explicit steps cannot be longer than some hundredths of it.
        hardening: Moment per plastic curvature by which yield moves, kinematic and linear [N m²].
    """

    yield_moment: Annotated[float, positive("N m")] = Field(description="the bending moment at which it yields in N m")
    yield_torque: Annotated[float | None, positive("N m")] = None
    time: Annotated[float, positive("s")] = 0.01
    hardening: Annotated[float, Quantity("N m^2", lower=0.0, positive=True)] = 0.0


class Rod(Soft):
    """A rod that resists stretch, bending about two axes of its section, and twist (Bergou et al. 2008, 2010).

    Its lengths are those of the shape. Unstressed it is straight, or has the natural curvature and twist that are given. The
    first axis of the section of the first edge is horizontal, turned by `roll` about the edge; those of the others follow
    without twist. An edge whose ends are both pinned or driven is clamped: its axes turn with it, by the smallest angle.

    Attributes:
        shape: Center line at the start.
        mass: Total mass [kg], or
        density: mass per length [kg/m].
        stretching: Force per strain, E A [N].
        bending: Moment per curvature about the second axis, E I [N m²].
        bending_ratio: Bending stiffness about the first axis over that about the second.
        twisting: Moment per twist, G J [N m²].
        stretching_time: Retardation time of stretch [s]: viscosity over stiffness.
        bending_time: Retardation time of bending [s].
        twisting_time: Retardation time of twist [s].
        curvature1: Natural curvature about the second axis, within the plane of tangent and first axis [1/m].
        curvature2: Natural curvature about the first axis [1/m].
        natural_twist: Natural twist [rad/m].
        relaxation: Bending and twist that relax, added to the stiffnesses, which are those that last. Stretch does not.
        hysteresis: Loss of bending and twist that hardly depends on frequency.
        plasticity: Bending, and twist, that stays beyond a yield moment of the stiffness that lasts; by default there is none.
        roll: Turn of the axes of the section [rad].
        radius: Radius of the rendered tube, and of the vertices in contact [m].
    """

    kind: Literal["rod"] = Field(description="kind: rod")
    shape: RodShape = Field(description="one shape, such as {line: {length: 1, segments: 20}}")
    mass: Annotated[float | None, positive("kg")] = None
    density: Annotated[float | None, positive("kg/m")] = None
    stretching: Annotated[float, positive("N")] = Field(description="the stretching stiffness E A in N")
    bending: Annotated[float, positive("N m^2")] = Field(description="the bending stiffness E I in N m²")
    bending_ratio: Annotated[float, positive("")] = 1.0
    twisting: Annotated[float, positive("N m^2")] = Field(description="the twisting stiffness G J in N m²")
    stretching_time: Annotated[float, TIME] = 1e-3
    bending_time: Annotated[float, TIME] = 0.0
    twisting_time: Annotated[float, TIME] = 1e-2
    curvature1: Annotated[float, CURVATURE] = 0.0
    curvature2: Annotated[float, CURVATURE] = 0.0
    natural_twist: Annotated[float, Quantity("rad/m")] = 0.0
    relaxation: tuple[Relaxation, ...] = ()
    hysteresis: Hysteresis | None = None
    plasticity: RodPlasticity | None = None
    roll: Annotated[float, Quantity("rad")] = 0.0
    radius: Annotated[float, LENGTH] = Field(description="the radius of the tube in m")

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        yield from super().faults(raw)
        yield from exactly_one(raw, ("mass", "density"))

    @property
    def rest_vertices(self) -> np.ndarray:
        return self.shape.vertices

    @property
    def arrays(self) -> dict[str, tuple[tuple[int, ...], str]]:
        n = len(self.rest_vertices)
        return {"vertex_mass_factor": ((2 * n - 1,), "vertex"), "vertex_velocity": ((2 * n - 1, 3), "vertex")}

    @property
    def by_element(self) -> dict[str, int]:
        n = len(self.rest_vertices)
        edges = dict.fromkeys(("density", "stretching", "stretching_time"), n - 1)
        return edges | dict.fromkeys([key for key in ROD if key not in edges], n - 2)
