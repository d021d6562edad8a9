# pyright: reportInvalidTypeForm=false
"""Steps of rigid bodies that act on vertices with implicit steps, a template for `engine.lanes`.

    v, L after the impulses of the step
    x* = x + θ h v,   q* = turned(q, L, θ h)                     the pose at which all forces of the step act
    v' = v + h (f/m + g),   L' = L + h τ
    x' = x* + (1 - θ) h v',   q' = turned(q*, L', (1 - θ) h)

    turned(q, L, h) = exp(h ω(exp(½ h ω(q, L)) q, L)) q          the explicit midpoint rule at constant L

θ = ½ is position Verlet, of second order, θ = 1 symplectic Euler (Hairer, Lubich, Wanner, Geometric Numerical Integration,
2nd ed., §I.1.4 and §VI.3); θ is that of the vertices. Vertices, at the solution of their step, and bodies feel opposite
forces, so momenta are kept. Rows of a body are those of `coupled/kernels.py`. In the state at which forces act, rows behind
those of the state before have

    row      position      velocity
    STATE    -             -
             -             -
             q*, scalar    L after the impulses
    NODE     x*            v after the impulses
             q*, vector    ω(q*, L)
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.access_kernels import load, store
    from gradsim.engine.lanes import Vec3 as Vertex
    from gradsim.physics.coupled.row_kernels import NODE, ROWS, row_of, scalar
    from gradsim.physics.rigid.wrench_kernels import Parameters as Bodies
    from gradsim.physics.rigid.wrench_kernels import (
        all_wrench_powers,
        apply_impulses,
        exponential,
        impulses_adjoint,
        normalized,
        spin,
        spin_power,
        wrench,
        wrench_adjoint,
    )

MIN_STEP = Scalar(1e-7)  # [s], as in `soft/kernels.py`


@wp.func(inline=True)
def turned(q: Quat, l: Vec3, inertia_inverse: Mat3, h: Real) -> Quat:
    middle = normalized(exponential(spin(q, l, inertia_inverse) * (h * 0.5)) * q)
    return normalized(exponential(spin(middle, l, inertia_inverse) * h) * q)


@wp.func(inline=True)
def drift_power(
    x: Vec3, q: Quat, v: Vec3, l: Vec3, inertia_inverse: Mat3, h: Real, x_probe: Vec3, q_probe: Quat
) -> Real:
    """⟨pose after a drift, adjoint⟩."""
    return dot(x + v * h, x_probe) + qdot(turned(q, l, inertia_inverse, h), q_probe)


@wp.func
def fill_rows(
    b: Bodies,
    bodies: int,
    n: int,  # vertices
    row: int,  # step of the rollout
    h: Real,  # θ h
    i: int,
    x: wp.array[Vertex],
    v: wp.array[Vertex],
    # out
    at: wp.array[Vertex],
    u: wp.array[Vertex],
):
    """Rows of the state at which forces act, from the state before the step."""
    for r in range(bodies):
        k = i * bodies + r
        a = n + ROWS * r
        q0 = quat(load(x, a + 1), scalar(load(x, a + 2)))
        v0, l0 = apply_impulses(b, row, k, q0, load(v, a), load(v, a + 1))
        q = turned(q0, l0, b.inertia_inverse[k], h)
        store(at, a + 2, row_of(q))
        store(u, a + 2, l0)
        store(at, a + NODE, load(x, a) + v0 * h)
        store(u, a + NODE, v0)
        store(at, a + NODE + 1, vector_part(q))
        store(u, a + NODE + 1, spin(q, l0, b.inertia_inverse[k]))


@wp.func
def step_bodies(
    b: Bodies,
    bodies: int,
    n: int,
    row: int,
    h: Real,
    whole: Scalar,  # 1/θ
    i: int,
    at: wp.array[Vertex],
    u: wp.array[Vertex],
    f: wp.array[Vertex],  # on the nodes
    # out
    xn: wp.array[Vertex],
    vn: wp.array[Vertex],
):
    for r in range(bodies):
        k = i * bodies + r
        a = n + ROWS * r
        x = load(at, a + NODE)
        q = quat(load(at, a + NODE + 1), scalar(load(at, a + 2)))
        v0 = load(u, a + NODE)
        force, torque = wrench(b, row, h * whole, k, x, q, v0, load(u, a + NODE + 1))
        v1 = v0 + ((force + load(f, a + NODE)) * (1.0 / b.mass[k]) + b.gravity[k]) * (h * whole)
        l1 = load(u, a + 2) + (torque + load(f, a + NODE + 1)) * (h * whole)
        late = h * (whole - Scalar(1.0))
        q1 = turned(q, l1, b.inertia_inverse[k], late)
        store(xn, a, x + v1 * late)
        store(vn, a, v1)
        store(xn, a + 1, vector_part(q1))
        store(vn, a + 1, l1)
        store(xn, a + 2, row_of(q1))
        store(vn, a + 2, zero3(0))
        for m in range(NODE, ROWS):
            store(xn, a + m, zero3(0))
            store(vn, a + m, zero3(0))


if not DUAL:

    @wp.func
    def kick_adjoint(
        b: Bodies,
        grad: Bodies,
        bodies: int,
        n: int,
        row: int,
        h: Real,
        whole: Scalar,
        i: int,
        at: wp.array[Vertex],
        u: wp.array[Vertex],
        f: wp.array[Vertex],  # on the nodes, in a short step
        vn: wp.array[Vertex],
        # out
        w: wp.array[Vertex],
        ax: wp.array[Vertex],
        av: wp.array[Vertex],
    ) -> Real:
        """Adjoint of the rows at which forces act from that of the state after, and probes w of the forces; that of h."""
        rate = zero(0)
        short = less(h, spread(MIN_STEP))
        span = h * whole
        for r in range(bodies):
            k = i * bodies + r
            a = n + ROWS * r
            x = load(at, a + NODE)
            q = quat(load(at, a + NODE + 1), scalar(load(at, a + 2)))
            v0 = load(u, a + NODE)
            l0 = load(u, a + 2)
            v1 = load(vn, a)
            l1 = load(vn, a + 1)
            late = h * (whole - Scalar(1.0))
            dx, dq, dv, dl, inertia_, dh, _x, _q = wp.grad(drift_power)(
                x, q, v1, l1, b.inertia_inverse[k], late, load(ax, a), quat(load(ax, a + 1), scalar(load(ax, a + 2)))
            )
            grad.inertia_inverse[k] = grad.inertia_inverse[k] + inertia_
            bv = load(av, a) + dv
            bl = load(av, a + 1) + dl
            force, torque = wrench(b, row, span, k, x, q, v0, load(u, a + NODE + 1))
            over = 1.0 / where(short, spread(Scalar(1.0)), span)
            gain = where(short, (force + load(f, a + NODE)) * (1.0 / b.mass[k]) + b.gravity[k], (v1 - v0) * over)
            torque = where(short, torque + load(f, a + NODE + 1), (l1 - l0) * over)
            push = bv * span
            grad.mass[k] = grad.mass[k] - dot(push, gain - b.gravity[k]) / b.mass[k]
            grad.gravity[k] = grad.gravity[k] + push
            force_probe = push * (1.0 / b.mass[k])
            torque_probe = bl * span
            cx, cq, cv, cl, ch = wrench_adjoint(
                b, grad, row, span, k, x, q, v0, l0, load(u, a + NODE + 1), force_probe, torque_probe
            )
            rate = rate + dh * (whole - Scalar(1.0)) + (dot(bv, gain) + dot(bl, torque) + ch) * whole
            aq = dq + cq
            store(w, a + NODE, force_probe)
            store(w, a + NODE + 1, torque_probe)
            store(ax, a + 2, row_of(aq))
            store(ax, a + NODE, dx + cx)
            store(ax, a + NODE + 1, vector_part(aq))
            store(av, a + 1, bl + cl)
            store(av, a + NODE, bv + cv)
            store(av, a + NODE + 1, zero3(0))
        return rate

    @wp.func
    def fill_adjoint(
        b: Bodies,
        grad: Bodies,
        bodies: int,
        n: int,
        row: int,
        h: Real,
        i: int,
        x: wp.array[Vertex],
        at: wp.array[Vertex],
        u: wp.array[Vertex],
        # out
        ax: wp.array[Vertex],
        av: wp.array[Vertex],
    ) -> Real:
        """Adjoint of the state before from that of the rows at which forces act; that of h."""
        rate = zero(0)
        for r in range(bodies):
            k = i * bodies + r
            a = n + ROWS * r
            q = quat(load(at, a + NODE + 1), scalar(load(at, a + 2)))
            q0 = quat(load(x, a + 1), scalar(load(x, a + 2)))
            v0 = load(u, a + NODE)
            l0 = load(u, a + 2)
            q_, l_, spun_, _w = wp.grad(spin_power)(q, l0, b.inertia_inverse[k], load(av, a + NODE + 1))
            aq = quat(load(ax, a + NODE + 1), scalar(load(ax, a + 2))) + q_
            dx, dq, dv, dl, inertia_, dh, _x, _q = wp.grad(drift_power)(
                load(x, a), q0, v0, l0, b.inertia_inverse[k], h, load(ax, a + NODE), aq
            )
            grad.inertia_inverse[k] = grad.inertia_inverse[k] + spun_ + inertia_
            rate = rate + dh
            sv = load(av, a + NODE) + dv
            sl = load(av, a + 1) + l_ + dl
            aq0 = dq + impulses_adjoint(b, grad, row, k, q0, sv, sl)
            store(ax, a, dx)
            store(av, a, sv)
            store(ax, a + 1, vector_part(aq0))
            store(av, a + 1, sl)
            store(ax, a + 2, row_of(aq0))
            store(av, a + 2, zero3(0))
            for m in range(NODE, ROWS):
                store(ax, a + m, zero3(0))
                store(av, a + m, zero3(0))
        return rate

    @wp.func
    def all_drift_powers(a: Vec3, q: Quat, m: Mat3, r: Real) -> Real:
        return drift_power(a, q, a, a, m, r, a, q) + all_wrench_powers(a, q, m, r)
