"""Elements of cloth: triangles with the laws of `membrane.py` and `aerodynamics.py`, hinges with that of `bending.py`.

Both may relax (`membrane_relaxation.py`, `bending_relaxation.py`), and hinges yield (`bending_plasticity.py`).
"""

import torch
from torch import Tensor

from gradsim.numerics.mass_lumping import inverse_element_masses, lump_masses
from gradsim.physics.forces import (
    aerodynamics,
    bending,
    bending_plasticity,
    bending_relaxation,
    membrane,
    membrane_relaxation,
)
from gradsim.physics.forces.base import Elements, Force
from gradsim.physics.soft.body import SoftBody, rest_scale_of, scale_of
from gradsim.physics.soft.plastic import PlasticPoints
from gradsim.physics.soft.relaxing import PointBranches, Series
from gradsim.physics.system import Values

POWERS = {"area": 2, "least_edge": 2, "least_normal": 4} | dict.fromkeys(("inverse_00", "inverse_01", "inverse_11"), -1)


def cloth_body(name, body, scene, vertex_offset: int, dtype: torch.dtype, device: torch.device) -> SoftBody:
    """The `System` of a cloth. Arguments as for `RigidBody`."""
    return SoftBody(name, body, scene, vertex_offset, Triangles(name, body, dtype, device))


class Triangles:
    """An `ElementModel` (see `body.py`) made from a scene's cloth.

    Args:
        name: The body's name.
        body: The scene's description of it.
        dtype: Precision of all its tensors.
        device: Where they live.
    """

    smooth = True

    def __init__(self, name: str, body, dtype: torch.dtype, device: torch.device):
        self.name, self.body, self.mesh = name, body, body.rest
        to = {"dtype": dtype, "device": device}
        rest, faces = torch.tensor(self.mesh.vertices), torch.tensor(self.mesh.faces)
        hinges = torch.tensor(body.hinges) if body.bending is not None else faces.new_zeros(0, 4)
        shape = membrane.rest_shape(rest, faces)
        folds = bending.rest_shape(rest, hinges) if len(hinges) else {}
        self.rest, self.faces, self.hinges = rest.to(**to), faces.to(device), hinges.to(device)
        self.outer = torch.arange(len(rest), device=device)
        self.area = shape["area"].to(**to)
        self.scaled = body.scale is not None or body.rest_length_factor is not None
        self.shape = {key: x.to(**to) for key, x in {**shape, **folds}.items()}
        self.groups = [self._elements(membrane.FORCE, self.faces)]
        if len(hinges):
            corners = rest[hinges].requires_grad_()
            with torch.enable_grad():  # a user's no_grad does not count here
                (slope,) = torch.autograd.grad(bending.angle(corners).sum(), corners)
            self.slope = slope.square().sum(-1).to(**to)  # |∂φ/∂x|² (hinges, 4) [1/m²]
            self.weight = folds["weight"].to(**to)
            self.edge = torch.linalg.vector_norm(corners[:, 3] - corners[:, 2], dim=-1).detach().to(**to)
        self.count, self.series = len(rest), Series(name, body)
        self.plane = self._branches(membrane_relaxation.FORCE, self.faces, self.count)
        self.fold = self._branches(bending_relaxation.FORCE, self.hinges, self.count + self.plane.points)
        first = self.count + self.plane.points + self.fold.points
        self.plastic = PlasticPoints(name, body, self.hinges, first)
        if self.plastic.points:
            self.groups.append(self._elements(bending_plasticity.FORCE, self.plastic.index))
        elif len(hinges):
            self.groups.append(self._elements(bending.FORCE, self.hinges))
        if body.air is not None:
            self.groups.append(Elements(aerodynamics.FORCE, self.faces))
        self.groups += self.plane.groups + (self.fold.groups if len(hinges) else [])
        self.strain_points = self.plane.points + self.fold.points + self.plastic.points
        self.rest = torch.cat([self.rest, self.rest.new_zeros(self.strain_points, 3)])
        first = torch.stack([shape["inverse_00"], shape["inverse_01"]], -1)
        second = torch.stack([torch.zeros_like(first[:, 0]), shape["inverse_11"]], -1)
        corners = torch.stack([-first - second, first, second], 1)  # gradients of the shape functions
        steep = torch.linalg.eigvalsh(corners.mT @ corners)
        self.steepest, self.steepness = steep[:, -1].to(**to), steep.sum(1).to(**to)

    def mass(self, values: Values) -> Tensor:
        area = self.area * scale_of(self.name, values)[:, None] ** 2
        share = self._of("density", values) * area / 3
        vertices = lump_masses(share[..., None].expand(-1, -1, 3), self.faces, self.count)
        if not self.strain_points:
            return vertices
        # as of solids: of no effect but on rounding
        size = self.area.sqrt() * scale_of(self.name, values)[:, None]
        count = self.series.count + (self.plastic.points > 0)
        hinges = (vertices[:, self.hinges].mean(2) * size.mean(1, keepdim=True)).repeat(1, count)
        return torch.cat([vertices, (share * size).repeat(1, self.series.count), hinges], 1)

    def parameters(self, values: Values, start: Tensor) -> list[Tensor]:
        mu, lam = self.moduli(values)
        arguments = self._rest(membrane.FORCE, values)
        arguments += [mu, lam, self._of("damping", values), self._of("activation", values)]
        if len(self.hinges):
            arguments += self._rest(bending.FORCE, values)
            arguments += [self._of(key, values) for key in ("bending", "bending_damping", "bending_activation")]
            arguments += self._yielding(values)
        if self.body.air is not None:
            arguments += [self._of(f"air.{key}", values) for key in aerodynamics.FORCE.parameters]
        if not self.strain_points:
            return arguments
        inertia = self.mass(values)[:, self.count :].split(
            [self.plane.points, self.strain_points - self.plane.points], 1
        )
        rest = self._rest(membrane_relaxation.FORCE, values)
        stiffness = [2 / 3 * mu, lam - 4 / 9 * mu]
        arguments += self.plane.parameters(values, rest, stiffness, inertia[0][:, : len(self.faces)])
        if len(self.hinges):
            rest, stiffness = self._rest(bending_relaxation.FORCE, values), [self._of("bending", values)]
            arguments += self.fold.parameters(values, rest, stiffness, inertia[1][:, : len(self.hinges)])
        return arguments

    def relaxed_strains(self, x: Tensor, values: Values) -> Tensor:
        """Strains (worlds, points, 3) of branches that do not pull at vertices x (worlds, n, 3), and plastic ones, which are 0."""
        shape = self._rest(membrane_relaxation.FORCE, values) or [self.shape[k] for k in membrane_relaxation.FORCE.rest]
        plane = membrane_relaxation.strain(x[:, self.faces], *shape[:3])
        fold = bending_relaxation.strain(x[:, self.hinges])
        fold = torch.stack([fold, torch.zeros_like(fold), torch.zeros_like(fold)], -1)
        relaxed = [y.repeat(1, self.series.count, 1) for y in (plane, fold)]
        return torch.cat([*relaxed, self.plastic.strains(x)], 1)

    def moduli(self, values: Values) -> tuple[Tensor, Tensor]:
        """μ and λ of the law (worlds, triangles) [N/m]."""
        if self.body.young is None:
            mu, lam = self._of("mu", values), self._of("lam", values)
        else:
            mu, lam = lame(*(self._of(key, values) for key in ("young", "poisson", "thickness")))
        return mu * values[f"{self.name}.mu_factor"], lam * values[f"{self.name}.lam_factor"]

    def rates(self, values: Values, mass: Tensor) -> tuple[Tensor, Tensor]:
        """In the plane as of `Tetrahedra`, with the moduli ⅔ μ and λ − 4/9 μ; a hinge has ½ w k Σ |d|²/m and w c Σ |d|²/m.

        Air counts by the speed of the start.
        """
        mu, lam = (x.detach() for x in self.moduli(values))
        least = values[f"{self.name}.vertex_mass_factor"].detach()[:, self.faces].amin(2)
        density = self._of("density", values).detach() * least
        # slopes are of 1/s of the rest shape, energies of s²: both over a mass of the shape itself
        scale = scale_of(self.name, values).detach()
        of = lambda shear, bulk: (3 / density * (2 * shear * self.steepest + bulk * self.steepness)).amax(1) / scale**2
        viscosity = self._of("damping", values).detach()
        stiffness, damping = of(2 / 3 * mu, lam - 4 / 9 * mu), of(viscosity, viscosity)
        if len(self.hinges):
            turn = self.weight * (
                self.slope / scale[:, None, None] ** 2 * inverse_element_masses(mass, self.hinges)
            ).sum(2)
            stiffness = stiffness + (0.5 * turn * self._of("bending", values).detach()).amax(1)
            damping = damping + (turn * self._of("bending_damping", values).detach()).amax(1)
        more, fastest = self.series.rates(values)
        stiffness, damping = stiffness * (1 + more), damping + fastest
        if self.plastic.points:
            flowing, quickest = self.plastic.rates(values, self._of("bending", values))
            stiffness, damping = stiffness + flowing, damping + quickest
        if self.body.air is not None:
            wind = values[f"{self.name}.air.wind"] - values[f"{self.name}.velocity"]
            rho, drag, lift = (self._of(f"air.{key}", values).detach() for key in ("density", "drag", "lift"))
            speed = torch.linalg.vector_norm(wind.detach(), dim=-1)
            damping = damping + 2 * speed * (rho * torch.maximum(drag, lift) / density).amax(1)
        return stiffness, damping

    def surface_vertices(self, x: Tensor, values: Values) -> Tensor:
        return x[:, :, : self.count]

    def _yielding(self, values: Values) -> list[Tensor]:
        """Parameters of `bending_plasticity` behind those of `bending`; none without plasticity."""
        if not self.plastic.points:
            return []
        half = 0.5 * self.weight[None]
        inertia = self.mass(values)[:, -self.plastic.points :]
        hardening, flow = self.plastic.parameters(values, half * self._of("bending", values), half, inertia)
        edge = self.edge * scale_of(self.name, values)[:, None]
        return [self.plastic.number("yield_moment", values) * edge, hardening, *flow]

    def _branches(self, force: Force, index: Tensor, first: int) -> PointBranches:
        """Branches of triangles or hinges."""
        constants = {} if self.scaled or not len(index) else {key: self.shape[key] for key in force.rest}
        if not len(index):  # a sheet that does not resist bending
            force = force.with_rest
        return PointBranches(self.series, force.with_rest if self.scaled else force, index, constants, first)

    def _elements(self, force: Force, index: Tensor) -> Elements:
        constants = {} if self.scaled else {key: self.shape[key] for key in force.rest}
        return Elements(force.with_rest if self.scaled else force, index, constants)

    def _rest(self, force: Force, values: Values) -> list[Tensor]:
        """The rest shape for a force (worlds, elements) each, where it is among the parameters."""
        if not self.scaled:
            return []
        scale = rest_scale_of(self.name, values)[:, None]
        return [self.shape[key] * scale ** POWERS.get(key, 0) for key in force.rest]

    def _of(self, key: str, values: Values) -> Tensor:
        """A number of the material, (worlds, elements, ...) or (worlds, 1, ...)."""
        value = values[f"{self.name}.{key}"]
        return value[:, None] if value.ndim == 1 or key == "air.wind" else value


def lame(young: Tensor, poisson: Tensor, thickness: Tensor) -> tuple[Tensor, Tensor]:
    """μ and λ of the law [N/m] that act as E [Pa] and ν in plane stress, for small strains of a sheet of thickness t [m].

    ⅔ μ = E t / (2 (1 + ν)),   λ − 4/9 μ = E t ν / (1 − ν²)
    """
    mu = 0.75 * young * thickness / (1 + poisson)
    return mu, young * thickness * poisson / (1 - poisson * poisson) + 4 / 9 * mu
