"""Bending of sheets across the edges between two triangles (paper A.1; Bridson et al. 2003, 2005), a template.

Vertices of a hinge: x0 and x1 opposite the edge, then x2 and x3 on it.

    E = x3 - x2,  e = E / |E|
    N1 = (x0 - x2) × (x0 - x3),  N2 = (x1 - x3) × (x1 - x2),  n = N / |N|
    2 cos(φ/2) = |n1 + n2|,  2 sin(φ/2) cos(φ/2) = (n1 × n2) · e        dihedral angle φ, 0 where flat
    d0 = |E| N1 / |N1|²,  d1 = |E| N2 / |N2|²                           d = -∂φ/∂x (Bridson et al. 2003)
    d2 = ((x0 - x3) · e) N1 / |N1|² + ((x1 - x3) · e) N2 / |N2|²
    d3 = -((x0 - x2) · e) N1 / |N1|² - ((x1 - x2) · e) N2 / |N2|²
    w = |E|² / (|N1| + |N2|) of the rest shape
    f = w (k sin((φ - φ0)/2 + α) + c φ') d,   φ' = -Σ d · v
    energy = 4 w k sin²((φ - φ0)/4 + α/2)                               f = -∂(energy)/∂x for c = 0

The paper's f = k sin(φ/2 + α) d with the weights of Bridson et al. Theirs are of the shape of the moment, ours of the
rest shape, so that an energy exists. φ0 is the angle at rest: a sheet that is curved at rest has no force there, and α,
within ± π/2, bends it to φ = φ0 - 2 α. The damping is that of φ alone, which no rigid motion changes, with the power -w c φ'².

No angle is computed, so nothing is lost where a sheet is flat, at the peak of the arc cosine. Its derivatives are finite
everywhere else too:

* Folded shut, n1 + n2 = 0, φ is π and -π. There |n1 + n2| is at least 1/1000 as a divisor, so the sine goes from 1 to -1
  linearly over the last thousandth of a radian, instead of at once.
* |E| and |N| are at least 1/1000 of those at rest as divisors, and d is multiplied by |n1|² |n2|², 1 unless a triangle is
  below that: as it collapses, its force first grows as 1/height and then fades to 0. The torques still balance.
"""

import torch
import warp as wp
from torch import Tensor, linalg, stack

from gradsim.engine.lanes import *
from gradsim.errors import InputError
from gradsim.physics.forces.base import Force

EPSILON = 1e-3  # of lengths and areas at rest, and of |n1 + n2|
EPSILON_SQUARED = Scalar(EPSILON**2)  # a bare number would pass through float32
C12, C30, C56, C90, C132, C182 = (Scalar(1 / n) for n in (12, 30, 56, 90, 132, 182))
S6, S20, S42, S72, S110, S156, S210 = (Scalar(1 / n) for n in (6, 20, 42, 72, 110, 156, 210))

FORCE = Force(
    "bending",
    nodes=4,
    rest={"weight": "Real", "cos_half": "Real", "sin_half": "Real", "least_edge": "Real", "least_normal": "Real"},
    parameters={"stiffness": "Real", "damping": "Real", "activation": "Real"},
)


@wp.func(inline=True)
def fold(x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3, least_edge: Real, least_normal: Real):
    """cos(φ/2), sin(φ/2) and d0, d1, d2, d3 of a hinge."""
    edge = x3 - x2
    e = edge * (1.0 / sqrt(max(dot(edge, edge), least_edge)))
    normal1 = cross(x0 - x2, x0 - x3)
    normal2 = cross(x1 - x3, x1 - x2)
    inverse1 = 1.0 / sqrt(max(dot(normal1, normal1), least_normal))
    inverse2 = 1.0 / sqrt(max(dot(normal2, normal2), least_normal))
    n1 = normal1 * inverse1
    n2 = normal2 * inverse2

    m = n1 + n2
    inverse = 1.0 / sqrt(max(dot(m, m), spread(EPSILON_SQUARED)))
    p = n1 * (inverse1 * dot(n2, n2))
    q = n2 * (inverse2 * dot(n1, n1))
    length = dot(edge, e)
    return (
        dot(m, m) * inverse * 0.5,
        dot(cross(n1, n2), e) * inverse,
        p * length,
        q * length,
        p * dot(x0 - x3, e) + q * dot(x1 - x3, e),
        neg(p * dot(x0 - x2, e) + q * dot(x1 - x2, e)),
    )


@wp.func(inline=True)
def bend(
    x0: Vec3,
    x1: Vec3,
    x2: Vec3,
    x3: Vec3,
    v0: Vec3,
    v1: Vec3,
    v2: Vec3,
    v3: Vec3,
    weight: Real,
    cos_half: Real,
    sin_half: Real,
    least_edge: Real,
    least_normal: Real,
    stiffness: Real,
    damping: Real,
    activation: Real,
):
    """Forces on the vertices, then sin((φ - φ0)/2 + α)."""
    c, s, d0, d1, d2, d3 = fold(x0, x1, x2, x3, least_edge, least_normal)
    cosine = c * cos_half + s * sin_half
    sine = s * cos_half - c * sin_half

    h = activation * 0.5  # sin α and cos α by the series of α/2, to rounding up to |α| = π/2; `sin` goes lane by lane
    t = h * h
    half_cos = 1.0 - t * 0.5 * (1.0 - t * spread(C12) * (1.0 - t * spread(C30) * (1.0 - t * spread(C56) * (1.0 - t * spread(C90) * (1.0 - t * spread(C132) * (1.0 - t * spread(C182)))))))  # fmt: skip
    half_sin = h * (1.0 - t * spread(S6) * (1.0 - t * spread(S20) * (1.0 - t * spread(S42) * (1.0 - t * spread(S72) * (1.0 - t * spread(S110) * (1.0 - t * spread(S156) * (1.0 - t * spread(S210))))))))  # fmt: skip
    bent = sine * (1.0 - half_sin * half_sin * 2.0) + cosine * (half_sin * half_cos * 2.0)
    slowing = damping * (dot(d0, v0) + dot(d1, v1) + dot(d2, v2) + dot(d3, v3))
    f = weight * (stiffness * bent - slowing)
    return d0 * f, d1 * f, d2 * f, d3 * f, bent


@wp.func(inline=True)
def forces(
    x0: Vec3,
    x1: Vec3,
    x2: Vec3,
    x3: Vec3,
    v0: Vec3,
    v1: Vec3,
    v2: Vec3,
    v3: Vec3,
    weight: Real,
    cos_half: Real,
    sin_half: Real,
    least_edge: Real,
    least_normal: Real,
    stiffness: Real,
    damping: Real,
    activation: Real,
):
    f0, f1, f2, f3, _bent = bend(
        x0, x1, x2, x3, v0, v1, v2, v3, weight, cos_half, sin_half, least_edge, least_normal, stiffness, damping, activation
    )  # fmt: skip
    return f0, f1, f2, f3


def angle(x: Tensor) -> Tensor:
    """Dihedral angle φ [rad] (..., hinges) of vertices [m] (..., hinges, 4, 3), positive where n1 and n2 part."""
    edge, n1, n2 = _normals(x)
    sine = (linalg.cross(n1, n2) * edge).sum(-1) / linalg.vector_norm(edge, dim=-1)
    return torch.atan2(sine, (n1 * n2).sum(-1))


def energy(
    x: Tensor,
    weight: Tensor,
    cos_half: Tensor,
    sin_half: Tensor,
    least_edge: Tensor | None = None,
    least_normal: Tensor | None = None,
    *,
    stiffness: Tensor,
    damping: Tensor | None = None,
    activation: Tensor | float = 0.0,
) -> Tensor:
    """Elastic energy [J] (..., hinges), with an activation its potential.

    Args:
        x: Positions of the vertices [m] (..., hinges, 4, 3).
        weight, cos_half, sin_half: w and cos(φ0/2), sin(φ0/2), as `rest_shape` gives them.
        least_edge, least_normal: Matter for collapsed triangles alone, which are left out here.
        stiffness: k [N m].
        damping: Has no energy.
        activation: α [rad].
    """
    half = 0.5 * angle(x) - torch.atan2(sin_half, cos_half) + activation
    return 4 * weight * stiffness * (0.5 * half).sin().square()


def reference(
    x: Tensor,
    v: Tensor,
    weight: Tensor,
    cos_half: Tensor,
    sin_half: Tensor,
    least_edge: Tensor,
    least_normal: Tensor,
    stiffness: Tensor,
    damping: Tensor,
    activation: Tensor,
) -> Tensor:
    """Forces on the vertices [N] (..., hinges, 4, 3), from positions and velocities of that shape; in plain PyTorch.

    It has ∂φ/∂x by automatic differentiation, and leaves collapsed triangles and folds that are shut aside.
    """
    with torch.enable_grad():
        at = x if x.requires_grad else x.detach().requires_grad_()
        phi = angle(at)
        (slope,) = torch.autograd.grad(phi.sum(), at, create_graph=True)
    rate = (slope * v).sum((-2, -1))
    half = 0.5 * phi - torch.atan2(sin_half, cos_half) + activation
    return -(weight * (stiffness * half.sin() + damping * rate))[..., None, None] * slope


def rest_shape(x: Tensor, hinges: Tensor) -> dict[str, Tensor]:
    """Weight, half the dihedral angle as its cosine and sine, and least sizes, of hinges (m, 4) that rest at x [m] (n, 3).

    Raises:
        InputError: If a triangle of a hinge has no area at rest, or the two lie on one another.
    """
    corners = torch.as_tensor(x).double()[torch.as_tensor(hinges).long()]
    edge, n1, n2 = _normals(corners)
    length = linalg.vector_norm(edge, dim=-1)
    areas = 0.5 * stack([linalg.vector_norm(n, dim=-1) for n in (n1, n2)], 1)
    longest = (corners[:, :, None] - corners[:, None]).square().sum(-1).amax((1, 2))
    flat = ~(areas.amin(1) > 1e-12 * longest)  # NaN too
    if flat.any():
        worst = int(flat.nonzero()[0])
        raise InputError(
            f"hinge {worst} has a triangle of area {areas[worst].min():.3g} m² at rest (vertices "
            f"{torch.as_tensor(hinges)[worst].tolist()}); {int(flat.sum())} of {len(areas)} have one: merge its "
            "vertices, or remesh."
        )
    phi = angle(corners)
    shut = phi.abs() > torch.pi - 2 * EPSILON
    if shut.any():
        worst = int(shut.nonzero()[0])
        raise InputError(
            f"hinge {worst} is folded by {float(phi[worst].rad2deg()):.4g}° at rest (vertices "
            f"{torch.as_tensor(hinges)[worst].tolist()}), so that its triangles lie on one another and no side is "
            "outside: open it."
        )
    return {
        "weight": length.square() / (2 * areas.sum(1)),
        "cos_half": (0.5 * phi).cos(),
        "sin_half": (0.5 * phi).sin(),
        "least_edge": (EPSILON * length).square(),
        "least_normal": (2 * EPSILON * areas.amin(1)).square(),
    }


def _normals(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """E, N1, N2 of hinges (..., 4, 3)."""
    x0, x1, x2, x3 = x.unbind(-2)
    return x3 - x2, linalg.cross(x0 - x2, x0 - x3), linalg.cross(x1 - x3, x1 - x2)


__all__ = ["EPSILON", "FORCE", "angle", "energy", "reference", "rest_shape"]
