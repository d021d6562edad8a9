"""Forces and torques on rigid bodies, pushes and impulses, and their adjoints: a template for `engine.lanes`.

    m v̇ = Σ f + m g,   L̇ = Σ r × f,   ẋ = v,   q̇ = ½ (ω, 0) q,   ω = R I⁻¹ Rᵀ L                        (paper Eq. 2)

The state is position x and velocity v of the centre of mass, orientation q and angular momentum L in the world's
frame: d(R I Rᵀ ω)/dt = τ is Eq. 2 with its gyroscopic term, and L is kept exactly in free flight.

The wrench is that of pushes over a window of time, of air, f = -d |v| v through the centre of mass, and of contact with grounds and obstacles; the
adjoint of every force comes from its virtual power. An impulse at one instant changes v and L before the step in which it falls. Row i of
`Parameters` is one body of a pack of worlds.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.point_plane import contact_arm, contact_gap, contact_power, moded_force
    from gradsim.physics.contact.point_sdf import obstacle_gap, obstacle_power, obstacle_touch
    from gradsim.physics.contact.rolling import rolling_torque, rough_contact_power, rough_obstacle_power

OBSTACLES = globals().get("OBSTACLES", False)  # whether there are any besides planes
DRAG = globals().get("DRAG", False)  # whether air brakes the body
ROLLING = globals().get("ROLLING", False)  # whether contacts resist rolling and spinning
STRIDES = globals().get("STRIDES", False)  # whether they are taken together in flight, see `stride_kernels.py`
AT_REST = wp.constant(1e-30)  # square of a speed that is none [m²/s²]
MODES = globals().get("MODES", False)  # whether each contact has a mode for the whole of a step, see `event_kernels.py`


@wp.struct
class Parameters:
    mass: wp.array[Real]  # [kg]
    inertia_inverse: wp.array[Mat3]  # body frame, about the centre of mass [1/(kg m²)]
    gravity: wp.array[Vec3]  # [m/s²]
    points: wp.array2d[Vec3]  # contact points in the body frame [m]
    radius: wp.array2d[Real]  # [m] about each point
    normal: wp.array2d[Vec3]  # of each ground
    height: wp.array2d[Real]  # of each ground along its normal [m]
    stiffness: wp.array2d[Real]  # k_e [N/m], of each ground, then of each obstacle; so the next three
    damping: wp.array2d[Real]  # of the law
    friction_stiffness: wp.array2d[Real]  # k_f [N s/m]
    friction: wp.array2d[Real]  # μ
    impulse: wp.array2d[Vec3]  # of each push, world frame [N s]
    push_point: wp.array2d[Vec3]  # body frame [m]
    window_fraction: wp.array2d[Scalar]  # of each push that falls into each step (steps, pushes)
    impulse_step: wp.array[int]  # step before which each push acts at once, -1: it has a window
    step: wp.array2d[Real]  # h in each frame interval [s]
    if STRIDES:
        stride: int  # steps of a stride, see `rigid/stride_rollout_kernels.py`
        reach: wp.array[Real]  # of the contact points from the centre of mass [m]
        quiet: wp.array[int]  # 1 for each stride of the rollout into which no push falls
    if MODES:
        spare: int  # further rows of a stride, for the steps that events add
        events: int  # most touches and releases in a stride at which steps end
        flight: int  # 1 if the steps of a stride are one where nothing can touch
        mode: wp.array2d[Real]  # workspace: of each surface and point, see `contact/point_plane.py`
    if DRAG:
        drag: wp.array2d[Real]  # d, in its one column [kg/m]
    if ROLLING:
        rolling: wp.array2d[Real]  # δ [m], of each ground, then of each obstacle
        spinning: wp.array2d[Real]  # σ [m], the same
    if OBSTACLES:
        centre: wp.array2d[Vec3]  # of each obstacle [m]
        axis: wp.array3d[Vec3]  # its three axes, unit vectors
        half: wp.array3d[Real]  # half of its size along each [m]
        rounding: wp.array2d[Real]  # radius of its edges [m]


@wp.func(inline=True)
def normalized(q: Quat) -> Quat:
    return q * (1.0 / sqrt(qdot(q, q)))


@wp.func(inline=True)
def exponential(u: Vec3) -> Quat:
    """Unit quaternion of the rotation vector u, by the series of sin and cos: to rounding up to 1.4 rad, to 5e-14 at 2."""
    y = dot(u, u) * 0.25
    a = spread(Scalar(1.0))
    cosine = a - y * (a - y * (a - y * (a - y * (a - y * (a - y * (a - y * spread(Scalar(1.0) / Scalar(182.0))) * spread(Scalar(1.0) / Scalar(132.0))) * spread(Scalar(1.0) / Scalar(90.0))) * spread(Scalar(1.0) / Scalar(56.0))) * spread(Scalar(1.0) / Scalar(30.0))) * spread(Scalar(1.0) / Scalar(12.0))) * 0.5  # fmt: skip
    sinc = a - y * (a - y * (a - y * (a - y * (a - y * (a - y * (a - y * spread(Scalar(1.0) / Scalar(210.0))) * spread(Scalar(1.0) / Scalar(156.0))) * spread(Scalar(1.0) / Scalar(110.0))) * spread(Scalar(1.0) / Scalar(72.0))) * spread(Scalar(1.0) / Scalar(42.0))) * spread(Scalar(1.0) / Scalar(20.0))) * spread(Scalar(1.0) / Scalar(6.0))  # fmt: skip
    return quat(u * (sinc * 0.5), cosine)


@wp.func(inline=True)
def spin(q: Quat, angular_momentum: Vec3, inertia_inverse: Mat3) -> Vec3:
    """Angular velocity ω = R I⁻¹ Rᵀ L in the world's frame."""
    return rotate(q, inertia_inverse * unrotate(q, angular_momentum))


@wp.func(inline=True)
def spin_power(q: Quat, angular_momentum: Vec3, inertia_inverse: Mat3, probe: Vec3) -> Real:
    return dot(spin(q, angular_momentum, inertia_inverse), probe)


@wp.func(inline=True)
def push_power(q: Quat, impulse: Vec3, point: Vec3, rate: Real, force_probe: Vec3, torque_probe: Vec3) -> Real:
    return dot(impulse * rate, force_probe + cross(torque_probe, rotate(q, point)))


@wp.func(inline=True)
def impulse_power(q: Quat, impulse: Vec3, point: Vec3, mass: Real, v_probe: Vec3, l_probe: Vec3) -> Real:
    """⟨change of v and L by a adjoint⟩."""
    return dot(impulse * (1.0 / mass), v_probe) + dot(cross(rotate(q, point), impulse), l_probe)


@wp.func(inline=True)
def drag_force(v: Vec3, drag: Real) -> Vec3:
    """f = -d |v| v; the derivative of |v| at rest is 0."""
    return v * neg(drag * sqrt(dot(v, v) + spread(Scalar(AT_REST))))


@wp.func(inline=True)
def drag_power(v: Vec3, drag: Real, force_probe: Vec3) -> Real:
    return dot(drag_force(v, drag), force_probe)


@wp.func
def has_impulses(p: Parameters, row: int) -> bool:
    """True if an impulse falls before a step."""
    result = bool(False)  # noqa: UP018 -- a variable of Warp, not a constant
    for k in range(p.impulse.shape[1]):
        if p.impulse_step[k] == row:
            result = True
    return result


@wp.func
def apply_impulses(p: Parameters, row: int, i: int, q: Quat, v: Vec3, l: Vec3):
    """v and L after the impulses before a step."""
    vs = v
    ls = l
    for k in range(p.impulse.shape[1]):
        if p.impulse_step[k] == row:
            vs = vs + p.impulse[i, k] * (1.0 / p.mass[i])
            ls = ls + cross(rotate(q, p.push_point[i, k]), p.impulse[i, k])
    return vs, ls


@wp.func(inline=True)
def surface_gap(p: Parameters, i: int, g: int, j: int, x: Vec3, q: Quat):
    """Gap [m] of point j and surface g: a ground, or an obstacle after these."""
    if OBSTACLES:
        o = g - p.normal.shape[1]
        if o >= 0:
            return obstacle_gap(
                x, q, p.points[i, j], p.radius[i, j], p.centre[i, o], p.axis[i, o, 0], p.axis[i, o, 1],
                p.axis[i, o, 2], p.half[i, o, 0], p.half[i, o, 1], p.half[i, o, 2], p.rounding[i, o],
            )  # fmt: skip
    return contact_gap(x, q, p.points[i, j], p.radius[i, j], p.normal[i, g], p.height[i, g])


if MODES:

    @wp.func(inline=True)
    def mode_of(p: Parameters, i: int, g: int, j: int):
        return p.mode[i, g * p.points.shape[1] + j]

    @wp.func(inline=True)
    def touches(p: Parameters, i: int, g: int, j: int, x: Vec3, q: Quat) -> bool:
        mode = mode_of(p, i, g, j)
        if not any_lane(less(zero(0), mode)):
            return False
        plain = less(spread(Scalar(1.5)), mode)
        return any_lane(less(zero(0), where(plain, neg(surface_gap(p, i, g, j, x, q)), mode)))

else:

    @wp.func(inline=True)
    def mode_of(p: Parameters, i: int, g: int, j: int):
        return spread(Scalar(2.0))

    @wp.func(inline=True)
    def touches(p: Parameters, i: int, g: int, j: int, x: Vec3, q: Quat) -> bool:
        return any_lane(less(surface_gap(p, i, g, j, x, q), zero(0)))


@wp.func
def wrench_of_planes(p: Parameters, row: int, h: Real, i: int, x: Vec3, q: Quat, v: Vec3, w: Vec3):
    """Force on the body [N] and torque about its centre of mass [N m]; gravity is an acceleration, added later."""
    f = zero3(0)
    torque = zero3(0)
    for k in range(p.impulse.shape[1]):
        if p.window_fraction[row, k] != Scalar(0.0):
            push = p.impulse[i, k] * (spread(p.window_fraction[row, k]) / h)
            f = f + push
            torque = torque + cross(rotate(q, p.push_point[i, k]), push)
    if DRAG:
        f = f + drag_force(v, p.drag[i, 0])
    for g in range(p.normal.shape[1]):
        n = p.normal[i, g]
        for j in range(p.points.shape[1]):
            if touches(p, i, g, j, x, q):
                r = contact_arm(q, p.points[i, j], p.radius[i, j], n)
                contact = moded_force(
                    mode_of(p, i, g, j),
                    contact_gap(x, q, p.points[i, j], p.radius[i, j], n, p.height[i, g]),
                    v + cross(w, r),
                    n,
                    p.stiffness[i, g],
                    p.damping[i, g],
                    p.friction_stiffness[i, g],
                    p.friction[i, g],
                )
                f = f + contact
                torque = torque + cross(r, contact)
                if ROLLING:
                    torque = torque + rolling_torque(
                        contact, w, n, r, p.friction_stiffness[i, g], p.rolling[i, g], p.spinning[i, g]
                    )
    return f, torque


if OBSTACLES:

    @wp.func
    def wrench(p: Parameters, row: int, h: Real, i: int, x: Vec3, q: Quat, v: Vec3, w: Vec3):
        f, torque = wrench_of_planes(p, row, h, i, x, q, v, w)
        for o in range(p.centre.shape[1]):
            g = p.normal.shape[1] + o
            for j in range(p.points.shape[1]):
                if touches(p, i, g, j, x, q):
                    gap, n = obstacle_touch(
                        x, q, p.points[i, j], p.radius[i, j], p.centre[i, o], p.axis[i, o, 0], p.axis[i, o, 1],
                        p.axis[i, o, 2], p.half[i, o, 0], p.half[i, o, 1], p.half[i, o, 2], p.rounding[i, o],
                    )  # fmt: skip
                    r = contact_arm(q, p.points[i, j], p.radius[i, j], n)
                    contact = moded_force(
                        mode_of(p, i, g, j), gap, v + cross(w, r), n, p.stiffness[i, g], p.damping[i, g], p.friction_stiffness[i, g],
                        p.friction[i, g],
                    )  # fmt: skip
                    f = f + contact
                    torque = torque + cross(r, contact)
                    if ROLLING:
                        torque = torque + rolling_torque(
                            contact, w, n, r, p.friction_stiffness[i, g], p.rolling[i, g], p.spinning[i, g]
                        )
        return f, torque

else:
    wrench = wrench_of_planes


if not DUAL:

    @wp.func
    def plane_adjoint(
        p: Parameters, grad: Parameters, row: int, h: Real, i: int,
        x: Vec3, q: Quat, v: Vec3, w: Vec3, force_probe: Vec3, torque_probe: Vec3,
    ):  # fmt: skip
        """Adjoint of x, q, v, ω and h from that of the wrench; those of the parameters are added to `grad`."""
        ax = zero3(0)
        av = zero3(0)
        aw = zero3(0)
        aq = quat(zero3(0), zero(0))
        ah = zero(0)
        for k in range(p.impulse.shape[1]):
            if p.window_fraction[row, k] != Scalar(0.0):
                rate = spread(p.window_fraction[row, k]) / h
                q_, impulse_, point_, rate_, _f, _t = wp.grad(push_power)(
                    q, p.impulse[i, k], p.push_point[i, k], rate, force_probe, torque_probe
                )
                aq = aq + q_
                ah = ah - rate_ * rate / h
                grad.impulse[i, k] = grad.impulse[i, k] + impulse_
                grad.push_point[i, k] = grad.push_point[i, k] + point_
        if DRAG:
            v_, drag_, _f = wp.grad(drag_power)(v, p.drag[i, 0], force_probe)
            av = av + v_
            grad.drag[i, 0] = grad.drag[i, 0] + drag_
        for g in range(p.normal.shape[1]):
            for j in range(p.points.shape[1]):
                if touches(p, i, g, j, x, q):
                    if ROLLING:
                        x_, q_, v_, w_, point_, radius_, n_, h_, ke_, kd_, kf_, mu_, _mode, roll_, spin_, _f, _t = wp.grad(
                            rough_contact_power
                        )(
                            x, q, v, w, p.points[i, j], p.radius[i, j], p.normal[i, g], p.height[i, g], p.stiffness[i, g],
                            p.damping[i, g], p.friction_stiffness[i, g], p.friction[i, g], mode_of(p, i, g, j),
                            p.rolling[i, g], p.spinning[i, g], force_probe, torque_probe,
                        )  # fmt: skip
                        grad.rolling[i, g] = grad.rolling[i, g] + roll_
                        grad.spinning[i, g] = grad.spinning[i, g] + spin_
                    else:
                        x_, q_, v_, w_, point_, radius_, n_, h_, ke_, kd_, kf_, mu_, _mode, _f, _t = wp.grad(contact_power)(
                            x, q, v, w, p.points[i, j], p.radius[i, j], p.normal[i, g], p.height[i, g], p.stiffness[i, g],
                            p.damping[i, g], p.friction_stiffness[i, g], p.friction[i, g], mode_of(p, i, g, j),
                            force_probe, torque_probe,
                        )  # fmt: skip
                    ax = ax + x_
                    aq = aq + q_
                    av = av + v_
                    aw = aw + w_
                    grad.points[i, j] = grad.points[i, j] + point_
                    grad.radius[i, j] = grad.radius[i, j] + radius_
                    grad.normal[i, g] = grad.normal[i, g] + n_
                    grad.height[i, g] = grad.height[i, g] + h_
                    grad.stiffness[i, g] = grad.stiffness[i, g] + ke_
                    grad.damping[i, g] = grad.damping[i, g] + kd_
                    grad.friction_stiffness[i, g] = grad.friction_stiffness[i, g] + kf_
                    grad.friction[i, g] = grad.friction[i, g] + mu_
        return ax, aq, av, aw, ah

    if OBSTACLES:

        @wp.func
        def contact_adjoint(
            p: Parameters, grad: Parameters, row: int, h: Real, i: int,
            x: Vec3, q: Quat, v: Vec3, w: Vec3, force_probe: Vec3, torque_probe: Vec3,
        ):  # fmt: skip
            ax, aq, av, aw, ah = plane_adjoint(p, grad, row, h, i, x, q, v, w, force_probe, torque_probe)
            for o in range(p.centre.shape[1]):
                g = p.normal.shape[1] + o
                for j in range(p.points.shape[1]):
                    if touches(p, i, g, j, x, q):
                        if ROLLING:
                            (
                                x_, q_, v_, w_, point_, radius_, c_, a0_, a1_, a2_, h0_, h1_, h2_, s_, ke_, kd_, kf_, mu_,
                                _mode, roll_, spin_, _f, _t,
                            ) = wp.grad(rough_obstacle_power)(
                                x, q, v, w, p.points[i, j], p.radius[i, j], p.centre[i, o], p.axis[i, o, 0],
                                p.axis[i, o, 1], p.axis[i, o, 2], p.half[i, o, 0], p.half[i, o, 1], p.half[i, o, 2],
                                p.rounding[i, o], p.stiffness[i, g], p.damping[i, g], p.friction_stiffness[i, g],
                                p.friction[i, g], mode_of(p, i, g, j),
                                p.rolling[i, g], p.spinning[i, g], force_probe, torque_probe,
                            )  # fmt: skip
                            grad.rolling[i, g] = grad.rolling[i, g] + roll_
                            grad.spinning[i, g] = grad.spinning[i, g] + spin_
                        else:
                            (
                                x_, q_, v_, w_, point_, radius_, c_, a0_, a1_, a2_, h0_, h1_, h2_, s_, ke_, kd_, kf_, mu_,
                                _mode, _f, _t,
                            ) = wp.grad(obstacle_power)(
                                x, q, v, w, p.points[i, j], p.radius[i, j], p.centre[i, o], p.axis[i, o, 0],
                                p.axis[i, o, 1], p.axis[i, o, 2], p.half[i, o, 0], p.half[i, o, 1], p.half[i, o, 2],
                                p.rounding[i, o], p.stiffness[i, g], p.damping[i, g], p.friction_stiffness[i, g],
                                p.friction[i, g], mode_of(p, i, g, j), force_probe, torque_probe,
                            )  # fmt: skip
                        ax = ax + x_
                        aq = aq + q_
                        av = av + v_
                        aw = aw + w_
                        grad.points[i, j] = grad.points[i, j] + point_
                        grad.radius[i, j] = grad.radius[i, j] + radius_
                        grad.centre[i, o] = grad.centre[i, o] + c_
                        grad.axis[i, o, 0] = grad.axis[i, o, 0] + a0_
                        grad.axis[i, o, 1] = grad.axis[i, o, 1] + a1_
                        grad.axis[i, o, 2] = grad.axis[i, o, 2] + a2_
                        grad.half[i, o, 0] = grad.half[i, o, 0] + h0_
                        grad.half[i, o, 1] = grad.half[i, o, 1] + h1_
                        grad.half[i, o, 2] = grad.half[i, o, 2] + h2_
                        grad.rounding[i, o] = grad.rounding[i, o] + s_
                        grad.stiffness[i, g] = grad.stiffness[i, g] + ke_
                        grad.damping[i, g] = grad.damping[i, g] + kd_
                        grad.friction_stiffness[i, g] = grad.friction_stiffness[i, g] + kf_
                        grad.friction[i, g] = grad.friction[i, g] + mu_
            return ax, aq, av, aw, ah

    else:
        contact_adjoint = plane_adjoint

    @wp.func
    def wrench_adjoint(
        p: Parameters, grad: Parameters, row: int, h: Real, i: int,
        x: Vec3, q: Quat, v: Vec3, l: Vec3, w: Vec3, force_probe: Vec3, torque_probe: Vec3,
    ):  # fmt: skip
        """Adjoint of x, q, v, L and h from that of the wrench; those of the parameters are added to `grad`."""
        ax, aq, av, aw, ah = contact_adjoint(p, grad, row, h, i, x, q, v, w, force_probe, torque_probe)
        q_, al, inertia_, _w = wp.grad(spin_power)(q, l, p.inertia_inverse[i], aw)
        grad.inertia_inverse[i] = grad.inertia_inverse[i] + inertia_
        return ax, aq + q_, av, al, ah

    @wp.func
    def impulses_adjoint(p: Parameters, grad: Parameters, row: int, i: int, q: Quat, av: Vec3, al: Vec3):
        """Adjoint of q by the impulses of a step, from those of v and L after them."""
        aq = quat(zero3(0), zero(0))
        for k in range(p.impulse.shape[1]):
            if p.impulse_step[k] == row:
                q_, impulse_, point_, mass_, _v, _l = wp.grad(impulse_power)(
                    q, p.impulse[i, k], p.push_point[i, k], p.mass[i], av, al
                )
                aq = aq + q_
                grad.impulse[i, k] = grad.impulse[i, k] + impulse_
                grad.push_point[i, k] = grad.push_point[i, k] + point_
                grad.mass[i] = grad.mass[i] + mass_
        return aq

    @wp.func
    def all_wrench_powers(a: Vec3, b: Quat, m: Mat3, r: Real) -> Real:
        """For a kernel with a backward pass: Warp leaves adjoints of nested functions empty unless one reaches them."""
        s = contact_power(a, b, a, a, a, r, a, r, r, r, r, r, r, a, a) + push_power(b, a, a, r, a, a)
        s = s + spin_power(b, a, m, a) + impulse_power(b, a, a, r, a, a)
        if DRAG:
            s = s + drag_power(a, r, a)
        if ROLLING:
            s = s + rough_contact_power(a, b, a, a, a, r, a, r, r, r, r, r, r, r, r, a, a)
            if OBSTACLES:
                s = s + rough_obstacle_power(a, b, a, a, a, r, a, a, a, a, r, r, r, r, r, r, r, r, r, r, r, a, a)
        if OBSTACLES:
            s = s + obstacle_power(a, b, a, a, a, r, a, a, a, a, r, r, r, r, r, r, r, r, r, a, a)
        return s
