"""Rollout of one rigid body per world by steps that end at touch and release, a template for `engine.lanes`.

A frame interval has strides of p.stride steps h, and each stride p.spare rows more than that. In a row a world takes one step:

    to the end of its stride     where nothing is in reach (`stride_kernels.py`), or no more than h is left
    to a touch or release        where one lies in the step (`event_kernels.py`), at most p.events times in a stride
    h                            else
    none                         where its stride is over

After p.events and near a grazing touch contacts are plain and steps end at no event. The
rest of the stride is part of the state: what follows an event depends on its time. With λ the adjoint after a step of length τ,
ρ that of the rest after it, and dτ of `event_kernels.py`, a step that ends at an event has the adjoint of a step of given
length with λ + μ ∂gap/∂y in place of λ, where

    μ = -(λ·∂Φ/∂τ - ρ) / (∂gap/∂y·∂Φ/∂τ)                 and adds μ ∂gap/∂parameters

The force is continuous, so the numerator is of the order of the error of a step. Left open: as in `rigid/kernels.py`, and the
functions of the two files above.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.rollout_kernels import forward_sweep, reverse_sweep

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.point_plane import contact_gap
    from gradsim.physics.contact.point_sdf import obstacle_gap
    from gradsim.physics.rigid.event_kernels import (
        cubic_root,
        is_contact,
        least_margin,
        margin_at,
        margin_rate,
        newton_step,
        rounding,
        set_modes,
    )
    from gradsim.physics.rigid.rk4_kernels import advance, advance_adjoint, all_step_powers
    from gradsim.physics.rigid.stride_kernels import may_touch
    from gradsim.physics.rigid.wrench_kernels import Parameters, all_wrench_powers

OBSTACLES = globals().get("OBSTACLES", False)
# `event` of a step is the index of the contact that it ends at, or one of these
TO_END = wp.constant(-1.0)  # it goes to the end of its stride
STEP = wp.constant(-2.0)  # it has the length h
ITERATIONS = wp.constant(26)  # of Newton's method and bisections
MIN_ROOT_SPEED = wp.constant(0.01)  # least speed at a root, as depth over the step, as a share of the depth without one


@wp.struct
class States:  # (packs, instants)
    x: wp.array2d[Vec3]
    q: wp.array2d[Quat]
    v: wp.array2d[Vec3]
    l: wp.array2d[Vec3]
    rest: wp.array2d[Real]  # time to the end of the stride [s]
    budget: wp.array2d[Real]  # events that its steps may still end at
    length: wp.array2d[Real]  # of the step that led here [s]
    event: wp.array2d[Real]  # what ended it
    plain: wp.array2d[Real]  # 1 where its contacts were plain, else 0


@wp.struct
class Adjoint:
    x: wp.array[Vec3]
    q: wp.array[Quat]
    v: wp.array[Vec3]
    l: wp.array[Vec3]
    rest: wp.array[Real]
    unused: Parameters  # where adjoints of the parameters go that do not count


@wp.func(inline=True)
def goes(p: Parameters, stride: int, k: int, rest: Real):
    """Worlds that take a step in row k of a stride. The first counts without length, too: it has derivatives by h."""
    time = rest
    if k == 0:
        time = spread(Scalar(1.0))
    elif p.quiet[stride] == 0:
        time = spread(Scalar(1.0))
        if k >= p.stride:
            time = zero(0)
    return less(zero(0), time)


@wp.func(inline=True)
def find_root(
    p: Parameters, i: int, n: int, noise: Real, size: Real, depth: Real, tau: Real, margin: Real, contact: Real,
    low: Real, high: Real, tau_before: Real, margin_before: Real, contact_before: Real, slope_before: Real, open: Real,
    x: Vec3, q: Quat, v: Vec3, l: Vec3, x1: Vec3, q1: Quat, v1: Vec3, l1: Vec3,
):  # fmt: skip
    """Iteration n of bracketed root finding: Newton's method for the first τ at which the least margin is 0, else bisection.

    The state before the step is x, that after a step of length τ is x1, with its least margin; the step of length `size`
    ends `depth` beyond. `low` and `high` bracket the root. By world:

        open    1: it searches; 1/2: τ is the root, and dτ of dual numbers is one iteration behind; 0: it does not search
        lost    1: it gives up, at a grazing touch or after the last iteration; 0: else

    Returns:
        Next τ, slope of the margin, bracket, `open` and `lost`.
    """
    one = spread(Scalar(1.0))
    searching = less(zero(0), open)
    rate = margin_rate(p, i, contact, x1, q1, v1, l1)
    after = tau
    slope = rate
    lower = low
    upper = high
    still = open
    if n == 0:
        start = margin_rate(p, i, contact, x, q, v, l)
        after = cubic_root(margin_at(p, i, contact, x, q), start, margin, rate, where(searching, size, one))
    else:
        after, slope, lower, upper, exact = newton_step(
            noise, size, tau, margin, contact, rate, low, high, tau_before, margin_before, contact_before, slope_before
        )
        if DUAL:
            exact = exact * 0.5  # once more: dτ is one iteration behind
        still = where(searching, open - exact, open)
    steep = less(neg(depth) * spread(Scalar(MIN_ROOT_SPEED)), neg(slope) * size)
    lost = where(less(still, spread(Scalar(0.75))), where(steep, zero(0), one), zero(0))
    if n == ITERATIONS - 2:
        lost = where(less(still, spread(Scalar(0.25))), lost, one)
    lost = where(searching, lost, zero(0))
    return after, slope, lower, upper, where(less(zero(0), lost), zero(0), still), lost


@wp.func(inline=True)
def row_step(
    p: Parameters, stride: int, k: int, h: Real, i: int, x: Vec3, q: Quat, v: Vec3, l: Vec3, rest: Real, budget: Real,
    going: Mask,
):  # fmt: skip
    """Row k of a stride: state, rest and budget after it, and length, event and plain of its step."""
    one = spread(Scalar(1.0))
    half = spread(Scalar(0.5))
    row = stride * p.stride + wp.min(k, p.stride - 1)
    more = less(h * 1.0001, rest)
    short = where(more, spread(Scalar(STEP)), spread(Scalar(TO_END)))
    event = short
    plain = where(less(budget, half), one, zero(0))
    quiet = p.quiet[stride] != 0
    if quiet:
        if p.flight != 0 and k % 4 == 0:  # the test costs a tenth of a step
            event = where(may_touch(p, rest, i, x, v, l), event, spread(Scalar(TO_END)))
    else:
        event = spread(Scalar(STEP))
        plain = one
    size = where(less(event, spread(Scalar(-1.5))), h, rest)  # of the step without an event
    noise = rounding(p, i, x)
    set_modes(p, h, i, x, q, v, l, less(half, plain))
    x1 = x
    q1 = q
    v1 = v
    l1 = l
    length = size
    pending = where(going, one, zero(0))  # worlds whose step of this length is not known yet
    open = zero(0)  # status of the root finding, see `find_root`
    depth = zero(0)
    contact = zero(0)
    slope = zero(0)
    low = zero(0)
    high = size
    before = size
    margin = zero(0)
    left = budget
    for n in range(ITERATIONS):
        if not any_lane(less(zero(0), pending)):
            break
        x2, q2, v2, l2 = advance(p, row, length, i, x, q, v, l)  # one call: it is compiled into its place
        now = less(zero(0), pending)
        x1 = where(now, x2, x1)
        q1 = where(now, q2, q1)
        v1 = where(now, v2, v1)
        l1 = where(now, l2, l1)
        pending = zero(0)
        if quiet:
            m, c = least_margin(p, i, x1, q1)
            if n == 0:
                open = where(less(m, neg(noise)), where(going, one, zero(0)), zero(0))
                left = budget - open
                depth = m
            searching = less(zero(0), open)
            if any_lane(searching):
                tau, slope, low, high, open, lost = find_root(
                    p, i, n, noise, size, depth, length, m, c, low, high, before, margin, contact, slope, open,
                    x, q, v, l, x1, q1, v1, l1,
                )  # fmt: skip
                event = where(searching, where(less(half, lost), short, c), event)
                contact = where(searching, c, contact)
                margin = m
                before = length
                pending = where(searching, one, zero(0))
                if not DUAL:
                    pending = where(less(zero(0), open), pending, lost)  # the step to a root is known
                length = where(less(zero(0), pending), tau, length)
                length = where(less(half, lost), where(more, h, rest), length)
                if any_lane(less(half, lost)):
                    plain = max(plain, lost)
                    set_modes(p, h, i, x, q, v, l, less(half, plain))
    after = where(
        less(event, spread(Scalar(-1.5))), rest - length, where(less(event, neg(half)), zero(0), rest - length)
    )
    return (
        where(going, x1, x), where(going, q1, q), where(going, v1, v), where(going, l1, l), where(going, after, rest),
        where(going, left, budget), length, event, plain,
    )  # fmt: skip


@wp.func
def step(p: Parameters, t: States, source: int, target: int, row: int, interval: int, i: int):
    rows = p.stride + p.spare
    k = row % rows
    h = p.step[i, interval]
    x = t.x[i, source]
    q = t.q[i, source]
    v = t.v[i, source]
    l = t.l[i, source]
    rest = h * spread(Scalar(p.stride))
    budget = spread(Scalar(p.events))
    if k > 0:
        rest = t.rest[i, source]
        budget = t.budget[i, source]
    going = goes(p, row // rows, k, rest)
    if any_lane(going):
        x, q, v, l, rest, budget, length, event, plain = row_step(
            p, row // rows, k, h, i, x, q, v, l, rest, budget, going
        )
        t.length[i, target] = length
        t.event[i, target] = event
        t.plain[i, target] = plain
    t.x[i, target] = x
    t.q[i, target] = q
    t.v[i, target] = v
    t.l[i, target] = l
    t.rest[i, target] = rest
    t.budget[i, target] = budget


@wp.func
def frame_steps(p: Parameters, t: States, frame: int, substeps: int, i: int):
    x = t.x[i, frame]
    q = t.q[i, frame]
    v = t.v[i, frame]
    l = t.l[i, frame]
    h = p.step[i, frame]
    rows = p.stride + p.spare
    strides = substeps // rows
    for b in range(strides):
        rest = h * spread(Scalar(p.stride))
        budget = spread(Scalar(p.events))
        for k in range(rows):
            going = goes(p, frame * strides + b, k, rest)
            if not any_lane(going):
                break
            x, q, v, l, rest, budget, _length, _event, _plain = row_step(
                p, frame * strides + b, k, h, i, x, q, v, l, rest, budget, going
            )
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

    @wp.func(inline=True)
    def scaled_gap(
        x: Vec3, q: Quat, point: Vec3, radius: Real, normal: Vec3, height: Real, weight: Real
    ) -> Real:  # fmt: skip
        return contact_gap(x, q, point, radius, normal, height) * weight

    if OBSTACLES:

        @wp.func(inline=True)
        def scaled_obstacle_gap(
            x: Vec3, q: Quat, point: Vec3, radius: Real, centre: Vec3, a0: Vec3, a1: Vec3, a2: Vec3,
            h0: Real, h1: Real, h2: Real, rounding: Real, weight: Real,
        ) -> Real:  # fmt: skip
            return obstacle_gap(x, q, point, radius, centre, a0, a1, a2, h0, h1, h2, rounding) * weight

    @wp.func
    def gap_adjoint(p: Parameters, grad: Parameters, i: int, contact: Real, weight: Real, x: Vec3, q: Quat):
        """Adjoint of x and q from that of the gap of a contact of each world; those of the parameters go to `grad`."""
        ax = zero3(0)
        aq = quat(zero3(0), zero(0))
        for g in range(p.normal.shape[1]):
            for j in range(p.points.shape[1]):
                chosen = is_contact(contact, g * p.points.shape[1] + j)
                if any_lane(chosen):
                    x_, q_, point_, radius_, n_, h_, _w = wp.grad(scaled_gap)(
                        x, q, p.points[i, j], p.radius[i, j], p.normal[i, g], p.height[i, g],
                        where(chosen, weight, zero(0)),
                    )  # fmt: skip
                    ax = ax + x_
                    aq = aq + q_
                    grad.points[i, j] = grad.points[i, j] + point_
                    grad.radius[i, j] = grad.radius[i, j] + radius_
                    grad.normal[i, g] = grad.normal[i, g] + n_
                    grad.height[i, g] = grad.height[i, g] + h_
        if OBSTACLES:
            bx, bq = obstacle_gap_adjoint(p, grad, i, contact, weight, x, q)
            ax = ax + bx
            aq = aq + bq
        return ax, aq

    if OBSTACLES:

        @wp.func
        def obstacle_gap_adjoint(
            p: Parameters, grad: Parameters, i: int, contact: Real, weight: Real, x: Vec3, q: Quat
        ):
            """The same for obstacles."""
            ax = zero3(0)
            aq = quat(zero3(0), zero(0))
            for o in range(p.centre.shape[1]):
                for j in range(p.points.shape[1]):
                    chosen = is_contact(contact, (p.normal.shape[1] + o) * p.points.shape[1] + j)
                    if any_lane(chosen):
                        x_, q_, point_, radius_, c_, a0_, a1_, a2_, h0_, h1_, h2_, s_, _w = wp.grad(
                            scaled_obstacle_gap
                        )(
                            x, q, p.points[i, j], p.radius[i, j], p.centre[i, o], p.axis[i, o, 0], p.axis[i, o, 1],
                            p.axis[i, o, 2], p.half[i, o, 0], p.half[i, o, 1], p.half[i, o, 2], p.rounding[i, o],
                            where(chosen, weight, zero(0)),
                        )  # fmt: skip
                        ax = ax + x_
                        aq = aq + q_
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
            return ax, aq

    @wp.func
    def step_adjoint(
        p: Parameters, t: States, source: int, row: int, interval: int, i: int, adjoint: Adjoint, grad: Parameters
    ):
        _after = wp.grad(same)(
            zero(0)
        )  # Warp declares functions with a wp.grad after all others, those which call them not
        one = spread(Scalar(1.0))
        half = spread(Scalar(0.5))
        rows = p.stride + p.spare
        k = row % rows
        stride = row // rows
        h = p.step[i, interval]
        rest = h * spread(Scalar(p.stride))
        if k > 0:
            rest = t.rest[i, source]
        going = goes(p, stride, k, rest)
        if any_lane(going):
            at = stride * p.stride + wp.min(k, p.stride - 1)
            x = t.x[i, source]
            q = t.q[i, source]
            v = t.v[i, source]
            l = t.l[i, source]
            ax = adjoint.x[i]
            aq = adjoint.q[i]
            av = adjoint.v[i]
            al = adjoint.l[i]
            after = adjoint.rest[i]
            event = t.event[i, source + 1]
            length = where(going, t.length[i, source + 1], zero(0))
            located = less(neg(half), where(going, event, neg(one)))
            set_modes(p, h, i, x, q, v, l, less(half, t.plain[i, source + 1]))
            bx = ax
            bq = aq
            if any_lane(located):
                x1 = t.x[i, source + 1]
                q1 = t.q[i, source + 1]
                gx, gq = gap_adjoint(p, adjoint.unused, i, event, one, x1, q1)
                _x, _q, _v, _l, gain = advance_adjoint(
                    p, adjoint.unused, at, length, i, x, q, v, l, ax, aq, av, al
                )  # fmt: skip
                _x, _q, _v, _l, rate = advance_adjoint(
                    p, adjoint.unused, at, length, i, x, q, v, l, gx, gq, zero3(0), zero3(0)
                )  # fmt: skip
                weight = where(located, (after - gain) / where(located, rate, one), zero(0))
                gx, gq = gap_adjoint(p, grad, i, event, weight, x1, q1)
                bx = ax + gx
                bq = aq + gq
            cx, cq, cv, cl, ah = advance_adjoint(p, grad, at, length, i, x, q, v, l, bx, bq, av, al)
            adjoint.x[i] = where(going, cx, ax)
            adjoint.q[i] = where(going, cq, aq)
            adjoint.v[i] = where(going, cv, av)
            adjoint.l[i] = where(going, cl, al)
            by_step = less(event, spread(Scalar(-1.5)))
            to_end = where(located, zero(0), where(by_step, zero(0), one))
            adjoint.rest[i] = where(going, where(less(half, to_end), ah, after), after)
            grad.step[i, interval] = grad.step[i, interval] + where(going, where(by_step, ah - after, zero(0)), zero(0))
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
            power = all_wrench_powers(v[0], q[0], m[0], s[0]) + all_step_powers(v[0], q[0], m[0], s[0])
            power = power + scaled_gap(v[0], q[0], v[0], s[0], v[0], s[0], s[0])
            if OBSTACLES:
                power = power + scaled_obstacle_gap(
                    v[0], q[0], v[0], s[0], v[0], v[0], v[0], v[0], s[0], s[0], s[0], s[0], s[0]
                )
            s[1] = power
