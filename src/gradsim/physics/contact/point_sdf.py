"""Contact of one point of a body with a box whose edges are rounded, or a ball, a template.

    X = x + R p,   y_k = a_k · (X − c),   e_k = |y_k| − h_k,   d_k = max(e_k, 0)
    distance to the box = |d| outside, max_k e_k ≤ 0 inside
    gap = distance − s − ρ                 s: radius of the rounding (a ball is a box without size), ρ: of the body's point
    n = Σ_k sign(y_k) a_k d_k / |d| outside, sign(y_k) a_k of the nearest face inside

The distance is exact (Quilez, "3D SDFs", box), so n has length 1 and is its gradient. Outside, n turns steadily round
edges and corners. Inside it is that of the nearest face, and jumps where two faces are equally near: the force of a
point that deep pushes it out of one face or the other. What touches are points of the body: an edge of the body that
lies across an edge of the obstacle passes through it.
"""

from typing import TYPE_CHECKING

import warp as wp
from torch import Tensor
from torch import where as select
from torch.nn.functional import one_hot

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.point_plane import contact_arm, moded_force


@wp.func(inline=True)
def signed(y: Real, size: Real) -> Real:
    return where(less(y, zero(0)), neg(size), size)


@wp.func(inline=True)
def solid_touch(
    at: Vec3, radius: Real, a0: Vec3, a1: Vec3, a2: Vec3, h0: Real, h1: Real, h2: Real, rounding: Real
):  # fmt: skip
    """Gap [m] and normal at a place from the obstacle's centre."""
    one = spread(Scalar(1.0))
    y0 = dot(a0, at)
    y1 = dot(a1, at)
    y2 = dot(a2, at)
    e0 = abs(y0) - h0
    e1 = abs(y1) - h1
    e2 = abs(y2) - h2
    d0 = max(e0, zero(0))
    d1 = max(e1, zero(0))
    d2 = max(e2, zero(0))
    square = d0 * d0 + d1 * d1 + d2 * d2
    outside = less(zero(0), square)
    away = sqrt(where(outside, square, one))  # 1 inside: the slope of the root stays finite
    nearest = max(e0, max(e1, e2))
    face0 = where(less(e0, nearest), zero(0), one)
    face1 = where(less(e1, nearest), zero(0), one - face0)
    n0 = signed(y0, where(outside, d0 / away, face0))
    n1 = signed(y1, where(outside, d1 / away, face1))
    n2 = signed(y2, where(outside, d2 / away, one - face0 - face1))
    return where(outside, away, nearest) - rounding - radius, a0 * n0 + a1 * n1 + a2 * n2


@wp.func(inline=True)
def obstacle_touch(
    x: Vec3, q: Quat, point: Vec3, radius: Real, centre: Vec3, a0: Vec3, a1: Vec3, a2: Vec3,
    h0: Real, h1: Real, h2: Real, rounding: Real,
):  # fmt: skip
    """Gap [m] and normal of a point of a body."""
    gap, n = solid_touch(x + rotate(q, point) - centre, radius, a0, a1, a2, h0, h1, h2, rounding)
    return gap, n


@wp.func(inline=True)
def obstacle_gap(
    x: Vec3, q: Quat, point: Vec3, radius: Real, centre: Vec3, a0: Vec3, a1: Vec3, a2: Vec3,
    h0: Real, h1: Real, h2: Real, rounding: Real,
) -> Real:  # fmt: skip
    gap, _n = solid_touch(x + rotate(q, point) - centre, radius, a0, a1, a2, h0, h1, h2, rounding)
    return gap


@wp.func(inline=True)
def obstacle_power(
    x: Vec3, q: Quat, v: Vec3, w: Vec3, point: Vec3, radius: Real, centre: Vec3, a0: Vec3, a1: Vec3, a2: Vec3,
    h0: Real, h1: Real, h2: Real, rounding: Real, stiffness: Real, damping: Real, friction_stiffness: Real,
    friction: Real, mode: Real, force_probe: Vec3, torque_probe: Vec3,
) -> Real:  # fmt: skip
    """Virtual power of the contact; its gradient is the adjoint of force and torque."""
    gap, n = obstacle_touch(x, q, point, radius, centre, a0, a1, a2, h0, h1, h2, rounding)
    r = contact_arm(q, point, radius, n)
    f = moded_force(mode, gap, v + cross(w, r), n, stiffness, damping, friction_stiffness, friction)
    return dot(f, force_probe + cross(torque_probe, r))


def distance(local: Tensor, half: Tensor) -> Tensor:
    """Signed distance [m] (...) of points (..., 3) to a box of half edges (..., 3) about its centre; the definition."""
    over = local.abs() - half
    square = over.clamp(min=0).square().sum(-1)
    outside = square > 0
    return select(outside, select(outside, square, 1).sqrt(), over.amax(-1))


def direction(local: Tensor, half: Tensor) -> Tensor:
    """The gradient (..., 3) of `distance`, written out: the normal."""
    over = local.abs() - half
    out = over.clamp(min=0)
    square = out.square().sum(-1, keepdim=True)
    outside = square > 0
    face = one_hot(over.argmax(-1), 3).to(local.dtype)
    length = select(outside, out / select(outside, square, 1).sqrt(), face)
    return select(local < 0, -length, length)


__all__ = [
    "direction",
    "distance",
    "obstacle_gap",
    "obstacle_power",
    "obstacle_touch",
    "solid_touch",
]
