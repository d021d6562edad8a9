"""In-plane elasticity of triangles: stable neo-Hookean (paper A.1, Eq. 1 in two dimensions; Smith et al. 2018), a template.

    F = (f1, f2) = (x1 - x0, x2 - x0) Dm_inv       3 × 2 deformation gradient
    I_C = |f1|² + |f2|²,  c = f1 × f2,  J = |c|    I_C = 2 and J = 1 at rest
    Ψ = ½ μ (I_C - 2) + ½ λ (J - α)² - ½ μ log(I_C + 1),   α = 1 + 2 μ / (3 λ) - activation
    P = ∂Ψ/∂F = μ (1 - 1 / (I_C + 1)) F + λ (J - α) (f2 × n, n × f1),   n = c / J
    C' = Fᵀ F' + F'ᵀ F,  J' = n · (f1' × f2 + f1 × f2')
    Q = η (F C' + J' (f2 × n, n × f1))             viscous, objective
    (f1, f2 of the vertices) = -area (P + Q) Dm_invᵀ,   f0 = -(f1 + f2)

The paper's α = 1 leaves stress at rest, and the term of tetrahedra (1 + 3 μ / (4 λ)) would prestress triangles, where
I_C = 2. Small strains see the moduli ⅔ μ and λ - 4/9 μ.

Thickness: Ψ is an energy per area of the sheet, so μ and λ are in N/m (Pa m), thickness times the modulus of the material
in plane stress, and η is in N s/m.

The rate of C is that of strain alone, and J' has all three vertices: neither sees a rigid motion, and the power
-area η (½ C':C' + J'²) is never positive. Small rates see the shear viscosity η and the area viscosity η.

A triangle that collapses has no n. There n = c / max(J, ε) with ε = 1/1000, so force and derivatives stay finite and
continuous, and (J - α)² is J² - 2 α Ĵ + α² with Ĵ = ½ (J² / ε + ε) below ε.
"""

import torch
import warp as wp
from torch import Tensor, linalg, stack

from gradsim.engine.lanes import *
from gradsim.errors import InputError
from gradsim.physics.forces.base import Force

EPSILON = 1e-3  # ε, of the area at rest
EPSILON_SQUARED = Scalar(EPSILON**2)  # a bare number would pass through float32

FORCE = Force(
    "membrane",
    nodes=3,
    rest={"inverse_00": "Real", "inverse_01": "Real", "inverse_11": "Real", "area": "Real"},
    parameters={"mu": "Real", "lam": "Real", "damping": "Real", "activation": "Real"},
)


@wp.func(inline=True)
def forces(
    x0: Vec3,
    x1: Vec3,
    x2: Vec3,
    v0: Vec3,
    v1: Vec3,
    v2: Vec3,
    inverse_00: Real,
    inverse_01: Real,
    inverse_11: Real,
    area: Real,
    mu: Real,
    lam: Real,
    damping: Real,
    activation: Real,
):
    f1 = (x1 - x0) * inverse_00  # Dm is upper triangular: its first edge lies along the first axis
    f2 = (x1 - x0) * inverse_01 + (x2 - x0) * inverse_11
    g1 = (v1 - v0) * inverse_00
    g2 = (v1 - v0) * inverse_01 + (v2 - v0) * inverse_11
    c = cross(f1, f2)
    J = sqrt(max(dot(c, c), spread(EPSILON_SQUARED)))
    n = c * (1.0 / J)
    a1 = cross(f2, n)  # ∂J/∂f1
    a2 = cross(n, f1)  # ∂J/∂f2

    shear = mu * (1.0 - 1.0 / (dot(f1, f1) + dot(f2, f2) + 1.0))
    pull = lam * (1.0 - activation) + mu * spread(Scalar(2.0) / Scalar(3.0))  # λ α, for any λ
    spherical = lam * J - pull + damping * (dot(a1, g1) + dot(a2, g2))

    c11 = dot(f1, g1) * 2.0
    c12 = dot(f1, g2) + dot(f2, g1)
    c22 = dot(f2, g2) * 2.0
    p1 = f1 * (shear + damping * c11) + f2 * (damping * c12) + a1 * spherical
    p2 = f2 * (shear + damping * c22) + f1 * (damping * c12) + a2 * spherical
    h1 = (p1 * inverse_00 + p2 * inverse_01) * neg(area)
    h2 = p2 * (inverse_11 * neg(area))
    return neg(h1 + h2), h1, h2


def energy(
    x: Tensor,
    inverse_00: Tensor,
    inverse_01: Tensor,
    inverse_11: Tensor,
    area: Tensor,
    mu: Tensor,
    lam: Tensor,
    damping: Tensor | None = None,
    activation: Tensor | float = 0.0,
) -> Tensor:
    """Elastic energy [J] (..., triangles), with an activation its potential.

    Args:
        x: Positions of the vertices [m] (..., triangles, 3, 3).
        inverse_00, inverse_01, inverse_11: Dm_inv [1/m], as `rest_shape` gives it.
        area: At rest [m²].
        mu: μ [N/m].
        lam: λ [N/m].
        damping: Has no energy.
        activation: By how much α is below its value at rest.
    """
    F = gradient(x, inverse_00, inverse_01, inverse_11)
    I_C = F.square().sum((-2, -1))
    square = linalg.cross(F[..., 0], F[..., 1]).square().sum(-1)
    least = square.clamp(min=EPSILON**2).sqrt()
    J = 0.5 * (square / least + least)
    alpha = 1 + 2 * mu / (3 * lam) - activation
    volumetric = 0.5 * lam * (square - 2 * alpha * J + alpha**2)
    return area * (0.5 * mu * (I_C - 2) + volumetric - 0.5 * mu * (I_C + 1).log())


def reference(
    x: Tensor,
    v: Tensor,
    inverse_00: Tensor,
    inverse_01: Tensor,
    inverse_11: Tensor,
    area: Tensor,
    mu: Tensor,
    lam: Tensor,
    damping: Tensor,
    activation: Tensor,
) -> Tensor:
    """Forces on the vertices [N] (..., triangles, 3, 3), from positions and velocities of that shape; in PyTorch."""
    F, rate = (gradient(y, inverse_00, inverse_01, inverse_11) for y in (x, v))
    f1, f2 = F.unbind(-1)
    c = linalg.cross(f1, f2)
    J = c.square().sum(-1, keepdim=True).clamp(min=EPSILON**2).sqrt()
    dJ = stack([linalg.cross(f2, c / J), linalg.cross(c / J, f1)], -1)
    mu, lam, damping, activation, area = (y[..., None, None] for y in (mu, lam, damping, activation, area))
    alpha = 1 + 2 * mu / (3 * lam) - activation
    I_C = F.square().sum((-2, -1), keepdim=True)
    P = mu * (1 - 1 / (I_C + 1)) * F + lam * (J[..., None] - alpha) * dJ
    Q = damping * (F @ (F.mT @ rate + rate.mT @ F) + (dJ * rate).sum((-2, -1), keepdim=True) * dJ)
    h1, h2 = (-area * (P + Q) @ _matrix(inverse_00, inverse_01, inverse_11).mT).unbind(-1)
    return stack([-h1 - h2, h1, h2], -2)


def rest_shape(x: Tensor, triangles: Tensor) -> dict[str, Tensor]:
    """Dm_inv [1/m] and area [m²] of triangles (m, 3) whose vertices rest at x [m] (n, 3), in float64.

    Dm has the edges from the first vertex as columns, in axes of the triangle's plane: the first along the first edge.

    Raises:
        InputError: If a triangle has no area, or one that is lost in the rounding of its vertices.
    """
    x0, x1, x2 = torch.as_tensor(x).double()[torch.as_tensor(triangles).long()].unbind(1)
    first, second = x1 - x0, x2 - x0
    area = 0.5 * linalg.cross(first, second).norm(dim=-1)
    longest = stack([first, second, x2 - x1], 1).square().sum(-1).amax(1)
    flat = ~(area > 1e-12 * longest)  # NaN too
    if flat.any():
        worst = int(flat.nonzero()[0])
        raise InputError(
            f"triangle {worst} has area {area[worst]:.3g} m² at rest (vertices {torch.as_tensor(triangles)[worst].tolist()});"
            f" {int(flat.sum())} of {len(area)} have none: merge their vertices, or remesh."
        )
    length = first.norm(dim=-1)
    along, height = (first * second).sum(-1) / length, 2 * area / length
    return {
        "inverse_00": 1 / length,
        "inverse_01": -along / (length * height),
        "inverse_11": 1 / height,
        "area": area,
    }


def _matrix(inverse_00: Tensor, inverse_01: Tensor, inverse_11: Tensor) -> Tensor:
    rows = [stack([inverse_00, inverse_01], -1), stack([torch.zeros_like(inverse_11), inverse_11], -1)]
    return stack(rows, -2)


def gradient(x: Tensor, inverse_00: Tensor, inverse_01: Tensor, inverse_11: Tensor) -> Tensor:
    """(..., 3, 2): how the vertices (..., 3, 3) map the plane of the triangle at rest."""
    return (x[..., 1:, :] - x[..., :1, :]).mT @ _matrix(inverse_00, inverse_01, inverse_11)


__all__ = ["EPSILON", "FORCE", "energy", "gradient", "reference", "rest_shape"]
