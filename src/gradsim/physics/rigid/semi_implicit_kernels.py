"""Semi-implicit Euler steps of a rigid body, a template for `engine.lanes`: v and L first, then x with the new v.

    v' = v + h (f/m + g),   L' = L + h τ,   x' = x + h v',   q' = exp(h ω(q, L')) q

Left open: what `rigid/wrench_kernels.py` has.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.rigid.wrench_kernels import (
        Parameters,
        apply_impulses,
        exponential,
        impulses_adjoint,
        normalized,
        spin,
        wrench,
        wrench_adjoint,
    )


@wp.func(inline=True)
def step_power(
    x: Vec3, q: Quat, v: Vec3, l: Vec3, f: Vec3, torque: Vec3, mass: Real, inertia_inverse: Mat3, gravity: Vec3,
    h: Real, ax: Vec3, aq: Quat, av: Vec3, al: Vec3,
) -> Real:  # fmt: skip
    """⟨state after the step, adjoint⟩: its gradient is the adjoint of the step."""
    v1 = v + (f * (1.0 / mass) + gravity) * h
    l1 = l + torque * h
    q1 = normalized(exponential(spin(q, l1, inertia_inverse) * h) * q)
    return dot(x + v1 * h, ax) + qdot(q1, aq) + dot(v1, av) + dot(l1, al)


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
    f, torque = wrench(p, row, h, i, x, q, v0, spin(q, l0, p.inertia_inverse[i]))
    v1 = v0 + (f * (1.0 / p.mass[i]) + p.gravity[i]) * h
    l1 = l0 + torque * h
    q1 = normalized(exponential(spin(q, l1, p.inertia_inverse[i]) * h) * q)
    return x + v1 * h, q1, v1, l1


if not DUAL:

    @wp.func
    def advance_adjoint(
        p: Parameters, grad: Parameters, row: int,
        h: Real, i: int, x: Vec3, q: Quat, v: Vec3, l: Vec3, ax: Vec3, aq: Quat, av: Vec3, al: Vec3,
    ):  # fmt: skip
        v0, l0 = apply_impulses(p, row, i, q, v, l)
        w = spin(q, l0, p.inertia_inverse[i])
        f, torque = wrench(p, row, h, i, x, q, v0, w)
        bx, bq, bv, bl, bf, bt, mass_, inertia_, gravity_, bh, _x, _q, _v, _l = wp.grad(step_power)(
            x, q, v0, l0, f, torque, p.mass[i], p.inertia_inverse[i], p.gravity[i], h, ax, aq, av, al
        )
        grad.mass[i] = grad.mass[i] + mass_
        grad.inertia_inverse[i] = grad.inertia_inverse[i] + inertia_
        grad.gravity[i] = grad.gravity[i] + gravity_
        cx, cq, cv, cl, ch = wrench_adjoint(p, grad, row, h, i, x, q, v0, l0, w, bf, bt)
        sv = bv + cv
        sl = bl + cl
        return bx + cx, bq + cq + impulses_adjoint(p, grad, row, i, q, sv, sl), sv, sl, bh + ch

    @wp.func
    def all_step_powers(a: Vec3, b: Quat, m: Mat3, r: Real) -> Real:
        return step_power(a, b, a, a, a, a, r, m, a, r, a, b, a, a)
