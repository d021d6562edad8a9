"""Soft solids of a scene."""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from gradsim.geometry import tet_mesh
from gradsim.geometry.tet_mesh import Quadratic
from gradsim.scene.node import Node, Place
from gradsim.scene.quantity import Quantity, positive
from gradsim.scene.region import Corners, box_conflicts, inside
from gradsim.scene.soft_body import Soft, elasticity_errors
from gradsim.scene.solid_shape import SolidShape

DENSITY = positive("kg/m^3")
PRESSURE = positive("Pa")
POISSON = Quantity("", lower=0.0, upper=0.4999)
VISCOSITY = Quantity("Pa s", lower=0.0, positive=True)
ACTIVATION = Quantity("", lower=-1.0, upper=1.0)
PAIRS = (("young", "poisson"), ("mu", "lam"))
MATERIAL = ("density", "young", "poisson", "mu", "lam", "damping")
DECADE = 10.0  # most between two times of a hysteresis: the loss factor then varies by 5 % over frequency


class SolidRegion(Node):
    """A part of a soft solid with another material: the tetrahedra whose center is in `box`.

    Properties that are not given are those of the body.

    Attributes:
        box: Two opposite corners [m], relative to the center of the rest shape.
        density, young, poisson, mu, lam, damping: As for `Solid`; the same moduli as the body has.
    """

    box: Corners = Field(description="two opposite corners [[x, y, z], [x, y, z]] in m")
    density: Annotated[float | None, DENSITY] = None
    young: Annotated[float | None, PRESSURE] = None
    poisson: Annotated[float | None, POISSON] = None
    mu: Annotated[float | None, PRESSURE] = None
    lam: Annotated[float | None, PRESSURE] = None
    damping: Annotated[float | None, VISCOSITY] = None

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        yield from elasticity_errors(raw, PAIRS, partial=True)

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        yield from box_conflicts(self.box)


class Relaxation(Node):
    """Elasticity that relaxes: a Maxwell branch, or term of a Prony series.

        E(t) = E (1 + Σ ratio e^(−t/time)), and so for all moduli

    A body begins relaxed. One branch makes a standard linear solid; its loss factor is largest near the frequency 1/(2π time).

    Attributes:
        ratio: Modulus that relaxes, over the one that lasts.
        time: Relaxation time [s]. Explicit steps cannot be longer than some hundredths of it.
    """

    ratio: Annotated[float, Quantity("", lower=0.0, positive=True)] = Field(
        description="the modulus that relaxes over the one that lasts"
    )
    time: Annotated[float, positive("s")] = Field(description="the relaxation time in s")


class Hysteresis(Node):
    """Loss that hardly depends on frequency, as in rubber: equal Maxwell branches at times a decade apart or less.

    For frequencies f with 1/(2π f) well between the two times the loss factor tan δ is that of the key, over the elasticity that lasts,
    within some 5 %. What is lost so also creeps: the modulus grows by 1.5 times the loss factor with each decade of frequency.

    Attributes:
        loss_factor: Imaginary part of the modulus over the real one that lasts.
        shortest, longest: Range of the relaxation times [s].
    """

    loss_factor: Annotated[float, Quantity("", lower=0.0, positive=True)] = Field(
        description="the loss factor, such as 0.1"
    )
    shortest: Annotated[float, positive("s")] = Field(description="the shortest relaxation time in s")
    longest: Annotated[float, positive("s")] = Field(description="the longest relaxation time in s")

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if self.longest <= self.shortest:
            yield ("longest",), f"got {self.longest:g} s; expected more than `shortest`, {self.shortest:g} s."

    @property
    def times(self) -> list[float]:
        """Relaxation times of the branches [s], in equal ratios."""
        count = math.ceil(round(math.log(self.longest / self.shortest, DECADE), 9)) + 1
        step = math.log(self.longest / self.shortest) / (count - 1)
        return [self.shortest * math.exp(k * step) for k in range(count)]

    @property
    def ratio_per_loss(self) -> float:
        """Ratio of each branch over the loss factor: 2/π times the logarithm of the ratio of two times.

        The sum of ratio ωτ/(1 + ω²τ²) over such times has the mean ratio π/(2 ln(τ₁/τ₀)).
        """
        times = self.times
        return 2 / math.pi * math.log(times[1] / times[0])


class Solid(Soft):
    """A soft solid of tetrahedra, with the law of `gradsim.physics.forces.neo_hookean`.

    Attributes:
        shape: Shape with its tetrahedral mesh.
        density: Density [kg/m³].
        young, poisson: Young's modulus [Pa] and Poisson's ratio for small strains, or
        mu, lam: the paper's μ and λ [Pa]. For small strains they act as the Lamé parameters ¾ μ and λ − ⅝ μ, and E and ν
            are converted accordingly: μ = 4/3 μ_L, λ = λ_L + ⅝ μ.
        damping: Viscosity η [Pa s].
        activation: Contraction (above 0) or expansion of the rest volume, uniform.
        elements: `linear`: tetrahedra of four vertices, too stiff in bending; `quadratic`: with further vertices in the
            middle of the edges, accurate in bending, at several times the cost.
        relaxation: Elasticity that relaxes, added to that of the moduli, which are those that last.
        hysteresis: Loss that hardly depends on frequency.
        regions: Parts with another material, by name; where they overlap, the later one applies.
    """

    by_time: ClassVar[tuple[str, ...]] = ("activation",)

    kind: Literal["solid"] = Field(description="kind: solid")
    shape: SolidShape = Field(description="one shape, such as {box: {size: [0.3, 0.1, 0.1], cells: [6, 2, 2]}}")
    density: Annotated[float, DENSITY] = Field(description="the density in kg/m^3")
    young: Annotated[float | None, PRESSURE] = None
    poisson: Annotated[float | None, POISSON] = None
    mu: Annotated[float | None, PRESSURE] = None
    lam: Annotated[float | None, PRESSURE] = None
    damping: Annotated[float, VISCOSITY] = 0.0
    activation: Annotated[float, ACTIVATION] = 0.0
    elements: Literal["linear", "quadratic"] = "linear"
    relaxation: tuple[Relaxation, ...] = ()
    hysteresis: Hysteresis | None = None
    regions: dict[str, SolidRegion] = Field(default_factory=dict)

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        yield from super().faults(raw)
        yield from elasticity_errors(raw, PAIRS)

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        faults = list(super().conflicts())
        yield from faults
        other, moduli = PAIRS if self.mu is not None else PAIRS[::-1]
        for place, mu, lam in [((), self.mu, self.lam)] + [
            (("regions", name), region.mu or self.mu, region.lam or self.lam) for name, region in self.regions.items()
        ]:
            if mu is not None and lam is not None and lam <= mu / 8:  # K = λ − ⅝ μ + ⅔ · ¾ μ for small strains
                yield (
                    (*place, "lam"),
                    f"got {lam:g} Pa with μ {mu:g} Pa; it must be above μ/8, or the body collapses.",
                )
        for name, region in self.regions.items():
            if "." in name:
                yield (
                    ("regions", name),
                    "has a dot in its name, which separates the parts of a parameter's name; rename the region.",
                )
            if not faults and not inside(region.box, self._centers).any():
                yield ("regions", name), "contains the center of no tetrahedron; move or enlarge its box."
            for key in other:
                if getattr(region, key) is not None:
                    names = " and ".join(f"`{k}`" for k in moduli)
                    yield ("regions", name, key), f"the body is given by {names}; give those of the region."

    @property
    def rest(self) -> tet_mesh.TetMesh:
        """Tetrahedra at rest, relative to the center of volume.

        Raises:
            InputError: If a tetrahedron is inverted or has no volume.
        """
        return _centered_mesh(self.shape)  # pyright: ignore[reportArgumentType] -- frozen, so it has a hash

    @property
    def rest_vertices(self) -> np.ndarray:
        return self.rest.vertices if self.elements == "linear" else self.quadratic_mesh.vertices

    @property
    def quadratic_mesh(self) -> Quadratic:
        """Tetrahedra with a vertex in the middle of every edge."""
        return _quadratic_mesh(self.shape)  # pyright: ignore[reportArgumentType] -- frozen, so it has a hash

    @property
    def arrays(self) -> dict[str, tuple[tuple[int, ...], str]]:
        n, m = len(self.rest_vertices), len(self.rest.tets)
        return {
            "vertex_mass_factor": ((n,), "vertex"),
            "vertex_velocity": ((n, 3), "vertex"),
            "mu_factor": ((m,), "tetrahedron"),
            "lam_factor": ((m,), "tetrahedron"),
        }

    @property
    def by_element(self) -> dict[str, int]:
        return dict.fromkeys((*MATERIAL, "activation"), len(self.rest.tets))

    def region_of(self) -> np.ndarray:
        """Region index of each tetrahedron: 0 for none, k + 1 for the k-th region."""
        index = np.zeros(len(self.rest.tets), np.int64)
        for k, region in enumerate(self.regions.values()):
            index[inside(region.box, self._centers)] = k + 1
        return index

    @property
    def _centers(self) -> np.ndarray:
        return self.rest.vertices[self.rest.tets].mean(1)


@lru_cache(maxsize=32)
def _centered_mesh(shape: SolidShape) -> tet_mesh.TetMesh:
    mesh = shape.mesh()
    tet_mesh.check(mesh, "the mesh")
    centre = np.average(mesh.vertices[mesh.tets].mean(1), 0, mesh.volumes)
    return tet_mesh.TetMesh(mesh.vertices - centre, mesh.tets)


@lru_cache(maxsize=32)
def _quadratic_mesh(shape: SolidShape) -> Quadratic:
    return tet_mesh.quadratic(_centered_mesh(shape))  # pyright: ignore[reportArgumentType] -- frozen, so it has a hash
