"""Rollout of one double pendulum per world, a template for `engine.lanes`. The equations stand in `double_pendulum.py`.

    A θ₁'' + C cos δ θ₂'' = f₁ = P₁ cos θ₁ − W₁ sin θ₁ − C sin δ θ₂'² − k (2 θ₁' − θ₂')
    C cos δ θ₁'' + B θ₂'' = f₂ = P₂ cos θ₂ − W₂ sin θ₂ + C sin δ θ₁'² − k (θ₂' − θ₁'),      δ = θ₁ − θ₂

The integrator is any explicit Runge–Kutta method (`runge_kutta.py`): its coefficients are data, and the stages of a step
stand in memory. With g_s = b_s λ + Σ_{r>s} a_rs μ_r and the power φ_s = g_s · f(Y_s), the adjoint of a step is

    μ_s = h ∂φ_s/∂Y_s,     λ ← λ + Σ_s μ_s,     ∂/∂h = Σ_s φ_s                 (Hairer, Lubich & Wanner 2006, VI.10)

so only the accelerations are differentiated. The reverse sweep recomputes each segment of frames from its first frame,
which is stored anyway.
"""

import warp as wp

from gradsim.engine.lanes import *


@wp.struct
class Parameters:
    inertia: wp.array2d(dtype=Real)  # A, B [m²]
    coupling: wp.array(dtype=Real)  # C [m²]
    weight: wp.array2d(dtype=Real)  # W [m²/s²]
    pull: wp.array2d(dtype=Real)  # P [m²/s²]
    damping: wp.array(dtype=Real)  # k [m²/s]
    step: wp.array2d(dtype=Real)  # h in each frame interval [s]


@wp.struct
class Method:
    stages: wp.array2d(dtype=Scalar)  # a
    weights: wp.array(dtype=Scalar)  # b


@wp.struct
class Stages:  # of one step (packs, stages, 2)
    angle: wp.array3d(dtype=Real)
    rate: wp.array3d(dtype=Real)
    acceleration: wp.array3d(dtype=Real)


@wp.func
def acceleration(
    x: Real,
    y: Real,
    u: Real,
    v: Real,
    A: Real,
    B: Real,
    C: Real,
    W1: Real,
    W2: Real,
    P1: Real,
    P2: Real,
    k: Real,
):
    """θ₁'' and θ₂'' at the angles x, y and the rates u, v."""
    sx = sin(x)
    cx = cos(x)
    sy = sin(y)
    cy = cos(y)
    off = C * (cx * cy + sx * sy)  # C cos δ
    turn = C * (sx * cy - cx * sy)  # C sin δ
    f1 = P1 * cx - W1 * sx - turn * (v * v) - k * (u * 2.0 - v)
    f2 = P2 * cy - W2 * sy + turn * (u * u) - k * (v - u)
    det = A * B - off * off  # above 0: the kinetic energy is
    return (B * f1 - off * f2) / det, (A * f2 - off * f1) / det


@wp.func
def run_stages(p: Parameters, method: Method, i: int, h: Real, x: Real, y: Real, u: Real, v: Real, s: Stages):
    """Fill the stages of a step of h from the angles x, y and the rates u, v."""
    for m in range(method.weights.shape[0]):
        dx = zero(0)
        dy = zero(0)
        du = zero(0)
        dv = zero(0)
        for j in range(m):
            a = method.stages[m, j]
            dx = dx + s.rate[i, j, 0] * a
            dy = dy + s.rate[i, j, 1] * a
            du = du + s.acceleration[i, j, 0] * a
            dv = dv + s.acceleration[i, j, 1] * a
        s.angle[i, m, 0] = x + dx * h
        s.angle[i, m, 1] = y + dy * h
        s.rate[i, m, 0] = u + du * h
        s.rate[i, m, 1] = v + dv * h
        first, second = acceleration(
            s.angle[i, m, 0],
            s.angle[i, m, 1],
            s.rate[i, m, 0],
            s.rate[i, m, 1],
            p.inertia[i, 0],
            p.inertia[i, 1],
            p.coupling[i],
            p.weight[i, 0],
            p.weight[i, 1],
            p.pull[i, 0],
            p.pull[i, 1],
            p.damping[i],
        )
        s.acceleration[i, m, 0] = first
        s.acceleration[i, m, 1] = second


@wp.func
def advance(p: Parameters, method: Method, i: int, h: Real, x: Real, y: Real, u: Real, v: Real, s: Stages):
    """Angles and rates after a step."""
    run_stages(p, method, i, h, x, y, u, v, s)
    dx = zero(0)
    dy = zero(0)
    du = zero(0)
    dv = zero(0)
    for m in range(method.weights.shape[0]):
        b = method.weights[m]
        dx = dx + s.rate[i, m, 0] * b
        dy = dy + s.rate[i, m, 1] * b
        du = du + s.acceleration[i, m, 0] * b
        dv = dv + s.acceleration[i, m, 1] * b
    return x + dx * h, y + dy * h, u + du * h, v + dv * h


@wp.kernel(enable_backward=False)
def forward(
    p: Parameters,
    method: Method,
    substeps: int,
    # workspace
    s: Stages,
    # out; frame 0 is given
    angle: wp.array3d(dtype=Real),
    rate: wp.array3d(dtype=Real),
):
    i = wp.tid()
    x = angle[i, 0, 0]
    y = angle[i, 0, 1]
    u = rate[i, 0, 0]
    v = rate[i, 0, 1]
    for frame in range(angle.shape[1] - 1):
        h = p.step[i, frame]
        for _step in range(substeps):
            x, y, u, v = advance(p, method, i, h, x, y, u, v, s)
        angle[i, frame + 1, 0] = x
        angle[i, frame + 1, 1] = y
        rate[i, frame + 1, 0] = u
        rate[i, frame + 1, 1] = v


if not DUAL:

    @wp.func
    def power(
        x: Real,
        y: Real,
        u: Real,
        v: Real,
        A: Real,
        B: Real,
        C: Real,
        W1: Real,
        W2: Real,
        P1: Real,
        P2: Real,
        k: Real,
        first: Real,
        second: Real,
    ) -> Real:
        """Of the accelerations along `first` and `second`; its gradient is their adjoint."""
        a1, a2 = acceleration(x, y, u, v, A, B, C, W1, W2, P1, P2, k)
        return a1 * first + a2 * second

    @wp.func
    def reverse_step(
        p: Parameters,
        method: Method,
        i: int,
        interval: int,
        s: Stages,
        mu: wp.array3d(dtype=Real),
        state: wp.array2d(dtype=Real),
        grad: Parameters,
    ):
        """Pull the adjoint of the state (packs, 4) back through the step whose stages are `s`."""
        h = p.step[i, interval]
        last = method.weights.shape[0] - 1
        for n in range(last + 1):
            m = last - n
            b = method.weights[m]
            gx = state[i, 0] * b
            gy = state[i, 1] * b
            gu = state[i, 2] * b
            gv = state[i, 3] * b
            for r in range(m + 1, last + 1):
                a = method.stages[r, m]
                gx = gx + mu[i, r, 0] * a
                gy = gy + mu[i, r, 1] * a
                gu = gu + mu[i, r, 2] * a
                gv = gv + mu[i, r, 3] * a
            grad.step[i, interval] = (
                grad.step[i, interval]
                + gx * s.rate[i, m, 0]
                + gy * s.rate[i, m, 1]
                + gu * s.acceleration[i, m, 0]
                + gv * s.acceleration[i, m, 1]
            )
            x_, y_, u_, v_, A_, B_, C_, W1_, W2_, P1_, P2_, k_, _f, _s = wp.grad(power)(
                s.angle[i, m, 0],
                s.angle[i, m, 1],
                s.rate[i, m, 0],
                s.rate[i, m, 1],
                p.inertia[i, 0],
                p.inertia[i, 1],
                p.coupling[i],
                p.weight[i, 0],
                p.weight[i, 1],
                p.pull[i, 0],
                p.pull[i, 1],
                p.damping[i],
                gu * h,
                gv * h,
            )
            mu[i, m, 0] = x_
            mu[i, m, 1] = y_
            mu[i, m, 2] = u_ + gx * h
            mu[i, m, 3] = v_ + gy * h
            grad.inertia[i, 0] = grad.inertia[i, 0] + A_
            grad.inertia[i, 1] = grad.inertia[i, 1] + B_
            grad.coupling[i] = grad.coupling[i] + C_
            grad.weight[i, 0] = grad.weight[i, 0] + W1_
            grad.weight[i, 1] = grad.weight[i, 1] + W2_
            grad.pull[i, 0] = grad.pull[i, 0] + P1_
            grad.pull[i, 1] = grad.pull[i, 1] + P2_
            grad.damping[i] = grad.damping[i] + k_
        for c in range(4):
            total = state[i, c]
            for m in range(last + 1):
                total = total + mu[i, m, c]
            state[i, c] = total

    @wp.kernel(enable_backward=False)
    def backward(
        p: Parameters,
        method: Method,
        substeps: int,
        segment: int,  # frames between checkpoints
        angle: wp.array3d(dtype=Real),
        rate: wp.array3d(dtype=Real),
        # workspace: stages of a step, their adjoints, the states of one segment
        s: Stages,
        mu: wp.array3d(dtype=Real),
        states: wp.array3d(dtype=Real),
        angle_adjoint: wp.array3d(dtype=Real),
        rate_adjoint: wp.array3d(dtype=Real),
        # out; the state's adjoint (packs, 4) begins at zero
        state: wp.array2d(dtype=Real),
        grad: Parameters,
    ):
        i = wp.tid()
        frames = angle.shape[1]
        segments = (frames - 1 + segment - 1) / segment
        for c in range(segments):
            first = (segments - 1 - c) * segment
            last = wp.min(first + segment, frames - 1)
            steps = (last - first) * substeps
            x = angle[i, first, 0]
            y = angle[i, first, 1]
            u = rate[i, first, 0]
            v = rate[i, first, 1]
            for k in range(steps):
                states[i, k, 0] = x
                states[i, k, 1] = y
                states[i, k, 2] = u
                states[i, k, 3] = v
                x, y, u, v = advance(p, method, i, p.step[i, first + k / substeps], x, y, u, v, s)
            for m in range(steps):
                k = steps - 1 - m
                if (k + 1) % substeps == 0:
                    frame = first + (k + 1) / substeps
                    for b in range(2):
                        state[i, b] = state[i, b] + angle_adjoint[i, frame, b]
                        state[i, 2 + b] = state[i, 2 + b] + rate_adjoint[i, frame, b]
                interval = first + k / substeps
                run_stages(
                    p,
                    method,
                    i,
                    p.step[i, interval],
                    states[i, k, 0],
                    states[i, k, 1],
                    states[i, k, 2],
                    states[i, k, 3],
                    s,
                )
                reverse_step(p, method, i, interval, s, mu, state, grad)
        for b in range(2):
            state[i, b] = state[i, b] + angle_adjoint[i, 0, b]
            state[i, 2 + b] = state[i, 2 + b] + rate_adjoint[i, 0, b]

    # Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
    @wp.kernel(enable_backward=True)
    def keep_adjoints(s: wp.array(dtype=Real)):
        r = s[0]
        s[1] = power(r, r, r, r, r, r, r, r, r, r, r, r, r, r)
