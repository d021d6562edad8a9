"""The steps of `soft/kernels.py`, `soft/verlet_kernels.py` and `soft/nystrom_kernels.py` with one vertex a thread; forces come
between, one element a thread."""

import warp as wp

from gradsim.engine.lanes import *


@wp.kernel(enable_backward=False)
def step_vertices(
    inverse_mass: wp.array2d[Real],
    free: wp.array[Scalar],
    gravity: wp.array2d[Vec3],
    step: wp.array2d[Real],
    frame: int,
    s: int,  # place of the state before the step, and of that after it
    after: int,
    # out; f is zero again
    x: wp.array3d[Vec3],
    v: wp.array3d[Vec3],
    f: wp.array2d[Vec3],
):
    i, b = wp.tid()
    h = step[i, frame]
    vb = v[i, s, b] + (f[i, b] * inverse_mass[i, b] + gravity[i, 0] * spread(free[b])) * h
    v[i, after, b] = vb
    x[i, after, b] = x[i, s, b] + vb * h
    f[i, b] = zero3(0)


@wp.func
def length(step: wp.array2d[Real], i: int, frame: int, moves: int) -> Real:
    return step[i, frame] * spread(wp.where(moves > 0, Scalar(1.0), Scalar(0.0)))


@wp.kernel(enable_backward=False)
def predict(
    step: wp.array2d[Real],
    frame: int,
    moves: int,  # 0 of a step that opens an interval
    s: int,
    after: int,
    # out
    x: wp.array3d[Vec3],
    v: wp.array3d[Vec3],
    a: wp.array3d[Vec3],
):
    i, b = wp.tid()
    h = length(step, i, frame, moves)
    vb = v[i, s, b]
    ab = a[i, s, b]
    x[i, after, b] = x[i, s, b] + (vb + ab * (spread(Scalar(0.5)) * h)) * h
    v[i, after, b] = vb + ab * h
    a[i, after, b] = ab


@wp.kernel(enable_backward=False)
def correct(
    inverse_mass: wp.array2d[Real],
    free: wp.array[Scalar],
    gravity: wp.array2d[Vec3],
    step: wp.array2d[Real],
    frame: int,
    moves: int,
    after: int,
    # out; f is zero again
    v: wp.array3d[Vec3],
    a: wp.array3d[Vec3],
    f: wp.array2d[Vec3],
):
    i, b = wp.tid()
    ab = f[i, b] * inverse_mass[i, b] + gravity[i, 0] * spread(free[b])
    half = spread(Scalar(0.5)) * length(step, i, frame, moves)
    v[i, after, b] = v[i, after, b] + (ab - a[i, after, b]) * half
    a[i, after, b] = ab
    f[i, b] = zero3(0)


SIXTH, THIRD = Scalar(1 / 6), Scalar(1 / 3)  # as in `soft/nystrom_kernels.py`


@wp.kernel(enable_backward=False)
def place_stage(
    step: wp.array2d[Real],
    frame: int,
    k: int,  # stage
    s: int,
    x: wp.array3d[Vec3],
    v: wp.array3d[Vec3],
    a: wp.array3d[Vec3],
    # out
    y: wp.array3d[Vec3],
    u: wp.array3d[Vec3],
):
    i, b = wp.tid()
    h = step[i, frame]
    half = spread(Scalar(0.5)) * h
    xb = x[i, s, b]
    vb = v[i, s, b]
    a1 = a[i, 0, b]
    if k == 0:
        y[i, 0, b] = xb
        u[i, 0, b] = vb
    elif k == 1:
        y[i, 0, b] = xb + (vb + a1 * (spread(Scalar(0.25)) * h)) * half
        u[i, 0, b] = vb + a1 * half
    else:
        a2 = a[i, 1, b]
        y[i, 0, b] = xb + (vb + a2 * half) * h
        u[i, 0, b] = vb + (a2 + a2 - a1) * h


@wp.kernel(enable_backward=False)
def accelerate(
    inverse_mass: wp.array2d[Real],
    free: wp.array[Scalar],
    gravity: wp.array2d[Vec3],
    k: int,
    # out; f is zero again
    a: wp.array3d[Vec3],
    f: wp.array2d[Vec3],
):
    i, b = wp.tid()
    a[i, k, b] = f[i, b] * inverse_mass[i, b] + gravity[i, 0] * spread(free[b])
    f[i, b] = zero3(0)


@wp.kernel(enable_backward=False)
def step_by_stages(
    step: wp.array2d[Real],
    frame: int,
    s: int,
    after: int,
    a: wp.array3d[Vec3],
    # out
    x: wp.array3d[Vec3],
    v: wp.array3d[Vec3],
):
    i, b = wp.tid()
    h = step[i, frame]
    sixth = spread(SIXTH) * h
    a1 = a[i, 0, b]
    a2 = a[i, 1, b]
    vb = v[i, s, b]
    x[i, after, b] = x[i, s, b] + (vb + (a1 + a2 + a2) * sixth) * h
    v[i, after, b] = vb + (a1 + a2 * spread(Scalar(4.0)) + a[i, 2, b]) * sixth


if not DUAL:
    MIN_STEP = Scalar(1e-7)  # [s], as in `soft/kernels.py`

    @wp.kernel(enable_backward=False)
    def step_vertices_adjoint(
        inverse_mass: wp.array2d[Real],
        free: wp.array[Scalar],
        gravity: wp.array2d[Vec3],
        step: wp.array2d[Real],
        frame: int,
        s: int,
        f: wp.array2d[Vec3],  # where a step is short; zero again
        v: wp.array3d[Vec3],
        ax: wp.array2d[Vec3],
        # out
        av: wp.array2d[Vec3],
        w: wp.array2d[Vec3],
        mass_adjoint: wp.array2d[Real],
        gravity_adjoint: wp.array2d[Vec3],
        step_adjoint: wp.array2d[Real],
    ):
        i, b = wp.tid()
        h = step[i, frame]
        m = inverse_mass[i, b]
        loose = spread(free[b])
        vb = v[i, s + 1, b]
        gx = ax[i, b]
        gv = av[i, b] + gx * h
        gain = vb - v[i, s, b]
        w[i, b] = gv * (m * h)
        av[i, b] = gv
        mass_adjoint[i, b] = mass_adjoint[i, b] + dot(gv, gain - gravity[i, 0] * (loose * h)) / (m + (1.0 - loose))
        wp.atomic_add(gravity_adjoint, i, 0, gv * (loose * h))
        short = less(h, spread(MIN_STEP))
        pulled = f[i, b] * m + gravity[i, 0] * loose
        rate = where(short, dot(gv, pulled), dot(gv, gain) / where(short, spread(Scalar(1.0)), h))
        f[i, b] = zero3(0)
        wp.atomic_add(step_adjoint, i, frame, rate + dot(gx, vb))

    @wp.kernel(enable_backward=False)
    def correct_adjoint(
        inverse_mass: wp.array2d[Real],
        free: wp.array[Scalar],
        gravity: wp.array2d[Vec3],
        step: wp.array2d[Real],
        frame: int,
        moves: int,
        s: int,
        a: wp.array3d[Vec3],
        av: wp.array2d[Vec3],
        # out; v of the state after the step takes u
        v: wp.array3d[Vec3],
        aa: wp.array2d[Vec3],
        w: wp.array2d[Vec3],
        mass_adjoint: wp.array2d[Real],
        gravity_adjoint: wp.array2d[Vec3],
        step_adjoint: wp.array2d[Real],
    ):
        i, b = wp.tid()
        h = length(step, i, frame, moves)
        m = inverse_mass[i, b]
        loose = spread(free[b])
        ab = a[i, s, b]
        an = a[i, s + 1, b]
        gv = av[i, b]
        push = gv * (spread(Scalar(0.5)) * h)
        ga = aa[i, b] + push
        mass_adjoint[i, b] = mass_adjoint[i, b] + dot(ga, an - gravity[i, 0] * loose) / (m + (1.0 - loose))
        wp.atomic_add(gravity_adjoint, i, 0, ga * loose)
        part = spread(wp.where(moves > 0, Scalar(0.5), Scalar(0.0)))
        wp.atomic_add(step_adjoint, i, frame, dot(gv, an - ab) * part)
        w[i, b] = ga * m
        aa[i, b] = push * spread(Scalar(-1.0))
        v[i, s + 1, b] = v[i, s, b] + ab * h

    @wp.kernel(enable_backward=False)
    def predict_adjoint(
        step: wp.array2d[Real],
        frame: int,
        moves: int,
        s: int,
        v: wp.array3d[Vec3],
        a: wp.array3d[Vec3],
        ax: wp.array2d[Vec3],
        # out
        av: wp.array2d[Vec3],
        aa: wp.array2d[Vec3],
        step_adjoint: wp.array2d[Real],
    ):
        i, b = wp.tid()
        h = length(step, i, frame, moves)
        gx = ax[i, b]
        gu = av[i, b]
        aa[i, b] = aa[i, b] + (gx * (spread(Scalar(0.5)) * h) + gu) * h
        av[i, b] = gu + gx * h
        rate = dot(gx, v[i, s + 1, b]) + dot(gu, a[i, s, b])
        wp.atomic_add(step_adjoint, i, frame, rate * spread(wp.where(moves > 0, Scalar(1.0), Scalar(0.0))))

    @wp.kernel(enable_backward=False)
    def step_by_stages_adjoint(
        step: wp.array2d[Real],
        frame: int,
        s: int,
        v: wp.array3d[Vec3],
        a: wp.array3d[Vec3],
        ax: wp.array2d[Vec3],
        # out
        av: wp.array2d[Vec3],
        adjoints: wp.array3d[Vec3],
        step_adjoint: wp.array2d[Real],
    ):
        i, b = wp.tid()
        h = step[i, frame]
        third = spread(THIRD) * h
        sixth = spread(SIXTH) * h
        a1 = a[i, 0, b]
        a2 = a[i, 1, b]
        gx = ax[i, b]
        gv = av[i, b]
        b1 = (gx * h + gv) * sixth
        adjoints[i, 0, b] = b1
        adjoints[i, 1, b] = b1 + b1 + gv * third
        adjoints[i, 2, b] = gv * sixth
        av[i, b] = gv + gx * h
        rate = dot(gx, v[i, s, b] + (a1 + a2 + a2) * third)
        gained = a1 + a2 * spread(Scalar(4.0)) + a[i, 2, b]
        wp.atomic_add(step_adjoint, i, frame, rate + dot(gv, gained) * spread(SIXTH))

    @wp.kernel(enable_backward=False)
    def accelerate_adjoint(
        inverse_mass: wp.array2d[Real],
        free: wp.array[Scalar],
        gravity: wp.array2d[Vec3],
        k: int,
        a: wp.array3d[Vec3],
        adjoints: wp.array3d[Vec3],
        # out; the adjoints of the stage are zero
        w: wp.array2d[Vec3],
        p_y: wp.array2d[Vec3],
        p_u: wp.array2d[Vec3],
        mass_adjoint: wp.array2d[Real],
        gravity_adjoint: wp.array2d[Vec3],
    ):
        i, b = wp.tid()
        m = inverse_mass[i, b]
        loose = spread(free[b])
        probe = adjoints[i, k, b]
        gained = dot(probe, a[i, k, b] - gravity[i, 0] * loose)
        mass_adjoint[i, b] = mass_adjoint[i, b] + gained / (m + (1.0 - loose))
        wp.atomic_add(gravity_adjoint, i, 0, probe * loose)
        w[i, b] = probe * m
        p_y[i, b] = zero3(0)
        p_u[i, b] = zero3(0)

    @wp.kernel(enable_backward=False)
    def place_stage_adjoint(
        step: wp.array2d[Real],
        frame: int,
        k: int,
        s: int,
        v: wp.array3d[Vec3],
        a: wp.array3d[Vec3],
        p_y: wp.array2d[Vec3],
        p_u: wp.array2d[Vec3],
        # out
        ax: wp.array2d[Vec3],
        av: wp.array2d[Vec3],
        adjoints: wp.array3d[Vec3],
        step_adjoint: wp.array2d[Real],
    ):
        i, b = wp.tid()
        h = step[i, frame]
        half = spread(Scalar(0.5)) * h
        py = p_y[i, b]
        pu = p_u[i, b]
        vb = v[i, s, b]
        a1 = a[i, 0, b]
        by_v = pu
        rate = zero(0)
        if k == 2:
            a2 = a[i, 1, b]
            by_v = pu + py * h
            adjoints[i, 1, b] = adjoints[i, 1, b] + (py * half + pu + pu) * h
            adjoints[i, 0, b] = adjoints[i, 0, b] - pu * h
            rate = dot(py, vb + a2 * h) + dot(pu, a2 + a2 - a1)
        if k == 1:
            by_v = pu + py * half
            adjoints[i, 0, b] = adjoints[i, 0, b] + (py * (spread(Scalar(0.25)) * h) + pu) * half
            rate = (dot(py, vb + a1 * half) + dot(pu, a1)) * spread(Scalar(0.5))
        ax[i, b] = ax[i, b] + py
        av[i, b] = av[i, b] + by_v
        wp.atomic_add(step_adjoint, i, frame, rate)
