"""Compliant contact of one point of a body with a plane (paper, Appendix A "Contact" and C.2), a template.

    r = R p − ρ n                          arm from the centre of mass to the contact [m]; ρ: radius about the point
    gap = n·x − h + n·(R p) − ρ            signed distance to the plane n·X = h [m], negative inside
    u = v + ω × r                          velocity of the contact [m/s]
    f = f_n n − min(μ f_n / |u_t|, k_f) u_t        u_t = u − (n·u) n

The friction is clamped as a vector, so it is isotropic, and it is linear, hence smooth, through u_t = 0 (the paper's
formula read per axis is up to √2 too strong). f_n is the law in `hunt_crossley.py` or `kelvin_voigt.py`.

Where steps end at touch and release (`rigid/event_kernels.py`), each contact has a mode for the whole of a step:

    off 0: no force     held 1: f, and -f(-gap) where gap > 0     plain 2: f

A law with `ODD = True` has f_n(-gap, rate) = -f_n(gap, rate) for its continuation past touch. Then the force of a step with
modes 0 and 1 is smooth, also where a stage of the step lies a little beyond a touch or release.
"""

from typing import TYPE_CHECKING

import warp as wp
from torch import Tensor
from torch import where as select

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.hunt_crossley import normal_force


@wp.func(inline=True)
def contact_gap(x: Vec3, q: Quat, point: Vec3, radius: Real, normal: Vec3, height: Real) -> Real:
    """Signed distance of the point to the plane [m], negative inside."""
    return dot(normal, x) - height + dot(unrotate(q, normal), point) - radius


@wp.func(inline=True)
def contact_arm(q: Quat, point: Vec3, radius: Real, normal: Vec3) -> Vec3:
    """Arm from the center of mass to the contact [m]."""
    return rotate(q, point) - normal * radius


@wp.func(inline=True)
def contact_force(
    gap: Real,
    u: Vec3,
    normal: Vec3,
    stiffness: Real,
    damping: Real,
    friction_stiffness: Real,
    friction: Real,
) -> Vec3:
    """Normal force by a contact law, and regularized Coulomb friction: viscous with k_f [N s/m] up to the cone μ f_n.

    Args:
        gap: Signed distance to the plane [m], negative inside.
        u: Velocity of the contact [m/s].
        normal: Unit normal of the plane.
        stiffness, damping: Parameters of the law; `damping` is the number that it damps by.
        friction_stiffness: k_f, the regularization of the law of Coulomb [N s/m].
        friction: Coefficient of friction, μ.

    Returns:
        Force on the body [N].
    """
    rate = dot(normal, u)
    f_n = normal_force(gap, rate, stiffness, damping)
    u_t = u - normal * rate
    square = dot(u_t, u_t)
    moving = less(zero(0), square)
    speed = sqrt(where(moving, square, spread(Scalar(1.0))))  # 1 at rest: the slope of the root stays finite
    slope = min(friction * abs(f_n) / speed, friction_stiffness)
    return normal * f_n - u_t * where(moving, slope, friction_stiffness)


@wp.func(inline=True)
def moded_force(
    mode: Real, gap: Real, u: Vec3, normal: Vec3, stiffness: Real, damping: Real, friction_stiffness: Real,
    friction: Real,
) -> Vec3:  # fmt: skip
    """`contact_force` of a contact by its mode, see the head of this file."""
    inside = less(gap, zero(0))
    depth = where(inside, gap, neg(gap))
    f = contact_force(depth, u, normal, stiffness, damping, friction_stiffness, friction)
    return f * where(inside, min(mode, spread(Scalar(1.0))), mode * (mode - 2.0))


@wp.func(inline=True)
def contact_power(
    x: Vec3, q: Quat, v: Vec3, w: Vec3, point: Vec3, radius: Real, normal: Vec3, height: Real, stiffness: Real,
    damping: Real, friction_stiffness: Real, friction: Real, mode: Real, force_probe: Vec3, torque_probe: Vec3,
) -> Real:  # fmt: skip
    """Virtual power of the contact; its gradient is the adjoint of force and torque."""
    gap = contact_gap(x, q, point, radius, normal, height)
    r = contact_arm(q, point, radius, normal)
    f = moded_force(mode, gap, v + cross(w, r), normal, stiffness, damping, friction_stiffness, friction)
    return dot(f, force_probe + cross(torque_probe, r))


def reference(u: Tensor, normal: Tensor, normal_force: Tensor, k_f: Tensor, mu: Tensor) -> Tensor:
    """Contact force [N] (..., 3) from the contact velocity (..., 3), plane normal (..., 3) and f_n (...)."""
    u_t = u - (u * normal).sum(-1, keepdim=True) * normal
    square = u_t.square().sum(-1)
    moving = square > 0
    slope = (mu * normal_force.abs() / select(moving, square, 1).sqrt()).minimum(k_f)
    return normal_force[..., None] * normal - select(moving, slope, k_f)[..., None] * u_t
