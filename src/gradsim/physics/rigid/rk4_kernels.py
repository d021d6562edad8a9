"""Steps of a rigid body by the classical Runge–Kutta method of order 4, a template for `engine.lanes`.

Rates are taken at unit quaternions. Left open: what `rigid/wrench_kernels.py` has.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.rigid.wrench_kernels import (
        Parameters,
        apply_impulses,
        impulses_adjoint,
        normalized,
        spin,
        wrench,
        wrench_adjoint,
    )


@wp.func(inline=True)
def rates_power(
    q: Quat, v: Vec3, l: Vec3, f: Vec3, torque: Vec3, mass: Real, inertia_inverse: Mat3, gravity: Vec3,
    ax: Vec3, aq: Quat, av: Vec3, al: Vec3,
) -> Real:  # fmt: skip
    turning = quat(spin(q, l, inertia_inverse) * spread(Scalar(0.5)), zero(0)) * q
    return dot(v, ax) + qdot(turning, aq) + dot(f * (1.0 / mass) + gravity, av) + dot(torque, al)


@wp.func(inline=True)
def normalized_power(q: Quat, probe: Quat) -> Real:
    return qdot(normalized(q), probe)


@wp.func
def rates(
    p: Parameters,
    row: int,
    h: Real,
    i: int,
    x: Vec3,
    raw: Quat,
    v: Vec3,
    l: Vec3,
):
    q = normalized(raw)
    w = spin(q, l, p.inertia_inverse[i])
    f, torque = wrench(p, row, h, i, x, q, v, w)
    return v, quat(w * spread(Scalar(0.5)), zero(0)) * q, f * (1.0 / p.mass[i]) + p.gravity[i], torque


@wp.func
def advance(
    p: Parameters,
    row: int,
    h: Real,
    i: int,
    x: Vec3,
    q: Quat,
    v: Vec3,
    l: Vec3,
):
    v0, l0 = apply_impulses(p, row, i, q, v, l)
    half = h * 0.5
    x1, q1, v1, l1 = rates(p, row, h, i, x, q, v0, l0)
    x2, q2, v2, l2 = rates(p, row, h, i, x + x1 * half, q + q1 * half, v0 + v1 * half, l0 + l1 * half)
    x3, q3, v3, l3 = rates(p, row, h, i, x + x2 * half, q + q2 * half, v0 + v2 * half, l0 + l2 * half)
    x4, q4, v4, l4 = rates(p, row, h, i, x + x3 * h, q + q3 * h, v0 + v3 * h, l0 + l3 * h)
    s = h * spread(Scalar(1.0) / Scalar(6.0))
    return (
        x + (x1 + (x2 + x3) * spread(Scalar(2.0)) + x4) * s,
        normalized(q + (q1 + (q2 + q3) * spread(Scalar(2.0)) + q4) * s),
        v0 + (v1 + (v2 + v3) * spread(Scalar(2.0)) + v4) * s,
        l0 + (l1 + (l2 + l3) * spread(Scalar(2.0)) + l4) * s,
    )


if not DUAL:

    @wp.func
    def rates_adjoint(
        p: Parameters, grad: Parameters, row: int, h: Real, i: int,
        x: Vec3, raw: Quat, v: Vec3, l: Vec3, ax: Vec3, aq: Quat, av: Vec3, al: Vec3,
    ):  # fmt: skip
        q = normalized(raw)
        w = spin(q, l, p.inertia_inverse[i])
        f, torque = wrench(p, row, h, i, x, q, v, w)
        bq, bv, bl, bf, bt, mass_, inertia_, gravity_, _x, _q, _v, _l = wp.grad(rates_power)(
            q, v, l, f, torque, p.mass[i], p.inertia_inverse[i], p.gravity[i], ax, aq, av, al
        )
        grad.mass[i] = grad.mass[i] + mass_
        grad.inertia_inverse[i] = grad.inertia_inverse[i] + inertia_
        grad.gravity[i] = grad.gravity[i] + gravity_
        cx, cq, cv, cl, ch = wrench_adjoint(p, grad, row, h, i, x, q, v, l, w, bf, bt)
        raw_, _probe = wp.grad(normalized_power)(raw, bq + cq)
        return cx, raw_, bv + cv, bl + cl, ch

    @wp.func(inline=True)
    def paired(x: Vec3, q: Quat, v: Vec3, l: Vec3, ax: Vec3, aq: Quat, av: Vec3, al: Vec3) -> Real:
        return dot(x, ax) + qdot(q, aq) + dot(v, av) + dot(l, al)

    @wp.func
    def advance_adjoint(
        p: Parameters, grad: Parameters, row: int,
        h: Real, i: int, x: Vec3, q: Quat, vb: Vec3, lb: Vec3, ax: Vec3, aq_after: Quat, av: Vec3, al: Vec3,
    ):  # fmt: skip
        v, l = apply_impulses(p, row, i, q, vb, lb)
        half = h * 0.5
        sixth = spread(Scalar(1.0) / Scalar(6.0))
        two = spread(Scalar(2.0))
        s = h * sixth
        t = h * spread(Scalar(1.0) / Scalar(3.0))
        x1, q1, v1, l1 = rates(p, row, h, i, x, q, v, l)
        x2, q2, v2, l2 = rates(p, row, h, i, x + x1 * half, q + q1 * half, v + v1 * half, l + l1 * half)
        x3, q3, v3, l3 = rates(p, row, h, i, x + x2 * half, q + q2 * half, v + v2 * half, l + l2 * half)
        x4, q4, v4, l4 = rates(p, row, h, i, x + x3 * h, q + q3 * h, v + v3 * h, l + l3 * h)
        turning = q1 + (q2 + q3) * two + q4
        aq, _probe = wp.grad(normalized_power)(q + turning * s, aq_after)
        ah = paired(
            x1 + (x2 + x3) * two + x4, turning, v1 + (v2 + v3) * two + v4, l1 + (l2 + l3) * two + l4,
            ax, aq, av, al,
        ) * sixth  # fmt: skip
        dx, dq, dv, dl, dh = rates_adjoint(
            p, grad, row, h, i, x + x3 * h, q + q3 * h, v + v3 * h, l + l3 * h,
            ax * s, aq * s, av * s, al * s,
        )  # fmt: skip
        cx, cq, cv, cl, ch = rates_adjoint(
            p, grad, row, h, i, x + x2 * half, q + q2 * half, v + v2 * half, l + l2 * half,
            ax * t + dx * h, aq * t + dq * h, av * t + dv * h, al * t + dl * h,
        )  # fmt: skip
        bx, bq, bv, bl, bh = rates_adjoint(
            p, grad, row, h, i, x + x1 * half, q + q1 * half, v + v1 * half, l + l1 * half,
            ax * t + cx * half, aq * t + cq * half, av * t + cv * half, al * t + cl * half,
        )  # fmt: skip
        ex, eq, ev, el, eh = rates_adjoint(
            p, grad, row, h, i, x, q, v, l,
            ax * s + bx * half, aq * s + bq * half, av * s + bv * half, al * s + bl * half,
        )  # fmt: skip
        ah = ah + paired(x3, q3, v3, l3, dx, dq, dv, dl) + dh + ch + bh + eh
        ah = ah + (paired(x2, q2, v2, l2, cx, cq, cv, cl) + paired(x1, q1, v1, l1, bx, bq, bv, bl)) * 0.5
        sv = av + bv + cv + dv + ev
        sl = al + bl + cl + dl + el
        sq = aq + bq + cq + dq + eq + impulses_adjoint(p, grad, row, i, q, sv, sl)
        return ax + bx + cx + dx + ex, sq, sv, sl, ah

    @wp.func
    def all_step_powers(a: Vec3, b: Quat, m: Mat3, r: Real) -> Real:
        return rates_power(b, a, a, a, a, r, m, a, a, b, a, a) + normalized_power(b, b)
