"""Elements of a soft solid: tetrahedra with the law of `forces/neo_hookean.py`, their masses and their surface."""

import numpy as np
import torch
from torch import Tensor

from gradsim.geometry import tet_mesh, uv
from gradsim.geometry.mesh import Mesh
from gradsim.geometry.tet_mesh import EDGES
from gradsim.numerics.mass_lumping import lump_masses
from gradsim.physics.forces import neo_hookean, neo_hookean_quadratic
from gradsim.physics.forces.base import Elements
from gradsim.physics.soft.body import SoftBody, rest_scale_of, scale_of
from gradsim.physics.soft.relaxing import SolidBranches
from gradsim.physics.system import Values


def solid_body(name, body, scene, vertex_offset: int, dtype: torch.dtype, device: torch.device) -> SoftBody:
    """The `System` of a soft solid. Arguments as for `RigidBody`."""
    return SoftBody(name, body, scene, vertex_offset, Tetrahedra(name, body, dtype, device))


class Tetrahedra:
    """An `ElementModel` (see `body.py`) made from a scene's soft solid.

    Args:
        name: The body's name.
        body: The scene's description of it.
        dtype: Precision of all its tensors.
        device: Where they live.
    """

    def __init__(self, name: str, body, dtype: torch.dtype, device: torch.device):
        self.name, self.body = name, body
        to = {"dtype": dtype, "device": device}
        bent = body.elements == "quadratic"
        law, mesh = (neo_hookean_quadratic, body.quadratic_mesh) if bent else (neo_hookean, body.rest)
        vertices, tets = torch.tensor(mesh.vertices), torch.tensor(mesh.tets)
        shape = law.rest_shape(vertices, tets)
        self.rest, self.tets, self.elements = vertices.to(**to), tets[:, :4].to(device), tets.to(device)
        self.volume = shape["volume"].to(**to)
        self.parts = torch.tensor(
            neo_hookean_quadratic.MASSES if bent else [0.25] * 4, **to
        )  # of an element's mass, on its vertices
        self.scaled = body.scale is not None or body.rest_length_factor is not None
        self.shape = {key: x.to(**to) for key, x in shape.items()}
        force, constants = (law.FORCE.with_rest, {}) if self.scaled else (law.FORCE, self.shape)
        self.groups = [Elements(force, self.elements, constants)]
        self.branches = SolidBranches(name, body, self.elements, self.shape, self.scaled, len(self.rest))
        self.groups += self.branches.groups
        self.strain_points = self.branches.points
        self.rest = torch.cat([self.rest, self.rest.new_zeros(self.strain_points, 3)])
        self.region = torch.tensor(body.region_of(), device=device)
        slopes = torch.cat([-shape["rest"].sum(1, keepdim=True), shape["rest"]], 1)
        unit = torch.eye(tets.shape[1], dtype=torch.float64)
        points = (
            torch.stack(neo_hookean_quadratic.gauss(unit[..., None].expand(-1, -1, 3)))
            if bent
            else unit[None, ..., None]
        )
        parts = torch.tensor(neo_hookean_quadratic.MASSES if bent else [0.25] * 4, dtype=torch.float64)
        steep = _steepness(slopes, points[..., 0].mT, parts)
        self.parts, self.shear, self.swell = (x.to(**to) for x in (parts, *steep))
        faces = tet_mesh.surface(body.rest)
        faces = _halved(faces, mesh) if bent else faces
        outer = np.unique(faces)
        self.outer, self.faces = torch.tensor(outer, device=device), torch.tensor(faces, device=device)
        faces = np.searchsorted(outer, faces)
        skin = mesh.vertices[outer]
        self.mesh = Mesh(skin, faces, *uv.box((skin - skin.min(0)) / np.ptp(skin, 0) - 0.5, faces))
        self.smooth = self.mesh.smooth

    def mass(self, values: Values) -> Tensor:
        volume = self.volume * scale_of(self.name, values)[:, None] ** 3
        share = (self._of("density", values) * volume)[..., None] * self.parts
        vertices = lump_masses(share, self.elements, len(self.rest) - self.strain_points)
        return torch.cat([vertices, self.branches.inertia(share.sum(-1))], 1) if self.strain_points else vertices

    def parameters(self, values: Values, start: Tensor) -> list[Tensor]:
        mu, lam = self.moduli(values)
        elastic = [*self._rest(values), mu, lam, self._of("damping", values), self._of("activation", values)]
        if not self.strain_points:
            return elastic
        inertia = self.mass(values)[:, len(self.rest) - self.strain_points :]
        return elastic + self.branches.parameters(values, mu, lam, inertia, self._rest(values))

    def relaxed_strains(self, x: Tensor, values: Values) -> Tensor:
        """Columns of the strains A (worlds, points, 3) of branches that do not pull at vertices x (worlds, n, 3)."""
        return self.branches.relaxed(x, self._rest(values))

    def moduli(self, values: Values) -> tuple[Tensor, Tensor]:
        """μ and λ of the law (worlds, tets) [Pa]."""
        if self.body.young is None:
            mu, lam = self._of("mu", values), self._of("lam", values)
        else:
            mu, lam = neo_hookean.lame(self._of("young", values), self._of("poisson", values))
        return mu * values[f"{self.name}.mu_factor"], lam * values[f"{self.name}.lam_factor"]

    def rates(self, values: Values, mass: Tensor) -> tuple[Tensor, Tensor]:
        """From each tetrahedron alone, with its own share of the mass (Irons and Treharne 1971).

        The energy of small strains is at most V (μ |∇u|² + ½ λ (div u)²), so k/m is at most (2 μ A + λ B)/ρ with A and B of
        `_steepness`. For a linear one with the eigenvalues s of Σ g gᵀ, g the gradients of its shape functions, that is
        4/ρ (2 μ s_max + λ Σ s); equal where all s are.
        """
        mu, lam = (x.detach() for x in self.moduli(values))
        least = values[f"{self.name}.vertex_mass_factor"].detach()[:, self.elements].amin(2)
        density = self._of("density", values).detach() * least
        # gradients are of 1/s of the rest shape, energies of s³: both over a mass of the shape itself
        scale, current_scale = rest_scale_of(self.name, values).detach(), scale_of(self.name, values).detach()
        of = lambda shear, bulk: (
            ((2 * shear * self.shear + bulk * self.swell) / density).amax(1) * scale / current_scale**3
        )
        viscosity = self._of("damping", values).detach()
        more, fastest = self.branches.series.rates(values)
        stiff, damped = of(0.75 * mu, lam - 0.625 * mu), of(viscosity, viscosity)
        return stiff * (1 + more), damped + fastest

    def surface_vertices(self, x: Tensor, values: Values) -> Tensor:
        return x[:, :, self.outer]

    def _rest(self, values: Values) -> list[Tensor]:
        """D_m⁻¹ (worlds, tets, 3, 3) and V (worlds, tets), where they are parameters."""
        if not self.scaled:
            return []
        scale = rest_scale_of(self.name, values)[:, None]
        return [self.shape["rest"] / scale[..., None, None], self.shape["volume"] * scale**3]

    def _of(self, key: str, values: Values) -> Tensor:
        """A number of the material, (worlds, tets) or (worlds, 1)."""
        base = values[f"{self.name}.{key}"]
        base = base[:, None] if base.ndim == 1 else base
        names = [f"{self.name}.regions.{region}.{key}" for region in self.body.regions]
        for k, name in enumerate(names):
            if name in values:
                base = torch.where(self.region == k + 1, values[name][:, None], base)
        return base


def _steepness(slopes: Tensor, maps: Tensor, parts: Tensor) -> tuple[Tensor, Tensor]:
    """Largest eigenvalues (m,) [1/m²] of Σ |∇u|² and Σ (div u)² over the points of each element, by Σ w |u|².

    Args:
        slopes: Gradients of the linear shape functions (m, 4, 3) [1/m].
        maps: From the vertices to the corners of the linear element at each point (points, 4, nodes).
        parts: w, of an element's mass on each vertex (nodes,).
    """
    factors = torch.einsum("pan,mad->mpnd", maps, slopes) * (parts.rsqrt() / len(maps) ** 0.5)[:, None]
    gradients = torch.einsum("mpnd,mpkd->mnk", factors, factors)
    divergence = torch.einsum("mpnd,mqnd->mpq", factors, factors)
    return torch.linalg.eigvalsh(gradients)[:, -1], torch.linalg.eigvalsh(divergence)[:, -1]


def _halved(faces: np.ndarray, mesh) -> np.ndarray:
    """Triangles cut into four at the middles of their edges (see `tet_mesh.Quadratic`)."""
    ends = np.sort(mesh.tets[:, EDGES].reshape(-1, 2), 1)
    middle = dict(zip(map(tuple, ends.tolist()), mesh.tets[:, 4:].flatten().tolist(), strict=True))
    triangles = []
    for a, b, c in faces.tolist():
        ab, bc, ca = (middle[min(pair), max(pair)] for pair in ((a, b), (b, c), (c, a)))
        triangles += [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
    return np.array(triangles)
