# pyright: reportInvalidTypeForm=false
"""The adjoint of `coupled/implicit_kernels.py`, a template.

From that of the state after a step: first the bodies, whose probes of the forces give adjoints of the state at which forces
act; then the vertices (`soft/implicit_adjoint_kernels.py`), whose probes add to those of the bodies; then the bodies' state
before.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.access_kernels import load, store
    from gradsim.engine.lanes import Vec3 as Vertex
    from gradsim.physics.coupled.drift_kernels import all_drift_powers, fill_adjoint, fill_rows, kick_adjoint
    from gradsim.physics.forces.assembly import Elements, add_adjoints, add_forces, all_powers
    from gradsim.physics.rigid.wrench_kernels import Parameters as Bodies
    from gradsim.physics.soft.implicit_adjoint_kernels import AdjointWorkspace, Space, solve_adjoint, split_adjoint
    from gradsim.physics.soft.kernels import MIN_STEP, VertexParameters


@wp.kernel(enable_backward=False)
def backward(
    offset: int,  # see `engine.launch`
    s: AdjointWorkspace,
    b: Bodies,
    bodies: int,
    e_grad: Elements,
    b_grad: Bodies,
    substeps: int,  # steps in each frame interval
    first: int,  # frame interval
    tolerance: Scalar,
    products: int,
    k: Space,
    w: wp.array2d[Vertex],
    whole: Scalar,  # 1/θ
    x: wp.array3d[Vertex],  # all steps from the frame `first` on
    v: wp.array3d[Vertex],
    # out; the adjoints of the frames are given, those of the start are added up
    x_adjoint: wp.array3d[Vertex],
    v_adjoint: wp.array3d[Vertex],
    ax: wp.array2d[Vertex],
    av: wp.array2d[Vertex],
    grad: VertexParameters,
    worst: wp.array2d[Real],  # square of a residual over that at which it would be good
):
    i = offset + wp.tid()
    blocks = s.p.inverse_mass.shape[1]
    rows = x.shape[2]
    steps = x.shape[1] - 1
    for m in range(steps):
        n = steps - 1 - m
        frame = first + n // substeps
        row = first * substeps + n
        h = s.p.step[i, frame]
        if (n + 1) % substeps == 0:
            for j in range(rows):
                store(ax[i], j, load(ax[i], j) + load(x_adjoint[i, frame + 1], j))
                store(av[i], j, load(av[i], j) + load(v_adjoint[i, frame + 1], j))
        split_adjoint(s, i, whole, x[i, n], v[i, n], x[i, n + 1], v[i, n + 1], ax[i], av[i])
        fill_rows(b, bodies, blocks, row, h, i, x[i, n], v[i, n], s.x[i], s.u[i])
        for j in range(rows):
            store(w[i], j, zero3(0))
            store(s.a[i], j, zero3(0))
        if any_lane(less(h, spread(MIN_STEP))):
            add_forces(s.e, i, frame, s.x[i], s.u[i], s.a[i])
        rate = kick_adjoint(
            b, b_grad, bodies, blocks, row, h, whole, i, s.x[i], s.u[i], s.a[i], v[i, n + 1], w[i], ax[i], av[i]
        )
        add_adjoints(s.e, e_grad, i, frame, s.x[i], s.u[i], w[i], ax[i], av[i])
        for j in range(blocks, rows):
            store(w[i], j, zero3(0))
        level = solve_adjoint(s, e_grad, i, frame, tolerance, products, k, v[i, n], w[i], ax[i], av[i], grad)
        worst[i, 0] = max(worst[i, 0], level)
        rate = rate + fill_adjoint(b, b_grad, bodies, blocks, row, h, i, x[i, n], s.x[i], s.u[i], ax[i], av[i])
        grad.step[i, frame] = grad.step[i, frame] + rate


# Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
@wp.kernel(enable_backward=True)
def keep_adjoints(a: wp.array[Vec3], m: wp.array[Mat3], r: wp.array[Real], q: wp.array[Quat]):
    if never(0):
        r[1] = all_powers(a[0], m[0], r[0])
        r[2] = all_drift_powers(a[0], q[0], m[0], r[0])
