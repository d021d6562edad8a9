"""Rollout of vertices and rigid bodies that act on one another, a template for `engine.lanes`.

The vertices move as in `soft/kernels.py`, each body as in `rigid/kernels.py` (semi-implicit), all by the forces at
the state before the step. What acts between vertices and bodies is a force file like others: a body is five rows behind the
vertices, in the arrays of positions and velocities, and three of them are nodes of forces.

    row      position      velocity
    STATE    x             v
             q, its vector L
             q, its scalar L after the impulses of the step
    NODE     x             v after impulses         force: on the body
             q, its vector ω after impulses         force: torque about the centre of mass

The nodes of a force are (vertex, NODE, NODE + 1, STATE + 2): x1, x2, x3 are x, q's vector, (q's scalar, 0, 0), and v1, v2
are v and ω. The body b of registers i is row i · bodies + b of the arrays of `Bodies`.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.rollout_kernels import forward_sweep, reverse_sweep

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.access_kernels import load, store
    from gradsim.engine.lanes import Vec3 as Vertex
    from gradsim.physics.coupled.row_kernels import NODE, ROWS, row_of, scalar
    from gradsim.physics.forces.assembly import Elements, add_adjoints, all_powers
    from gradsim.physics.rigid.semi_implicit_kernels import all_step_powers, step_power
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
    from gradsim.physics.soft.kernels import (
        MIN_STEP,
        Adjoint,
        States,
        VertexParameters,
        add_vertices,
        copy_state,
        same,
        short_step_adjoint,
        step_vertices,
        step_vertices_adjoint,
    )


@wp.struct
class Parameters:
    p: VertexParameters
    b: Bodies
    e: Elements
    bodies: int
    f: wp.array2d[Vertex]  # forces; zero before and after a step
    w: wp.array2d[Vertex]  # probes of them


@wp.func
def update_rows(s: Parameters, t: States, source: int, row: int, i: int):
    """Apply impulses, and fill the rows that follow from the state."""
    n = s.p.inverse_mass.shape[1]
    x = t.x[i, source]
    v = t.v[i, source]
    for r in range(s.bodies):
        k = i * s.bodies + r
        a = n + ROWS * r
        q = quat(load(x, a + 1), scalar(load(x, a + 2)))
        v0, l0 = apply_impulses(s.b, row, k, q, load(v, a), load(v, a + 1))
        store(v, a + 2, l0)
        store(x, a + NODE, load(x, a))
        store(v, a + NODE, v0)
        store(x, a + NODE + 1, load(x, a + 1))
        store(v, a + NODE + 1, spin(q, l0, s.b.inertia_inverse[k]))


@wp.func
def step_bodies(s: Parameters, t: States, source: int, target: int, row: int, interval: int, i: int):
    """One step of the bodies; f of their rows is zero after."""
    n = s.p.inverse_mass.shape[1]
    h = s.p.step[i, interval]
    x = t.x[i, source]
    v = t.v[i, source]
    xn = t.x[i, target]
    vn = t.v[i, target]
    f = s.f[i]
    for r in range(s.bodies):
        k = i * s.bodies + r
        a = n + ROWS * r
        x0 = load(x, a)
        q = quat(load(x, a + 1), scalar(load(x, a + 2)))
        v0 = load(v, a + NODE)
        l0 = load(v, a + 2)
        force, torque = wrench(s.b, row, h, k, x0, q, v0, load(v, a + NODE + 1))
        v1 = v0 + ((force + load(f, a + NODE)) * (1.0 / s.b.mass[k]) + s.b.gravity[k]) * h
        l1 = l0 + (torque + load(f, a + NODE + 1)) * h
        q1 = normalized(exponential(spin(q, l1, s.b.inertia_inverse[k]) * h) * q)
        store(xn, a, x0 + v1 * h)
        store(vn, a, v1)
        store(xn, a + 1, vector_part(q1))
        store(vn, a + 1, l1)
        store(xn, a + 2, row_of(q1))
        for m in range(2, ROWS):
            store(f, a + m, zero3(0))


@wp.func
def step(s: Parameters, t: States, source: int, target: int, row: int, interval: int, i: int):
    update_rows(s, t, source, row, i)
    step_vertices(s.p, s.e, i, interval, t.x[i, source], t.v[i, source], s.f[i], t.x[i, target], t.v[i, target])
    step_bodies(s, t, source, target, row, interval, i)


forward = forward_sweep(__name__, Parameters, States, step)


if not DUAL:

    @wp.func
    def step_bodies_adjoint(
        s: Parameters, t: States, source: int, row: int, interval: int, i: int, adjoint: Adjoint, grad: Parameters
    ):
        """The adjoint of the state after the step becomes that of the state before, but for the forces on the nodes.

        f has the forces on the nodes in a short step (see `soft/kernels.py`), and is zero afterwards.
        """
        n = s.p.inverse_mass.shape[1]
        h = s.p.step[i, interval]
        x = t.x[i, source]
        v = t.v[i, source]
        vn = t.v[i, source + 1]
        f = s.f[i]
        w = s.w[i]
        ax = adjoint.x[i]
        av = adjoint.v[i]
        for r in range(s.bodies):
            k = i * s.bodies + r
            a = n + ROWS * r
            x0 = load(x, a)
            q = quat(load(x, a + 1), scalar(load(x, a + 2)))
            v0 = load(v, a + NODE)
            l0 = load(v, a + 2)
            force, torque = wrench(s.b, row, h, k, x0, q, v0, load(v, a + NODE + 1))
            short = less(h, spread(MIN_STEP))
            rate = 1.0 / where(short, spread(Scalar(1.0)), h)
            force = where(short, force + load(f, a + NODE), ((load(vn, a) - v0) * rate - s.b.gravity[k]) * s.b.mass[k])
            torque = where(short, torque + load(f, a + NODE + 1), (load(vn, a + 1) - l0) * rate)
            for m in range(2, ROWS):
                store(f, a + m, zero3(0))
            aq = quat(load(ax, a + 1), scalar(load(ax, a + 2)))
            bx, bq, bv, bl, bf, bt, mass_, inertia_, gravity_, bh, _x, _q, _v, _l = wp.grad(step_power)(
                x0, q, v0, l0, force, torque, s.b.mass[k], s.b.inertia_inverse[k], s.b.gravity[k], h,
                load(ax, a), aq, load(av, a), load(av, a + 1),
            )  # fmt: skip
            grad.b.mass[k] = grad.b.mass[k] + mass_
            grad.b.inertia_inverse[k] = grad.b.inertia_inverse[k] + inertia_
            grad.b.gravity[k] = grad.b.gravity[k] + gravity_
            cx, cq, cv, cl, ch = wrench_adjoint(s.b, grad.b, row, h, k, x0, q, v0, l0, load(v, a + NODE + 1), bf, bt)
            grad.p.step[i, interval] = grad.p.step[i, interval] + bh + ch
            store(ax, a, bx + cx)
            store(av, a, bv + cv)
            store(ax, a + 1, vector_part(bq + cq))
            store(av, a + 1, bl + cl)
            store(ax, a + 2, row_of(bq + cq))
            store(w, a + NODE, bf)
            store(w, a + NODE + 1, bt)
            for m in range(NODE, ROWS):
                store(ax, a + m, zero3(0))
                store(av, a + m, zero3(0))

    @wp.func
    def update_rows_adjoint(
        s: Parameters, t: States, source: int, row: int, i: int, adjoint: Adjoint, grad: Parameters
    ):
        """The adjoints of the nodes become part of those of the state."""
        n = s.p.inverse_mass.shape[1]
        x = t.x[i, source]
        v = t.v[i, source]
        ax = adjoint.x[i]
        av = adjoint.v[i]
        for r in range(s.bodies):
            k = i * s.bodies + r
            a = n + ROWS * r
            q = quat(load(x, a + 1), scalar(load(x, a + 2)))
            q_, l_, inertia_, _w = wp.grad(spin_power)(
                q, load(v, a + 2), s.b.inertia_inverse[k], load(av, a + NODE + 1)
            )
            grad.b.inertia_inverse[k] = grad.b.inertia_inverse[k] + inertia_
            sv = load(av, a) + load(av, a + NODE)
            sl = load(av, a + 1) + l_
            aq = quat(load(ax, a + 1) + load(ax, a + NODE + 1), scalar(load(ax, a + 2))) + q_
            aq = aq + impulses_adjoint(s.b, grad.b, row, k, q, sv, sl)
            store(ax, a, load(ax, a) + load(ax, a + NODE))
            store(av, a, sv)
            store(ax, a + 1, vector_part(aq))
            store(av, a + 1, sl)
            store(ax, a + 2, row_of(aq))

    @wp.func
    def add_state(s: Parameters, t: States, frame: int, adjoint: Adjoint, i: int):
        rows = s.p.inverse_mass.shape[1] + ROWS * s.bodies
        add_vertices(t.x[i, frame], adjoint.x[i], rows)
        add_vertices(t.v[i, frame], adjoint.v[i], rows)

    @wp.func
    def step_adjoint(
        s: Parameters, t: States, source: int, row: int, interval: int, i: int, adjoint: Adjoint, grad: Parameters
    ):
        _after = wp.grad(same)(
            zero(0)
        )  # Warp declares functions with a wp.grad after all others, those which call them not
        update_rows(s, t, source, row, i)
        x = t.x[i, source]
        v = t.v[i, source]
        step_vertices_adjoint(s.p, i, interval, v, t.v[i, source + 1], adjoint.x[i], adjoint.v[i], s.w[i], grad.p)
        if any_lane(less(s.p.step[i, interval], spread(MIN_STEP))):
            short_step_adjoint(s.p, s.e, i, interval, x, v, adjoint.v[i], s.f[i], grad.p)
        step_bodies_adjoint(s, t, source, row, interval, i, adjoint, grad)
        add_adjoints(s.e, grad.e, i, interval, x, v, s.w[i], adjoint.x[i], adjoint.v[i])
        update_rows_adjoint(s, t, source, row, i, adjoint, grad)

    backward = reverse_sweep(__name__, Parameters, States, Adjoint, step, copy_state, add_state, step_adjoint)

    # Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
    @wp.kernel(enable_backward=True)
    def keep_adjoints(a: wp.array[Vec3], m: wp.array[Mat3], r: wp.array[Real], q: wp.array[Quat]):
        if never(0):
            r[1] = all_powers(a[0], m[0], r[0]) + all_wrench_powers(a[0], q[0], m[0], r[0])
            r[2] = all_step_powers(a[0], q[0], m[0], r[0])
