"""Rollout of one pendulum per world, a template for `engine.lanes`. The equation stands in `pendulum.py`.

    θ̈ = e b cos θ − e g sin θ − (c + d |θ̇|) θ̇,   e = L / (L² + 2/5 r²),   L = s + r

The integrator is the classical Runge–Kutta method, and its error falls as h⁴, but for one thing: the second derivative
of the drag jumps at θ̇ = 0, so a step over a turning point leaves an error of up to d α² h³/81 in the rate, α = |θ̈|
there (Simpson's rule over α² τ |τ|, the worst when θ̇ = 0 after a third of the step). The first derivative, 2 d |θ̇|,
is continuous: the adjoint of the steps is exact and finite everywhere.

One launch covers all frames. The reverse sweep recomputes each segment of frames from its first frame, which is
stored anyway, and takes the adjoint of a step from its product with the adjoint of the state.
"""

import warp as wp

from gradsim.engine.lanes import *


@wp.struct
class Parameters:
    string_length: wp.array(dtype=Real)  # s, pivot to ball surface [m]
    radius: wp.array(dtype=Real)  # r, of the ball [m]
    gravity: wp.array(dtype=Real)  # g [m/s²]
    damping: wp.array(dtype=Real)  # c [1/s]
    drag: wp.array(dtype=Real)  # d [1/rad]
    side: wp.array(dtype=Real)  # b [m/s²]
    step: wp.array2d(dtype=Real)  # h in each frame interval [s]


@wp.func(inline=True)
def pulls(string_length: Real, radius: Real, gravity: Real, side: Real):
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


@wp.kernel(enable_backward=False)
def forward(
    p: Parameters,
    substeps: int,
    # out; frame 0 is given
    angle: wp.array2d(dtype=Real),
    rate: wp.array2d(dtype=Real),
):
    i = wp.tid()
    down, across = pulls(p.string_length[i], p.radius[i], p.gravity[i], p.side[i])
    damping = p.damping[i]
    drag = p.drag[i]
    x = angle[i, 0]
    v = rate[i, 0]
    for frame in range(angle.shape[1] - 1):
        h = p.step[i, frame]
        for _step in range(substeps):
            x, v = advance(x, v, down, across, damping, drag, h)
        angle[i, frame + 1] = x
        rate[i, frame + 1] = v


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
        """⟨state after the step, adjoint⟩; its gradient is the adjoint of the step."""
        x, v = advance(angle, rate, down, across, damping, drag, h)
        return x * angle_adjoint + v * rate_adjoint

    @wp.func(inline=True)
    def pull_product(
        string_length: Real, radius: Real, gravity: Real, side: Real, down_adjoint: Real, across_adjoint: Real
    ) -> Real:
        down, across = pulls(string_length, radius, gravity, side)
        return down * down_adjoint + across * across_adjoint

    @wp.kernel(enable_backward=False)
    def backward(
        p: Parameters,
        substeps: int,
        segment: int,  # frames between checkpoints
        angle: wp.array2d(dtype=Real),
        rate: wp.array2d(dtype=Real),
        # workspace: the states of one segment
        angles: wp.array2d(dtype=Real),
        rates: wp.array2d(dtype=Real),
        angle_adjoint: wp.array2d(dtype=Real),
        rate_adjoint: wp.array2d(dtype=Real),
        # out
        start_angle_adjoint: wp.array(dtype=Real),
        start_rate_adjoint: wp.array(dtype=Real),
        grad: Parameters,
    ):
        i = wp.tid()
        down, across = pulls(p.string_length[i], p.radius[i], p.gravity[i], p.side[i])
        damping = p.damping[i]
        drag = p.drag[i]
        ax = zero(0)
        av = zero(0)
        down_adjoint = zero(0)
        across_adjoint = zero(0)
        damping_adjoint = zero(0)
        drag_adjoint = zero(0)
        frames = angle.shape[1]
        segments = (frames - 1 + segment - 1) / segment
        for s in range(segments):
            first = (segments - 1 - s) * segment
            last = wp.min(first + segment, frames - 1)
            steps = (last - first) * substeps
            x = angle[i, first]
            v = rate[i, first]
            for k in range(steps):
                angles[i, k] = x
                rates[i, k] = v
                x, v = advance(x, v, down, across, damping, drag, p.step[i, first + k / substeps])
            for m in range(steps):
                k = steps - 1 - m
                if (k + 1) % substeps == 0:
                    frame = first + (k + 1) / substeps
                    ax = ax + angle_adjoint[i, frame]
                    av = av + rate_adjoint[i, frame]
                interval = first + k / substeps
                ax, av, down_, across_, damping_, drag_, h_, _x, _v = wp.grad(step_product)(
                    angles[i, k], rates[i, k], down, across, damping, drag, p.step[i, interval], ax, av
                )
                grad.step[i, interval] = grad.step[i, interval] + h_
                down_adjoint = down_adjoint + down_
                across_adjoint = across_adjoint + across_
                damping_adjoint = damping_adjoint + damping_
                drag_adjoint = drag_adjoint + drag_
        string_length_, radius_, gravity_, side_, _down, _across = wp.grad(pull_product)(
            p.string_length[i], p.radius[i], p.gravity[i], p.side[i], down_adjoint, across_adjoint
        )
        grad.string_length[i] = string_length_
        grad.radius[i] = radius_
        grad.gravity[i] = gravity_
        grad.side[i] = side_
        grad.damping[i] = damping_adjoint
        grad.drag[i] = drag_adjoint
        start_angle_adjoint[i] = ax + angle_adjoint[i, 0]
        start_rate_adjoint[i] = av + rate_adjoint[i, 0]

    # Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
    @wp.kernel(enable_backward=True)
    def keep_adjoints(s: wp.array(dtype=Real)):
        r = s[0]
        s[1] = step_product(r, r, r, r, r, r, r, r, r) + pull_product(r, r, r, r, r, r)
