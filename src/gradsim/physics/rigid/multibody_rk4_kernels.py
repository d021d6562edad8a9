"""Steps of rigid bodies that act on one another by the classical Runge–Kutta method, a template for `engine.lanes`.

Left open: what `rigid/multibody_force_kernels.py`, `rigid/wrench_kernels.py` and `rigid/rk4_kernels.py` have.
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
    from gradsim.physics.rigid.rk4_kernels import normalized_power, paired, rates_power
    from gradsim.physics.rigid.wrench_kernels import normalized, spin


@wp.func(inline=True)
def turning(q: Quat, w: Vec3) -> Quat:
    """q̇."""
    return quat(w * spread(Scalar(0.5)), zero(0)) * q


@wp.func
def stages(
    g: Parameters, s: State, m: Work, t: States, source: int, row: int, frame: int, i: int, n: int, is_known: bool
):
    """States and forces of the four stages of a step, in a loop that is compiled once: CUDA takes four minutes, not fifteen.

    Forces are evaluated, or known from an evaluation that left them in the slot of the step.
    """
    h = g.step[i, frame]
    slot = slot_of(g, source)
    load_state(t, source, s, i, n)
    apply_all_impulses(g, s, m, row, i, n, slot)
    count = int(4)  # noqa: RUF046, UP018 -- Warp repeats the body of a constant range
    for stage in range(count):
        for r in range(n):
            k = i * n + r
            if stage == 0:
                m.stage_x[i, 0, r] = s.x[i, r]
                m.stage_raw[i, 0, r] = s.q[i, r]
                m.stage_v[i, 0, r] = s.v[i, r]
                m.stage_l[i, 0, r] = s.l[i, r]
            else:  # s still has the stage before
                c = h * spread(wp.where(stage == 3, Scalar(1.0), Scalar(0.5)))
                rate = m.stage_f[i, stage - 1, r] * (1.0 / g.bodies.mass[k]) + g.bodies.gravity[k]
                m.stage_x[i, stage, r] = m.stage_x[i, 0, r] + s.v[i, r] * c
                m.stage_raw[i, stage, r] = m.stage_raw[i, 0, r] + turning(s.q[i, r], s.w[i, r]) * c
                m.stage_v[i, stage, r] = m.stage_v[i, 0, r] + rate * c
                m.stage_l[i, stage, r] = m.stage_l[i, 0, r] + m.stage_t[i, stage - 1, r] * c
        load_stage(s, m, stage, i, n)
        if is_known:
            recall(g, s, m, i, n, slot, stage)
        else:
            evaluate(g, s, m, row, frame, h, i, n, slot, stage)
        for r in range(n):
            m.stage_f[i, stage, r] = m.f[i, r]
            m.stage_t[i, stage, r] = m.t[i, r]


@wp.func
def load_stage(s: State, m: Work, stage: int, i: int, n: int):
    """Make a stage the state where forces are wanted."""
    for r in range(n):
        s.x[i, r] = m.stage_x[i, stage, r]
        s.q[i, r] = normalized(m.stage_raw[i, stage, r])
        s.v[i, r] = m.stage_v[i, stage, r]
        s.l[i, r] = m.stage_l[i, stage, r]


@wp.func(inline=True)
def stage_turning(g: Parameters, m: Work, i: int, n: int, stage: int, r: int) -> Quat:
    q = normalized(m.stage_raw[i, stage, r])
    return turning(q, spin(q, m.stage_l[i, stage, r], g.bodies.inertia_inverse[i * n + r]))


@wp.func(inline=True)
def whole_turning(g: Parameters, m: Work, i: int, n: int, r: int) -> Quat:
    """q̇ of the stages, weighted and summed."""
    middle = stage_turning(g, m, i, n, 1, r) + stage_turning(g, m, i, n, 2, r)
    return stage_turning(g, m, i, n, 0, r) + middle * spread(Scalar(2.0)) + stage_turning(g, m, i, n, 3, r)


@wp.func(inline=True)
def whole(y: wp.array3d[Vec3], i: int, r: int) -> Vec3:
    return y[i, 0, r] + (y[i, 1, r] + y[i, 2, r]) * spread(Scalar(2.0)) + y[i, 3, r]


@wp.func
def advance(g: Parameters, s: State, m: Work, t: States, source: int, to: int, row: int, frame: int, i: int, n: int):
    """One step."""
    stages(g, s, m, t, source, row, frame, i, n, False)
    sixth = g.step[i, frame] * spread(Scalar(1.0) / Scalar(6.0))
    for r in range(n):
        k = i * n + r
        pull = whole(m.stage_f, i, r) * (1.0 / g.bodies.mass[k]) + g.bodies.gravity[k] * spread(Scalar(6.0))
        t.x[i, to, r] = m.stage_x[i, 0, r] + whole(m.stage_v, i, r) * sixth
        t.q[i, to, r] = normalized(m.stage_raw[i, 0, r] + whole_turning(g, m, i, n, r) * sixth)
        t.v[i, to, r] = m.stage_v[i, 0, r] + pull * sixth
        t.l[i, to, r] = m.stage_l[i, 0, r] + whole(m.stage_t, i, r) * sixth


if not DUAL:

    @wp.func
    def advance_adjoint(
        g: Parameters, grad: Parameters, s: State, m: Work, a: State, t: States, source: int, row: int, frame: int,
        i: int, n: int,
    ):  # fmt: skip
        h = g.step[i, frame]
        slot = slot_of(g, source)
        sixth = spread(Scalar(1.0) / Scalar(6.0))
        stages(g, s, m, t, source, row, frame, i, n, g.slots > 1)
        ah = zero(0)
        for r in range(n):
            k = i * n + r
            turn = whole_turning(g, m, i, n, r)
            raw_, _p = wp.grad(normalized_power)(m.stage_raw[i, 0, r] + turn * (h * sixth), a.q[i, r])
            a.q[i, r] = raw_
            pull = whole(m.stage_f, i, r) * (1.0 / g.bodies.mass[k]) + g.bodies.gravity[k] * spread(Scalar(6.0))
            along = paired(
                whole(m.stage_v, i, r), turn, pull, whole(m.stage_t, i, r), a.x[i, r], raw_, a.v[i, r], a.l[i, r]
            )
            ah = ah + along * sixth
            m.after_x[i, r] = a.x[i, r]
            m.after_q[i, r] = raw_
            m.after_v[i, r] = a.v[i, r]
            m.after_l[i, r] = a.l[i, r]
            m.sum_x[i, r] = a.x[i, r]
            m.sum_q[i, r] = raw_
            m.sum_v[i, r] = a.v[i, r]
            m.sum_l[i, r] = a.l[i, r]
        count = int(4)  # noqa: RUF046, UP018 -- as in `stages`
        for back in range(count):
            stage = 3 - back
            load_stage(s, m, stage, i, n)
            for r in range(n):
                s.w[i, r] = spin(s.q[i, r], s.l[i, r], g.bodies.inertia_inverse[i * n + r])
                m.f[i, r] = m.stage_f[i, stage, r]
                m.t[i, r] = m.stage_t[i, stage, r]
            ah = ah + stage_adjoint(g, grad, s, m, a, row, frame, h, i, n, slot, stage)
        for r in range(n):
            a.x[i, r] = m.sum_x[i, r]
            a.v[i, r] = m.sum_v[i, r]
            a.l[i, r] = m.sum_l[i, r]
            a.q[i, r] = m.sum_q[i, r]
        load_state(t, source, s, i, n)
        all_impulses_adjoint(g, grad, s, m, a, row, i, n, slot)
        grad.step[i, frame] = grad.step[i, frame] + ah

    @wp.func
    def stage_adjoint(
        g: Parameters, grad: Parameters, s: State, m: Work, a: State, row: int, frame: int, h: Real, i: int, n: int,
        slot: int, stage: int,
    ) -> Real:  # fmt: skip
        """Adjoint of one stage. `a` has that of the state of the stage after this one, and `after_*` that of the
        state after the step; on return `a` has that of the state of this stage, which is added to the sums."""
        ah = zero(0)
        weight = spread(wp.where(stage % 3 == 0, Scalar(1.0) / Scalar(6.0), Scalar(1.0) / Scalar(3.0)))
        ahead = spread(wp.where(stage == 3, Scalar(0.0), wp.where(stage == 2, Scalar(1.0), Scalar(0.5))))
        for r in range(n):
            k = i * n + r
            turn = turning(s.q[i, r], s.w[i, r])
            pull = m.f[i, r] * (1.0 / g.bodies.mass[k]) + g.bodies.gravity[k]
            if stage < 3:
                ah = ah + paired(s.v[i, r], turn, pull, m.t[i, r], a.x[i, r], a.q[i, r], a.v[i, r], a.l[i, r]) * ahead
            px = m.after_x[i, r] * (h * weight) + a.x[i, r] * (h * ahead)
            pq = m.after_q[i, r] * (h * weight) + a.q[i, r] * (h * ahead)
            pv = m.after_v[i, r] * (h * weight) + a.v[i, r] * (h * ahead)
            pl = m.after_l[i, r] * (h * weight) + a.l[i, r] * (h * ahead)
            q_, v_, l_, f_, t_, mass_, inertia_, gravity_, _x, _q, _v, _l = wp.grad(rates_power)(
                s.q[i, r], s.v[i, r], s.l[i, r], m.f[i, r], m.t[i, r], g.bodies.mass[k],
                g.bodies.inertia_inverse[k], g.bodies.gravity[k], px, pq, pv, pl,
            )  # fmt: skip
            grad.bodies.mass[k] = grad.bodies.mass[k] + mass_
            grad.bodies.inertia_inverse[k] = grad.bodies.inertia_inverse[k] + inertia_
            grad.bodies.gravity[k] = grad.bodies.gravity[k] + gravity_
            m.fp[i, r] = f_
            m.tp[i, r] = t_
            a.x[i, r] = zero3(0)
            a.q[i, r] = q_
            a.v[i, r] = v_
            a.l[i, r] = l_
        ah = ah + evaluate_adjoint(g, grad, s, m, a, row, frame, h, i, n, slot, stage)
        for r in range(n):
            raw_, _p = wp.grad(normalized_power)(m.stage_raw[i, stage, r], a.q[i, r])
            a.q[i, r] = raw_
            m.sum_x[i, r] = m.sum_x[i, r] + a.x[i, r]
            m.sum_q[i, r] = m.sum_q[i, r] + raw_
            m.sum_v[i, r] = m.sum_v[i, r] + a.v[i, r]
            m.sum_l[i, r] = m.sum_l[i, r] + a.l[i, r]
        return ah
