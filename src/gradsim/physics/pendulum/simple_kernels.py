"""Kernels of one pendulum per world, a template for `engine.lanes`.

    θ̈ = e b cos θ − e g sin θ − (c + d |θ̇|) θ̇,   e = L / (L² + 2/5 r²),   L = s + r       (see `pendulum/simple.py`)

The integrator is the classical Runge–Kutta method, of order 4 but for one thing: the second derivative of the drag jumps
at θ̇ = 0, so a step over a turning point has an error of up to d α² h³/81 in the rate, α = |θ̈| there (Simpson's rule over
α² τ |τ|, largest when θ̇ = 0 after a third of the step). The first derivative, 2 d |θ̇|, is continuous: the adjoint of the
steps is exact and finite everywhere. It is the gradient of the product of a step with the adjoint of the state.
"""

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.rollout_kernels import forward_sweep, reverse_sweep


@wp.struct
class Parameters:
    string_length: wp.array[Real]  # s, pivot to ball surface [m]
    radius: wp.array[Real]  # r, of the ball [m]
    gravity: wp.array[Real]  # g [m/s²]
    damping: wp.array[Real]  # c [1/s]
    drag: wp.array[Real]  # d [1/rad]
    side: wp.array[Real]  # b [m/s²]
    step: wp.array2d[Real]  # h in each frame interval [s]
    down: wp.array[Real]  # e g [1/s²], set by `prepare`
    across: wp.array[Real]  # e b


@wp.struct
class States:  # (packs, instants)
    angle: wp.array2d[Real]
    rate: wp.array2d[Real]


@wp.struct
class Adjoint:
    angle: wp.array[Real]
    rate: wp.array[Real]


@wp.func(inline=True)
def restoring(string_length: Real, radius: Real, gravity: Real, side: Real):
    """e g and e b [1/s²]."""
    length = string_length + radius
    two_fifths = spread(Scalar(2.0) / Scalar(5.0))
    inertia = length * length + radius * radius * two_fifths
    return gravity * length / inertia, side * length / inertia


@wp.func(inline=True)
def acceleration(angle: Real, rate: Real, down: Real, across: Real, damping: Real, drag: Real) -> Real:
    return across * cos(angle) - down * sin(angle) - (damping + drag * abs(rate)) * rate


@wp.func(inline=True)
def advance(angle: Real, rate: Real, down: Real, across: Real, damping: Real, drag: Real, h: Real):
    half = h * 0.5
    a1 = acceleration(angle, rate, down, across, damping, drag)
    v2 = rate + a1 * half
    a2 = acceleration(angle + rate * half, v2, down, across, damping, drag)
    v3 = rate + a2 * half
    a3 = acceleration(angle + v2 * half, v3, down, across, damping, drag)
    v4 = rate + a3 * h
    a4 = acceleration(angle + v3 * h, v4, down, across, damping, drag)
    sixth = h * spread(Scalar(1.0) / Scalar(6.0))
    return angle + (rate + (v2 + v3) * 2.0 + v4) * sixth, rate + (a1 + (a2 + a3) * 2.0 + a4) * sixth


@wp.func
def prepare(p: Parameters, i: int):
    down, across = restoring(p.string_length[i], p.radius[i], p.gravity[i], p.side[i])
    p.down[i] = down
    p.across[i] = across


@wp.func
def step(p: Parameters, t: States, source: int, target: int, row: int, interval: int, i: int):
    angle, rate = advance(
        t.angle[i, source], t.rate[i, source], p.down[i], p.across[i], p.damping[i], p.drag[i], p.step[i, interval]
    )
    t.angle[i, target] = angle
    t.rate[i, target] = rate


forward = forward_sweep(__name__, Parameters, States, step, prepare)


if not DUAL:

    @wp.func(inline=True)
    def step_product(
        angle: Real,
        rate: Real,
        down: Real,
        across: Real,
        damping: Real,
        drag: Real,
        h: Real,
        angle_adjoint: Real,
        rate_adjoint: Real,
    ) -> Real:
        """⟨state after a step, adjoint⟩: its gradient is the adjoint of the step."""
        x, v = advance(angle, rate, down, across, damping, drag, h)
        return x * angle_adjoint + v * rate_adjoint

    @wp.func(inline=True)
    def restoring_product(
        string_length: Real, radius: Real, gravity: Real, side: Real, down_adjoint: Real, across_adjoint: Real
    ) -> Real:
        down, across = restoring(string_length, radius, gravity, side)
        return down * down_adjoint + across * across_adjoint

    @wp.func
    def copy_state(from_: States, source: int, to: States, target: int, i: int):
        to.angle[i, target] = from_.angle[i, source]
        to.rate[i, target] = from_.rate[i, source]

    @wp.func
    def add_state(p: Parameters, t: States, frame: int, adjoint: Adjoint, i: int):
        adjoint.angle[i] = adjoint.angle[i] + t.angle[i, frame]
        adjoint.rate[i] = adjoint.rate[i] + t.rate[i, frame]

    @wp.func
    def step_adjoint(
        p: Parameters, t: States, source: int, row: int, interval: int, i: int, adjoint: Adjoint, grad: Parameters
    ):
        angle_, rate_, down_, across_, damping_, drag_, h_, _x, _v = wp.grad(step_product)(
            t.angle[i, source], t.rate[i, source], p.down[i], p.across[i], p.damping[i], p.drag[i],
            p.step[i, interval], adjoint.angle[i], adjoint.rate[i],
        )  # fmt: skip
        adjoint.angle[i] = angle_
        adjoint.rate[i] = rate_
        grad.step[i, interval] = grad.step[i, interval] + h_
        grad.down[i] = grad.down[i] + down_
        grad.across[i] = grad.across[i] + across_
        grad.damping[i] = grad.damping[i] + damping_
        grad.drag[i] = grad.drag[i] + drag_

    @wp.func
    def prepare_adjoint(p: Parameters, i: int, grad: Parameters):
        string_length_, radius_, gravity_, side_, _down, _across = wp.grad(restoring_product)(
            p.string_length[i], p.radius[i], p.gravity[i], p.side[i], grad.down[i], grad.across[i]
        )
        grad.string_length[i] = string_length_
        grad.radius[i] = radius_
        grad.gravity[i] = gravity_
        grad.side[i] = side_

    backward = reverse_sweep(
        __name__, Parameters, States, Adjoint, step, copy_state, add_state, step_adjoint, prepare, prepare_adjoint
    )

    # Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
    @wp.kernel(enable_backward=True)
    def keep_adjoints(s: wp.array[Real]):
        if never(0):
            r = s[0]
            s[1] = step_product(r, r, r, r, r, r, r, r, r) + restoring_product(r, r, r, r, r, r)
