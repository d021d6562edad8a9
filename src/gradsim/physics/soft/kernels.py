# pyright: reportInvalidTypeForm=false
"""Rollout of the vertices of soft bodies (paper Eq. 4), a template for `engine.lanes`.

    f = Σ forces of all elements at (x, v)
    v' = v + h (f/m + g),   x' = x + h v'                       semi-implicit Euler
    g_v = a_v + h a_x,   w = h g_v/m,   a_v ← g_v + ∂(f·w)/∂v,   a_x ← a_x + ∂(f·w)/∂x        its adjoint (paper Eq. 5)

A pinned vertex has 1/m = 0 and no gravity: it keeps its velocity. The step h is a number of each world and frame
interval. One launch covers all frames; the reverse sweep recomputes each segment of frames from its first.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.access_kernels import load, store
    from gradsim.engine.lanes import Vec3 as Vertex
    from gradsim.physics.forces.assembly import Elements, add_adjoints, add_forces, all_powers

SHARED = globals().get("SHARED", True)  # whether constants are plain numbers
SHORT = Scalar(1e-7)  # [s]; what a velocity gains in less has lost the force to rounding, and in none says nothing

if SHARED:
    Constant = Scalar
    constant = spread  # pyright: ignore[reportAssignmentType] -- of one kind, which a template does not know
else:
    Constant = Real

    @wp.func(inline=True)
    def constant(a: Real) -> Real:
        return a


@wp.struct
class Parameters:
    inverse_mass: wp.array2d[Real]  # of each vertex [1/kg]
    free: wp.array[Constant]  # 1, or 0 where pinned
    gravity: wp.array2d[Vec3]  # one [m/s²]
    step: wp.array2d[Real]  # h in each frame interval [s]


@wp.func
def advance(
    p: Parameters,
    e: Elements,
    i: int,
    frame: int,
    x: wp.array[Vertex],
    v: wp.array[Vertex],
    f: wp.array[Vertex],
    # out; may be x and v
    xn: wp.array[Vertex],
    vn: wp.array[Vertex],
):
    """One step; f is zero before and after."""
    add_forces(e, i, frame, x, v, f)
    h = p.step[i, frame]
    g = p.gravity[i, 0]
    for b in range(p.inverse_mass.shape[1]):
        vb = load(v, b) + (load(f, b) * p.inverse_mass[i, b] + g * constant(p.free[b])) * h
        store(vn, b, vb)
        store(xn, b, load(x, b) + vb * h)
        store(f, b, zero3(0))


@wp.kernel(enable_backward=False)
def forward(
    p: Parameters,
    e: Elements,
    substeps: int,
    # out; frame 0 is given
    x: wp.array3d[Vertex],
    v: wp.array3d[Vertex],
    f: wp.array2d[Vertex],
):
    i = wp.tid()
    for frame in range(x.shape[1] - 1):
        advance(p, e, i, frame, x[i, frame], v[i, frame], f[i], x[i, frame + 1], v[i, frame + 1])
        for _k in range(substeps - 1):
            advance(p, e, i, frame, x[i, frame + 1], v[i, frame + 1], f[i], x[i, frame + 1], v[i, frame + 1])


if not DUAL:

    @wp.func
    def retreat(
        p: Parameters,
        i: int,
        frame: int,
        v: wp.array[Vertex],
        vn: wp.array[Vertex],
        ax: wp.array[Vertex],
        # out; the adjoint of v' becomes that of v but for the forces
        av: wp.array[Vertex],
        w: wp.array[Vertex],
        grad: Parameters,
    ):
        """The adjoint of one step from velocity v to vn, but for that of the forces, whose probes are w."""
        h = p.step[i, frame]
        g = p.gravity[i, 0]
        pull = zero3(0)
        gained = zero(0)
        rate = zero(0)
        for b in range(p.inverse_mass.shape[1]):
            m = p.inverse_mass[i, b]
            free = constant(p.free[b])
            vb = load(vn, b)
            gx = load(ax, b)
            gv = load(av, b) + gx * h
            gain = vb - load(v, b)
            store(w, b, gv * (m * h))
            store(av, b, gv)
            pull = pull + gv * (free * h)
            gained = gained + dot(gv, gain)
            rate = rate + dot(gx, vb)
            # the force is (gain/h - g) / m; a pinned vertex has no gain
            grad.inverse_mass[i, b] = grad.inverse_mass[i, b] + dot(gv, gain - g * (free * h)) / (m + (1.0 - free))
        grad.gravity[i, 0] = grad.gravity[i, 0] + pull
        short = less(h, spread(SHORT))
        one = spread(Scalar(1.0))
        grad.step[i, frame] = grad.step[i, frame] + rate + where(short, zero(0), gained / where(short, one, h))

    @wp.func
    def retreat_short(
        p: Parameters,
        e: Elements,
        i: int,
        frame: int,
        x: wp.array[Vertex],
        v: wp.array[Vertex],
        av: wp.array[Vertex],
        f: wp.array[Vertex],
        # out
        grad: Parameters,
    ):
        """What a short step adds to the adjoint of its length, by the forces; f of the vertices is zero before and after."""
        add_forces(e, i, frame, x, v, f)
        g = p.gravity[i, 0]
        rate = zero(0)
        for b in range(p.inverse_mass.shape[1]):
            rate = rate + dot(load(av, b), load(f, b) * p.inverse_mass[i, b] + g * constant(p.free[b]))
            store(f, b, zero3(0))
        grad.step[i, frame] = grad.step[i, frame] + where(less(p.step[i, frame], spread(SHORT)), rate, zero(0))

    @wp.func
    def copy(to: wp.array[Vertex], given: wp.array[Vertex]):
        for j in range(to.shape[0]):
            to[j] = given[j]

    @wp.func
    def accumulate(to: wp.array[Vertex], given: wp.array[Vertex], blocks: int):
        for b in range(blocks):
            store(to, b, load(to, b) + load(given, b))

    @wp.kernel(enable_backward=False)
    def backward(
        p: Parameters,
        e: Elements,
        substeps: int,
        segment: int,  # frames between checkpoints
        x: wp.array3d[Vertex],
        v: wp.array3d[Vertex],
        # workspace: the states of one segment (x and v, where each step has a frame), forces, and probes of them
        xs: wp.array3d[Vertex],
        vs: wp.array3d[Vertex],
        f: wp.array2d[Vertex],
        w: wp.array2d[Vertex],
        # out; the adjoints of the frames are given, those of the start are added up
        x_adjoint: wp.array3d[Vertex],
        v_adjoint: wp.array3d[Vertex],
        ax: wp.array2d[Vertex],
        av: wp.array2d[Vertex],
        grad: Parameters,
        d: Elements,
    ):
        i = wp.tid()
        frames = x.shape[1]
        blocks = p.inverse_mass.shape[1]
        segments = (frames - 1 + segment - 1) // segment
        for s in range(segments):
            first = (segments - 1 - s) * segment
            last = wp.min(first + segment, frames - 1)
            steps = (last - first) * substeps
            base = wp.where(substeps > 1, 0, first)
            if substeps > 1:
                copy(xs[i, 0], x[i, first])
                copy(vs[i, 0], v[i, first])
                for k in range(steps - 1):
                    advance(p, e, i, first + k // substeps, xs[i, k], vs[i, k], f[i], xs[i, k + 1], vs[i, k + 1])
                copy(vs[i, steps], v[i, last])
            for m in range(steps):
                k = steps - 1 - m
                frame = first + k // substeps
                if (k + 1) % substeps == 0:
                    accumulate(ax[i], x_adjoint[i, frame + 1], blocks)
                    accumulate(av[i], v_adjoint[i, frame + 1], blocks)
                j = base + k
                retreat(p, i, frame, vs[i, j], vs[i, j + 1], ax[i], av[i], w[i], grad)
                if any_lane(less(p.step[i, frame], spread(SHORT))):
                    retreat_short(p, e, i, frame, xs[i, j], vs[i, j], av[i], f[i], grad)
                add_adjoints(e, d, i, frame, xs[i, j], vs[i, j], w[i], ax[i], av[i])
        accumulate(ax[i], x_adjoint[i, 0], blocks)
        accumulate(av[i], v_adjoint[i, 0], blocks)

    # Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
    @wp.kernel(enable_backward=True)
    def keep_adjoints(a: wp.array[Vec3], m: wp.array[Mat3], r: wp.array[Real]):
        r[1] = all_powers(a[0], m[0], r[0])
