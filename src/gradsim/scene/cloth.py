"""Cloth of a scene: sheets of triangles with membrane, bending and aerodynamic forces."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from gradsim.geometry import mesh_io as mesh_file
from gradsim.geometry import sheet
from gradsim.geometry.mesh import Mesh
from gradsim.scene.node import Node, Place, exactly_one
from gradsim.scene.quantity import Count, Quantity, Tuple, Vector2, Vector3, positive, vector
from gradsim.scene.soft_body import Soft, elasticity_errors
from gradsim.scene.solid import ACTIVATION, POISSON, PRESSURE, Hysteresis, Relaxation
from gradsim.scene.yaml_io import FilePath

LENGTH = positive("m")
TENSION = positive("N/m")
SCALE = {"lower": 0.0, "positive": True}
DENSITY_OF_AIR = 1.2  # [kg/m³], at 20 °C and 1 bar
PAIRS = (("young", "poisson", "thickness"), ("mu", "lam"))
IN_PLANE = ("density", "young", "poisson", "thickness", "mu", "lam", "damping", "activation")
BENDING = ("bending", "bending_damping", "bending_activation")
AIR = ("density", "drag", "lift", "wind")


class Grid(Node):
    """A rectangle in the plane z = 0, `size` wide along x and y [m], of `cells` with two triangles each."""

    size: Annotated[Vector2, Tuple(LENGTH, 2)] = Field(description="the edge lengths [x, y] in m")
    cells: Annotated[tuple[int, int], Tuple(Count(1, 4096), 2, "counts")] = Field(
        description="the number of cells along x and y"
    )

    def mesh(self) -> Mesh:
        return sheet.grid(self.size, self.cells)


class Cells(Node):
    """A pattern of square cells, upright in the plane y = 0, oriented as its text for a viewer at −y.

    `#` is a cell of two triangles, `.` or a space an empty one; `cell` is the edge length [m].
    """

    pattern: tuple[str, ...] = Field(description="rows of text from the top, such as ['###', '#.#']")
    cell: Annotated[float, LENGTH] = Field(description="the edge length of a cell in m")

    def mesh(self) -> Mesh:
        return sheet.cells(self.pattern, self.cell)


class Bell(Node):
    """A spherical cap, open below: `height` from rim to apex.

    Attributes:
        rings: Number of vertices of each ring, from the apex.
    """

    radius: Annotated[float, LENGTH] = Field(description="the radius of the rim in m")
    height: Annotated[float, LENGTH] = Field(description="the height in m")
    rings: tuple[Annotated[int, Count(3, 4096)], ...] = Field(default=sheet.RINGS, min_length=1)

    def mesh(self) -> Mesh:
        return sheet.bell(self.radius, self.height, self.rings)


class SheetFile(Node):
    """Triangles in a file, open or closed.

    Attributes:
        scale: Meters per unit of the file.
    """

    file: Annotated[Path, FilePath("a mesh file", mesh_file.FORMATS)] = Field(
        description="the path of an obj, stl, ply or glb file"
    )
    scale: Annotated[float, Quantity("", lower=0.0, above=True)] = 1.0

    def mesh(self) -> Mesh:
        return mesh_file.load_sheet(self.file, self.scale)


class ClothShape(Node):
    """Shape of a cloth: exactly one of the following."""

    grid: Grid | None = None
    cells: Cells | None = None
    bell: Bell | None = None
    mesh_file: SheetFile | None = Field(default=None, alias="mesh")

    @classmethod
    def prepare(cls, raw: dict[str, Any]) -> dict[str, Any]:
        return {"mesh" if key == "mesh_file" else key: value for key, value in raw.items()}

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        if not set(raw) - set(cls.known_keys()):
            yield from exactly_one(raw, cls.known_keys())

    def mesh(self) -> Mesh:
        """Sheet in the coordinates of the shape."""
        (kind,) = (node for _, node in self if node is not None)
        return kind.mesh()


class Air(Node):
    """Air around a sheet, with the law of `gradsim.physics.forces.aerodynamics`.

    Attributes:
        density: Density of the air [kg/m³].
        drag: Drag coefficient.
        lift: Lift coefficient.
        wind: Velocity of the air [m/s].
    """

    density: Annotated[float, positive("kg/m^3")] = DENSITY_OF_AIR
    drag: Annotated[float, Quantity("", **SCALE)] = 0.0
    lift: Annotated[float, Quantity("", **SCALE)] = 0.0
    wind: Annotated[Vector3, vector("m/s")] = (0.0, 0.0, 0.0)


class SheetPlasticity(Node):
    """Folds that stay beyond a yield moment, with the law of `gradsim.physics.forces.bending_plasticity`.

    Attributes:
        yield_moment: Moment per length of an inner edge at which it yields [N].
        time: Time in which a moment beyond yields [s]. Explicit steps cannot be longer than some hundredths of it.
        hardening: As `bending`, of the plastic fold, by which yield moves, kinematic and linear [N m].
    """

    yield_moment: Annotated[float, positive("N")] = Field(
        description="the moment per length at which an edge yields in N"
    )
    time: Annotated[float, positive("s")] = 0.01
    hardening: Annotated[float, Quantity("N m", **SCALE)] = 0.0


class Cloth(Soft):
    """A sheet, with the laws of `gradsim.physics.forces.membrane` and `bending`.

    Attributes:
        shape: Shape with its triangle mesh.
        density: Mass per area [kg/m²].
        young, poisson, thickness: Young's modulus [Pa], Poisson's ratio, and thickness [m], or
        mu, lam: the paper's μ and λ, times the thickness [N/m]. For small strains in plane stress they act as ⅔ μ and
            λ − 4/9 μ, and E, ν and t are converted accordingly: μ = 3/2 μ_L, λ = λ_L + 4/9 μ.
        damping: In-plane viscosity, times the thickness [N s/m].
        activation: Contraction (above 0) or expansion of the rest area.
        bending: Bending stiffness [N m]; by default no bending force.
        bending_damping: Bending damping [N m s]; by default 0 with `bending`.
        bending_activation: α, which folds every inner edge at rest by −2 α [rad]; by default 0 with `bending`.
        relaxation: Elasticity in the plane and of bending that relaxes, added to the moduli, which are those that last.
        hysteresis: Loss that hardly depends on frequency.
        plasticity: Folds that stay beyond a yield moment of the bending stiffness that lasts; by default there is none.
        air: Air around the sheet; by default none.
    """

    by_time: ClassVar[tuple[str, ...]] = ("activation", "bending_activation")

    kind: Literal["cloth"] = Field(description="kind: cloth")
    shape: ClothShape = Field(description="one shape, such as {grid: {size: [1, 0.6], cells: [10, 6]}}")
    density: Annotated[float, positive("kg/m^2")] = Field(description="the mass by area in kg/m^2")
    young: Annotated[float | None, PRESSURE] = None
    poisson: Annotated[float | None, POISSON] = None
    thickness: Annotated[float | None, LENGTH] = None
    mu: Annotated[float | None, TENSION] = None
    lam: Annotated[float | None, TENSION] = None
    damping: Annotated[float, Quantity("N s/m", **SCALE)] = 0.0
    activation: Annotated[float, ACTIVATION] = 0.0
    bending: Annotated[float | None, Quantity("N m", **SCALE)] = None
    bending_damping: Annotated[float | None, Quantity("N m s", **SCALE)] = None
    bending_activation: Annotated[float | None, Quantity("rad", lower=-math.pi / 2, upper=math.pi / 2)] = None
    relaxation: tuple[Relaxation, ...] = ()
    hysteresis: Hysteresis | None = None
    plasticity: SheetPlasticity | None = None
    air: Air | None = None

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        yield from super().faults(raw)
        yield from elasticity_errors(raw, PAIRS)
        for key in ("bending_damping", "bending_activation"):
            if key in raw and "bending" not in raw:
                yield (key,), "is given without `bending`; give `bending` too, which may be 0."
        if raw.get("plasticity") is not None and not raw.get("bending"):
            yield ("plasticity",), "is given without a bending stiffness; give `bending` above 0."

    @classmethod
    def prepare(cls, raw: dict[str, Any]) -> dict[str, Any]:
        return {"bending_damping": 0.0, "bending_activation": 0.0, **raw} if "bending" in raw else raw

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        faults = list(super().conflicts())
        yield from faults
        if not faults and self.bending is not None and not len(self.hinges):
            yield ("bending",), "is given for a sheet without inner edges; remove it."

    @property
    def rest(self) -> Mesh:
        """Triangles at rest, relative to the center of area.

        Raises:
            InputError: If the mesh is not a valid sheet.
        """
        return _centered_mesh(self.shape)  # pyright: ignore[reportArgumentType] -- frozen, so it has a hash

    @property
    def hinges(self) -> np.ndarray:
        """Inner edges (k, 4), see `gradsim.geometry.sheet`."""
        return _hinges(self.shape)  # pyright: ignore[reportArgumentType] -- frozen, so it has a hash

    @property
    def rest_vertices(self) -> np.ndarray:
        return self.rest.vertices

    @property
    def arrays(self) -> dict[str, tuple[tuple[int, ...], str]]:
        n, m = len(self.rest.vertices), len(self.rest.faces)
        return {
            "vertex_mass_factor": ((n,), "vertex"),
            "vertex_velocity": ((n, 3), "vertex"),
            "mu_factor": ((m,), "triangle"),
            "lam_factor": ((m,), "triangle"),
        }

    @property
    def by_element(self) -> dict[str, int]:
        triangles = dict.fromkeys((*IN_PLANE, *(f"air.{key}" for key in AIR if key != "wind")), len(self.rest.faces))
        return triangles | dict.fromkeys(BENDING, len(self.hinges) if self.bending is not None else 0)


@lru_cache(maxsize=32)
def _centered_mesh(shape: ClothShape) -> Mesh:
    mesh = shape.mesh()
    sheet.check_sheet(mesh, "the mesh")
    corners = mesh.vertices[mesh.faces]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    return replace(mesh, vertices=mesh.vertices - np.average(corners.mean(1), 0, area))


@lru_cache(maxsize=32)
def _hinges(shape: ClothShape) -> np.ndarray:
    return sheet.hinges(_centered_mesh(shape).faces)  # pyright: ignore[reportArgumentType] -- frozen, so it has a hash
