"""Rolling and spinning friction of a contact point, a template.

    ω = ω_t + ω_n n                        rolling, and spin about the normal
    τ = −min(δ |f_n| / |ω_t|, k) ω_t − min(σ |f_n| / |ω_n|, k) ω_n n        k = k_f |r|²

δ and σ [m] are the levers of the normal force: a wheel rests on a point that is δ ahead of its center (Johnson 1985, 9.2), and the area of a contact
holds back a spin with an arm of σ. As friction does, both go through rest linearly: with the viscous coefficient of friction
on the arm r of the contact. The power τ · ω is never positive.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.point_plane import contact_arm, contact_gap, moded_force
    from gradsim.physics.contact.point_sdf import obstacle_touch

OBSTACLES = globals().get("OBSTACLES", False)


@wp.func(inline=True)
def resistance(square: Real, limit: Real, viscous: Real) -> Real:
    """min(limit/√square, viscous), and 0 for a limit of 0; its slope at rest is finite."""
    moving = less(zero(0), square)
    speed = sqrt(where(moving, square, spread(Scalar(1.0))))
    return where(moving, min(limit / speed, viscous), where(less(zero(0), limit), viscous, zero(0)))


@wp.func(inline=True)
def rolling_torque(
    f: Vec3, w: Vec3, normal: Vec3, arm: Vec3, friction_stiffness: Real, rolling: Real, spinning: Real
) -> Vec3:  # fmt: skip
    """Torque on the body [N m], of a contact with the force f."""
    pressed = abs(dot(f, normal))
    viscous = friction_stiffness * dot(arm, arm)
    about = dot(w, normal)
    w_t = w - normal * about
    roll = resistance(dot(w_t, w_t), rolling * pressed, viscous)
    spin = resistance(about * about, spinning * pressed, viscous)
    return w_t * neg(roll) - normal * (about * spin)


@wp.func(inline=True)
def rough_contact_power(
    x: Vec3, q: Quat, v: Vec3, w: Vec3, point: Vec3, radius: Real, normal: Vec3, height: Real, stiffness: Real,
    damping: Real, friction_stiffness: Real, friction: Real, mode: Real, rolling: Real, spinning: Real,
    force_probe: Vec3, torque_probe: Vec3,
) -> Real:  # fmt: skip
    """`contact_power` of a plane that resists rolling and spinning, too."""
    gap = contact_gap(x, q, point, radius, normal, height)
    r = contact_arm(q, point, radius, normal)
    f = moded_force(mode, gap, v + cross(w, r), normal, stiffness, damping, friction_stiffness, friction)
    torque = rolling_torque(f, w, normal, r, friction_stiffness, rolling, spinning)
    return dot(f, force_probe + cross(torque_probe, r)) + dot(torque, torque_probe)


if OBSTACLES:

    @wp.func(inline=True)
    def rough_obstacle_power(
        x: Vec3, q: Quat, v: Vec3, w: Vec3, point: Vec3, radius: Real, centre: Vec3, a0: Vec3, a1: Vec3, a2: Vec3,
        h0: Real, h1: Real, h2: Real, rounding: Real, stiffness: Real, damping: Real, friction_stiffness: Real,
        friction: Real, mode: Real, rolling: Real, spinning: Real, force_probe: Vec3, torque_probe: Vec3,
    ) -> Real:  # fmt: skip
        """`obstacle_power`, the same."""
        gap, n = obstacle_touch(x, q, point, radius, centre, a0, a1, a2, h0, h1, h2, rounding)
        r = contact_arm(q, point, radius, n)
        f = moded_force(mode, gap, v + cross(w, r), n, stiffness, damping, friction_stiffness, friction)
        torque = rolling_torque(f, w, n, r, friction_stiffness, rolling, spinning)
        return dot(f, force_probe + cross(torque_probe, r)) + dot(torque, torque_probe)
