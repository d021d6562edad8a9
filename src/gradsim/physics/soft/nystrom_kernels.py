# pyright: reportInvalidTypeForm=false
"""Rollout of the vertices of soft bodies by Nyström's method, a template for `engine.lanes`.

    a₁ = a(x, v)                                                (Nyström 1925; Hairer, Nørsett, Wanner 1993, §II.14)
    a₂ = a(x + h/2 v + h²/8 a₁, v + h/2 a₁)
    a₃ = a(x + h v + h²/2 a₂, v + h (2 a₂ - a₁))
    x' = x + h v + h²/6 (a₁ + 2 a₂),   v' = v + h/6 (a₁ + 4 a₂ + a₃),   a = f/m + g

Of fourth order where forces do not depend on velocity, with three evaluations of them. Where they do, the velocities of
the stages are those of Kutta's method of third order, and so is all of it. A vibration loses the share (h ω)⁶/288 of its
energy in a step, and gains none for h ω < 2.58.

    b₁ = h²/6 b_x + h/6 b_v,   b₂ = 2 b₁ + h/3 b_v,   b₃ = h/6 b_v,   b_v ← b_v + h b_x          adjoint
    p = ∂(a₃·b₃)/∂x, q = ∂(a₃·b₃)/∂v:   b_x ← b_x + p,   b_v ← b_v + h p + q,   b₂ ← b₂ + h²/2 p + 2 h q,   b₁ ← b₁ - h q
    p = ∂(a₂·b₂)/∂x, q = ∂(a₂·b₂)/∂v:   b_x ← b_x + p,   b_v ← b_v + h/2 p + q,   b₁ ← b₁ + h²/8 p + h/2 q
    b_x ← b_x + ∂(a₁·b₁)/∂x,   b_v ← b_v + ∂(a₁·b₁)/∂v
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
    from gradsim.physics.soft.kernels import Adjoint, States, VertexParameters, add_vertices, constant, copy_state

SIXTH, THIRD = Scalar(1 / 6), Scalar(1 / 3)  # in a kernel these quotients would be of float32
DRIVEN = globals().get("DRIVEN", False)  # whether vertices follow a recording


@wp.struct
class Parameters:
    p: VertexParameters
    e: Elements
    f: wp.array2d[Vertex]  # forces; zero before and after a step
    w: wp.array2d[Vertex]  # probes of them
    y: wp.array2d[Vertex]  # place and velocity of a stage
    u: wp.array2d[Vertex]
    a: wp.array3d[Vertex]  # accelerations of the stages
    p_y: wp.array2d[Vertex]  # adjoints of a stage
    p_u: wp.array2d[Vertex]
    b: wp.array3d[Vertex]  # adjoints of the accelerations
    stages: int  # 3: a loop over as many is compiled once
    spacing: int  # states from one frame to the next: 1, or all steps
    if DRIVEN:
        d: Drive


@wp.func
def place_stage(s: Parameters, k: int, x: wp.array[Vertex], v: wp.array[Vertex], h: Real, row: int, i: int):
    """Set y and u to those of stage k = 0, 1, 2."""
    y = s.y[i]
    u = s.u[i]
    half = spread(Scalar(0.5)) * h
    for b in range(s.p.inverse_mass.shape[1]):
        xb = load(x, b)
        vb = load(v, b)
        a1 = load(s.a[i, 0], b)
        if k == 0:
            store(y, b, xb)
            store(u, b, vb)
        elif k == 1:
            store(y, b, xb + (vb + a1 * (spread(Scalar(0.25)) * h)) * half)
            store(u, b, vb + a1 * half)
        else:
            a2 = load(s.a[i, 1], b)
            store(y, b, xb + (vb + a2 * half) * h)
            store(u, b, vb + (a2 + a2 - a1) * h)
    if DRIVEN:
        drive(s.d, row * s.stages + k, i, y, u)


@wp.func
def accelerate(s: Parameters, x: wp.array[Vertex], v: wp.array[Vertex], h: Real, row: int, interval: int, i: int):
    """Set a₁, a₂, a₃ to those of the step from x and v."""
    f = s.f[i]
    g = s.p.gravity[i, 0]
    for k in range(s.stages):
        place_stage(s, k, x, v, h, row, i)
        add_forces(s.e, i, interval, s.y[i], s.u[i], f)
        a = s.a[i, k]
        for b in range(s.p.inverse_mass.shape[1]):
            store(a, b, load(f, b) * s.p.inverse_mass[i, b] + g * constant(s.p.free[b]))
            store(f, b, zero3(0))


@wp.func
def step(s: Parameters, t: States, source: int, target: int, row: int, interval: int, i: int):
    h = s.p.step[i, interval]
    sixth = spread(SIXTH) * h
    x = t.x[i, source]
    v = t.v[i, source]
    xn = t.x[i, target]
    vn = t.v[i, target]
    accelerate(s, x, v, h, row, interval, i)
    for b in range(s.p.inverse_mass.shape[1]):
        a1 = load(s.a[i, 0], b)
        a2 = load(s.a[i, 1], b)
        vb = load(v, b)
        store(xn, b, load(x, b) + (vb + (a1 + a2 + a2) * sixth) * h)
        store(vn, b, vb + (a1 + a2 * spread(Scalar(4.0)) + load(s.a[i, 2], b)) * sixth)
    if DRIVEN:  # at the end of the step, as the last stage
        drive(s.d, row * s.stages + s.stages - 1, i, xn, vn)


@wp.func
def spacing(s: Parameters) -> int:
    return s.spacing


forward = forward_sweep(__name__, Parameters, States, step, spacing=spacing)


if not DUAL:

    @wp.func
    def same(a: Real) -> Real:
        return a

    @wp.func
    def probe_stage(s: Parameters, k: int, i: int, grad: Parameters):
        """Set the probe of the forces of stage k, and add the adjoints of mass and gravity by it."""
        g = s.p.gravity[i, 0]
        pull = zero3(0)
        for b in range(s.p.inverse_mass.shape[1]):
            m = s.p.inverse_mass[i, b]
            free = constant(s.p.free[b])
            probe = load(s.b[i, k], b)
            pull = pull + probe * free
            # the force is (a - g) m; a pinned vertex has none
            gained = dot(probe, load(s.a[i, k], b) - g * free)
            grad.p.inverse_mass[i, b] = grad.p.inverse_mass[i, b] + gained / (m + (1.0 - free))
            store(s.w[i], b, probe * m)
            store(s.p_y[i], b, zero3(0))
            store(s.p_u[i], b, zero3(0))
        grad.p.gravity[i, 0] = grad.p.gravity[i, 0] + pull

    @wp.func
    def step_adjoint(
        s: Parameters, t: States, source: int, row: int, interval: int, i: int, adjoint: Adjoint, grad: Parameters
    ):
        _after = wp.grad(same)(zero(0))  # see `soft/kernels.py`
        h = s.p.step[i, interval]
        half = spread(Scalar(0.5)) * h
        third = spread(THIRD) * h
        sixth = spread(SIXTH) * h
        x = t.x[i, source]
        v = t.v[i, source]
        ax = adjoint.x[i]
        av = adjoint.v[i]
        blocks = s.p.inverse_mass.shape[1]
        rate = zero(0)
        accelerate(s, x, v, h, row, interval, i)
        if DRIVEN:
            drive_adjoint(s.d, grad.d, row * s.stages + s.stages - 1, i, ax, av)
        for b in range(blocks):
            a1 = load(s.a[i, 0], b)
            a2 = load(s.a[i, 1], b)
            gx = load(ax, b)
            gv = load(av, b)
            b1 = (gx * h + gv) * sixth
            store(s.b[i, 0], b, b1)
            store(s.b[i, 1], b, b1 + b1 + gv * third)
            store(s.b[i, 2], b, gv * sixth)
            store(av, b, gv + gx * h)
            rate = rate + dot(gx, load(v, b) + (a1 + a2 + a2) * third)
            rate = rate + dot(gv, a1 + a2 * spread(Scalar(4.0)) + load(s.a[i, 2], b)) * spread(SIXTH)
        for n in range(s.stages):
            k = s.stages - 1 - n
            place_stage(s, k, x, v, h, row, i)
            probe_stage(s, k, i, grad)
            add_adjoints(s.e, grad.e, i, interval, s.y[i], s.u[i], s.w[i], s.p_y[i], s.p_u[i])
            if DRIVEN:
                drive_adjoint(s.d, grad.d, row * s.stages + k, i, s.p_y[i], s.p_u[i])
            for b in range(blocks):
                py = load(s.p_y[i], b)
                pu = load(s.p_u[i], b)
                vb = load(v, b)
                a1 = load(s.a[i, 0], b)
                by_v = pu
                if k == 2:
                    a2 = load(s.a[i, 1], b)
                    by_v = pu + py * h
                    store(s.b[i, 1], b, load(s.b[i, 1], b) + (py * half + pu + pu) * h)
                    store(s.b[i, 0], b, load(s.b[i, 0], b) - pu * h)
                    rate = rate + dot(py, vb + a2 * h) + dot(pu, a2 + a2 - a1)
                if k == 1:
                    by_v = pu + py * half
                    store(s.b[i, 0], b, load(s.b[i, 0], b) + (py * (spread(Scalar(0.25)) * h) + pu) * half)
                    rate = rate + (dot(py, vb + a1 * half) + dot(pu, a1)) * spread(Scalar(0.5))
                store(ax, b, load(ax, b) + py)
                store(av, b, load(av, b) + by_v)
        grad.p.step[i, interval] = grad.p.step[i, interval] + rate

    @wp.func
    def add_state(s: Parameters, t: States, frame: int, adjoint: Adjoint, i: int):
        blocks = s.p.inverse_mass.shape[1]
        add_vertices(t.x[i, frame], adjoint.x[i], blocks)
        add_vertices(t.v[i, frame], adjoint.v[i], blocks)

    backward = reverse_sweep(
        __name__, Parameters, States, Adjoint, step, copy_state, add_state, step_adjoint, spacing=spacing
    )

    # Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
    @wp.kernel(enable_backward=True)
    def keep_adjoints(a: wp.array[Vec3], m: wp.array[Mat3], r: wp.array[Real]):
        if never(0):
            r[1] = all_powers(a[0], m[0], r[0])
