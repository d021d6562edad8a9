"""Rollout of one rigid body per world, a template for `engine.lanes`.

Left open: the wrench (`rigid/wrench_kernels.py`), `advance` and `advance_adjoint` of an integrator
(`rigid/semi_implicit_kernels.py`, `rigid/rk4_kernels.py`). The step h is a number of each world and frame interval, so that
the clock has derivatives too. Steps that end at touch and release are in `rigid/event_rollout_kernels.py`.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.rollout_kernels import forward_sweep, reverse_sweep

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.rigid.semi_implicit_kernels import advance, advance_adjoint, all_step_powers
    from gradsim.physics.rigid.wrench_kernels import Parameters, all_wrench_powers


@wp.struct
class States:  # (packs, instants)
    x: wp.array2d[Vec3]
    q: wp.array2d[Quat]
    v: wp.array2d[Vec3]
    l: wp.array2d[Vec3]


@wp.struct
class Adjoint:
    x: wp.array[Vec3]
    q: wp.array[Quat]
    v: wp.array[Vec3]
    l: wp.array[Vec3]


@wp.func
def step(p: Parameters, t: States, source: int, target: int, row: int, interval: int, i: int):
    x, q, v, l = advance(p, row, p.step[i, interval], i, t.x[i, source], t.q[i, source], t.v[i, source], t.l[i, source])
    t.x[i, target] = x
    t.q[i, target] = q
    t.v[i, target] = v
    t.l[i, target] = l


@wp.func
def frame_steps(p: Parameters, t: States, frame: int, substeps: int, i: int):
    x = t.x[i, frame]
    q = t.q[i, frame]
    v = t.v[i, frame]
    l = t.l[i, frame]
    for k in range(substeps):
        x, q, v, l = advance(p, frame * substeps + k, p.step[i, frame], i, x, q, v, l)
    t.x[i, frame + 1] = x
    t.q[i, frame + 1] = q
    t.v[i, frame + 1] = v
    t.l[i, frame + 1] = l


forward = forward_sweep(__name__, Parameters, States, step, frame_steps=frame_steps)


if not DUAL:

    @wp.func
    def copy_state(from_: States, source: int, to: States, target: int, i: int):
        to.x[i, target] = from_.x[i, source]
        to.q[i, target] = from_.q[i, source]
        to.v[i, target] = from_.v[i, source]
        to.l[i, target] = from_.l[i, source]

    @wp.func
    def add_state(p: Parameters, t: States, frame: int, adjoint: Adjoint, i: int):
        adjoint.x[i] = adjoint.x[i] + t.x[i, frame]
        adjoint.q[i] = adjoint.q[i] + t.q[i, frame]
        adjoint.v[i] = adjoint.v[i] + t.v[i, frame]
        adjoint.l[i] = adjoint.l[i] + t.l[i, frame]

    @wp.func
    def step_adjoint(
        p: Parameters, t: States, source: int, row: int, interval: int, i: int, adjoint: Adjoint, grad: Parameters
    ):
        _after = wp.grad(same)(
            zero(0)
        )  # Warp declares functions with a wp.grad after all others, those which call them not
        ax, aq, av, al, ah = advance_adjoint(
            p, grad, row, p.step[i, interval], i, t.x[i, source], t.q[i, source], t.v[i, source], t.l[i, source],
            adjoint.x[i], adjoint.q[i], adjoint.v[i], adjoint.l[i],
        )  # fmt: skip
        adjoint.x[i] = ax
        adjoint.q[i] = aq
        adjoint.v[i] = av
        adjoint.l[i] = al
        grad.step[i, interval] = grad.step[i, interval] + ah

    @wp.func
    def same(a: Real) -> Real:
        return a

    backward = reverse_sweep(__name__, Parameters, States, Adjoint, step, copy_state, add_state, step_adjoint)

    # Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
    @wp.kernel(enable_backward=True)
    def keep_adjoints(v: wp.array[Vec3], q: wp.array[Quat], m: wp.array[Mat3], s: wp.array[Real]):
        if never(0):
            s[1] = all_wrench_powers(v[0], q[0], m[0], s[0]) + all_step_powers(v[0], q[0], m[0], s[0])
