"""The steps of `soft/kernels.py` and `soft/verlet_kernels.py` with one vertex a thread; forces come between, one element a
thread."""

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


if not DUAL:
    SHORT = Scalar(1e-7)  # [s], as in `soft/kernels.py`

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
        short = less(h, spread(SHORT))
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
