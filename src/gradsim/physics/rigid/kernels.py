"""Newton–Euler rollout of one rigid body per world (paper Eq. 2), a template for `engine.lanes`.

    m v̇ = Σ f + m g,   L̇ = Σ r × f,   ẋ = v,   q̇ = ½ (ω, 0) q,   ω = R I⁻¹ Rᵀ L

The state is position x and velocity v of the centre of mass, orientation q and angular momentum L in the world's
frame: d(R I Rᵀ ω)/dt = τ is Eq. 2 with its gyroscopic term, and L is kept exactly in free flight.

`semi-implicit`: v, L first, then x with the new v and q ← exp(h ω(q, L')) q. `rk4`: the classical fourth order, its
rates taken at unit quaternions. A blow changes v and L at once, before the step in which it falls.

The step h is a number of each world and frame interval, so that the clock has derivatives too.

One launch covers all frames. The reverse sweep recomputes each segment of frames from its first frame, which is
stored anyway, and takes the adjoint of every force from its virtual power.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.point_plane import contact_arm, contact_force, contact_gap, contact_power
    from gradsim.physics.contact.point_sdf import obstacle_power, obstacle_touch

INTEGRATOR = globals().get("INTEGRATOR", "semi-implicit")
OBSTACLES = globals().get("OBSTACLES", False)  # whether there are any beside planes


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
    step: wp.array2d[Real]  # h in each frame interval [s]
    if OBSTACLES:
        centre: wp.array2d[Vec3]  # of each obstacle [m]
        axis: wp.array3d[Vec3]  # its three axes, unit vectors
        half: wp.array3d[Real]  # half of its size along each [m]
        rounding: wp.array2d[Real]  # radius of its edges [m]


@wp.func(inline=True)
def normalised(q: Quat) -> Quat:
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
def blow_power(q: Quat, impulse: Vec3, point: Vec3, mass: Real, v_probe: Vec3, l_probe: Vec3) -> Real:
    """⟨change of v and L by a blow, adjoint⟩."""
    return dot(impulse * (1.0 / mass), v_probe) + dot(cross(rotate(q, point), impulse), l_probe)


@wp.func
def struck(p: Parameters, blow: wp.array[int], row: int, i: int, q: Quat, v: Vec3, l: Vec3):
    """v and L after the blows that fall into a step."""
    vs = v
    ls = l
    for k in range(p.impulse.shape[1]):
        if blow[k] == row:
            vs = vs + p.impulse[i, k] * (1.0 / p.mass[i])
            ls = ls + cross(rotate(q, p.push_point[i, k]), p.impulse[i, k])
    return vs, ls


@wp.func
def wrench_of_planes(
    p: Parameters, share: wp.array2d[Scalar], row: int, h: Real, i: int, x: Vec3, q: Quat, v: Vec3, w: Vec3
):
    """Force on the body [N] and torque about its centre of mass [N m]; gravity is an acceleration, added later."""
    f = zero3(0)
    torque = zero3(0)
    for k in range(p.impulse.shape[1]):
        if share[row, k] != Scalar(0.0):
            push = p.impulse[i, k] * (spread(share[row, k]) / h)
            f = f + push
            torque = torque + cross(rotate(q, p.push_point[i, k]), push)
    for g in range(p.normal.shape[1]):
        n = p.normal[i, g]
        for j in range(p.points.shape[1]):
            gap = contact_gap(x, q, p.points[i, j], p.radius[i, j], n, p.height[i, g])
            if any_lane(less(gap, zero(0))):
                r = contact_arm(q, p.points[i, j], p.radius[i, j], n)
                contact = contact_force(
                    gap,
                    v + cross(w, r),
                    n,
                    p.stiffness[i, g],
                    p.damping[i, g],
                    p.friction_stiffness[i, g],
                    p.friction[i, g],
                )
                f = f + contact
                torque = torque + cross(r, contact)
    return f, torque


if OBSTACLES:

    @wp.func
    def wrench(p: Parameters, share: wp.array2d[Scalar], row: int, h: Real, i: int, x: Vec3, q: Quat, v: Vec3, w: Vec3):
        f, torque = wrench_of_planes(p, share, row, h, i, x, q, v, w)
        for o in range(p.centre.shape[1]):
            g = p.normal.shape[1] + o
            for j in range(p.points.shape[1]):
                gap, n = obstacle_touch(
                    x, q, p.points[i, j], p.radius[i, j], p.centre[i, o], p.axis[i, o, 0], p.axis[i, o, 1],
                    p.axis[i, o, 2], p.half[i, o, 0], p.half[i, o, 1], p.half[i, o, 2], p.rounding[i, o],
                )  # fmt: skip
                if any_lane(less(gap, zero(0))):
                    r = contact_arm(q, p.points[i, j], p.radius[i, j], n)
                    contact = contact_force(
                        gap, v + cross(w, r), n, p.stiffness[i, g], p.damping[i, g], p.friction_stiffness[i, g],
                        p.friction[i, g],
                    )  # fmt: skip
                    f = f + contact
                    torque = torque + cross(r, contact)
        return f, torque

else:
    wrench = wrench_of_planes


if INTEGRATOR == "semi-implicit":

    @wp.func(inline=True)
    def step_power(
        x: Vec3, q: Quat, v: Vec3, l: Vec3, f: Vec3, torque: Vec3, mass: Real, inertia_inverse: Mat3, gravity: Vec3,
        h: Real, ax: Vec3, aq: Quat, av: Vec3, al: Vec3,
    ) -> Real:  # fmt: skip
        """⟨state after the step, adjoint⟩; its gradient is the adjoint of the step."""
        v1 = v + (f * (1.0 / mass) + gravity) * h
        l1 = l + torque * h
        q1 = normalised(exponential(spin(q, l1, inertia_inverse) * h) * q)
        return dot(x + v1 * h, ax) + qdot(q1, aq) + dot(v1, av) + dot(l1, al)

    @wp.func
    def advance(
        p: Parameters,
        share: wp.array2d[Scalar],
        blow: wp.array[int],
        row: int,
        h: Real,
        i: int,
        x: Vec3,
        q: Quat,
        v: Vec3,
        l: Vec3,
    ):
        v0, l0 = struck(p, blow, row, i, q, v, l)
        f, torque = wrench(p, share, row, h, i, x, q, v0, spin(q, l0, p.inertia_inverse[i]))
        v1 = v0 + (f * (1.0 / p.mass[i]) + p.gravity[i]) * h
        l1 = l0 + torque * h
        q1 = normalised(exponential(spin(q, l1, p.inertia_inverse[i]) * h) * q)
        return x + v1 * h, q1, v1, l1

else:

    @wp.func(inline=True)
    def rates_power(
        q: Quat, v: Vec3, l: Vec3, f: Vec3, torque: Vec3, mass: Real, inertia_inverse: Mat3, gravity: Vec3,
        ax: Vec3, aq: Quat, av: Vec3, al: Vec3,
    ) -> Real:  # fmt: skip
        turning = quat(spin(q, l, inertia_inverse) * spread(Scalar(0.5)), zero(0)) * q
        return dot(v, ax) + qdot(turning, aq) + dot(f * (1.0 / mass) + gravity, av) + dot(torque, al)

    @wp.func(inline=True)
    def normalised_power(q: Quat, probe: Quat) -> Real:
        return qdot(normalised(q), probe)

    @wp.func
    def rates(
        p: Parameters,
        share: wp.array2d[Scalar],
        row: int,
        h: Real,
        i: int,
        x: Vec3,
        raw: Quat,
        v: Vec3,
        l: Vec3,
    ):
        q = normalised(raw)
        w = spin(q, l, p.inertia_inverse[i])
        f, torque = wrench(p, share, row, h, i, x, q, v, w)
        return v, quat(w * spread(Scalar(0.5)), zero(0)) * q, f * (1.0 / p.mass[i]) + p.gravity[i], torque

    @wp.func
    def advance(
        p: Parameters,
        share: wp.array2d[Scalar],
        blow: wp.array[int],
        row: int,
        h: Real,
        i: int,
        x: Vec3,
        q: Quat,
        v: Vec3,
        l: Vec3,
    ):
        v0, l0 = struck(p, blow, row, i, q, v, l)
        half = h * 0.5
        x1, q1, v1, l1 = rates(p, share, row, h, i, x, q, v0, l0)
        x2, q2, v2, l2 = rates(p, share, row, h, i, x + x1 * half, q + q1 * half, v0 + v1 * half, l0 + l1 * half)
        x3, q3, v3, l3 = rates(p, share, row, h, i, x + x2 * half, q + q2 * half, v0 + v2 * half, l0 + l2 * half)
        x4, q4, v4, l4 = rates(p, share, row, h, i, x + x3 * h, q + q3 * h, v0 + v3 * h, l0 + l3 * h)
        s = h * spread(Scalar(1.0) / Scalar(6.0))
        return (
            x + (x1 + (x2 + x3) * spread(Scalar(2.0)) + x4) * s,
            normalised(q + (q1 + (q2 + q3) * spread(Scalar(2.0)) + q4) * s),
            v0 + (v1 + (v2 + v3) * spread(Scalar(2.0)) + v4) * s,
            l0 + (l1 + (l2 + l3) * spread(Scalar(2.0)) + l4) * s,
        )


@wp.kernel(enable_backward=False)
def forward(
    p: Parameters,
    share: wp.array2d[Scalar],  # of each impulse in each step
    blow: wp.array[int],  # step before which each push strikes, -1: it has a window
    substeps: int,
    # out; frame 0 is given
    x: wp.array2d[Vec3],
    q: wp.array2d[Quat],
    v: wp.array2d[Vec3],
    l: wp.array2d[Vec3],
):
    i = wp.tid()
    xs = x[i, 0]
    qs = q[i, 0]
    vs = v[i, 0]
    ls = l[i, 0]
    for frame in range(x.shape[1] - 1):
        for k in range(substeps):
            xs, qs, vs, ls = advance(p, share, blow, frame * substeps + k, p.step[i, frame], i, xs, qs, vs, ls)
        x[i, frame + 1] = xs
        q[i, frame + 1] = qs
        v[i, frame + 1] = vs
        l[i, frame + 1] = ls


if not DUAL:

    @wp.func
    def plane_adjoint(
        p: Parameters, grad: Parameters, share: wp.array2d[Scalar], row: int, h: Real, i: int,
        x: Vec3, q: Quat, v: Vec3, w: Vec3, force_probe: Vec3, torque_probe: Vec3,
    ):  # fmt: skip
        """Adjoint of x, q, v, ω and h from that of the wrench; those of the parameters are added to `grad`."""
        ax = zero3(0)
        av = zero3(0)
        aw = zero3(0)
        aq = quat(zero3(0), zero(0))
        ah = zero(0)
        for k in range(p.impulse.shape[1]):
            if share[row, k] != Scalar(0.0):
                rate = spread(share[row, k]) / h
                q_, impulse_, point_, rate_, _f, _t = wp.grad(push_power)(
                    q, p.impulse[i, k], p.push_point[i, k], rate, force_probe, torque_probe
                )
                aq = aq + q_
                ah = ah - rate_ * rate / h
                grad.impulse[i, k] = grad.impulse[i, k] + impulse_
                grad.push_point[i, k] = grad.push_point[i, k] + point_
        for g in range(p.normal.shape[1]):
            n = p.normal[i, g]
            for j in range(p.points.shape[1]):
                gap = contact_gap(x, q, p.points[i, j], p.radius[i, j], n, p.height[i, g])
                if any_lane(less(gap, zero(0))):
                    x_, q_, v_, w_, point_, radius_, n_, h_, ke_, kd_, kf_, mu_, _f, _t = wp.grad(contact_power)(
                        x, q, v, w, p.points[i, j], p.radius[i, j], n, p.height[i, g], p.stiffness[i, g],
                        p.damping[i, g], p.friction_stiffness[i, g], p.friction[i, g], force_probe, torque_probe,
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
            p: Parameters, grad: Parameters, share: wp.array2d[Scalar], row: int, h: Real, i: int,
            x: Vec3, q: Quat, v: Vec3, w: Vec3, force_probe: Vec3, torque_probe: Vec3,
        ):  # fmt: skip
            ax, aq, av, aw, ah = plane_adjoint(p, grad, share, row, h, i, x, q, v, w, force_probe, torque_probe)
            for o in range(p.centre.shape[1]):
                g = p.normal.shape[1] + o
                for j in range(p.points.shape[1]):
                    gap, _n = obstacle_touch(
                        x, q, p.points[i, j], p.radius[i, j], p.centre[i, o], p.axis[i, o, 0], p.axis[i, o, 1],
                        p.axis[i, o, 2], p.half[i, o, 0], p.half[i, o, 1], p.half[i, o, 2], p.rounding[i, o],
                    )  # fmt: skip
                    if any_lane(less(gap, zero(0))):
                        (
                            x_, q_, v_, w_, point_, radius_, c_, a0_, a1_, a2_, h0_, h1_, h2_, s_, ke_, kd_, kf_, mu_,
                            _f, _t,
                        ) = wp.grad(obstacle_power)(
                            x, q, v, w, p.points[i, j], p.radius[i, j], p.centre[i, o], p.axis[i, o, 0],
                            p.axis[i, o, 1], p.axis[i, o, 2], p.half[i, o, 0], p.half[i, o, 1], p.half[i, o, 2],
                            p.rounding[i, o], p.stiffness[i, g], p.damping[i, g], p.friction_stiffness[i, g],
                            p.friction[i, g], force_probe, torque_probe,
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
        p: Parameters, grad: Parameters, share: wp.array2d[Scalar], row: int, h: Real, i: int,
        x: Vec3, q: Quat, v: Vec3, l: Vec3, w: Vec3, force_probe: Vec3, torque_probe: Vec3,
    ):  # fmt: skip
        """Adjoint of x, q, v, L and h from that of the wrench; those of the parameters are added to `grad`."""
        ax, aq, av, aw, ah = contact_adjoint(p, grad, share, row, h, i, x, q, v, w, force_probe, torque_probe)
        q_, al, inertia_, _w = wp.grad(spin_power)(q, l, p.inertia_inverse[i], aw)
        grad.inertia_inverse[i] = grad.inertia_inverse[i] + inertia_
        return ax, aq + q_, av, al, ah

    @wp.func
    def struck_adjoint(
        p: Parameters, grad: Parameters, blow: wp.array[int], row: int, i: int, q: Quat, av: Vec3, al: Vec3
    ):
        """What the blows of a step add to the adjoint of q, given those of v and L after them."""
        aq = quat(zero3(0), zero(0))
        for k in range(p.impulse.shape[1]):
            if blow[k] == row:
                q_, impulse_, point_, mass_, _v, _l = wp.grad(blow_power)(
                    q, p.impulse[i, k], p.push_point[i, k], p.mass[i], av, al
                )
                aq = aq + q_
                grad.impulse[i, k] = grad.impulse[i, k] + impulse_
                grad.push_point[i, k] = grad.push_point[i, k] + point_
                grad.mass[i] = grad.mass[i] + mass_
        return aq

    if INTEGRATOR == "semi-implicit":

        @wp.func
        def advance_adjoint(  # pyright: ignore[reportRedeclaration]
            p: Parameters, grad: Parameters, share: wp.array2d[Scalar], blow: wp.array[int], row: int,
            h: Real, i: int, x: Vec3, q: Quat, v: Vec3, l: Vec3, ax: Vec3, aq: Quat, av: Vec3, al: Vec3,
        ):  # fmt: skip
            v0, l0 = struck(p, blow, row, i, q, v, l)
            w = spin(q, l0, p.inertia_inverse[i])
            f, torque = wrench(p, share, row, h, i, x, q, v0, w)
            bx, bq, bv, bl, bf, bt, mass_, inertia_, gravity_, bh, _x, _q, _v, _l = wp.grad(step_power)(
                x, q, v0, l0, f, torque, p.mass[i], p.inertia_inverse[i], p.gravity[i], h, ax, aq, av, al
            )
            grad.mass[i] = grad.mass[i] + mass_
            grad.inertia_inverse[i] = grad.inertia_inverse[i] + inertia_
            grad.gravity[i] = grad.gravity[i] + gravity_
            cx, cq, cv, cl, ch = wrench_adjoint(p, grad, share, row, h, i, x, q, v0, l0, w, bf, bt)
            sv = bv + cv
            sl = bl + cl
            return bx + cx, bq + cq + struck_adjoint(p, grad, blow, row, i, q, sv, sl), sv, sl, bh + ch

    else:

        @wp.func
        def rates_adjoint(
            p: Parameters, grad: Parameters, share: wp.array2d[Scalar], row: int, h: Real, i: int,
            x: Vec3, raw: Quat, v: Vec3, l: Vec3, ax: Vec3, aq: Quat, av: Vec3, al: Vec3,
        ):  # fmt: skip
            q = normalised(raw)
            w = spin(q, l, p.inertia_inverse[i])
            f, torque = wrench(p, share, row, h, i, x, q, v, w)
            bq, bv, bl, bf, bt, mass_, inertia_, gravity_, _x, _q, _v, _l = wp.grad(rates_power)(
                q, v, l, f, torque, p.mass[i], p.inertia_inverse[i], p.gravity[i], ax, aq, av, al
            )
            grad.mass[i] = grad.mass[i] + mass_
            grad.inertia_inverse[i] = grad.inertia_inverse[i] + inertia_
            grad.gravity[i] = grad.gravity[i] + gravity_
            cx, cq, cv, cl, ch = wrench_adjoint(p, grad, share, row, h, i, x, q, v, l, w, bf, bt)
            raw_, _probe = wp.grad(normalised_power)(raw, bq + cq)
            return cx, raw_, bv + cv, bl + cl, ch

        @wp.func(inline=True)
        def paired(x: Vec3, q: Quat, v: Vec3, l: Vec3, ax: Vec3, aq: Quat, av: Vec3, al: Vec3) -> Real:
            return dot(x, ax) + qdot(q, aq) + dot(v, av) + dot(l, al)

        @wp.func
        def advance_adjoint(
            p: Parameters, grad: Parameters, share: wp.array2d[Scalar], blow: wp.array[int], row: int,
            h: Real, i: int, x: Vec3, q: Quat, vb: Vec3, lb: Vec3, ax: Vec3, aq_after: Quat, av: Vec3, al: Vec3,
        ):  # fmt: skip
            v, l = struck(p, blow, row, i, q, vb, lb)
            half = h * 0.5
            sixth = spread(Scalar(1.0) / Scalar(6.0))
            two = spread(Scalar(2.0))
            s = h * sixth
            t = h * spread(Scalar(1.0) / Scalar(3.0))
            x1, q1, v1, l1 = rates(p, share, row, h, i, x, q, v, l)
            x2, q2, v2, l2 = rates(p, share, row, h, i, x + x1 * half, q + q1 * half, v + v1 * half, l + l1 * half)
            x3, q3, v3, l3 = rates(p, share, row, h, i, x + x2 * half, q + q2 * half, v + v2 * half, l + l2 * half)
            x4, q4, v4, l4 = rates(p, share, row, h, i, x + x3 * h, q + q3 * h, v + v3 * h, l + l3 * h)
            turning = q1 + (q2 + q3) * two + q4
            aq, _probe = wp.grad(normalised_power)(q + turning * s, aq_after)
            ah = paired(
                x1 + (x2 + x3) * two + x4, turning, v1 + (v2 + v3) * two + v4, l1 + (l2 + l3) * two + l4,
                ax, aq, av, al,
            ) * sixth  # fmt: skip
            dx, dq, dv, dl, dh = rates_adjoint(
                p, grad, share, row, h, i, x + x3 * h, q + q3 * h, v + v3 * h, l + l3 * h,
                ax * s, aq * s, av * s, al * s,
            )  # fmt: skip
            cx, cq, cv, cl, ch = rates_adjoint(
                p, grad, share, row, h, i, x + x2 * half, q + q2 * half, v + v2 * half, l + l2 * half,
                ax * t + dx * h, aq * t + dq * h, av * t + dv * h, al * t + dl * h,
            )  # fmt: skip
            bx, bq, bv, bl, bh = rates_adjoint(
                p, grad, share, row, h, i, x + x1 * half, q + q1 * half, v + v1 * half, l + l1 * half,
                ax * t + cx * half, aq * t + cq * half, av * t + cv * half, al * t + cl * half,
            )  # fmt: skip
            ex, eq, ev, el, eh = rates_adjoint(
                p, grad, share, row, h, i, x, q, v, l,
                ax * s + bx * half, aq * s + bq * half, av * s + bv * half, al * s + bl * half,
            )  # fmt: skip
            ah = ah + paired(x3, q3, v3, l3, dx, dq, dv, dl) + dh + ch + bh + eh
            ah = ah + (paired(x2, q2, v2, l2, cx, cq, cv, cl) + paired(x1, q1, v1, l1, bx, bq, bv, bl)) * 0.5
            sv = av + bv + cv + dv + ev
            sl = al + bl + cl + dl + el
            sq = aq + bq + cq + dq + eq + struck_adjoint(p, grad, blow, row, i, q, sv, sl)
            return ax + bx + cx + dx + ex, sq, sv, sl, ah

    @wp.kernel(enable_backward=False)
    def backward(
        p: Parameters,
        share: wp.array2d[Scalar],
        blow: wp.array[int],
        substeps: int,
        segment: int,  # frames between checkpoints
        x: wp.array2d[Vec3],
        q: wp.array2d[Quat],
        v: wp.array2d[Vec3],
        l: wp.array2d[Vec3],
        # workspace: the states of one segment
        xs: wp.array2d[Vec3],
        qs: wp.array2d[Quat],
        vs: wp.array2d[Vec3],
        ls: wp.array2d[Vec3],
        # out; the adjoints of the frames are given, that of frame 0 becomes that of the start
        x_adjoint: wp.array2d[Vec3],
        q_adjoint: wp.array2d[Quat],
        v_adjoint: wp.array2d[Vec3],
        l_adjoint: wp.array2d[Vec3],
        grad: Parameters,
    ):
        i = wp.tid()
        frames = x.shape[1]
        ax = zero3(0)
        av = zero3(0)
        al = zero3(0)
        aq = quat(zero3(0), zero(0))
        segments = (frames - 1 + segment - 1) // segment
        for s in range(segments):
            first = (segments - 1 - s) * segment
            last = wp.min(first + segment, frames - 1)
            steps = (last - first) * substeps
            xs[i, 0] = x[i, first]
            qs[i, 0] = q[i, first]
            vs[i, 0] = v[i, first]
            ls[i, 0] = l[i, first]
            for k in range(steps - 1):
                row = first * substeps + k
                h = p.step[i, first + k // substeps]
                xn, qn, vn, ln = advance(p, share, blow, row, h, i, xs[i, k], qs[i, k], vs[i, k], ls[i, k])
                xs[i, k + 1] = xn
                qs[i, k + 1] = qn
                vs[i, k + 1] = vn
                ls[i, k + 1] = ln
            for m in range(steps):
                k = steps - 1 - m
                if (k + 1) % substeps == 0:
                    frame = first + (k + 1) // substeps
                    ax = ax + x_adjoint[i, frame]
                    aq = aq + q_adjoint[i, frame]
                    av = av + v_adjoint[i, frame]
                    al = al + l_adjoint[i, frame]
                interval = first + k // substeps
                ax, aq, av, al, ah = advance_adjoint(
                    p, grad, share, blow, first * substeps + k, p.step[i, interval], i, xs[i, k], qs[i, k], vs[i, k],
                    ls[i, k], ax, aq, av, al,
                )  # fmt: skip
                grad.step[i, interval] = grad.step[i, interval] + ah
        x_adjoint[i, 0] = x_adjoint[i, 0] + ax
        q_adjoint[i, 0] = q_adjoint[i, 0] + aq
        v_adjoint[i, 0] = v_adjoint[i, 0] + av
        l_adjoint[i, 0] = l_adjoint[i, 0] + al

    # Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
    @wp.kernel(enable_backward=True)
    def keep_adjoints(v: wp.array[Vec3], q: wp.array[Quat], m: wp.array[Mat3], s: wp.array[Real]):
        a, b, r = v[0], q[0], s[0]
        s[1] = contact_power(a, b, a, a, a, r, a, r, r, r, r, r, a, a) + push_power(b, a, a, r, a, a)
        s[2] = spin_power(b, a, m[0], a) + blow_power(b, a, a, r, a, a)

    if OBSTACLES:

        @wp.kernel(enable_backward=True)
        def keep_obstacle_adjoint(v: wp.array[Vec3], q: wp.array[Quat], s: wp.array[Real]):
            a, b, r = v[0], q[0], s[0]
            s[1] = obstacle_power(a, b, a, a, a, r, a, a, a, a, r, r, r, r, r, r, r, r, a, a)

    if INTEGRATOR == "semi-implicit":

        @wp.kernel(enable_backward=True)
        def keep_step_adjoint(v: wp.array[Vec3], q: wp.array[Quat], m: wp.array[Mat3], s: wp.array[Real]):
            a, b, r = v[0], q[0], s[0]
            s[1] = step_power(a, b, a, a, a, a, r, m[0], a, r, a, b, a, a)

    else:

        @wp.kernel(enable_backward=True)
        def keep_rates_adjoint(v: wp.array[Vec3], q: wp.array[Quat], m: wp.array[Mat3], s: wp.array[Real]):
            a, b, r = v[0], q[0], s[0]
            s[1] = rates_power(b, a, a, a, a, r, m[0], a, a, b, a, a) + normalised_power(b, b)
