"""Shapes of soft solids and their tetrahedral meshes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from gradsim.geometry import mesh_io, tet_grid
from gradsim.geometry import tet_io as tet_file
from gradsim.geometry.tet_mesh import TetMesh
from gradsim.geometry.tetrahedralize import tetrahedralize
from gradsim.scene.node import Node, Place, exactly_one
from gradsim.scene.quantity import Count, Quantity, Tuple, Vector3, positive
from gradsim.scene.yaml_io import FilePath

LENGTH = positive("m")
CELLS = Count(1, 4096)


class SolidBox(Node):
    """A box or beam of bricks of tetrahedra.

    Attributes:
        per_cell: Number of tetrahedra in each brick, 5 or 6.
    """

    size: Annotated[Vector3, Tuple(LENGTH)] = Field(description="the edge lengths [x, y, z] in m")
    cells: Annotated[tuple[int, int, int], Tuple(CELLS, 3, "counts")] = Field(
        description="the number of bricks along x, y and z"
    )
    per_cell: Annotated[int, Count(5, 6)] = 5

    def mesh(self) -> TetMesh:
        return tet_grid.box(self.size, self.cells, self.per_cell)  # pyright: ignore[reportArgumentType] -- 5 or 6


class SolidCylinder(Node):
    """A cylinder along z; `cells` is the number of bricks across and along it."""

    radius: Annotated[float, LENGTH] = Field(description="the radius in m")
    height: Annotated[float, LENGTH] = Field(description="the height in m")
    cells: Annotated[tuple[int, int], Tuple(CELLS, 2, "counts")] = Field(
        description="the number of bricks across and along it"
    )

    def mesh(self) -> TetMesh:
        return tet_grid.cylinder(self.radius, self.height, self.cells)


class SolidBall(Node):
    """A ball of bricks of tetrahedra.

    Attributes:
        cells: Number of bricks across it.
    """

    radius: Annotated[float, LENGTH] = Field(description="the radius in m")
    cells: Annotated[int, Count(2, 4096)] = 4

    def mesh(self) -> TetMesh:
        return tet_grid.ball(self.radius, self.cells)


class Gear(Node):
    """A gear around z; by default that of the paper's control task.

    Attributes:
        teeth: Number of teeth.
        radius: Radius of the tips [m].
        root: Radius of the base of the teeth [m].
        bore: Radius of the hole [m].
        thickness: Extent along z [m].
        cells: Number of bricks across the ring, along a tooth, and along z.
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
                f"got bore {self.bore:g}, root {self.root:g} and radius {self.radius:g} m; they must increase in this order.",
            )

    def mesh(self) -> TetMesh:
        return tet_grid.gear(self.teeth, self.radius, self.root, self.bore, self.thickness, self.cells)


class TetFile(Node):
    """Tetrahedra in a file.

    Attributes:
        scale: Meters per unit of the file.
    """

    file: Annotated[Path, FilePath("a mesh of tetrahedra", tet_file.FORMATS)] = Field(
        description="the path of a tet, msh, vtu or mesh file"
    )
    scale: Annotated[float, Quantity("", lower=0.0, above=True)] = 1.0

    def mesh(self) -> TetMesh:
        return tet_file.load(self.file, self.scale)


class Surface(Node):
    """A closed surface in a file, meshed with tetrahedra of about `edge_length` [m] (extra `tet`).

    Meshing is not deterministic: to keep a mesh, save it (`gradsim.geometry.tet_io.save`) and give it as `mesh`.

    Attributes:
        scale: Meters per unit of the file.
        tolerance: Maximum deviation of the surface [m].
    """

    file: Annotated[Path, FilePath("a mesh file", mesh_io.FORMATS)] = Field(
        description="the path of an obj, stl, ply or glb file"
    )
    edge_length: Annotated[float, LENGTH] = Field(description="the edge length of the tetrahedra in m")
    scale: Annotated[float, Quantity("", lower=0.0, above=True)] = 1.0
    tolerance: Annotated[float | None, LENGTH] = None

    def mesh(self) -> TetMesh:
        return tetrahedralize(mesh_io.load(self.file, self.scale), self.edge_length, self.tolerance)


class SolidShape(Node):
    """Shape of a soft solid: exactly one of the following."""

    box: SolidBox | None = None
    cylinder: SolidCylinder | None = None
    ball: SolidBall | None = None
    gear: Gear | None = None
    tet_file: TetFile | None = Field(default=None, alias="mesh")
    surface: Surface | None = None

    @classmethod
    def prepare(cls, raw: dict[str, Any]) -> dict[str, Any]:
        return {"mesh" if key == "tet_file" else key: value for key, value in raw.items()}

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        if not set(raw) - set(cls.known_keys()):
            yield from exactly_one(raw, cls.known_keys())

    def mesh(self) -> TetMesh:
        """Tetrahedra in the coordinates of the shape."""
        (kind,) = (node for _, node in self if node is not None)
        return kind.mesh()
