"""Joints between the bodies of a world, a template for `engine.lanes`: see `rigid/joint_kernels.py` for one row.

    S μ = −(J a₀ + γ),   S = J M⁻¹ Jᵀ          a₀: accelerations without the joints; M with the inertias as they stand

makes J a + γ = 0 with a = a₀ + M⁻¹ Jᵀ μ. γ = C̈'s bias + 2 α Ċ + α² C keeps C at 0 in an integrator of high order
(Baumgarte 1972); for semi-implicit steps γ = C̈'s bias + Ċ/h + β C/h², so that the new velocities obey J v = −β C/h where the
step ends.

The adjoint is one more solve with S: with probes p of the forces, y = S⁻¹ J p, and the gradient of everything is that of
Σ_k μ_k J_k(p) − y_k (J_k(a) + γ_k) with μ and y fixed, in which the accelerations pass −Jᵀ y on to the forces behind them.

An armature I, the inertia of a rotor that turns with a coordinate φ, acts with −I φ̈ along it. Its row J = √I ∂φ̇/∂(v, ω) demands
J a + γ + μ = 0, which adds 1 to its element of S; γ is the bias alone, since nothing keeps φ. Where I is 0, so is μ.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.rigid.joint_kernels import (
        axis_jacobian,
        axis_product,
        ball_power,
        ball_torque,
        point_jacobian,
        point_product,
        slide_force,
        slide_power,
        turn_power,
        turn_torque,
        turning_product,
    )

# A row of which less is left than that share says what others say
REDUNDANT_SHARE = 1e-10 if Scalar == wp.float64 else 1e-5
REDUNDANT_PIVOT = 1e150 if Scalar == wp.float64 else 1e15  # pivot of such a row: its multiplier is 0
POINT, TURN, SLIDE = 0, 0, 1  # kinds of rows and coordinates; others are axis rows, and balls
TURNING, SLIDING = 2, 3  # rows of an armature


@wp.struct
class JointShape:
    kind: wp.array[wp.int32]  # of each row
    first: wp.array[wp.int32]  # its body A; the world is the last body of all
    second: wp.array[wp.int32]
    begin: wp.array[wp.int32]  # first row that shares a body with this one: S and L are zero to the left of it
    coordinate: wp.array[wp.int32]  # kind of each coordinate
    from_body: wp.array[wp.int32]
    to_body: wp.array[wp.int32]


@wp.struct
class JointNumbers:
    b: wp.array2d[Vec3]  # of each row
    point_a: wp.array2d[Vec3]  # [m]
    point_b: wp.array2d[Vec3]  # [m], of an axis row: c
    axis: wp.array2d[Vec3]  # of each coordinate
    across_a: wp.array2d[Vec3]
    across_b: wp.array2d[Vec3]
    pivot_a: wp.array2d[Vec3]
    pivot_b: wp.array2d[Vec3]
    spring: wp.array2d[Real]  # [N m/rad] or [N/m]
    damping: wp.array2d[Real]  # [N m s/rad] or [N s/m]
    lower: wp.array2d[Real]  # [rad] or [m]
    upper: wp.array2d[Real]
    limit: wp.array2d[Real]  # stiffness of the limits, as that of the spring
    friction: wp.array2d[Real]  # [N m] or [N]
    slip: wp.array2d[Real]  # [rad/s] or [m/s]
    backlash: wp.array2d[Real]  # [rad] or [m]
    target: wp.array3d[Real]  # in each frame interval, or one for all
    torque: wp.array3d[Real]


@wp.struct
class LinkWork:
    """Workspace: per row, then per body."""

    ja: wp.array2d[Vec3]  # force on A per multiplier; on B of a point row its opposite, of an axis row 0
    ta: wp.array2d[Vec3]  # torque on A
    tb: wp.array2d[Vec3]  # torque on B
    system: wp.array3d[Real]  # S, then its Cholesky factor
    mu: wp.array3d[Real]  # (stages, packs, rows)
    y: wp.array2d[Real]
    a: wp.array2d[Vec3]  # of each body
    s: wp.array2d[Vec3]
    pa: wp.array2d[Vec3]
    ps: wp.array2d[Vec3]


@wp.func(inline=True)
def turned(q: Quat, inertia_inverse: Mat3, u: Vec3) -> Vec3:
    """R I⁻¹ Rᵀ u."""
    return rotate(q, inertia_inverse * unrotate(q, u))


@wp.func(inline=True)
def angular_acceleration(q: Quat, l: Vec3, torque: Vec3, inertia_inverse: Mat3, curved: Real) -> Vec3:
    """d(R I⁻¹ Rᵀ L)/dt = R I⁻¹ Rᵀ (τ − ω × L); without the turning of the axes where `curved` is 0."""
    w = turned(q, inertia_inverse, l)
    return turned(q, inertia_inverse, torque - cross(w, l) * curved)


@wp.func(inline=True)
def angular_power(q: Quat, l: Vec3, torque: Vec3, inertia_inverse: Mat3, curved: Real, probe: Vec3) -> Real:
    return dot(angular_acceleration(q, l, torque, inertia_inverse, curved), probe)


@wp.func(inline=True)
def linear_power(f: Vec3, mass: Real, gravity: Vec3, probe: Vec3) -> Real:
    return dot(f * (1.0 / mass) + gravity, probe)


@wp.func
def jacobian(
    g: JointShape, p: JointNumbers, i: int, k: int, x: wp.array2d[Vec3], q: wp.array2d[Quat]
):  # fmt: skip
    """Force on A, torque on A, torque on B of row k per multiplier."""
    a = g.first[k]
    b = g.second[k]
    force = zero3(0)
    torque = axis_jacobian(q[i, a], q[i, b], p.b[i, k], p.point_b[i, k])
    torque_b = neg(torque)
    if g.kind[k] == TURNING:
        torque_b = rotate(q[i, a], p.b[i, k])
        torque = neg(torque_b)
    if g.kind[k] == POINT or g.kind[k] == SLIDING:
        u, ta, tb = point_jacobian(x[i, a], q[i, a], x[i, b], q[i, b], p.b[i, k], p.point_a[i, k], p.point_b[i, k])
        force = neg(u)
        torque = neg(ta)
        torque_b = tb
    return force, torque, torque_b


@wp.func
def factorise(
    g: JointShape, p: JointNumbers, m: LinkWork, mass: wp.array[Real], inertia_inverse: wp.array[Mat3],
    i: int, n: int, x: wp.array2d[Vec3], q: wp.array2d[Quat],
):  # fmt: skip
    """J and the Cholesky factor of S at one state."""
    rows = g.kind.shape[0]
    for k in range(rows):
        force, torque, torque_b = jacobian(g, p, i, k, x, q)
        m.ja[i, k] = force
        m.ta[i, k] = torque
        m.tb[i, k] = torque_b
    for k in range(rows):
        a = g.first[k]
        b = g.second[k]
        fa = zero3(0)
        sa = zero3(0)
        fb = zero3(0)
        sb = zero3(0)
        if a < n:
            fa = m.ja[i, k] * (1.0 / mass[i * n + a])
            sa = turned(q[i, a], inertia_inverse[i * n + a], m.ta[i, k])
        if b < n:
            fb = m.ja[i, k] * (neg(spread(Scalar(1.0))) / mass[i * n + b])
            sb = turned(q[i, b], inertia_inverse[i * n + b], m.tb[i, k])
        for j in range(g.begin[k], k + 1):
            total = zero(0)
            if g.first[j] == a:
                total = total + dot(m.ja[i, j], fa) + dot(m.ta[i, j], sa)
            if g.second[j] == a:
                total = total - dot(m.ja[i, j], fa) + dot(m.tb[i, j], sa)
            if g.first[j] == b:
                total = total + dot(m.ja[i, j], fb) + dot(m.ta[i, j], sb)
            if g.second[j] == b:
                total = total - dot(m.ja[i, j], fb) + dot(m.tb[i, j], sb)
            if j == k and g.kind[k] >= TURNING:
                total = total + spread(Scalar(1.0))
            m.system[i, k, j] = total
        pivot = m.system[i, k, k]
        for j in range(g.begin[k], k + 1):
            total = m.system[i, k, j]
            for e in range(wp.max(g.begin[k], g.begin[j]), j):
                total = total - m.system[i, k, e] * m.system[i, j, e]
            if j < k:
                m.system[i, k, j] = total / m.system[i, j, j]
            else:
                m.system[i, k, k] = where(
                    less(pivot * spread(Scalar(REDUNDANT_SHARE)), total),
                    sqrt(max(total, pivot * spread(Scalar(REDUNDANT_SHARE)))),
                    spread(Scalar(REDUNDANT_PIVOT)),
                )


@wp.func
def solve(g: JointShape, m: LinkWork, i: int, y: wp.array2d[Real]):
    """y ← S⁻¹ y."""
    rows = g.kind.shape[0]
    for k in range(rows):
        total = y[i, k]
        for e in range(g.begin[k], k):
            total = total - m.system[i, k, e] * y[i, e]
        y[i, k] = total / m.system[i, k, k]
    for back in range(rows):
        k = rows - 1 - back
        last = y[i, k] / m.system[i, k, k]
        y[i, k] = last
        for e in range(g.begin[k], k):
            y[i, e] = y[i, e] - m.system[i, k, e] * last


@wp.func
def spread_rows(
    g: JointShape, m: LinkWork, i: int, y: wp.array2d[Real], sign: Real,
    f: wp.array2d[Vec3], t: wp.array2d[Vec3],
):  # fmt: skip
    """f, t += sign Jᵀ y."""
    for k in range(g.kind.shape[0]):
        a = g.first[k]
        b = g.second[k]
        s = y[i, k] * sign
        f[i, a] = f[i, a] + m.ja[i, k] * s
        t[i, a] = t[i, a] + m.ta[i, k] * s
        f[i, b] = f[i, b] - m.ja[i, k] * s
        t[i, b] = t[i, b] + m.tb[i, k] * s


@wp.func
def accelerations(
    m: LinkWork, mass: wp.array[Real], inertia_inverse: wp.array[Mat3], gravity: wp.array[Vec3],
    i: int, n: int, q: wp.array2d[Quat], l: wp.array2d[Vec3], f: wp.array2d[Vec3],
    t: wp.array2d[Vec3], curved: Real,
):  # fmt: skip
    """Accelerations of all bodies by the forces on them; that of the world stays 0."""
    for r in range(n):
        k = i * n + r
        m.a[i, r] = f[i, r] * (1.0 / mass[k]) + gravity[k]
        m.s[i, r] = angular_acceleration(q[i, r], l[i, r], t[i, r], inertia_inverse[k], curved)


@wp.func
def row_product(
    g: JointShape, p: JointNumbers, m: LinkWork, i: int, k: int, x: wp.array2d[Vec3], q: wp.array2d[Quat],
    v: wp.array2d[Vec3], w: wp.array2d[Vec3], curved: Real, damping: Real, stiffness: Real,
) -> Real:  # fmt: skip
    """J_k a + γ_k."""
    a = g.first[k]
    b = g.second[k]
    o = zero3(0)
    none = zero(0)
    minus = neg(spread(Scalar(1.0)))
    result = axis_product(
        q[i, a], w[i, a], q[i, b], w[i, b], p.b[i, k], p.point_b[i, k], none, minus, m.s[i, a], m.s[i, b], o, o,
        curved, damping, stiffness,
    )  # fmt: skip
    if g.kind[k] == POINT or g.kind[k] == SLIDING:
        damped = damping
        stiff = stiffness
        if g.kind[k] == SLIDING:
            damped = none
            stiff = none
        result = point_product(
            x[i, a], q[i, a], v[i, a], w[i, a], x[i, b], q[i, b], v[i, b], w[i, b], p.b[i, k], p.point_a[i, k],
            p.point_b[i, k], none, minus, m.a[i, a], m.s[i, a], m.a[i, b], m.s[i, b], o, o, o, o,
            curved, damped, stiff,
        )  # fmt: skip
    if g.kind[k] == TURNING:
        result = turning_product(
            q[i, a], w[i, a], w[i, b], p.b[i, k], none, minus, m.s[i, a], m.s[i, b], o, o, curved
        )  # fmt: skip
    return result


@wp.func
def constrain(
    g: JointShape, p: JointNumbers, m: LinkWork, mass: wp.array[Real], inertia_inverse: wp.array[Mat3],
    gravity: wp.array[Vec3], i: int, n: int, x: wp.array2d[Vec3], q: wp.array2d[Quat],
    v: wp.array2d[Vec3], w: wp.array2d[Vec3], l: wp.array2d[Vec3], curved: Real, damping: Real,
    stiffness: Real, mu: wp.array2d[Real], f: wp.array2d[Vec3], t: wp.array2d[Vec3],
):  # fmt: skip
    """Add what the joints do to forces and torques."""
    factorise(g, p, m, mass, inertia_inverse, i, n, x, q)
    accelerations(m, mass, inertia_inverse, gravity, i, n, q, l, f, t, curved)
    rows = g.kind.shape[0]
    for k in range(rows):
        mu[i, k] = neg(row_product(g, p, m, i, k, x, q, v, w, curved, damping, stiffness))
    solve(g, m, i, mu)
    spread_rows(g, m, i, mu, spread(Scalar(1.0)), f, t)


@wp.func
def add_coordinates(
    g: JointShape, p: JointNumbers, i: int, frame: int, x: wp.array2d[Vec3], q: wp.array2d[Quat],
    v: wp.array2d[Vec3], w: wp.array2d[Vec3], f: wp.array2d[Vec3], t: wp.array2d[Vec3],
):  # fmt: skip
    """Springs, dampers, motors and limits."""
    for k in range(g.coordinate.shape[0]):
        a = g.from_body[k]
        b = g.to_body[k]
        target = p.target[i, wp.min(frame, p.target.shape[1] - 1), k]
        torque = p.torque[i, wp.min(frame, p.torque.shape[1] - 1), k]
        if g.coordinate[k] == TURN:
            on_b = turn_torque(
                q[i, a], w[i, a], q[i, b], w[i, b], p.axis[i, k], p.across_a[i, k], p.across_b[i, k], p.spring[i, k],
                target, p.damping[i, k], torque, p.lower[i, k], p.upper[i, k], p.limit[i, k],
                p.friction[i, k], p.slip[i, k], p.backlash[i, k],
            )  # fmt: skip
            t[i, a] = t[i, a] - on_b
            t[i, b] = t[i, b] + on_b
        elif g.coordinate[k] == SLIDE:
            along = slide_force(
                x[i, a], q[i, a], v[i, a], w[i, a], x[i, b], q[i, b], v[i, b], w[i, b], p.axis[i, k], p.pivot_a[i, k],
                p.pivot_b[i, k], p.spring[i, k], target, p.damping[i, k], torque, p.lower[i, k], p.upper[i, k],
                p.limit[i, k], p.friction[i, k], p.slip[i, k], p.backlash[i, k],
            )  # fmt: skip
            u, ta, tb = point_jacobian(
                x[i, a], q[i, a], x[i, b], q[i, b], p.axis[i, k], p.pivot_a[i, k], p.pivot_b[i, k]
            )
            f[i, a] = f[i, a] - u * along
            t[i, a] = t[i, a] - ta * along
            f[i, b] = f[i, b] + u * along
            t[i, b] = t[i, b] + tb * along
        else:
            on_b = ball_torque(w[i, a], w[i, b], p.damping[i, k], p.friction[i, k], p.slip[i, k])
            t[i, a] = t[i, a] - on_b
            t[i, b] = t[i, b] + on_b


if not DUAL:

    @wp.func
    def constrain_adjoint(
        g: JointShape, p: JointNumbers, m: LinkWork, mass: wp.array[Real], inertia_inverse: wp.array[Mat3],
        gravity: wp.array[Vec3], i: int, n: int, x: wp.array2d[Vec3], q: wp.array2d[Quat],
        v: wp.array2d[Vec3], w: wp.array2d[Vec3], l: wp.array2d[Vec3], curved: Real, damping: Real,
        stiffness: Real, mu: wp.array2d[Real], f: wp.array2d[Vec3], t: wp.array2d[Vec3],
        # out; the probes of forces and torques get those that reach them through the multipliers
        fp: wp.array2d[Vec3], tp: wp.array2d[Vec3], ax: wp.array2d[Vec3],
        aq: wp.array2d[Quat], av: wp.array2d[Vec3], aw: wp.array2d[Vec3],
        al: wp.array2d[Vec3], grad: JointNumbers, mass_grad: wp.array[Real],
        inertia_grad: wp.array[Mat3], gravity_grad: wp.array[Vec3],
    ):  # fmt: skip
        """Adjoint of `constrain`, whose results f and t are given; returns those of `damping` and `stiffness`."""
        factorise(g, p, m, mass, inertia_inverse, i, n, x, q)
        accelerations(m, mass, inertia_inverse, gravity, i, n, q, l, f, t, curved)
        rows = g.kind.shape[0]
        for k in range(rows):
            a = g.first[k]
            b = g.second[k]
            m.y[i, k] = dot(m.ja[i, k], fp[i, a] - fp[i, b]) + dot(m.ta[i, k], tp[i, a]) + dot(m.tb[i, k], tp[i, b])
        solve(g, m, i, m.y)
        for r in range(n + 1):
            m.pa[i, r] = zero3(0)
            m.ps[i, r] = zero3(0)
        spread_rows(g, m, i, m.y, neg(spread(Scalar(1.0))), m.pa, m.ps)
        for r in range(n):
            k = i * n + r
            f_, mass_, gravity_, _p = wp.grad(linear_power)(f[i, r], mass[k], gravity[k], m.pa[i, r])
            q_, l_, t_, inertia_, _c, _s = wp.grad(angular_power)(
                q[i, r], l[i, r], t[i, r], inertia_inverse[k], curved, m.ps[i, r]
            )
            fp[i, r] = fp[i, r] + f_
            tp[i, r] = tp[i, r] + t_
            aq[i, r] = aq[i, r] + q_
            al[i, r] = al[i, r] + l_
            mass_grad[k] = mass_grad[k] + mass_
            gravity_grad[k] = gravity_grad[k] + gravity_
            inertia_grad[k] = inertia_grad[k] + inertia_
        damping_adjoint = zero(0)
        stiffness_adjoint = zero(0)
        for k in range(rows):
            a = g.first[k]
            b = g.second[k]
            damped = damping
            stiff = stiffness
            if g.kind[k] == SLIDING:
                damped = zero(0)
                stiff = zero(0)
            if g.kind[k] == TURNING:
                q_, w_, wb_, b_, _mu, _y, _s, _sb, _t, _tb, _c = wp.grad(turning_product)(
                    q[i, a], w[i, a], w[i, b], p.b[i, k], mu[i, k], m.y[i, k], m.s[i, a], m.s[i, b],
                    tp[i, a], tp[i, b], curved,
                )  # fmt: skip
            elif g.kind[k] == POINT or g.kind[k] == SLIDING:
                (
                    x_, q_, v_, w_, xb_, qb_, vb_, wb_, b_, pa_, pb_, _mu, _y, _a, _s, _ab, _sb, _f, _t, _fb, _tb,
                    _c, d_, k_,
                ) = wp.grad(point_product)(
                    x[i, a], q[i, a], v[i, a], w[i, a], x[i, b], q[i, b], v[i, b], w[i, b], p.b[i, k], p.point_a[i, k],
                    p.point_b[i, k], mu[i, k], m.y[i, k], m.a[i, a], m.s[i, a], m.a[i, b], m.s[i, b],
                    fp[i, a], tp[i, a], fp[i, b], tp[i, b], curved, damped, stiff,
                )  # fmt: skip
                ax[i, a] = ax[i, a] + x_
                av[i, a] = av[i, a] + v_
                ax[i, b] = ax[i, b] + xb_
                av[i, b] = av[i, b] + vb_
                grad.point_a[i, k] = grad.point_a[i, k] + pa_
            else:
                q_, w_, qb_, wb_, b_, pb_, _mu, _y, _s, _sb, _t, _tb, _c, d_, k_ = wp.grad(axis_product)(
                    q[i, a], w[i, a], q[i, b], w[i, b], p.b[i, k], p.point_b[i, k], mu[i, k], m.y[i, k],
                    m.s[i, a], m.s[i, b], tp[i, a], tp[i, b], curved, damping, stiffness,
                )  # fmt: skip
            aq[i, a] = aq[i, a] + q_
            aw[i, a] = aw[i, a] + w_
            aw[i, b] = aw[i, b] + wb_
            grad.b[i, k] = grad.b[i, k] + b_
            if g.kind[k] != TURNING:
                aq[i, b] = aq[i, b] + qb_
                grad.point_b[i, k] = grad.point_b[i, k] + pb_
            if g.kind[k] < TURNING:
                damping_adjoint = damping_adjoint + d_
                stiffness_adjoint = stiffness_adjoint + k_
        return damping_adjoint, stiffness_adjoint

    @wp.func
    def coordinates_adjoint(
        g: JointShape, p: JointNumbers, i: int, frame: int, x: wp.array2d[Vec3], q: wp.array2d[Quat],
        v: wp.array2d[Vec3], w: wp.array2d[Vec3], fp: wp.array2d[Vec3], tp: wp.array2d[Vec3],
        # out
        ax: wp.array2d[Vec3], aq: wp.array2d[Quat], av: wp.array2d[Vec3],
        aw: wp.array2d[Vec3], grad: JointNumbers,
    ):  # fmt: skip
        """Adjoint of `add_coordinates`."""
        for k in range(g.coordinate.shape[0]):
            a = g.from_body[k]
            b = g.to_body[k]
            at = wp.min(frame, p.target.shape[1] - 1)
            now = wp.min(frame, p.torque.shape[1] - 1)
            if g.coordinate[k] == TURN:
                (
                    q_, w_, qb_, wb_, axis_, ca_, cb_, spring_, target_, damping_, torque_, lower_, upper_, limit_,
                    friction_, slip_, backlash_, _t, _tb,
                ) = wp.grad(turn_power)(
                    q[i, a], w[i, a], q[i, b], w[i, b], p.axis[i, k], p.across_a[i, k], p.across_b[i, k],
                    p.spring[i, k], p.target[i, at, k], p.damping[i, k], p.torque[i, now, k], p.lower[i, k],
                    p.upper[i, k], p.limit[i, k], p.friction[i, k], p.slip[i, k], p.backlash[i, k], tp[i, a], tp[i, b],
                )  # fmt: skip
                grad.across_a[i, k] = grad.across_a[i, k] + ca_
                grad.across_b[i, k] = grad.across_b[i, k] + cb_
            elif g.coordinate[k] == SLIDE:
                (
                    x_, q_, v_, w_, xb_, qb_, vb_, wb_, axis_, pa_, pb_, spring_, target_, damping_, torque_, lower_,
                    upper_, limit_, friction_, slip_, backlash_, _f, _t, _fb, _tb,
                ) = wp.grad(slide_power)(
                    x[i, a], q[i, a], v[i, a], w[i, a], x[i, b], q[i, b], v[i, b], w[i, b], p.axis[i, k],
                    p.pivot_a[i, k], p.pivot_b[i, k], p.spring[i, k], p.target[i, at, k], p.damping[i, k],
                    p.torque[i, now, k], p.lower[i, k], p.upper[i, k], p.limit[i, k],
                    p.friction[i, k], p.slip[i, k], p.backlash[i, k], fp[i, a], tp[i, a], fp[i, b], tp[i, b],
                )  # fmt: skip
                ax[i, a] = ax[i, a] + x_
                av[i, a] = av[i, a] + v_
                ax[i, b] = ax[i, b] + xb_
                av[i, b] = av[i, b] + vb_
                grad.pivot_a[i, k] = grad.pivot_a[i, k] + pa_
                grad.pivot_b[i, k] = grad.pivot_b[i, k] + pb_
            if g.coordinate[k] <= SLIDE:
                aq[i, a] = aq[i, a] + q_
                aq[i, b] = aq[i, b] + qb_
                grad.axis[i, k] = grad.axis[i, k] + axis_
                grad.spring[i, k] = grad.spring[i, k] + spring_
                grad.target[i, at, k] = grad.target[i, at, k] + target_
                grad.torque[i, now, k] = grad.torque[i, now, k] + torque_
                grad.lower[i, k] = grad.lower[i, k] + lower_
                grad.upper[i, k] = grad.upper[i, k] + upper_
                grad.limit[i, k] = grad.limit[i, k] + limit_
                grad.backlash[i, k] = grad.backlash[i, k] + backlash_
            else:
                w_, wb_, damping_, friction_, slip_, _t, _tb = wp.grad(ball_power)(
                    w[i, a], w[i, b], p.damping[i, k], p.friction[i, k], p.slip[i, k], tp[i, a], tp[i, b]
                )
            aw[i, a] = aw[i, a] + w_
            aw[i, b] = aw[i, b] + wb_
            grad.damping[i, k] = grad.damping[i, k] + damping_
            grad.friction[i, k] = grad.friction[i, k] + friction_
            grad.slip[i, k] = grad.slip[i, k] + slip_

    @wp.func
    def all_link_powers(a: Vec3, t: Quat, m: Mat3, r: Real) -> Real:
        """Reaches every function that `wp.grad` takes here: a kernel with a backward pass has to call it."""
        first = point_product(a, t, a, a, a, t, a, a, a, a, a, r, r, a, a, a, a, a, a, a, a, r, r, r)
        second = axis_product(t, a, t, a, a, a, r, r, a, a, a, a, r, r, r)
        third = turn_power(t, a, t, a, a, a, a, r, r, r, r, r, r, r, r, r, r, a, a) + ball_power(a, a, r, r, r, a, a)
        fourth = slide_power(a, t, a, a, a, t, a, a, a, a, a, r, r, r, r, r, r, r, r, r, r, a, a, a, a)
        third = third + turning_product(t, a, a, a, r, r, a, a, a, a, r)
        return first + second + third + fourth + linear_power(a, r, a, a) + angular_power(t, a, a, m, r, a)
