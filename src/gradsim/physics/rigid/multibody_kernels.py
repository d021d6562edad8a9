"""Rollout of rigid bodies that act on one another, a template for `engine.lanes`.

Left open: the forces (`rigid/multibody_force_kernels.py`), and `advance` and `advance_adjoint` of an integrator
(`rigid/multibody_semi_implicit_kernels.py`, `rigid/multibody_rk4_kernels.py`). The adjoint of a step takes what acts on the
bodies from its virtual power: probes of forces and torques come from the rest of the step.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.rollout_kernels import forward_sweep, reverse_sweep

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.rigid.multibody_force_kernels import Parameters, State, States, all_force_powers
    from gradsim.physics.rigid.multibody_semi_implicit_kernels import advance, advance_adjoint, all_step_powers


@wp.func
def step(g: Parameters, t: States, source: int, target: int, row: int, interval: int, i: int):
    advance(g, g.state, g.work, t, source, target, row, interval, i, g.count)


@wp.func
def spacing(g: Parameters) -> int:
    return g.spacing


forward = forward_sweep(__name__, Parameters, States, step, spacing=spacing)


if not DUAL:

    @wp.func
    def copy_state(from_: States, source: int, to: States, target: int, i: int):
        for r in range(to.x.shape[2]):
            to.x[i, target, r] = from_.x[i, source, r]
            to.q[i, target, r] = from_.q[i, source, r]
            to.v[i, target, r] = from_.v[i, source, r]
            to.l[i, target, r] = from_.l[i, source, r]

    @wp.func
    def add_state(g: Parameters, t: States, frame: int, a: State, i: int):
        for r in range(g.count):
            a.x[i, r] = a.x[i, r] + t.x[i, frame, r]
            a.q[i, r] = a.q[i, r] + t.q[i, frame, r]
            a.v[i, r] = a.v[i, r] + t.v[i, frame, r]
            a.l[i, r] = a.l[i, r] + t.l[i, frame, r]

    @wp.func
    def same(a: Real) -> Real:
        return a

    @wp.func
    def step_adjoint(
        g: Parameters, t: States, source: int, row: int, interval: int, i: int, a: State, grad: Parameters
    ):
        _after = wp.grad(same)(
            zero(0)
        )  # Warp declares functions with a wp.grad after all others, those which call them not
        advance_adjoint(g, grad, g.state, g.work, a, t, source, row, interval, i, g.count)

    backward = reverse_sweep(
        __name__, Parameters, States, State, step, copy_state, add_state, step_adjoint, recalls=True, spacing=spacing
    )

    # Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
    @wp.kernel(enable_backward=True)
    def keep_adjoints(v: wp.array[Vec3], q: wp.array[Quat], m: wp.array[Mat3], s: wp.array[Real]):
        if never(0):
            s[1] = all_force_powers(v[0], q[0], m[0], s[0]) + all_step_powers(v[0], q[0], m[0], s[0])
