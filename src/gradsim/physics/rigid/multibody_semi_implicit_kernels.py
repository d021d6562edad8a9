"""Semi-implicit Euler steps of rigid bodies that act on one another, a template for `engine.lanes`.

Left open: what `rigid/multibody_force_kernels.py` and `rigid/wrench_kernels.py` have.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.rigid.multibody_force_kernels import (
        Parameters,
        State,
        States,
        Work,
        all_impulses_adjoint,
        apply_all_impulses,
        evaluate,
        evaluate_adjoint,
        load_state,
        recall,
        slot_of,
    )
    from gradsim.physics.rigid.wrench_kernels import exponential, normalized, spin

JOINTS = globals().get("JOINTS", False)


if JOINTS:

    @wp.func(inline=True)
    def rotated(q: Quat, l: Vec3, inertia_inverse: Mat3, h: Real) -> Quat:
        """Orientation after a step, by the ω of that in the middle: by the ω of that before, slender bodies that spin
        gain energy as exp(h ω² t), and their joints pass it on."""
        middle = normalized(exponential(spin(q, l, inertia_inverse) * (h * 0.5)) * q)
        return normalized(exponential(spin(middle, l, inertia_inverse) * h) * q)

else:

    @wp.func(inline=True)
    def rotated(q: Quat, l: Vec3, inertia_inverse: Mat3, h: Real) -> Quat:
        """Orientation after a step, as of a body alone."""
        return normalized(exponential(spin(q, l, inertia_inverse) * h) * q)


@wp.func(inline=True)
def step_power(
    x: Vec3, q: Quat, v: Vec3, l: Vec3, f: Vec3, torque: Vec3, mass: Real, inertia_inverse: Mat3, gravity: Vec3,
    h: Real, ax: Vec3, aq: Quat, av: Vec3, al: Vec3,
) -> Real:  # fmt: skip
    """⟨state after the step, adjoint⟩; its gradient is the adjoint of the step."""
    v1 = v + (f * (1.0 / mass) + gravity) * h
    l1 = l + torque * h
    return dot(x + v1 * h, ax) + qdot(rotated(q, l1, inertia_inverse, h), aq) + dot(v1, av) + dot(l1, al)


@wp.func
def advance(g: Parameters, s: State, m: Work, t: States, source: int, to: int, row: int, frame: int, i: int, n: int):
    """One step."""
    h = g.step[i, frame]
    slot = slot_of(g, source)
    load_state(t, source, s, i, n)
    apply_all_impulses(g, s, m, row, i, n, slot)
    evaluate(g, s, m, row, frame, h, i, n, slot, 0)
    for r in range(n):
        k = i * n + r
        v = s.v[i, r] + (m.f[i, r] * (1.0 / g.bodies.mass[k]) + g.bodies.gravity[k]) * h
        l = s.l[i, r] + m.t[i, r] * h
        q = s.q[i, r]
        t.x[i, to, r] = s.x[i, r] + v * h
        t.q[i, to, r] = rotated(q, l, g.bodies.inertia_inverse[k], h)
        t.v[i, to, r] = v
        t.l[i, to, r] = l


if not DUAL:

    @wp.func
    def advance_adjoint(
        g: Parameters, grad: Parameters, s: State, m: Work, a: State, t: States, source: int, row: int, frame: int,
        i: int, n: int,
    ):  # fmt: skip
        """`a` becomes the adjoint of the state before the step."""
        h = g.step[i, frame]
        slot = slot_of(g, source)
        load_state(t, source, s, i, n)
        apply_all_impulses(g, s, m, row, i, n, slot)
        if g.slots > 1:
            recall(g, s, m, i, n, slot, 0)
        else:
            evaluate(g, s, m, row, frame, h, i, n, slot, 0)
        ah = zero(0)
        for r in range(n):
            k = i * n + r
            x_, q_, v_, l_, f_, t_, mass_, inertia_, gravity_, h_, _x, _q, _v, _l = wp.grad(step_power)(
                s.x[i, r], s.q[i, r], s.v[i, r], s.l[i, r], m.f[i, r], m.t[i, r], g.bodies.mass[k],
                g.bodies.inertia_inverse[k], g.bodies.gravity[k], h, a.x[i, r], a.q[i, r], a.v[i, r], a.l[i, r],
            )  # fmt: skip
            grad.bodies.mass[k] = grad.bodies.mass[k] + mass_
            grad.bodies.inertia_inverse[k] = grad.bodies.inertia_inverse[k] + inertia_
            grad.bodies.gravity[k] = grad.bodies.gravity[k] + gravity_
            ah = ah + h_
            m.fp[i, r] = f_
            m.tp[i, r] = t_
            a.x[i, r] = x_
            a.q[i, r] = q_
            a.v[i, r] = v_
            a.l[i, r] = l_
        ah = ah + evaluate_adjoint(g, grad, s, m, a, row, frame, h, i, n, slot, 0)
        load_state(t, source, s, i, n)
        all_impulses_adjoint(g, grad, s, m, a, row, i, n, slot)
        grad.step[i, frame] = grad.step[i, frame] + ah

    @wp.func
    def all_step_powers(a: Vec3, b: Quat, m: Mat3, r: Real) -> Real:
        return step_power(a, b, a, a, a, a, r, m, a, r, a, b, a, a)
