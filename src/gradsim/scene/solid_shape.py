"""Shapes of soft solids: what the user writes for each, and the tetrahedra it stands for."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from gradsim import tet_grid
from gradsim.scene.node import Node, Place, exactly_one
from gradsim.scene.quantity import Count, Tuple, Vector3, positive
from gradsim.tet_mesh import TetMesh

LENGTH = positive("m")
CELLS = Count(1, 4096)


class SolidBox(Node):
    """A box or beam; `size` is its edge lengths along x, y and z [m].

    `cells` are the bricks along each axis, of `per_cell` tetrahedra: 5, or 6.
    """

    size: Annotated[Vector3, Tuple(LENGTH)] = Field(description="the edge lengths [x, y, z] in m")
    cells: Annotated[tuple[int, int, int], Tuple(CELLS, 3, "counts")] = Field(
        description="the number of bricks along x, y and z"
    )
    per_cell: Annotated[int, Count(5, 6)] = 5

    def mesh(self) -> TetMesh:
        return tet_grid.box(self.size, self.cells, self.per_cell)  # pyright: ignore[reportArgumentType] -- 5 or 6


class SolidCylinder(Node):
    """A cylinder along z; `cells` are the bricks across and along it."""

    radius: Annotated[float, LENGTH] = Field(description="the radius in m")
    height: Annotated[float, LENGTH] = Field(description="the height in m")
    cells: Annotated[tuple[int, int], Tuple(CELLS, 2, "counts")] = Field(
        description="the number of bricks across and along it"
    )

    def mesh(self) -> TetMesh:
        return tet_grid.cylinder(self.radius, self.height, self.cells)


class SolidBall(Node):
    """A ball; `cells` are the bricks across it."""

    radius: Annotated[float, LENGTH] = Field(description="the radius in m")
    cells: Annotated[int, Count(2, 4096)] = 4

    def mesh(self) -> TetMesh:
        return tet_grid.ball(self.radius, self.cells)


class Gear(Node):
    """A gear around z; by default that of the paper's control task.

    `radius` is that of the tips, `root` where the teeth begin, `bore` that of the hole [m]; `cells` are the bricks across
    the ring, along a tooth, and along z.
    """

    teeth: Annotated[int, Count(3, 4096)] = 12
    radius: Annotated[float, LENGTH] = 1.84
    root: Annotated[float, LENGTH] = 1.3
    bore: Annotated[float, LENGTH] = 0.968
    thickness: Annotated[float, LENGTH] = 2.28
    cells: Annotated[tuple[int, int, int], Tuple(CELLS, 3, "counts")] = (1, 2, 4)

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if not self.bore < self.root < self.radius:
            yield (
                (),
                f"got bore {self.bore:g}, root {self.root:g} and radius {self.radius:g} m; each has to be above the one before.",
            )

    def mesh(self) -> TetMesh:
        return tet_grid.gear(self.teeth, self.radius, self.root, self.bore, self.thickness, self.cells)


class SolidShape(Node):
    """Exactly one of these."""

    box: SolidBox | None = None
    cylinder: SolidCylinder | None = None
    ball: SolidBall | None = None
    gear: Gear | None = None

    @classmethod
    def faults(cls, given) -> Iterator[tuple[Place, str]]:
        if not set(given) - set(cls.known_keys()):
            yield from exactly_one(given, cls.known_keys())

    def mesh(self) -> TetMesh:
        """The solid's tetrahedra, in the coordinates of the shape."""
        (kind,) = (node for _, node in self if node is not None)
        return kind.mesh()
