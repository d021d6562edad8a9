"""The steps of `soft/kernels.py` with one vertex a thread; forces come between, one element a thread."""

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
