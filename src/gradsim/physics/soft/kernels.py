# pyright: reportInvalidTypeForm=false
"""Rollout of the vertices of soft bodies (paper Eq. 4), a template for `engine.lanes`.

    f = Σ forces of all elements at (x, v)
    v' = v + h (f/m + g),   x' = x + h v'                       semi-implicit Euler
    g_v = a_v + h a_x,   w = h g_v/m,   a_v ← g_v + ∂(f·w)/∂v,   a_x ← a_x + ∂(f·w)/∂x        its adjoint (paper Eq. 5)

A pinned vertex has 1/m = 0 and no gravity: it keeps its velocity. A driven one is put where a recording has it at the end
of the step (`soft/drive_kernels.py`). The step h is a number of each world and frame interval.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.rollout_kernels import forward_sweep, reverse_sweep

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.access_kernels import load, store
    from gradsim.engine.lanes import Vec3 as Vertex
    from gradsim.physics.forces.assembly import Elements, add_adjoints, add_forces, all_powers
    from gradsim.physics.soft.drive_kernels import Drive, drive, drive_adjoint

SHARED = globals().get("SHARED", True)  # whether constants are plain numbers
DRIVEN = globals().get("DRIVEN", False)  # whether vertices follow a recording
MIN_STEP = Scalar(1e-7)  # [s]; below, the gain of velocity does not show the force: rounding, or no step at all

if SHARED:
    Constant = Scalar
    constant = spread  # pyright: ignore[reportAssignmentType] -- of one kind, which a template does not know
else:
    Constant = Real

    @wp.func(inline=True)
    def constant(a: Real) -> Real:
        return a


@wp.struct
class VertexParameters:
    inverse_mass: wp.array2d[Real]  # of each vertex [1/kg]
    free: wp.array[Constant]  # 1, or 0 where pinned
    gravity: wp.array2d[Vec3]  # one [m/s²]
    step: wp.array2d[Real]  # h in each frame interval [s]


@wp.struct
class Parameters:
    p: VertexParameters
    e: Elements
    f: wp.array2d[Vertex]  # forces; zero before and after a step
    w: wp.array2d[Vertex]  # probes of them
    spacing: int  # states from one frame to the next: 1, or all steps
    if DRIVEN:
        d: Drive


@wp.struct
class States:  # (packs, instants, vertices)
    x: wp.array3d[Vertex]
    v: wp.array3d[Vertex]


@wp.struct
class Adjoint:
    x: wp.array2d[Vertex]
    v: wp.array2d[Vertex]


@wp.func
def step_vertices(
    p: VertexParameters,
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


@wp.func
def step(s: Parameters, t: States, source: int, target: int, row: int, interval: int, i: int):
    step_vertices(s.p, s.e, i, interval, t.x[i, source], t.v[i, source], s.f[i], t.x[i, target], t.v[i, target])
    if DRIVEN:
        drive(s.d, row, i, t.x[i, target], t.v[i, target])


@wp.func
def spacing(s: Parameters) -> int:
    return s.spacing


forward = forward_sweep(__name__, Parameters, States, step, spacing=spacing)


if not DUAL:

    @wp.func
    def same(a: Real) -> Real:
        return a

    @wp.func
    def step_vertices_adjoint(
        p: VertexParameters,
        i: int,
        frame: int,
        v: wp.array[Vertex],
        vn: wp.array[Vertex],
        ax: wp.array[Vertex],
        # out; the adjoint of v' becomes that of v but for the forces
        av: wp.array[Vertex],
        w: wp.array[Vertex],
        grad: VertexParameters,
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
        short = less(h, spread(MIN_STEP))
        one = spread(Scalar(1.0))
        grad.step[i, frame] = grad.step[i, frame] + rate + where(short, zero(0), gained / where(short, one, h))

    @wp.func
    def short_step_adjoint(
        p: VertexParameters,
        e: Elements,
        i: int,
        frame: int,
        x: wp.array[Vertex],
        v: wp.array[Vertex],
        av: wp.array[Vertex],
        f: wp.array[Vertex],
        # out
        grad: VertexParameters,
    ):
        """Add the adjoint of the length of a short step, by the forces; f of the vertices is zero before and after."""
        add_forces(e, i, frame, x, v, f)
        g = p.gravity[i, 0]
        rate = zero(0)
        for b in range(p.inverse_mass.shape[1]):
            rate = rate + dot(load(av, b), load(f, b) * p.inverse_mass[i, b] + g * constant(p.free[b]))
            store(f, b, zero3(0))
        grad.step[i, frame] = grad.step[i, frame] + where(less(p.step[i, frame], spread(MIN_STEP)), rate, zero(0))

    @wp.func
    def copy_vertices(from_: wp.array[Vertex], to: wp.array[Vertex]):
        for j in range(to.shape[0]):
            to[j] = from_[j]

    @wp.func
    def add_vertices(from_: wp.array[Vertex], to: wp.array[Vertex], blocks: int):
        for b in range(blocks):
            store(to, b, load(to, b) + load(from_, b))

    @wp.func
    def copy_state(from_: States, source: int, to: States, target: int, i: int):
        copy_vertices(from_.x[i, source], to.x[i, target])
        copy_vertices(from_.v[i, source], to.v[i, target])

    @wp.func
    def add_state(s: Parameters, t: States, frame: int, adjoint: Adjoint, i: int):
        blocks = s.p.inverse_mass.shape[1]
        add_vertices(t.x[i, frame], adjoint.x[i], blocks)
        add_vertices(t.v[i, frame], adjoint.v[i], blocks)

    @wp.func
    def step_adjoint(
        s: Parameters, t: States, source: int, row: int, interval: int, i: int, adjoint: Adjoint, grad: Parameters
    ):
        _after = wp.grad(same)(
            zero(0)
        )  # Warp declares functions with a wp.grad after all others, those which call them not
        x = t.x[i, source]
        v = t.v[i, source]
        if DRIVEN:
            drive_adjoint(s.d, grad.d, row, i, adjoint.x[i], adjoint.v[i])
        step_vertices_adjoint(s.p, i, interval, v, t.v[i, source + 1], adjoint.x[i], adjoint.v[i], s.w[i], grad.p)
        if any_lane(less(s.p.step[i, interval], spread(MIN_STEP))):
            short_step_adjoint(s.p, s.e, i, interval, x, v, adjoint.v[i], s.f[i], grad.p)
        add_adjoints(s.e, grad.e, i, interval, x, v, s.w[i], adjoint.x[i], adjoint.v[i])

    backward = reverse_sweep(
        __name__, Parameters, States, Adjoint, step, copy_state, add_state, step_adjoint, spacing=spacing
    )

    # Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
    @wp.kernel(enable_backward=True)
    def keep_adjoints(a: wp.array[Vec3], m: wp.array[Mat3], r: wp.array[Real]):
        if never(0):
            r[1] = all_powers(a[0], m[0], r[0])
