"""Bending and twist of a rod at the vertex between two edges (Bergou et al. 2008, 2010), a template.

Nodes are three vertices of the rod, x0, x1, x2, then the frame points x3, x4 of its two edges (`rod_frame.py`). With
the edges e0 = x1 - x0 and e1 = x2 - x1, of each edge

    t = e/|e|,   p = (frame point) - (middle of the edge),   q = p - (p·t) t
    d1 = q/|q|,  d2 = t × d1                                            material frame
    ∂θ = d2·∂p/|q| - (p·t) d2·∂e/(|q| |e|)                              its turn about t

and of the vertex, with χ = 1 + t0·t1:

    κb = 2 t0 × t1 / χ                                                  curvature binormal (2008, Eq. 1)
    κ1 = ½ κb·(d2 of e0 + d2 of e1),  κ2 = -½ κb·(d1 of e0 + d1 of e1)  (2008, Eq. 2; mean of both edges: 2010, §3)
    τ = 2 tan(m/2),  m: angle from d1 of e0, parallel transported to e1, to d1 of e1
    ∂κ1/∂e0 = (-κ1 t̃ + t1 × d̃2)/|e0|,  ∂κ1/∂e1 = (-κ1 t̃ - t0 × d̃2)/|e1|   t̃ = (t0 + t1)/χ, d̃ = (sum of both d)/χ
    ∂κ2/∂e0 = (-κ2 t̃ - t1 × d̃1)/|e0|,  ∂κ2/∂e1 = (-κ2 t̃ + t0 × d̃1)/|e1|
    ∂m/∂e = κb/(2 |e|) of both,  ∂m/∂θ = ∓1,  ∂κ1/∂θ = -½ κb·d1,  ∂κ2/∂θ = -½ κb·d2
    M = k (s - s̄) + c s' for each strain s of κ1, κ2, τ;   f = -Σ M ∂s/∂x;   E = ½ Σ k (s - s̄)²

All strains are integrals over the length at the vertex l: k = B/l of a bending stiffness B [N m²], s̄ = l κ̄ of a natural
curvature κ̄ [1/m]. An edge that turns by the angle φ has |κb| = 2 tan(φ/2), so energies grow without bound as a vertex
folds shut or an edge turns by π against the next. They are finite at every other state; lengths are at least 1 pm, and χ
1e-6, as divisors.
"""

import torch
import warp as wp
from torch import Tensor, linalg, stack

from gradsim.engine.lanes import *
from gradsim.physics.forces.base import Force

EPSILON = 1e-12  # [m]; its square, and the inverse of that, are numbers of float32
EPSILON_SQUARED = Scalar(EPSILON**2)  # a bare number would pass through float32
MIN_CHI = 1e-6  # least χ
MIN_CHI_SCALAR = Scalar(MIN_CHI)
STRAINS = ("curvature1", "curvature2", "twist")

FORCE = Force(
    "rod_bending",
    nodes=5,
    parameters=dict.fromkeys(
        (
            *("rest_curvature1", "rest_curvature2", "rest_twist"),
            *("bending1", "bending2", "twisting"),
            *("bending_damping1", "bending_damping2", "twisting_damping"),
        ),
        "Real",
    ),
)


@wp.func(inline=True)
def edge_frame(x0: Vec3, x1: Vec3, x2: Vec3):
    """Frame of an edge from x0 to x1 with the frame point x2: t, 1/|e|, p·t, d1, d2 and 1/|q|."""
    e = x1 - x0
    inverse = 1.0 / sqrt(max(dot(e, e), spread(EPSILON_SQUARED)))
    t = e * inverse
    p = x2 - (x0 + x1) * spread(Scalar(0.5))
    along = dot(p, t)
    q = p - t * along
    arm = 1.0 / sqrt(max(dot(q, q), spread(EPSILON_SQUARED)))
    d1 = q * arm
    return t, inverse, along, d1, cross(t, d1), arm


@wp.func(inline=True)
def strain(t0: Vec3, a0: Vec3, b0: Vec3, t1: Vec3, a1: Vec3, b1: Vec3):
    """1/χ, κb, κ1, κ2 and τ of a vertex, from t, d1 and d2 of the edge before and the edge after."""
    over = 1.0 / max(1.0 + dot(t0, t1), spread(MIN_CHI_SCALAR))
    binormal = cross(t0, t1) * (2.0 * over)
    carried = a0 - (t0 + t1) * (dot(a0, t1) * over)
    twist = 2.0 * dot(cross(carried, a1), t1) / max(1.0 + dot(carried, a1), spread(MIN_CHI_SCALAR))
    return over, binormal, dot(binormal, b0 + b1) * 0.5, dot(binormal, a0 + a1) * -0.5, twist


@wp.func(inline=True)
def bend(
    x0: Vec3,
    x1: Vec3,
    x2: Vec3,
    x3: Vec3,
    x4: Vec3,
    v0: Vec3,
    v1: Vec3,
    v2: Vec3,
    v3: Vec3,
    v4: Vec3,
    rest_curvature1: Real,
    rest_curvature2: Real,
    rest_twist: Real,
    bending1: Real,
    bending2: Real,
    twisting: Real,
    bending_damping1: Real,
    bending_damping2: Real,
    twisting_damping: Real,
):
    """Forces on the nodes, then κ1, κ2 and τ."""
    half = spread(Scalar(0.5))
    t0, inverse0, along0, a0, b0, arm0 = edge_frame(x0, x1, x3)
    t1, inverse1, along1, a1, b1, arm1 = edge_frame(x1, x2, x4)
    over, binormal, curvature1, curvature2, twist = strain(t0, a0, b0, t1, a1, b1)
    tangent = (t0 + t1) * over
    steep = 1.0 + twist * twist * 0.25  # ∂τ/∂m

    first0 = (cross(t1, b0 + b1) * over - tangent * curvature1) * inverse0  # ∂κ1/∂e0, and so on
    first1 = (cross(b0 + b1, t0) * over - tangent * curvature1) * inverse1
    second0 = (cross(a0 + a1, t1) * over - tangent * curvature2) * inverse0
    second1 = (cross(t0, a0 + a1) * over - tangent * curvature2) * inverse1
    third0 = binormal * (steep * inverse0 * 0.5)
    third1 = binormal * (steep * inverse1 * 0.5)
    turn10 = dot(binormal, a0) * -0.5  # ∂κ1/∂θ0, and so on
    turn11 = dot(binormal, a1) * -0.5
    turn20 = dot(binormal, b0) * -0.5
    turn21 = dot(binormal, b1) * -0.5

    r0 = v1 - v0
    r1 = v2 - v1
    rate0 = (dot(b0, v3 - (v0 + v1) * half) - along0 * inverse0 * dot(b0, r0)) * arm0  # θ0'
    rate1 = (dot(b1, v4 - (v1 + v2) * half) - along1 * inverse1 * dot(b1, r1)) * arm1
    speed1 = dot(first0, r0) + dot(first1, r1) + turn10 * rate0 + turn11 * rate1
    speed2 = dot(second0, r0) + dot(second1, r1) + turn20 * rate0 + turn21 * rate1
    speed3 = dot(third0, r0) + dot(third1, r1) + steep * (rate1 - rate0)

    m1 = bending1 * (curvature1 - rest_curvature1) + bending_damping1 * speed1
    m2 = bending2 * (curvature2 - rest_curvature2) + bending_damping2 * speed2
    m3 = twisting * (twist - rest_twist) + twisting_damping * speed3
    torque0 = (m1 * turn10 + m2 * turn20 - m3 * steep) * arm0
    torque1 = (m1 * turn11 + m2 * turn21 + m3 * steep) * arm1
    g0 = first0 * m1 + second0 * m2 + third0 * m3 - b0 * (torque0 * along0 * inverse0)  # ∂E/∂e0
    g1 = first1 * m1 + second1 * m2 + third1 * m3 - b1 * (torque1 * along1 * inverse1)
    h0 = b0 * torque0  # ∂E/∂p0
    h1 = b1 * torque1
    f0 = g0 + h0 * half
    f1 = g1 - g0 + (h0 + h1) * half
    f2 = h1 * half - g1
    return f0, f1, f2, neg(h0), neg(h1), curvature1, curvature2, twist


@wp.func(inline=True)
def forces(
    x0: Vec3,
    x1: Vec3,
    x2: Vec3,
    x3: Vec3,
    x4: Vec3,
    v0: Vec3,
    v1: Vec3,
    v2: Vec3,
    v3: Vec3,
    v4: Vec3,
    rest_curvature1: Real,
    rest_curvature2: Real,
    rest_twist: Real,
    bending1: Real,
    bending2: Real,
    twisting: Real,
    bending_damping1: Real,
    bending_damping2: Real,
    twisting_damping: Real,
):
    f0, f1, f2, f3, f4, _curvature1, _curvature2, _twist = bend(
        x0, x1, x2, x3, x4, v0, v1, v2, v3, v4, rest_curvature1, rest_curvature2, rest_twist,
        bending1, bending2, twisting, bending_damping1, bending_damping2, twisting_damping,
    )  # fmt: skip
    return f0, f1, f2, f3, f4


def strains(x: Tensor) -> Tensor:
    """κ1, κ2 and τ of vertices, integrated over their lengths (..., elements, 3), from nodes (..., elements, 5, 3) [m]."""
    x0, x1, x2, x3, x4 = x.unbind(-2)
    t0, t1 = _unit(x1 - x0), _unit(x2 - x1)
    frames = []
    for p, t in ((x3 - (x0 + x1) / 2, t0), (x4 - (x1 + x2) / 2, t1)):
        d1 = _unit(p - (p * t).sum(-1, keepdim=True) * t)
        frames.append((d1, linalg.cross(t, d1)))
    (a0, b0), (a1, b1) = frames
    over = 1 / (1 + (t0 * t1).sum(-1, keepdim=True)).clamp(min=MIN_CHI)
    binormal = 2 * over * linalg.cross(t0, t1)
    carried = a0 - (a0 * t1).sum(-1, keepdim=True) * over * (t0 + t1)
    sine, cosine = (linalg.cross(carried, a1) * t1).sum(-1), (carried * a1).sum(-1)
    first, second = 0.5 * (binormal * (b0 + b1)).sum(-1), -0.5 * (binormal * (a0 + a1)).sum(-1)
    return stack([first, second, 2 * sine / (1 + cosine).clamp(min=MIN_CHI)], -1)


def energy(
    x: Tensor,
    rest_curvature1: Tensor,
    rest_curvature2: Tensor,
    rest_twist: Tensor,
    bending1: Tensor,
    bending2: Tensor,
    twisting: Tensor,
    **damping: Tensor,
) -> Tensor:
    """Elastic energy [J] (..., elements).

    Args:
        x: Positions of the nodes [m] (..., elements, 5, 3).
        rest_curvature1: Integral of κ1 at rest (..., elements); so the next two.
        rest_curvature2: That of κ2.
        rest_twist: That of τ.
        bending1: Stiffness against κ1 [N m] (..., elements); so the next two.
        bending2: Against κ2.
        twisting: Against τ.
        **damping: Has no energy.
    """
    off = strains(x) - stack([rest_curvature1, rest_curvature2, rest_twist], -1)
    return 0.5 * (stack([bending1, bending2, twisting], -1) * off.square()).sum(-1)


def reference(x: Tensor, v: Tensor, *numbers: Tensor) -> Tensor:
    """Forces on the nodes [N] (..., elements, 5, 3), from positions and velocities of that shape, by automatic derivatives.

    Args:
        x: Positions [m].
        v: Velocities [m/s].
        *numbers: Parameters in the order of `FORCE` (..., elements).
    """
    rest, stiffness, damping = (stack(numbers[k : k + 3], -1) for k in (0, 3, 6))
    with torch.enable_grad():
        y = x.detach().requires_grad_()
        s = strains(y)
        rows = [torch.autograd.grad(s[..., k].sum(), y, retain_graph=True)[0] for k in range(3)]
    slope = stack(rows, -3)  # (..., elements, 3, 5, 3)
    moment = stiffness * (s.detach() - rest) + damping * (slope * v[..., None, :, :]).sum((-1, -2))
    return -(moment[..., None, None] * slope).sum(-3)


def _unit(x: Tensor) -> Tensor:
    return x / x.square().sum(-1, keepdim=True).clamp(min=EPSILON**2).sqrt()


__all__ = ["EPSILON", "FORCE", "STRAINS", "energy", "reference", "strains"]
