"""Soft solids of constant-strain tetrahedra: stable neo-Hookean elasticity, objective damping, activation.

    F = D_s D_m⁻¹,   Ḟ = Ḋ_s D_m⁻¹                         D_s: edges from vertex 0 as columns, D_m: the same at rest
    Ψ = μ/2 (I_C − 3) + λ/2 (J − α)² − μ/2 log(I_C + 1)    (paper Eq. 1; Smith et al. 2018, Eq. 14)
    α = 1 + ¾ μ/λ − a                                      no stress at rest; the activation a shrinks the rest volume
    P = μ (1 − 1/(I_C + 1)) F + λ (J − α) cof F + η (F Ċ + J̇ cof F)
    f = −V P D_m⁻ᵀ                                         on vertices 1, 2, 3 as columns; vertex 0 balances them

with I_C = tr FᵀF, J = det F, Ċ = FᵀḞ + ḞᵀF and J̇ = cof F : Ḟ. The paper's Eq. 1 has α = 1, which is not free of stress at
rest. Its λ and μ are not those of linear elasticity: for small strains they act as ¾ μ and λ − ⅝ μ (`lame`).

The damping η resists the rates of strain and volume. Both vanish in every rigid motion, constant velocity and spin
included, and its power V η (½ Ċ : Ċ + J̇²) is never negative. No term divides by J: an inverted element has finite forces
that turn it back.
"""

from collections.abc import Callable

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import *
from gradsim.errors import InputError
from gradsim.physics.forces.base import Force

REST = {"rest": "Mat3", "volume": "Real"}  # D_m⁻¹ [1/m], V [m³]
PARAMETERS = {"mu": "Real", "lam": "Real", "damping": "Real", "activation": "Real"}  # [Pa], [Pa], η [Pa s], a
FORCE = Force("neo_hookean", 4, REST, PARAMETERS)


@wp.func(inline=True)
def stress(F: Mat3, dF: Mat3, mu: Real, lam: Real, damping: Real, activation: Real) -> Mat3:
    """First Piola–Kirchhoff stress P [Pa]."""
    C = cofactor(F)  # ∂J/∂F, finite where F is singular, unlike J F⁻ᵀ
    G = transpose(F) * dF
    spherical = lam * (det(F) - 1.0 + activation) - mu * 0.75  # λ (J − α) for any λ, without a division
    elastic = F * (mu - mu / (ddot(F, F) + 1.0)) + C * spherical
    return elastic + (F * (G + transpose(G)) + C * ddot(C, dF)) * damping


@wp.func(inline=True)
def forces(
    x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3, v0: Vec3, v1: Vec3, v2: Vec3, v3: Vec3,
    rest: Mat3, volume: Real, mu: Real, lam: Real, damping: Real, activation: Real,
):  # fmt: skip
    F = columns(x1 - x0, x2 - x0, x3 - x0) * rest
    dF = columns(v1 - v0, v2 - v0, v3 - v0) * rest
    H = stress(F, dF, mu, lam, damping, activation) * transpose(rest) * neg(volume)
    h1 = column0(H)
    h2 = column1(H)
    h3 = column2(H)
    return neg(h1 + h2 + h3), h1, h2, h3


@wp.func(inline=True)
def power(
    x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3, v0: Vec3, v1: Vec3, v2: Vec3, v3: Vec3,
    rest: Mat3, volume: Real, mu: Real, lam: Real, damping: Real, activation: Real,
    w0: Vec3, w1: Vec3, w2: Vec3, w3: Vec3,
) -> Real:  # fmt: skip
    """Virtual power -V P : ∂w/∂X of the forces: its gradient costs fewer products than that of Σ f · w."""
    F = columns(x1 - x0, x2 - x0, x3 - x0) * rest
    dF = columns(v1 - v0, v2 - v0, v3 - v0) * rest
    W = columns(w0 - w1, w0 - w2, w0 - w3) * rest
    return ddot(stress(F, dF, mu, lam, damping, activation), W) * volume


def energy(
    x: Tensor, rest: Tensor, volume: Tensor, mu: Tensor, lam: Tensor, damping: Tensor, activation: Tensor
) -> Tensor:
    """Elastic energy (..., m) [J]; its negative gradient by the vertices is the definition of the elastic force.

    Args:
        x: Vertices of each element (..., m, 4, 3) [m].
        rest: D_m⁻¹ (m, 3, 3) [1/m].
        volume: V (m,) [m³].
        mu, lam: μ and λ (..., m) [Pa].
        damping: Has no energy.
        activation: a (..., m).
    """
    F = _edges(x) @ rest
    I_C = F.square().sum((-2, -1))
    alpha = 1 + 0.75 * mu / lam - activation
    density = mu / 2 * (I_C - 3) + lam / 2 * (torch.linalg.det(F) - alpha) ** 2 - mu / 2 * torch.log(I_C + 1)
    return volume * density


def dissipation(x: Tensor, v: Tensor, rest: Tensor, volume: Tensor, damping: Tensor) -> Tensor:
    """Half the power lost (..., m) [W]; its negative gradient by the velocities is the damping force.

    Args:
        x, v: Positions and velocities of the vertices of each element (..., m, 4, 3).
        rest, volume: As for `energy`.
        damping: η (..., m) [Pa s].
    """
    F, dF = _edges(x) @ rest, _edges(v) @ rest
    strain_rate = F.mT @ dF + dF.mT @ F
    # dJ/dt by the product rule over columns: finite where F is singular
    columns_of = lambda k: torch.stack([(dF if j == k else F)[..., j] for j in range(3)], -1)
    volume_rate = torch.stack([torch.linalg.det(columns_of(k)) for k in range(3)]).sum(0)
    return volume * damping / 2 * (strain_rate.square().sum((-2, -1)) / 2 + volume_rate**2)


def reference(
    x: Tensor, v: Tensor, rest: Tensor, volume: Tensor, mu: Tensor, lam: Tensor, damping: Tensor, activation: Tensor
) -> Tensor:
    """Forces (..., m, 4, 3) [N] by the slopes of `energy` and `dissipation`, differentiable; arguments as for them."""
    elastic = lambda x: energy(x, rest, volume, mu, lam, damping, activation)
    return minus_slopes(x, v, elastic, lambda x, v: dissipation(x, v, rest, volume, damping))


def minus_slopes(
    x: Tensor, v: Tensor, elastic: Callable[[Tensor], Tensor], viscous: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """-∂elastic(x)/∂x - ∂viscous(x, v)/∂v, summed over elements; differentiable."""
    with torch.enable_grad():
        x, v = (y if y.requires_grad else y.detach().requires_grad_() for y in (x, v))
        (f,) = torch.autograd.grad(elastic(x).sum(), x, create_graph=True)
        (g,) = torch.autograd.grad(viscous(x, v).sum(), v, create_graph=True)
    return -f - g


def rest_shape(x: Tensor, elements: Tensor) -> dict[str, Tensor]:
    """D_m⁻¹ and V of each element.

    Args:
        x: Rest positions (n, 3) [m].
        elements: Four vertices of each (m, 4).

    Raises:
        InputError: If a tetrahedron has no volume or a negative one, with its index.
    """
    edges = _edges(x[elements])
    volume = torch.linalg.det(edges) / 6
    size = torch.linalg.vector_norm(edges, dim=-2).amax(-1) ** 3
    bad = (volume <= 1e-12 * size).nonzero()
    if len(bad):
        k = int(bad[0, 0])
        more = f" ({len(bad)} of {len(volume)} are wrong)" if len(bad) > 1 else ""
        raise InputError(f"tetrahedron {k} has rest volume {volume[k]:.4g} m³{more}; reorder its vertices or remesh.")
    return {"rest": torch.linalg.inv(edges), "volume": volume}


def lame(young: Tensor, poisson: Tensor) -> tuple[Tensor, Tensor]:
    """μ and λ of Eq. 1 [Pa] that act as Young's modulus E [Pa] and Poisson's ratio ν for small strains.

    μ = 4/3 E / (2 (1 + ν)),   λ = E ν / ((1 + ν)(1 − 2 ν)) + ⅝ μ
    """
    mu = 4 / 3 * young / (2 * (1 + poisson))
    return mu, young * poisson / ((1 + poisson) * (1 - 2 * poisson)) + 0.625 * mu


def _edges(x: Tensor) -> Tensor:
    """Edges from vertex 0 as columns (..., 3, 3) of (..., 4, 3)."""
    return (x[..., 1:, :] - x[..., :1, :]).mT


__all__ = ["FORCE", "dissipation", "energy", "forces", "lame", "power", "reference", "rest_shape"]
