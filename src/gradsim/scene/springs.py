"""Ropes and nets of a scene: points connected by springs."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from gradsim.geometry import network as net
from gradsim.geometry.network import Net
from gradsim.scene.node import Node, Place, exactly_one
from gradsim.scene.quantity import Count, Quantity, Tuple, Vector2, positive
from gradsim.scene.soft_body import Soft

LENGTH = positive("m")
STIFFNESS = positive("N/m")
DAMPING = Quantity("N s/m", lower=0.0, positive=True)
SPRINGS = ("stiffness", "damping", "rest_length_factor")


class Rope(Node):
    """A line along x of springs.

    Attributes:
        segments: Number of springs.
    """

    length: Annotated[float, LENGTH] = Field(description="the length in m")
    segments: Annotated[int, Count(1, 4096)] = 16

    def mesh(self) -> Net:
        return net.rope(self.length, self.segments)

    def strands(self) -> list[np.ndarray]:
        return [np.arange(self.segments + 1)]


class NetShape(Node):
    """A rectangle in the plane z = 0 of springs along x and y.

    Attributes:
        diagonals: True: also springs across the cells, not rendered.
    """

    size: Annotated[Vector2, Tuple(LENGTH, 2)] = Field(description="the edge lengths [x, y] in m")
    cells: Annotated[tuple[int, int], Tuple(Count(1, 4096), 2, "counts")] = Field(
        description="the number of cells along x and y"
    )
    diagonals: bool = True

    def mesh(self) -> Net:
        return net.grid(self.size, self.cells, self.diagonals)

    def strands(self) -> list[np.ndarray]:
        columns, rows = self.cells
        point = np.arange((rows + 1) * (columns + 1)).reshape(rows + 1, columns + 1)
        return [*point, *point.T]


class SpringsShape(Node):
    """Shape of a spring network: exactly one of the following."""

    rope: Rope | None = None
    net: NetShape | None = None

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        if not set(raw) - set(cls.known_keys()):
            yield from exactly_one(raw, cls.known_keys())

    @property
    def value(self) -> Rope | NetShape:
        """Rope or net."""
        (kind,) = (node for _, node in self if node is not None)
        return kind


class Springs(Soft):
    """A rope or a net, with the law of `gradsim.physics.forces.spring`.

    Attributes:
        shape: Points and springs.
        mass: Total mass [kg], or
        density: mass per length [kg/m].
        stiffness: Stiffness of each spring [N/m].
        damping: Damping of each spring [N s/m].
        rest_length_factor: Rest lengths over those of the shape.
        radius: Radius of the rendered tubes [m].
    """

    by_time: ClassVar[tuple[str, ...]] = ("rest_length_factor",)

    kind: Literal["springs"] = Field(description="kind: springs")
    shape: SpringsShape = Field(description="one shape, such as {rope: {length: 1, segments: 20}}")
    mass: Annotated[float | None, positive("kg")] = None
    density: Annotated[float | None, positive("kg/m")] = None
    stiffness: Annotated[float, STIFFNESS] = Field(description="the stiffness of each spring in N/m")
    damping: Annotated[float, DAMPING] = 0.0
    rest_length_factor: Annotated[float, positive("")] = 1.0
    radius: Annotated[float, LENGTH] = Field(description="the radius of the rendered tubes in m")

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        yield from super().faults(raw)
        yield from exactly_one(raw, ("mass", "density"))

    @property
    def rest(self) -> Net:
        """Points and springs at rest."""
        return _checked_net(self.shape)  # pyright: ignore[reportArgumentType] -- frozen, so it has a hash

    @property
    def rest_vertices(self) -> np.ndarray:
        return self.rest.vertices

    @property
    def arrays(self) -> dict[str, tuple[tuple[int, ...], str]]:
        n, m = len(self.rest.vertices), len(self.rest.edges)
        return {
            "vertex_mass_factor": ((n,), "vertex"),
            "vertex_velocity": ((n, 3), "vertex"),
            "stiffness_factor": ((m,), "spring"),
        }

    @property
    def by_element(self) -> dict[str, int]:
        return dict.fromkeys((*SPRINGS, "density"), len(self.rest.edges))


@lru_cache(maxsize=32)
def _checked_net(shape: SpringsShape) -> Net:
    mesh = shape.value.mesh()
    net.check(mesh, "the shape")
    return mesh
