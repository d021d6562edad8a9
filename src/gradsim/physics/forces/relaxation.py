"""Relaxation of soft solids: one Maxwell branch of a generalized Maxwell (Prony, Wiechert) solid, a template.

With the elasticity of `neo_hookean.py`, an element of volume V with the strain C = FᵀF has another, A, that creeps after C:

    Ψ = V (μ/4 |D|² + λ/8 (tr D)²),   D = C - A               energy of the branch [J]
    Ȧ = D/τ                                                   τ: relaxation time [s]
    P = F (μ D + λ/2 (tr D) 1)                                first Piola–Kirchhoff stress, ∂Ψ/∂F/V

(Christensen, Theory of Viscoelasticity, 1982, §1.6, in the material frame of Green's strain, as in Simo 1987). For small strains
the branch adds the Lamé parameters μ e^(-t/τ), λ e^(-t/τ) to the relaxation moduli. It loses 2 Ψ/τ, never less than 0 for
3 λ + 2 μ ≥ 0, nothing in a rigid motion, and all of its stress in a strain that lasts. It is for moderate strains: under
compression to nothing, C - A stays finite while the elasticity has to resist.

The columns of A are three points behind the vertices of the body, so that all integrators, adjoints and sensitivities know
them. They are moved as masses m that follow Ȧ = D/τ with a response time θ,

    m Ä = m/θ (D/τ - Ȧ)

which takes the relaxation modulus at the frequency ω from 1 - 1/(1 + iωτ) to 1 - 1/(1 + iωτ - ω²τθ): still that of a passive
body, whose energy is Ψ plus τθ times the form of Ψ in Ȧ.
"""

import warp as wp
from torch import Tensor, cat, eye, stack

from gradsim.engine.lanes import *
from gradsim.physics.forces.base import Force
from gradsim.physics.forces.neo_hookean import REST

PARAMETERS = {  # [Pa], [Pa], 1/τ [1/s], 1/θ [1/s], m, and that of the body, which the points do not feel [m/s²]
    "mu": "Real",
    "lam": "Real",
    "rate": "Real",
    "response": "Real",
    "inertia": "Real",
    "gravity": "Vec3",
}
FORCE = Force("relaxation", 7, REST, PARAMETERS)


@wp.func(inline=True)
def stress(F: Mat3, D: Mat3, mu: Real, lam: Real) -> Mat3:
    """First Piola–Kirchhoff stress P [Pa]."""
    one = spread(Scalar(1.0))
    none = zero(0)
    trace = (
        dot(column0(D), vec3(one, none, none))
        + dot(column1(D), vec3(none, one, none))
        + dot(column2(D), vec3(none, none, one))
    )
    return F * D * mu + F * (lam * trace * 0.5)


@wp.func(inline=True)
def creep(D: Mat3, v0: Vec3, v1: Vec3, v2: Vec3, rate: Real, response: Real, inertia: Real, gravity: Vec3):
    """Forces on the three points, from what A lacks and their velocities."""
    k = inertia * response
    weight = gravity * inertia
    return (
        (column0(D) * rate - v0) * k - weight,
        (column1(D) * rate - v1) * k - weight,
        (column2(D) * rate - v2) * k - weight,
    )


@wp.func(inline=True)
def forces(
    x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3, x4: Vec3, x5: Vec3, x6: Vec3,
    v0: Vec3, v1: Vec3, v2: Vec3, v3: Vec3, v4: Vec3, v5: Vec3, v6: Vec3,
    rest: Mat3, volume: Real, mu: Real, lam: Real, rate: Real, response: Real, inertia: Real, gravity: Vec3,
):  # fmt: skip
    F = columns(x1 - x0, x2 - x0, x3 - x0) * rest
    D = transpose(F) * F - columns(x4, x5, x6)
    H = stress(F, D, mu, lam) * transpose(rest) * neg(volume)
    h1 = column0(H)
    h2 = column1(H)
    h3 = column2(H)
    c0, c1, c2 = creep(D, v4, v5, v6, rate, response, inertia, gravity)
    return neg(h1 + h2 + h3), h1, h2, h3, c0, c1, c2


def squared_strain(x: Tensor, rest: Tensor) -> Tensor:
    """C = FᵀF (..., m, 3, 3) of elements with vertices x (..., m, 4 or more, 3) and D_m⁻¹ `rest` (m, 3, 3)."""
    F = (x[..., 1:4, :] - x[..., :1, :]).mT @ rest
    return F.mT @ F


def energy(x: Tensor, rest: Tensor, volume: Tensor, mu: Tensor, lam: Tensor, **unused: Tensor) -> Tensor:
    """Energy Ψ of the branch (..., m) [J]; its negative gradient by the vertices is the definition of their force.

    Args:
        x: Four vertices of each element [m], then the columns of A (..., m, 7, 3).
        rest: D_m⁻¹ (m, 3, 3) [1/m].
        volume: V (m,) [m³].
        mu, lam: μ and λ of the branch (..., m) [Pa].
        unused: The other parameters have no energy.
    """
    return form(squared_strain(x, rest) - x[..., 4:, :].mT, volume, mu, lam)


def form(D: Tensor, volume: Tensor, mu: Tensor, lam: Tensor) -> Tensor:
    """V (μ/4 |D|² + λ/8 (tr D)²) (..., m) of D (..., m, 3, 3)."""
    trace = D.diagonal(dim1=-2, dim2=-1).sum(-1)
    return volume * (mu / 4 * D.square().sum((-2, -1)) + lam / 8 * trace.square())


def reference(
    x: Tensor,
    v: Tensor,
    rest: Tensor,
    volume: Tensor,
    mu: Tensor,
    lam: Tensor,
    rate: Tensor,
    response: Tensor,
    inertia: Tensor,
    gravity: Tensor,
) -> Tensor:
    """Forces (..., m, 7, 3), from positions and velocities of that shape; the same in PyTorch."""
    F = (x[..., 1:4, :] - x[..., :1, :]).mT @ rest
    D = F.mT @ F - x[..., 4:, :].mT
    wide = lambda y: y[..., None, None]
    trace = wide(D.diagonal(dim1=-2, dim2=-1).sum(-1))
    P = F @ (wide(mu) * D + wide(lam) / 2 * trace * eye(3, dtype=x.dtype, device=x.device))
    pull = -(wide(volume) * P @ rest.mT).mT
    points = wide(inertia * response) * (D.mT * wide(rate) - v[..., 4:, :]) - wide(inertia) * gravity[..., None, :]
    return cat([-pull.sum(-2, keepdim=True), pull, points], -2)


def columns_of(C: Tensor) -> Tensor:
    """Columns of matrices (..., m, 3, 3) as points (..., 3 m, 3)."""
    return stack(C.unbind(-1), -2).flatten(-3, -2)


__all__ = ["FORCE", "PARAMETERS", "columns_of", "creep", "energy", "forces", "form", "reference"]
__all__ += ["squared_strain", "stress"]
