"""Rollout of vertices and rigid bodies that act on one another, a template for `engine.lanes`.

The vertices move as in `soft/kernels.py`, each body as in `rigid/kernels.py` (semi-implicit), all by the forces at the
state before the step. What acts between vertices and bodies is a force file like others: a body is five rows behind the
vertices, in the arrays of positions and velocities, and three of them are nodes of forces.

    row      position      velocity
    STATE    x             v
             q, its vector L
             q, its scalar L after the blows of the step
    NODE     x             v after the blows        force: on the body
             q, its vector ω after the blows        force: torque about the centre of mass

The nodes of a force are (vertex, NODE, NODE + 1, STATE + 2): x1, x2, x3 are x, q's vector, (q's scalar, 0, 0), and v1, v2
are v and ω. The body b of registers i is row i · bodies + b of the arrays of `Bodies`.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.access_kernels import load, store
    from gradsim.engine.lanes import Vec3 as Vertex
    from gradsim.physics.contact.point_plane import contact_power
    from gradsim.physics.contact.point_sdf import obstacle_power
    from gradsim.physics.forces.assembly import Elements, add_adjoints, all_powers
    from gradsim.physics.rigid.kernels import (
        OBSTACLES,
        blow_power,
        exponential,
        normalised,
        push_power,
        spin,
        spin_power,
        step_power,
        struck,
        struck_adjoint,
        wrench,
        wrench_adjoint,
    )
    from gradsim.physics.rigid.kernels import Parameters as Bodies
    from gradsim.physics.soft.kernels import SHORT, Parameters, accumulate, advance, copy, retreat, retreat_short

ROWS = 5
NODE = 3


@wp.func(inline=True)
def scalar(a: Vec3) -> Real:
    """The first component."""
    return dot(a, vec3(spread(Scalar(1.0)), zero(0), zero(0)))


@wp.func(inline=True)
def row_of(q: Quat) -> Vec3:
    """The scalar of a quaternion as a row."""
    return vec3(qdot(q, quat(zero3(0), spread(Scalar(1.0)))), zero(0), zero(0))


@wp.func
def prepare(
    b: Bodies, blow: wp.array[int], step: int, i: int, bodies: int, n: int,
    x: wp.array[Vertex], v: wp.array[Vertex],
):  # fmt: skip
    """Blows, and the rows that follow from the state."""
    for r in range(bodies):
        k = i * bodies + r
        s = n + ROWS * r
        q = quat(load(x, s + 1), scalar(load(x, s + 2)))
        v0, l0 = struck(b, blow, step, k, q, load(v, s), load(v, s + 1))
        store(v, s + 2, l0)
        store(x, s + NODE, load(x, s))
        store(v, s + NODE, v0)
        store(x, s + NODE + 1, load(x, s + 1))
        store(v, s + NODE + 1, spin(q, l0, b.inertia_inverse[k]))


@wp.func
def move(
    p: Parameters, b: Bodies, e: Elements, share: wp.array2d[Scalar], blow: wp.array[int], step: int,
    frame: int, i: int, bodies: int,
    x: wp.array[Vertex], v: wp.array[Vertex], f: wp.array[Vertex],
    # out; may be x and v
    xn: wp.array[Vertex], vn: wp.array[Vertex],
):  # fmt: skip
    """One step; f is zero before and after."""
    n = p.inverse_mass.shape[1]
    h = p.step[i, frame]
    prepare(b, blow, step, i, bodies, n, x, v)
    advance(p, e, i, frame, x, v, f, xn, vn)
    for r in range(bodies):
        k = i * bodies + r
        s = n + ROWS * r
        x0 = load(x, s)
        q = quat(load(x, s + 1), scalar(load(x, s + 2)))
        v0 = load(v, s + NODE)
        l0 = load(v, s + 2)
        force, torque = wrench(b, share, step, h, k, x0, q, v0, load(v, s + NODE + 1))
        v1 = v0 + ((force + load(f, s + NODE)) * (1.0 / b.mass[k]) + b.gravity[k]) * h
        l1 = l0 + (torque + load(f, s + NODE + 1)) * h
        q1 = normalised(exponential(spin(q, l1, b.inertia_inverse[k]) * h) * q)
        store(xn, s, x0 + v1 * h)
        store(vn, s, v1)
        store(xn, s + 1, vector_part(q1))
        store(vn, s + 1, l1)
        store(xn, s + 2, row_of(q1))
        for m in range(2, ROWS):
            store(f, s + m, zero3(0))


@wp.kernel(enable_backward=False)
def forward(
    p: Parameters,
    b: Bodies,
    e: Elements,
    share: wp.array2d[Scalar],
    blow: wp.array[int],
    substeps: int,
    bodies: int,
    begin: int,  # frames between which it moves
    end: int,
    # out; frame `begin` is given
    x: wp.array3d[Vertex],
    v: wp.array3d[Vertex],
    f: wp.array2d[Vertex],
):
    i = wp.tid()
    for frame in range(begin, end):
        for k in range(substeps):
            at = wp.where(k > 0, frame + 1, frame)  # one call: it is compiled into its place
            move(p, b, e, share, blow, frame * substeps + k, frame, i, bodies, x[i, at], v[i, at], f[i], x[i, frame + 1], v[i, frame + 1])  # fmt: skip


if not DUAL:

    @wp.func
    def retreat_bodies(
        p: Parameters, b: Bodies, share: wp.array2d[Scalar], step: int, frame: int, i: int, bodies: int,
        x: wp.array[Vertex], v: wp.array[Vertex], vn: wp.array[Vertex], f: wp.array[Vertex],
        # out; the adjoints of the state after the step become those of the state before, but for what acts on the nodes;
        # f has what acts on the nodes in a short step (see `soft/kernels.py`), and is zero afterwards
        ax: wp.array[Vertex], av: wp.array[Vertex], w: wp.array[Vertex],
        grad: Parameters, own: Bodies,
    ):  # fmt: skip
        n = p.inverse_mass.shape[1]
        h = p.step[i, frame]
        for r in range(bodies):
            k = i * bodies + r
            s = n + ROWS * r
            x0 = load(x, s)
            q = quat(load(x, s + 1), scalar(load(x, s + 2)))
            v0 = load(v, s + NODE)
            l0 = load(v, s + 2)
            force, torque = wrench(b, share, step, h, k, x0, q, v0, load(v, s + NODE + 1))
            short = less(h, spread(SHORT))
            rate = 1.0 / where(short, spread(Scalar(1.0)), h)
            force = where(short, force + load(f, s + NODE), ((load(vn, s) - v0) * rate - b.gravity[k]) * b.mass[k])
            torque = where(short, torque + load(f, s + NODE + 1), (load(vn, s + 1) - l0) * rate)
            for m in range(2, ROWS):
                store(f, s + m, zero3(0))
            aq = quat(load(ax, s + 1), scalar(load(ax, s + 2)))
            bx, bq, bv, bl, bf, bt, mass_, inertia_, gravity_, bh, _x, _q, _v, _l = wp.grad(step_power)(
                x0, q, v0, l0, force, torque, b.mass[k], b.inertia_inverse[k], b.gravity[k], h,
                load(ax, s), aq, load(av, s), load(av, s + 1),
            )  # fmt: skip
            own.mass[k] = own.mass[k] + mass_
            own.inertia_inverse[k] = own.inertia_inverse[k] + inertia_
            own.gravity[k] = own.gravity[k] + gravity_
            cx, cq, cv, cl, ch = wrench_adjoint(b, own, share, step, h, k, x0, q, v0, l0, load(v, s + NODE + 1), bf, bt)
            grad.step[i, frame] = grad.step[i, frame] + bh + ch
            store(ax, s, bx + cx)
            store(av, s, bv + cv)
            store(ax, s + 1, vector_part(bq + cq))
            store(av, s + 1, bl + cl)
            store(ax, s + 2, row_of(bq + cq))
            store(w, s + NODE, bf)
            store(w, s + NODE + 1, bt)
            for m in range(NODE, ROWS):
                store(ax, s + m, zero3(0))
                store(av, s + m, zero3(0))

    @wp.func
    def gather_bodies(
        b: Bodies, blow: wp.array[int], step: int, i: int, bodies: int, n: int,
        x: wp.array[Vertex], v: wp.array[Vertex],
        # out
        ax: wp.array[Vertex], av: wp.array[Vertex], own: Bodies,
    ):  # fmt: skip
        """The adjoints of the nodes become part of those of the state."""
        for r in range(bodies):
            k = i * bodies + r
            s = n + ROWS * r
            q = quat(load(x, s + 1), scalar(load(x, s + 2)))
            q_, l_, inertia_, _w = wp.grad(spin_power)(q, load(v, s + 2), b.inertia_inverse[k], load(av, s + NODE + 1))
            own.inertia_inverse[k] = own.inertia_inverse[k] + inertia_
            sv = load(av, s) + load(av, s + NODE)
            sl = load(av, s + 1) + l_
            aq = quat(load(ax, s + 1) + load(ax, s + NODE + 1), scalar(load(ax, s + 2))) + q_
            aq = aq + struck_adjoint(b, own, blow, step, k, q, sv, sl)
            store(ax, s, load(ax, s) + load(ax, s + NODE))
            store(av, s, sv)
            store(ax, s + 1, vector_part(aq))
            store(av, s + 1, sl)
            store(ax, s + 2, row_of(aq))

    @wp.kernel(enable_backward=False)
    def backward(
        p: Parameters,
        b: Bodies,
        e: Elements,
        share: wp.array2d[Scalar],
        blow: wp.array[int],
        substeps: int,
        bodies: int,
        begin: int,  # the frames of one segment
        end: int,
        x: wp.array3d[Vertex],
        v: wp.array3d[Vertex],
        # workspace: the states of one segment, forces, and probes of them
        xs: wp.array3d[Vertex],
        vs: wp.array3d[Vertex],
        f: wp.array2d[Vertex],
        w: wp.array2d[Vertex],
        # out; the adjoints of the frames are given, those of the state are added up
        x_adjoint: wp.array3d[Vertex],
        v_adjoint: wp.array3d[Vertex],
        ax: wp.array2d[Vertex],
        av: wp.array2d[Vertex],
        grad: Parameters,
        own: Bodies,
        d: Elements,
    ):
        i = wp.tid()
        n = p.inverse_mass.shape[1]
        rows = n + ROWS * bodies
        steps = (end - begin) * substeps
        copy(xs[i, 0], x[i, begin])
        copy(vs[i, 0], v[i, begin])
        for k in range(steps - 1):
            move(p, b, e, share, blow, begin * substeps + k, begin + k // substeps, i, bodies, xs[i, k], vs[i, k], f[i], xs[i, k + 1], vs[i, k + 1])  # fmt: skip
        prepare(b, blow, begin * substeps + steps - 1, i, bodies, n, xs[i, steps - 1], vs[i, steps - 1])
        copy(vs[i, steps], v[i, end])
        for m in range(steps):
            k = steps - 1 - m
            step = begin * substeps + k
            frame = begin + k // substeps
            if (k + 1) % substeps == 0:
                accumulate(ax[i], x_adjoint[i, frame + 1], rows)
                accumulate(av[i], v_adjoint[i, frame + 1], rows)
            retreat(p, i, frame, vs[i, k], vs[i, k + 1], ax[i], av[i], w[i], grad)
            if any_lane(less(p.step[i, frame], spread(SHORT))):
                retreat_short(p, e, i, frame, xs[i, k], vs[i, k], av[i], f[i], grad)
            retreat_bodies(p, b, share, step, frame, i, bodies, xs[i, k], vs[i, k], vs[i, k + 1], f[i], ax[i], av[i], w[i], grad, own)  # fmt: skip
            add_adjoints(e, d, i, frame, xs[i, k], vs[i, k], w[i], ax[i], av[i])
            gather_bodies(b, blow, step, i, bodies, n, xs[i, k], vs[i, k], ax[i], av[i], own)

    # Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
    @wp.kernel(enable_backward=True)
    def keep_adjoints(a: wp.array[Vec3], m: wp.array[Mat3], r: wp.array[Real], q: wp.array[Quat]):
        c, t, s = a[0], q[0], r[0]
        r[1] = all_powers(c, m[0], s) + step_power(c, t, c, c, c, c, s, m[0], c, s, c, t, c, c)
        r[2] = contact_power(c, t, c, c, c, s, c, s, s, s, s, s, c, c) + push_power(t, c, c, s, c, c)
        r[3] = spin_power(t, c, m[0], c) + blow_power(t, c, c, s, c, c)

    if OBSTACLES:

        @wp.kernel(enable_backward=True)
        def keep_obstacle_adjoint(v: wp.array[Vec3], q: wp.array[Quat], s: wp.array[Real]):
            a, b, r = v[0], q[0], s[0]
            s[1] = obstacle_power(a, b, a, a, a, r, a, a, a, a, r, r, r, r, r, r, r, r, a, a)
