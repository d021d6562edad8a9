# pyright: reportInvalidTypeForm=false
"""Rollout of the vertices of soft bodies by velocity Verlet, a template for `engine.lanes`.

    x' = x + h v + h²/2 a,   u = v + h a                        (Swope et al. 1982, J. Chem. Phys. 76, 637)
    a' = f(x', u)/m + g                                         u predicts v', which forces may depend on
    v' = u + h/2 (a' - a)

Where forces do not depend on velocity this is leapfrog: symplectic and of second order, with one evaluation of the forces
in a step. Where they do, u is off by h/2 (a' - a), which is of second order, too.

Each frame interval opens with a step of length 0, which makes a of the frame's x and v. A frame is thus a whole state,
and parameters with a value for each interval change at the frame exactly. An interval of n steps has n + 1 evaluations.

    p = h/2 b_v,   b_a ← b_a + p,   w = b_a/m                   adjoint, b those of x', v', a'
    b_x ← b_x + ∂(f·w)/∂x,   b_u = b_v + ∂(f·w)/∂u
    b_a ← h²/2 b_x + h b_u - p,   b_v ← b_u + h b_x
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.rollout_kernels import forward_sweep

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.access_kernels import load, store
    from gradsim.engine.lanes import Vec3 as Vertex
    from gradsim.physics.forces.assembly import Elements, add_adjoints, add_forces, all_powers
    from gradsim.physics.soft.drive_kernels import Drive, drive, drive_adjoint
    from gradsim.physics.soft.kernels import VertexParameters, add_vertices, constant, copy_vertices

DRIVEN = globals().get("DRIVEN", False)  # whether vertices follow a recording


@wp.struct
class Parameters:
    p: VertexParameters
    e: Elements
    f: wp.array2d[Vertex]  # forces; zero before and after a step
    w: wp.array2d[Vertex]  # probes of them
    evaluations: int  # in a frame interval: its steps and the opening one
    if DRIVEN:
        d: Drive


@wp.struct
class States:  # (packs, instants, vertices)
    x: wp.array3d[Vertex]
    v: wp.array3d[Vertex]
    a: wp.array3d[Vertex]


@wp.struct
class Adjoint:
    x: wp.array2d[Vertex]
    v: wp.array2d[Vertex]
    a: wp.array2d[Vertex]


@wp.func
def length(s: Parameters, row: int, interval: int, i: int) -> Real:
    """Length of a step; 0 of one that opens an interval."""
    return s.p.step[i, interval] * spread(wp.where(row % s.evaluations > 0, Scalar(1.0), Scalar(0.0)))


@wp.func
def step(s: Parameters, t: States, source: int, target: int, row: int, interval: int, i: int):
    h = length(s, row, interval, i)
    half = spread(Scalar(0.5)) * h
    x = t.x[i, target]
    v = t.v[i, target]
    a = t.a[i, target]
    f = s.f[i]
    blocks = s.p.inverse_mass.shape[1]
    for b in range(blocks):
        vb = load(t.v[i, source], b)
        ab = load(t.a[i, source], b)
        store(x, b, load(t.x[i, source], b) + (vb + ab * half) * h)
        store(v, b, vb + ab * h)
        store(a, b, ab)
    if DRIVEN:
        drive(s.d, interval * s.evaluations + row % s.evaluations, i, x, v)
    add_forces(s.e, i, interval, x, v, f)
    g = s.p.gravity[i, 0]
    for b in range(blocks):
        ab = load(f, b) * s.p.inverse_mass[i, b] + g * constant(s.p.free[b])
        store(v, b, load(v, b) + (ab - load(a, b)) * half)
        store(a, b, ab)
        store(f, b, zero3(0))


forward = forward_sweep(__name__, Parameters, States, step)


if not DUAL:

    @wp.func
    def same(a: Real) -> Real:
        return a

    @wp.func
    def step_adjoint(
        s: Parameters, t: States, source: int, row: int, interval: int, i: int, adjoint: Adjoint, grad: Parameters
    ):
        """State `source + 1` is not read again, so its v takes u."""
        _after = wp.grad(same)(zero(0))  # see `soft/kernels.py`
        h = length(s, row, interval, i)
        half = spread(Scalar(0.5)) * h
        x = t.x[i, source + 1]
        u = t.v[i, source + 1]
        ax = adjoint.x[i]
        av = adjoint.v[i]
        aa = adjoint.a[i]
        w = s.w[i]
        g = s.p.gravity[i, 0]
        pull = zero3(0)
        rate = zero(0)
        blocks = s.p.inverse_mass.shape[1]
        for b in range(blocks):
            m = s.p.inverse_mass[i, b]
            free = constant(s.p.free[b])
            ab = load(t.a[i, source], b)
            an = load(t.a[i, source + 1], b)
            gv = load(av, b)
            push = gv * half
            ga = load(aa, b) + push
            pull = pull + ga * free
            rate = rate + dot(gv, an - ab)
            # the force is (a' - g) m; a pinned vertex has none
            grad.p.inverse_mass[i, b] = grad.p.inverse_mass[i, b] + dot(ga, an - g * free) / (m + (1.0 - free))
            store(w, b, ga * m)
            store(aa, b, push * spread(Scalar(-1.0)))
            store(u, b, load(t.v[i, source], b) + ab * h)
        if DRIVEN:
            drive(s.d, interval * s.evaluations + row % s.evaluations, i, x, u)
        grad.p.gravity[i, 0] = grad.p.gravity[i, 0] + pull
        rate = rate * spread(Scalar(0.5))
        add_adjoints(s.e, grad.e, i, interval, x, u, w, ax, av)
        if DRIVEN:
            drive_adjoint(s.d, grad.d, interval * s.evaluations + row % s.evaluations, i, ax, av)
        for b in range(blocks):
            ab = load(t.a[i, source], b)
            gx = load(ax, b)
            gu = load(av, b)
            rate = rate + dot(gx, load(u, b)) + dot(gu, ab)
            store(aa, b, load(aa, b) + (gx * half + gu) * h)
            store(av, b, gu + gx * h)
        moves = spread(wp.where(row % s.evaluations > 0, Scalar(1.0), Scalar(0.0)))
        grad.p.step[i, interval] = grad.p.step[i, interval] + rate * moves

    @wp.func
    def add_state(t: States, frame: int, adjoint: Adjoint, i: int, blocks: int):
        add_vertices(t.x[i, frame], adjoint.x[i], blocks)
        add_vertices(t.v[i, frame], adjoint.v[i], blocks)

    @wp.kernel(enable_backward=False)
    def backward(
        offset: int,  # see `engine.launch`
        parameters: Parameters,
        evaluations: int,
        segment: int,  # frames between checkpoints
        begin: int,
        end: int,
        states: States,
        steps: States,
        frame_adjoints: States,
        # out
        adjoint: Adjoint,
        gradient: Parameters,
    ):
        """As of `engine.rollout_kernels`, but for the last step of a segment: it is recomputed, since frames have no a."""
        i = offset + wp.tid()
        blocks = parameters.p.inverse_mass.shape[1]
        segments = (end - begin + segment - 1) // segment
        for s in range(segments):
            first = begin + (segments - 1 - s) * segment
            last = wp.min(first + segment, end)
            count = (last - first) * evaluations
            copy_vertices(states.x[i, first], steps.x[i, 0])
            copy_vertices(states.v[i, first], steps.v[i, 0])
            for k in range(count):
                step(parameters, steps, k, k + 1, k, first + k // evaluations, i)
            for m in range(count):
                k = count - 1 - m
                interval = first + k // evaluations
                if (k + 1) % evaluations == 0:
                    add_state(frame_adjoints, interval + 1, adjoint, i, blocks)
                step_adjoint(parameters, steps, k, k, interval, i, adjoint, gradient)
        if begin == 0:
            add_state(frame_adjoints, 0, adjoint, i, blocks)

    # Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
    @wp.kernel(enable_backward=True)
    def keep_adjoints(a: wp.array[Vec3], m: wp.array[Mat3], r: wp.array[Real]):
        if never(0):
            r[1] = all_powers(a[0], m[0], r[0])
