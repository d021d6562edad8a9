"""Joints of two bodies A and B, a template for `engine.lanes`: rows of constraints, and coordinates.

    r_A = R_A p_A,  r_B = R_B p_B,  d = x_B + r_B − x_A − r_A,  u = R_A b

    point row     C = u · d              Ċ = J(v, ω) = −u · v_A − ((r_A + d) × u) · ω_A + u · v_B + (r_B × u) · ω_B
    axis row      C = u · R_B c          Ċ = J(v, ω) = (u × w) · (ω_A − ω_B),  w = R_B c

    C̈ = J(v̇, ω̇) + terms of the velocities (`bias`)

b, c have length 1 and are fixed in their bodies. A row with multiplier μ acts on the bodies with the force and torque
μ Jᵀ, which does no work where Ċ = 0. A coordinate φ of a joint is of the same kind: the angle about an axis a of A, or
the displacement a · d along it, or, for a ball, the whole relative turning.

    Q = −k z(φ − φ₀) − c φ̇ − F φ̇/√(φ̇² + s²) + T + k_l max(φ_l − φ, 0) − k_l max(φ − φ_u, 0)

is the force or torque along it, from a spring, a damper, dry friction, a motor and two limits. Friction is that of Coulomb, F against the
motion, but smooth: at rates below s it is that of a damper F/s, so a joint that sticks creeps. It takes power at any rate. The spring acts
outside of a backlash b, the whole width of a dead zone about φ₀, with a slope that is continuous:

    z(ψ) = r(ψ − b/2) − r(−ψ − b/2),   r(y) = 0 for y < −e,  (y + e)²/(4 e) for |y| < e,  y for y > e,   e = b/20

With μ and Q fixed, the power of what
they do to the bodies on probes in place of velocities has the adjoint of forces and torques as its gradient.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.angle import atan2

BACKLASH_EDGE = 0.05  # e/b: half the width over which the spring sets in at each side of a backlash
LEAST_EDGE = 1e-9  # [rad or m] e of a joint without backlash, where z(ψ) = ψ for any e


@wp.func(inline=True)
def point_jacobian(x: Vec3, q: Quat, xb: Vec3, qb: Quat, b: Vec3, point: Vec3, point_b: Vec3):
    """u, torque on A per −μ, torque on B per μ; the forces are −u and u."""
    u = rotate(q, b)
    rb = rotate(qb, point_b)
    return u, cross(xb + rb - x, u), cross(rb, u)


@wp.func(inline=True)
def point_rate(
    x: Vec3, q: Quat, xb: Vec3, qb: Quat, b: Vec3, point: Vec3, point_b: Vec3, v: Vec3, w: Vec3, vb: Vec3, wb: Vec3
) -> Real:
    """J(v, ω)."""
    u = rotate(q, b)
    rb = rotate(qb, point_b)
    return dot(u, vb - v) - dot(cross(xb + rb - x, u), w) + dot(cross(rb, u), wb)


@wp.func(inline=True)
def point_demand(
    x: Vec3, q: Quat, v: Vec3, w: Vec3, xb: Vec3, qb: Quat, vb: Vec3, wb: Vec3, point: Vec3, point_b: Vec3, a: Vec3, s: Vec3,
    ab: Vec3, sb: Vec3, curved: Real, damping: Real, stiffness: Real,
) -> Vec3:  # fmt: skip
    """H, with u · H = J(a, s) + curved · bias + damping · J(v, ω) + stiffness · C for every u; a, s are accelerations.

    Of d with u̇ = ω × u, since triple products turn it to u: Ċ = u · (ḋ + d × ω), C̈ = u · (d̈ + 2 ḋ × ω + d × ω̇ + ω × (ω × d)).
    """
    ra = rotate(q, point)
    rb = rotate(qb, point_b)
    d = xb + rb - x - ra
    moving = vb + cross(wb, rb) - v - cross(w, ra)
    driven = ab + cross(sb, rb) - a - cross(s, ra + d)
    bias = cross(wb, cross(wb, rb)) - cross(w, cross(w, ra - d)) + cross(moving, w) * spread(Scalar(2.0))
    return driven + bias * curved + (moving - cross(w, d)) * damping + d * stiffness


@wp.func(inline=True)
def point_product(
    x: Vec3, q: Quat, v: Vec3, w: Vec3, xb: Vec3, qb: Quat, vb: Vec3, wb: Vec3, b_mu: Vec3, b_y: Vec3, point: Vec3, point_b: Vec3,
    a: Vec3, s: Vec3, ab: Vec3, sb: Vec3, f: Vec3, t: Vec3, fb: Vec3, tb: Vec3,
    curved: Real, damping: Real, stiffness: Real,
) -> Real:  # fmt: skip
    """Σ μ J(f, t) − y u · H of rows with the same points, from Σ μ b and Σ y b; f, t are probes."""
    rb = rotate(qb, point_b)
    probe = fb - f + cross(tb, rb) - cross(t, xb + rb - x)
    demand = point_demand(x, q, v, w, xb, qb, vb, wb, point, point_b, a, s, ab, sb, curved, damping, stiffness)
    return dot(rotate(q, b_mu), probe) - dot(rotate(q, b_y), demand)


@wp.func(inline=True)
def axis_demand(
    u: Vec3, e: Vec3, w: Vec3, wb: Vec3, s: Vec3, sb: Vec3, curved: Real, damping: Real, stiffness: Real
) -> Real:
    """J(s) + curved · bias + damping · J(ω) + stiffness · C of an axis row, from u and e = R_B c; s are accelerations."""
    n = cross(u, e)
    across = cross(w, u)
    along = cross(wb, e)
    bias = dot(cross(w, across), e) + dot(across, along) * 2.0 + dot(u, cross(wb, along))
    return dot(n, s - sb) + curved * bias + damping * dot(n, w - wb) + stiffness * dot(u, e)


@wp.func(inline=True)
def axis_product(
    q: Quat, w: Vec3, qb: Quat, wb: Vec3, b_mu: Vec3, b_y: Vec3, c: Vec3, s: Vec3, sb: Vec3, t: Vec3, tb: Vec3,
    curved: Real, damping: Real, stiffness: Real,
) -> Real:  # fmt: skip
    """Σ μ J(t) − y times the demand of axis rows with the same c, from Σ μ b and Σ y b; t are probes.

    The demand (`axis_demand`) is u · H, since triple products turn it to u.
    """
    e = rotate(qb, c)
    along = cross(wb, e)
    bias = cross(w, cross(w, e)) + cross(along, w) * spread(Scalar(2.0)) + cross(wb, along)
    demand = cross(e, s - sb + (w - wb) * damping) + bias * curved + e * stiffness
    return dot(rotate(q, b_mu), cross(e, t - tb)) - dot(rotate(q, b_y), demand)


@wp.func(inline=True)
def turning_product(
    q: Quat, w: Vec3, wb: Vec3, b: Vec3, mu: Real, y: Real, s: Vec3, sb: Vec3, t: Vec3, tb: Vec3, curved: Real
) -> Real:
    """μ J(t) − y (J(s) + curved · bias) of u · (ω_B − ω_A), the rate of an angle about u; that of a slide is a point row."""
    u = rotate(q, b)
    return mu * dot(u, tb - t) - y * (dot(u, sb - s) + curved * dot(cross(w, u), wb))


@wp.func(inline=True)
def stretch_beyond(offset: Real, backlash: Real) -> Real:
    """r(ψ − b/2)."""
    past = offset - backlash * spread(Scalar(0.5))
    edge = max(backlash * spread(Scalar(BACKLASH_EDGE)), spread(Scalar(LEAST_EDGE)))
    bend = min(max(past, neg(edge)), edge) + edge
    return max(past - edge, zero(0)) + bend * bend / (edge * spread(Scalar(4.0)))


@wp.func(inline=True)
def effort(
    phi: Real,
    rate: Real,
    spring: Real,
    target: Real,
    damping: Real,
    torque: Real,
    lower: Real,
    upper: Real,
    limit: Real,
    friction: Real,
    slip: Real,
    backlash: Real,
) -> Real:
    """Q."""
    stretch = stretch_beyond(phi - target, backlash) - stretch_beyond(target - phi, backlash)
    back = max(lower - phi, zero(0)) - max(phi - upper, zero(0))
    dry = friction / sqrt(rate * rate + slip * slip)
    return neg(spring * stretch) - (damping + dry) * rate + torque + limit * back


@wp.func(inline=True)
def free_effort(rate: Real, damping: Real, torque: Real, friction: Real, slip: Real) -> Real:
    """Q where neither a spring nor a limit acts."""
    return torque - (damping + friction / sqrt(rate * rate + slip * slip)) * rate


@wp.func(inline=True)
def turn_angle(q: Quat, qb: Quat, axis: Vec3, across: Vec3, across_b: Vec3) -> Real:
    u = rotate(q, across)
    e = rotate(qb, across_b)
    return atan2(dot(rotate(q, axis), cross(u, e)), dot(u, e))


@wp.func(inline=True)
def turn_torque(
    q: Quat, w: Vec3, qb: Quat, wb: Vec3, axis: Vec3, across: Vec3, across_b: Vec3, spring: Real, target: Real,
    damping: Real, torque: Real, lower: Real, upper: Real, limit: Real, friction: Real, slip: Real, backlash: Real,
) -> Vec3:  # fmt: skip
    """On B; its opposite on A."""
    a = rotate(q, axis)
    phi = turn_angle(q, qb, axis, across, across_b)
    return a * effort(
        phi, dot(a, wb - w), spring, target, damping, torque, lower, upper, limit, friction, slip, backlash
    )


@wp.func(inline=True)
def turn_power(
    q: Quat, w: Vec3, qb: Quat, wb: Vec3, axis: Vec3, across: Vec3, across_b: Vec3, spring: Real, target: Real,
    damping: Real, torque: Real, lower: Real, upper: Real, limit: Real, friction: Real, slip: Real, backlash: Real, t: Vec3, tb: Vec3,
) -> Real:  # fmt: skip
    on_b = turn_torque(
        q, w, qb, wb, axis, across, across_b, spring, target, damping, torque, lower, upper, limit, friction, slip, backlash
    )  # fmt: skip
    return dot(on_b, tb - t)


@wp.func(inline=True)
def free_turn_power(
    q: Quat, w: Vec3, wb: Vec3, axis: Vec3, damping: Real, torque: Real, friction: Real, slip: Real, t: Vec3, tb: Vec3
) -> Real:
    """The same where neither a spring nor a limit acts."""
    a = rotate(q, axis)
    return free_effort(dot(a, wb - w), damping, torque, friction, slip) * dot(a, tb - t)


@wp.func(inline=True)
def unit_efforts(phi: Real, target: Real, lower: Real, upper: Real, backlash: Real):
    """Q of a spring and of limits whose stiffness is 1."""
    stretch = stretch_beyond(phi - target, backlash) - stretch_beyond(target - phi, backlash)
    return neg(stretch), max(lower - phi, zero(0)) - max(phi - upper, zero(0))


@wp.func(inline=True)
def slide_force(
    x: Vec3, q: Quat, v: Vec3, w: Vec3, xb: Vec3, qb: Quat, vb: Vec3, wb: Vec3, axis: Vec3, point: Vec3, point_b: Vec3,
    spring: Real, target: Real, damping: Real, torque: Real, lower: Real, upper: Real, limit: Real, friction: Real, slip: Real, backlash: Real,
) -> Real:  # fmt: skip
    """Q along the axis."""
    s = dot(rotate(q, axis), xb + rotate(qb, point_b) - x - rotate(q, point))
    rate = point_rate(x, q, xb, qb, axis, point, point_b, v, w, vb, wb)
    return effort(s, rate, spring, target, damping, torque, lower, upper, limit, friction, slip, backlash)


@wp.func(inline=True)
def slide_power(
    x: Vec3, q: Quat, v: Vec3, w: Vec3, xb: Vec3, qb: Quat, vb: Vec3, wb: Vec3, axis: Vec3, point: Vec3, point_b: Vec3,
    spring: Real, target: Real, damping: Real, torque: Real, lower: Real, upper: Real, limit: Real, friction: Real, slip: Real, backlash: Real,
    f: Vec3, t: Vec3, fb: Vec3, tb: Vec3,
) -> Real:  # fmt: skip
    along = slide_force(
        x, q, v, w, xb, qb, vb, wb, axis, point, point_b, spring, target, damping, torque, lower, upper, limit, friction, slip, backlash
    )  # fmt: skip
    return along * point_rate(x, q, xb, qb, axis, point, point_b, f, t, fb, tb)


@wp.func(inline=True)
def ball_torque(w: Vec3, wb: Vec3, damping: Real, friction: Real, slip: Real) -> Vec3:
    """−(c + F/√(|ω|² + s²)) ω, ω = ω_B − ω_A: on B; its opposite on A."""
    turning = w - wb
    return turning * (damping + friction / sqrt(dot(turning, turning) + slip * slip))


@wp.func(inline=True)
def ball_power(w: Vec3, wb: Vec3, damping: Real, friction: Real, slip: Real, t: Vec3, tb: Vec3) -> Real:
    return dot(ball_torque(w, wb, damping, friction, slip), tb - t)
