"""Relaxation of sheets in their plane: one Maxwell branch of a triangle, a template.

`relaxation.py` with the strain C = FᵀF (2 × 2) of `membrane.py`, and the area in place of the volume:

    Ψ = area (μ/4 |D|² + λ/8 (tr D)²),   D = C - A,   Ȧ = D/τ         μ, λ: the branch's, of small strains [N/m]
    (p1, p2) = F (μ D + λ/2 (tr D) 1),   (f1, f2 of the vertices) = -area (p1, p2) Dm_invᵀ

(A11, A12, A22) is one point behind the vertices, moved as those of `relaxation.py` are.
"""

import torch
import warp as wp
from torch import Tensor, stack

from gradsim.engine.lanes import *
from gradsim.physics.forces.base import Force
from gradsim.physics.forces.membrane import gradient
from gradsim.physics.forces.relaxation import PARAMETERS

FORCE = Force(
    "membrane_relaxation",
    nodes=4,
    rest={"inverse_00": "Real", "inverse_01": "Real", "inverse_11": "Real", "area": "Real"},
    parameters=PARAMETERS,
)


@wp.func(inline=True)
def forces(
    x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3,
    v0: Vec3, v1: Vec3, v2: Vec3, v3: Vec3,
    inverse_00: Real, inverse_01: Real, inverse_11: Real, area: Real,
    mu: Real, lam: Real, rate: Real, response: Real, inertia: Real, gravity: Vec3,
):  # fmt: skip
    f1 = (x1 - x0) * inverse_00
    f2 = (x1 - x0) * inverse_01 + (x2 - x0) * inverse_11
    D = vec3(dot(f1, f1), dot(f1, f2), dot(f2, f2)) - x3
    one = spread(Scalar(1.0))
    none = zero(0)
    d11 = dot(D, vec3(one, none, none))
    d12 = dot(D, vec3(none, one, none))
    d22 = dot(D, vec3(none, none, one))
    bulk = lam * (d11 + d22) * 0.5
    p1 = f1 * (mu * d11 + bulk) + f2 * (mu * d12)
    p2 = f2 * (mu * d22 + bulk) + f1 * (mu * d12)
    h1 = (p1 * inverse_00 + p2 * inverse_01) * neg(area)
    h2 = p2 * (inverse_11 * neg(area))
    creep = (D * rate - v3) * (inertia * response) - gravity * inertia
    return neg(h1 + h2), h1, h2, creep


def strain(x: Tensor, inverse_00: Tensor, inverse_01: Tensor, inverse_11: Tensor) -> Tensor:
    """(C11, C12, C22) (..., triangles, 3) of triangles with vertices (..., triangles, 3, 3) [m]."""
    f1, f2 = gradient(x, inverse_00, inverse_01, inverse_11).unbind(-1)
    return stack([(f1 * f1).sum(-1), (f1 * f2).sum(-1), (f2 * f2).sum(-1)], -1)


def energy(
    x: Tensor,
    inverse_00: Tensor,
    inverse_01: Tensor,
    inverse_11: Tensor,
    area: Tensor,
    mu: Tensor,
    lam: Tensor,
    **unused: Tensor,
) -> Tensor:
    """Energy Ψ of the branch [J] (..., triangles); its negative gradient by the vertices is the definition of their force.

    Args:
        x: Vertices [m], then (A11, A12, A22) (..., triangles, 4, 3).
        inverse_00, inverse_01, inverse_11, area: Rest shape, as of `membrane`.
        mu, lam: μ and λ of the branch [N/m].
        unused: The other parameters have no energy.
    """
    return form(strain(x[..., :3, :], inverse_00, inverse_01, inverse_11) - x[..., 3, :], area, mu, lam)


def form(D: Tensor, area: Tensor, mu: Tensor, lam: Tensor) -> Tensor:
    """area (μ/4 |D|² + λ/8 (tr D)²) of D = (D11, D12, D22) (..., triangles, 3)."""
    d11, d12, d22 = D.unbind(-1)
    return area * (mu / 4 * (d11.square() + 2 * d12.square() + d22.square()) + lam / 8 * (d11 + d22).square())


def reference(
    x: Tensor,
    v: Tensor,
    inverse_00: Tensor,
    inverse_01: Tensor,
    inverse_11: Tensor,
    area: Tensor,
    mu: Tensor,
    lam: Tensor,
    rate: Tensor,
    response: Tensor,
    inertia: Tensor,
    gravity: Tensor,
) -> Tensor:
    """Forces (..., triangles, 4, 3), from positions and velocities of that shape, by automatic derivatives of the energy."""
    with torch.enable_grad():
        at = x if x.requires_grad else x.detach().requires_grad_()
        psi = energy(at, inverse_00, inverse_01, inverse_11, area, mu, lam)
        (slope,) = torch.autograd.grad(psi.sum(), at, create_graph=True)
    D = strain(x[..., :3, :], inverse_00, inverse_01, inverse_11) - x[..., 3, :]
    wide = lambda y: y[..., None]
    creep = wide(inertia * response) * (wide(rate) * D - v[..., 3, :]) - wide(inertia) * gravity
    return torch.cat([-slope[..., :3, :], creep[..., None, :]], -2)


__all__ = ["FORCE", "energy", "form", "reference", "strain"]
