"""What a soft solid is made of: tetrahedra with the law of `solid.py`, their masses and their outside."""

import numpy as np
import torch
from torch import Tensor

from gradsim import tet_mesh, unwrap
from gradsim.mesh import Mesh
from gradsim.physics import solid
from gradsim.physics.particles import Elements
from gradsim.physics.shares import lumped
from gradsim.physics.soft_body import SoftBody
from gradsim.physics.system import Values


def solid_body(name, body, scene, first: int, dtype: torch.dtype, device: torch.device) -> SoftBody:
    """The `System` of a soft solid. Arguments as for `RigidBody`."""
    return SoftBody(name, body, scene, first, Tetrahedra(name, body, dtype, device))


class Tetrahedra:
    """A `Matter` (see `soft_body.py`) made from a scene's soft solid.

    Args:
        name: The body's name.
        body: The scene's description of it.
        dtype: Precision of all its tensors.
        device: Where they live.
    """

    def __init__(self, name: str, body, dtype: torch.dtype, device: torch.device):
        self.name, self.body = name, body
        to = {"dtype": dtype, "device": device}
        rest = body.rest
        vertices, tets = torch.tensor(rest.vertices), torch.tensor(rest.tets)
        shape = solid.rest_shape(vertices, tets)
        self.rest, self.tets = vertices.to(**to), tets.to(device)
        self.volume = shape["volume"].to(**to)
        self.groups = [Elements(solid.FORCE, self.tets, {key: x.to(**to) for key, x in shape.items()})]
        self.region = torch.tensor(body.region_of(), device=device)
        corners = torch.cat([-shape["rest"].sum(1, keepdim=True), shape["rest"]], 1)  # gradients of the shape functions
        steep = torch.linalg.eigvalsh(corners.mT @ corners)
        self.steepest, self.steepness = steep[:, -1].to(**to), steep.sum(1).to(**to)
        faces = tet_mesh.surface(rest)
        outer = np.unique(faces)
        self.outer, self.faces = torch.tensor(outer, device=device), torch.tensor(faces, device=device)
        faces = np.searchsorted(outer, faces)
        skin = rest.vertices[outer]
        self.mesh = Mesh(skin, faces, *unwrap.box((skin - skin.min(0)) / np.ptp(skin, 0) - 0.5, faces))
        self.smooth = self.mesh.smooth

    def mass(self, values: Values) -> Tensor:
        return lumped(self._of("density", values) * self.volume / 4, self.tets, len(self.rest))

    def parameters(self, values: Values, start: Tensor) -> list[Tensor]:
        mu, lam = self.moduli(values)
        return [mu, lam, self._of("damping", values), self._of("activation", values)]

    def moduli(self, values: Values) -> tuple[Tensor, Tensor]:
        """μ and λ of the law (worlds, tets) [Pa]."""
        if self.body.young is None:
            mu, lam = self._of("mu", values), self._of("lam", values)
        else:
            mu, lam = solid.lame(self._of("young", values), self._of("poisson", values))
        return mu * values[f"{self.name}.mu_factor"], lam * values[f"{self.name}.lam_factor"]

    def rates(self, values: Values, mass: Tensor) -> tuple[Tensor, Tensor]:
        """From each tetrahedron alone, with its own share of the mass (Irons and Treharne 1971).

        With g the gradients of the shape functions and s the eigenvalues of Σ g gᵀ, the largest of k/m of one is at most
        4/ρ (2 μ s_max + λ Σ s), μ and λ being the moduli of small strains; equal where all s are.
        """
        mu, lam = (x.detach() for x in self.moduli(values))
        least = values[f"{self.name}.vertex_mass_factor"].detach()[:, self.tets].amin(2)
        density = self._of("density", values).detach() * least
        of = lambda shear, bulk: (4 / density * (2 * shear * self.steepest + bulk * self.steepness)).amax(1)
        viscosity = self._of("damping", values).detach()
        return of(0.75 * mu, lam - 0.625 * mu), of(viscosity, viscosity)

    def drawn(self, x: Tensor, values: Values) -> Tensor:
        return x[:, :, self.outer]

    def _of(self, key: str, values: Values) -> Tensor:
        """A number of the material, (worlds, tets) or (worlds, 1)."""
        base = values[f"{self.name}.{key}"]
        base = base[:, None] if base.ndim == 1 else base
        names = [f"{self.name}.regions.{region}.{key}" for region in self.body.regions]
        for k, own in enumerate(names):
            if own in values:
                base = torch.where(self.region == k + 1, values[own][:, None], base)
        return base
