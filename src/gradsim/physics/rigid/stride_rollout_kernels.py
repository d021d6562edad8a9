"""Rollout of one rigid body per world whose steps are taken together in free flight, a template for `engine.lanes`.

A frame interval has strides of p.stride steps h. In a row of a stride a world takes one step:

    to the end of its stride     where nothing is in reach (`stride_kernels.py`), or no more than h is left
    h                            else
    none                         where its stride is over

The rest of the stride is part of the state, so the clock has derivatives through both kinds of step. Contacts are plain: steps
that end at touch and release are in `rigid/event_rollout_kernels.py`. Left open: as in `rigid/kernels.py`, and `may_touch`.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.rollout_kernels import forward_sweep, reverse_sweep

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.rigid.rk4_kernels import advance, advance_adjoint, all_step_powers
    from gradsim.physics.rigid.stride_kernels import may_touch
    from gradsim.physics.rigid.wrench_kernels import Parameters, all_wrench_powers


@wp.struct
class States:  # (packs, instants)
    x: wp.array2d[Vec3]
    q: wp.array2d[Quat]
    v: wp.array2d[Vec3]
    l: wp.array2d[Vec3]
    rest: wp.array2d[Real]  # time to the end of the stride [s]


@wp.struct
class Adjoint:
    x: wp.array[Vec3]
    q: wp.array[Quat]
    v: wp.array[Vec3]
    l: wp.array[Vec3]
    rest: wp.array[Real]


@wp.func(inline=True)
def goes(p: Parameters, stride: int, k: int, rest: Real):
    """Worlds that take a step in row k of a stride. The first counts without length, too: it has derivatives by h."""
    time = rest
    if k == 0 or p.quiet[stride] == 0:
        time = spread(Scalar(1.0))
    return less(zero(0), time)


@wp.func(inline=True)
def ends_stride(p: Parameters, stride: int, k: int, h: Real, i: int, x: Vec3, v: Vec3, l: Vec3, rest: Real):
    """Worlds whose step in row k of a stride is one to its end."""
    one = spread(Scalar(1.0))
    ending = zero(0)
    if p.quiet[stride] != 0:
        ending = where(less(h * 1.0001, rest), zero(0), one)
        if k % 4 == 0:  # the test costs a tenth of a step
            ending = where(may_touch(p, rest, i, x, v, l), ending, one)
    return less(zero(0), ending)


@wp.func(inline=True)
def row_step(
    p: Parameters, stride: int, k: int, h: Real, i: int, x: Vec3, q: Quat, v: Vec3, l: Vec3, rest: Real, going: Mask
):  # fmt: skip
    """State and rest after row k of a stride."""
    length = where(ends_stride(p, stride, k, h, i, x, v, l, rest), rest, h)
    x1, q1, v1, l1 = advance(p, stride * p.stride + k, length, i, x, q, v, l)
    return (
        where(going, x1, x), where(going, q1, q), where(going, v1, v), where(going, l1, l),
        where(going, rest - length, rest),
    )  # fmt: skip


@wp.func
def step(p: Parameters, t: States, source: int, target: int, row: int, interval: int, i: int):
    k = row % p.stride
    h = p.step[i, interval]
    x = t.x[i, source]
    q = t.q[i, source]
    v = t.v[i, source]
    l = t.l[i, source]
    rest = h * spread(Scalar(p.stride))
    if k > 0:
        rest = t.rest[i, source]
    going = goes(p, row // p.stride, k, rest)
    if any_lane(going):
        x, q, v, l, rest = row_step(p, row // p.stride, k, h, i, x, q, v, l, rest, going)
    t.x[i, target] = x
    t.q[i, target] = q
    t.v[i, target] = v
    t.l[i, target] = l
    t.rest[i, target] = rest


@wp.func
def frame_steps(p: Parameters, t: States, frame: int, substeps: int, i: int):
    x = t.x[i, frame]
    q = t.q[i, frame]
    v = t.v[i, frame]
    l = t.l[i, frame]
    h = p.step[i, frame]
    strides = substeps // p.stride
    for b in range(strides):
        stride = frame * strides + b
        rest = h * spread(Scalar(p.stride))
        for k in range(p.stride):
            going = goes(p, stride, k, rest)
            if not any_lane(going):
                break
            x, q, v, l, rest = row_step(p, stride, k, h, i, x, q, v, l, rest, going)
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
        k = row % p.stride
        h = p.step[i, interval]
        rest = h * spread(Scalar(p.stride))
        if k > 0:
            rest = t.rest[i, source]
        going = goes(p, row // p.stride, k, rest)
        if any_lane(going):
            x = t.x[i, source]
            v = t.v[i, source]
            l = t.l[i, source]
            after = adjoint.rest[i]
            to_end = ends_stride(p, row // p.stride, k, h, i, x, v, l, rest)
            length = where(going, where(to_end, rest, h), zero(0))
            ax, aq, av, al, ah = advance_adjoint(
                p, grad, row, length, i, x, t.q[i, source], v, l, adjoint.x[i], adjoint.q[i], adjoint.v[i], adjoint.l[i]
            )
            adjoint.x[i] = where(going, ax, adjoint.x[i])
            adjoint.q[i] = where(going, aq, adjoint.q[i])
            adjoint.v[i] = where(going, av, adjoint.v[i])
            adjoint.l[i] = where(going, al, adjoint.l[i])
            adjoint.rest[i] = where(going, where(to_end, ah, after), after)
            by_step = where(to_end, zero(0), ah - after)
            grad.step[i, interval] = grad.step[i, interval] + where(going, by_step, zero(0))
        if k == 0:
            grad.step[i, interval] = grad.step[i, interval] + adjoint.rest[i] * spread(Scalar(p.stride))
            adjoint.rest[i] = zero(0)

    @wp.func
    def same(a: Real) -> Real:
        return a

    backward = reverse_sweep(__name__, Parameters, States, Adjoint, step, copy_state, add_state, step_adjoint)

    # Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
    @wp.kernel(enable_backward=True)
    def keep_adjoints(v: wp.array[Vec3], q: wp.array[Quat], m: wp.array[Mat3], s: wp.array[Real]):
        if never(0):
            s[1] = all_wrench_powers(v[0], q[0], m[0], s[0]) + all_step_powers(v[0], q[0], m[0], s[0])
