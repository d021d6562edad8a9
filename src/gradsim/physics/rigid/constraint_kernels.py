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
    from gradsim.engine.block_factor import factor_blocks, solve_blocks
    from gradsim.physics.rigid.joint_kernels import (
        axis_demand,
        axis_product,
        point_demand,
        point_jacobian,
        point_product,
        turning_product,
    )

TURNING, SLIDING = 2, 3  # rows of an armature; of others, those of points come first


@wp.struct
class JointShape:
    kind: wp.array[wp.int32]  # of each row
    first: wp.array[wp.int32]  # its body A; the world is the last body of all
    second: wp.array[wp.int32]
    added: wp.array[wp.int32]  # 1 for a row of an armature
    row: wp.array[wp.int32]  # first row of each joint, and the number of rows
    points: wp.array[wp.int32]  # number of its rows about points; those of its first row are read
    left: wp.array[wp.int32]  # first joint that shares a body with each: S and its factor are zero to the left of it
    block: wp.array[wp.int32]  # of each, see `engine/block_factor.py`
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
    """Workspace: per row, then per body. Rows, factor and inertias stay for the adjoint in row `at` of the evaluation."""

    ja: wp.array2d[Vec3]  # force on A per multiplier; on B of a point row its opposite, of an axis row 0
    ta: wp.array2d[Vec3]  # torque on A
    tb: wp.array2d[Vec3]  # torque on B
    system: wp.array2d[Real]  # blocks of the Cholesky factor of S
    inverse: wp.array2d[Mat3]  # of each body: R I⁻¹ Rᵀ
    mu: wp.array3d[Real]  # (stages, packs, rows)
    y: wp.array2d[Real]
    a: wp.array2d[Vec3]  # of each body
    s: wp.array2d[Vec3]
    pa: wp.array2d[Vec3]
    ps: wp.array2d[Vec3]


@wp.func(inline=True)
def turned_inverse(q: Quat, inertia_inverse: Mat3) -> Mat3:
    """R I⁻¹ Rᵀ."""
    one = spread(Scalar(1.0))
    o = zero(0)
    turn = columns(rotate(q, vec3(one, o, o)), rotate(q, vec3(o, one, o)), rotate(q, vec3(o, o, one)))
    return turn * inertia_inverse * transpose(turn)


@wp.func(inline=True)
def angular_power(q: Quat, l: Vec3, torque: Vec3, inertia_inverse: Mat3, curved: Real, probe: Vec3) -> Real:
    """⟨d(R I⁻¹ Rᵀ L)/dt, probe⟩ = I⁻¹ (τ − ω × L) · probe in the axes of the body; without the turning of the axes where `curved` is 0."""
    spinning = unrotate(q, l)
    w = inertia_inverse * spinning
    return dot(inertia_inverse * (unrotate(q, torque) - cross(w, spinning) * curved), unrotate(q, probe))


@wp.func(inline=True)
def linear_power(f: Vec3, mass: Real, gravity: Vec3, probe: Vec3) -> Real:
    return dot(f * (1.0 / mass) + gravity, probe)


@wp.func
def form_rows(
    g: JointShape, p: JointNumbers, m: LinkWork, i: int, at: int, x: wp.array2d[Vec3], q: wp.array2d[Quat],
    v: wp.array2d[Vec3], w: wp.array2d[Vec3], curved: Real, damping: Real, stiffness: Real, mu: wp.array2d[Real],
):  # fmt: skip
    """J of all rows, and −(J a + γ)."""
    o = zero3(0)
    none = zero(0)
    for j in range(g.left.shape[0]):
        begin = g.row[j]
        a = g.first[begin]
        b = g.second[begin]
        xa = x[i, a]
        qa = q[i, a]
        wa = w[i, a]
        sa = m.s[i, a]
        xb = x[i, b]
        qb = q[i, b]
        wb = w[i, b]
        sb = m.s[i, b]
        points = g.points[j]
        if points > 0:
            rb = rotate(qb, p.point_b[i, begin])
            reach = xb + rb - xa
            demand = point_demand(
                xa, qa, v[i, a], wa, xb, qb, v[i, b], wb, p.point_a[i, begin], p.point_b[i, begin], m.a[i, a], sa,
                m.a[i, b], sb, curved, damping, stiffness,
            )  # fmt: skip
            for k in range(begin, begin + points):
                u = rotate(qa, p.b[i, k])
                m.ja[at, k] = neg(u)
                m.ta[at, k] = cross(u, reach)
                m.tb[at, k] = cross(rb, u)
                mu[i, k] = neg(dot(u, demand))
        for k in range(begin + points, g.row[j + 1]):
            if g.kind[k] == SLIDING:
                u, ta, tb = point_jacobian(xa, qa, xb, qb, p.b[i, k], p.point_a[i, k], p.point_b[i, k])
                demand = point_demand(
                    xa, qa, v[i, a], wa, xb, qb, v[i, b], wb, p.point_a[i, k], p.point_b[i, k], m.a[i, a], sa,
                    m.a[i, b], sb, curved, none, none,
                )  # fmt: skip
                m.ja[at, k] = neg(u)
                m.ta[at, k] = neg(ta)
                m.tb[at, k] = tb
                mu[i, k] = neg(dot(u, demand))
            elif g.kind[k] == TURNING:
                u = rotate(qa, p.b[i, k])
                m.ja[at, k] = o
                m.ta[at, k] = neg(u)
                m.tb[at, k] = u
                mu[i, k] = turning_product(qa, wa, wb, p.b[i, k], none, spread(Scalar(1.0)), sa, sb, o, o, curved)
            else:
                u = rotate(qa, p.b[i, k])
                e = rotate(qb, p.point_b[i, k])
                torque = cross(u, e)
                m.ja[at, k] = o
                m.ta[at, k] = torque
                m.tb[at, k] = neg(torque)
                mu[i, k] = neg(axis_demand(u, e, wa, wb, sa, sb, curved, damping, stiffness))


@wp.func
def turn_inertias(m: LinkWork, inertia_inverse: wp.array[Mat3], i: int, at: int, n: int, q: wp.array2d[Quat]):
    """R I⁻¹ Rᵀ of all bodies."""
    for r in range(n):
        m.inverse[at, r] = turned_inverse(q[i, r], inertia_inverse[i * n + r])


@wp.func
def factorise(g: JointShape, m: LinkWork, mass: wp.array[Real], i: int, at: int, n: int):
    """The factor of S by J."""
    factor_blocks(
        i, at, n, g.first, g.second, g.row, g.left, g.block, g.added, mass, m.inverse, m.ja, m.ta, m.tb, m.system
    )


@wp.func
def solve(g: JointShape, m: LinkWork, i: int, at: int, y: wp.array2d[Real]):
    """y ← S⁻¹ y."""
    solve_blocks(i, at, g.row, g.left, g.block, m.system, y)


@wp.func
def spread_rows(
    g: JointShape, m: LinkWork, i: int, at: int, y: wp.array2d[Real], sign: Real,
    f: wp.array2d[Vec3], t: wp.array2d[Vec3],
):  # fmt: skip
    """f, t += sign Jᵀ y."""
    for j in range(g.left.shape[0]):
        a = g.first[g.row[j]]
        b = g.second[g.row[j]]
        force = zero3(0)
        torque = zero3(0)
        torque_b = zero3(0)
        for k in range(g.row[j], g.row[j + 1]):
            s = y[i, k] * sign
            force = force + m.ja[at, k] * s
            torque = torque + m.ta[at, k] * s
            torque_b = torque_b + m.tb[at, k] * s
        f[i, a] = f[i, a] + force
        t[i, a] = t[i, a] + torque
        f[i, b] = f[i, b] - force
        t[i, b] = t[i, b] + torque_b


@wp.func
def accelerations(
    m: LinkWork, mass: wp.array[Real], gravity: wp.array[Vec3], i: int, at: int, n: int, w: wp.array2d[Vec3],
    l: wp.array2d[Vec3], f: wp.array2d[Vec3], t: wp.array2d[Vec3], curved: Real,
):  # fmt: skip
    """Accelerations of all bodies by the forces on them; that of the world stays 0. See `angular_power`."""
    for r in range(n):
        k = i * n + r
        m.a[i, r] = f[i, r] * (1.0 / mass[k]) + gravity[k]
        m.s[i, r] = m.inverse[at, r] * (t[i, r] - cross(w[i, r], l[i, r]) * curved)


@wp.func
def constrain(
    g: JointShape, p: JointNumbers, m: LinkWork, mass: wp.array[Real], inertia_inverse: wp.array[Mat3],
    gravity: wp.array[Vec3], i: int, at: int, n: int, x: wp.array2d[Vec3], q: wp.array2d[Quat],
    v: wp.array2d[Vec3], w: wp.array2d[Vec3], l: wp.array2d[Vec3], curved: Real, damping: Real,
    stiffness: Real, mu: wp.array2d[Real], f: wp.array2d[Vec3], t: wp.array2d[Vec3],
):  # fmt: skip
    """Add what the joints do to forces and torques."""
    turn_inertias(m, inertia_inverse, i, at, n, q)
    accelerations(m, mass, gravity, i, at, n, w, l, f, t, curved)
    form_rows(g, p, m, i, at, x, q, v, w, curved, damping, stiffness, mu)
    factorise(g, m, mass, i, at, n)
    solve(g, m, i, at, mu)
    spread_rows(g, m, i, at, mu, spread(Scalar(1.0)), f, t)


if not DUAL:

    @wp.func
    def constrain_adjoint(
        g: JointShape, p: JointNumbers, m: LinkWork, mass: wp.array[Real], inertia_inverse: wp.array[Mat3],
        gravity: wp.array[Vec3], i: int, at: int, n: int, x: wp.array2d[Vec3], q: wp.array2d[Quat],
        v: wp.array2d[Vec3], w: wp.array2d[Vec3], l: wp.array2d[Vec3], curved: Real, damping: Real,
        stiffness: Real, mu: wp.array2d[Real], f: wp.array2d[Vec3], t: wp.array2d[Vec3],
        # out; the probes of forces and torques get those that reach them through the multipliers
        fp: wp.array2d[Vec3], tp: wp.array2d[Vec3], ax: wp.array2d[Vec3],
        aq: wp.array2d[Quat], av: wp.array2d[Vec3], aw: wp.array2d[Vec3],
        al: wp.array2d[Vec3], grad: JointNumbers, mass_grad: wp.array[Real],
        inertia_grad: wp.array[Mat3], gravity_grad: wp.array[Vec3],
    ):  # fmt: skip
        """Adjoint of `constrain`, whose results f and t are given, and whose rows and factor it left; returns those of `damping` and `stiffness`."""
        accelerations(m, mass, gravity, i, at, n, w, l, f, t, curved)
        for j in range(g.left.shape[0]):
            a = g.first[g.row[j]]
            b = g.second[g.row[j]]
            probe = fp[i, a] - fp[i, b]
            turning = tp[i, a]
            turning_b = tp[i, b]
            for k in range(g.row[j], g.row[j + 1]):
                m.y[i, k] = dot(m.ja[at, k], probe) + dot(m.ta[at, k], turning) + dot(m.tb[at, k], turning_b)
        solve(g, m, i, at, m.y)
        for r in range(n + 1):
            m.pa[i, r] = zero3(0)
            m.ps[i, r] = zero3(0)
        spread_rows(g, m, i, at, m.y, neg(spread(Scalar(1.0))), m.pa, m.ps)
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
        for j in range(g.left.shape[0]):
            begin = g.row[j]
            a = g.first[begin]
            b = g.second[begin]
            points = g.points[j]
            if points > 0:  # all at once
                b_mu = zero3(0)
                b_y = zero3(0)
                for k in range(begin, begin + points):
                    b_mu = b_mu + p.b[i, k] * mu[i, k]
                    b_y = b_y + p.b[i, k] * m.y[i, k]
                x_, q_, v_, w_, xb_, qb_, vb_, wb_, bm_, by_, pa_, pb_, _a, _s, _ab, _sb, _f, _t, _fb, _tb, _c, d_, k_ = wp.grad(
                    point_product
                )(
                    x[i, a], q[i, a], v[i, a], w[i, a], x[i, b], q[i, b], v[i, b], w[i, b], b_mu, b_y,
                    p.point_a[i, begin], p.point_b[i, begin], m.a[i, a], m.s[i, a], m.a[i, b], m.s[i, b],
                    fp[i, a], tp[i, a], fp[i, b], tp[i, b], curved, damping, stiffness,
                )  # fmt: skip
                ax[i, a] = ax[i, a] + x_
                aq[i, a] = aq[i, a] + q_
                av[i, a] = av[i, a] + v_
                aw[i, a] = aw[i, a] + w_
                ax[i, b] = ax[i, b] + xb_
                aq[i, b] = aq[i, b] + qb_
                av[i, b] = av[i, b] + vb_
                aw[i, b] = aw[i, b] + wb_
                for k in range(begin, begin + points):
                    grad.b[i, k] = grad.b[i, k] + bm_ * mu[i, k] + by_ * m.y[i, k]
                grad.point_a[i, begin] = grad.point_a[i, begin] + pa_
                grad.point_b[i, begin] = grad.point_b[i, begin] + pb_
                damping_adjoint = damping_adjoint + d_
                stiffness_adjoint = stiffness_adjoint + k_
            k = wp.int32(begin + points)
            while k < g.row[j + 1]:
                more = wp.int32(0)  # rows besides this one
                if g.kind[k] == TURNING:
                    q_, w_, wb_, b_, _mu, _y, _s, _sb, _t, _tb, _c = wp.grad(turning_product)(
                        q[i, a], w[i, a], w[i, b], p.b[i, k], mu[i, k], m.y[i, k], m.s[i, a], m.s[i, b],
                        tp[i, a], tp[i, b], curved,
                    )  # fmt: skip
                    grad.b[i, k] = grad.b[i, k] + b_
                elif g.kind[k] == SLIDING:
                    x_, q_, v_, w_, xb_, qb_, vb_, wb_, bm_, by_, pa_, pb_, _a, _s, _ab, _sb, _f, _t, _fb, _tb, _c, d_, k_ = wp.grad(
                        point_product
                    )(
                        x[i, a], q[i, a], v[i, a], w[i, a], x[i, b], q[i, b], v[i, b], w[i, b], p.b[i, k] * mu[i, k],
                        p.b[i, k] * m.y[i, k], p.point_a[i, k], p.point_b[i, k], m.a[i, a], m.s[i, a], m.a[i, b],
                        m.s[i, b], fp[i, a], tp[i, a], fp[i, b], tp[i, b], curved, zero(0), zero(0),
                    )  # fmt: skip
                    grad.b[i, k] = grad.b[i, k] + bm_ * mu[i, k] + by_ * m.y[i, k]
                    ax[i, a] = ax[i, a] + x_
                    av[i, a] = av[i, a] + v_
                    ax[i, b] = ax[i, b] + xb_
                    av[i, b] = av[i, b] + vb_
                    grad.point_a[i, k] = grad.point_a[i, k] + pa_
                else:
                    b_mu = p.b[i, k] * mu[i, k]
                    b_y = p.b[i, k] * m.y[i, k]
                    if (
                        k == begin + points
                    ):  # the first two rows of a joint have the same c; its adjoint is that of the first
                        more = wp.int32(1)
                        b_mu = b_mu + p.b[i, k + 1] * mu[i, k + 1]
                        b_y = b_y + p.b[i, k + 1] * m.y[i, k + 1]
                    q_, w_, qb_, wb_, bm_, by_, pb_, _s, _sb, _t, _tb, _c, d_, k_ = wp.grad(axis_product)(
                        q[i, a], w[i, a], q[i, b], w[i, b], b_mu, b_y, p.point_b[i, k], m.s[i, a], m.s[i, b],
                        tp[i, a], tp[i, b], curved, damping, stiffness,
                    )  # fmt: skip
                    for r in range(k, k + 1 + more):
                        grad.b[i, r] = grad.b[i, r] + bm_ * mu[i, r] + by_ * m.y[i, r]
                    damping_adjoint = damping_adjoint + d_
                    stiffness_adjoint = stiffness_adjoint + k_
                aq[i, a] = aq[i, a] + q_
                aw[i, a] = aw[i, a] + w_
                aw[i, b] = aw[i, b] + wb_
                if g.kind[k] != TURNING:
                    aq[i, b] = aq[i, b] + qb_
                    grad.point_b[i, k] = grad.point_b[i, k] + pb_
                k = k + 1 + more
        return damping_adjoint, stiffness_adjoint

    @wp.func
    def all_link_powers(a: Vec3, t: Quat, m: Mat3, r: Real) -> Real:
        """Reaches every function that `wp.grad` takes here: a kernel with a backward pass has to call it."""
        first = point_product(a, t, a, a, a, t, a, a, a, a, a, a, a, a, a, a, a, a, a, a, r, r, r)
        second = axis_product(t, a, t, a, a, a, a, a, a, a, a, r, r, r) + turning_product(
            t, a, a, a, r, r, a, a, a, a, r
        )
        return first + second + linear_power(a, r, a, a) + angular_power(t, a, a, m, r, a)
