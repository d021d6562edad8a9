# pyright: reportInvalidTypeForm=false
"""Rollout of vertices by implicit steps and of rigid bodies that act on them, a template for `engine.lanes`.

Vertices step as in `soft/implicit_kernels.py`, with bodies where `coupled/drift_kernels.py` says; bodies then by the forces
at the solution. Arrays of states have rows of bodies behind the vertices; the unknowns are those of the vertices alone.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.access_kernels import load as dual_load
    from gradsim.engine.access_kernels import store as dual_store
    from gradsim.engine.dual_parts import pair
    from gradsim.engine.lanes import Vec3 as DualVertex
    from gradsim.physics.coupled.drift_kernels import fill_rows, step_bodies
    from gradsim.physics.forces.assembly import Elements, add_forces, all_powers
    from gradsim.physics.rigid.wrench_kernels import Parameters as DualBodies
    from gradsim.physics.soft.implicit_kernels import Space, Step, between, differentiate, solve_step
    from gradsim.physics.soft.kernels import VertexParameters


@wp.kernel(enable_backward=False)
def forward(
    offset: int,  # see `engine.launch`
    p: VertexParameters,
    e: Elements,
    d: DualBodies,
    bodies: int,
    substeps: int,  # steps in each frame interval
    stride: int,  # steps between two records
    first: int,  # frame interval
    tolerance: Scalar,
    rounding: Scalar,
    newtons: int,
    products: int,
    tangent: int,  # whether derivatives are wanted
    whole: Scalar,  # 1/θ
    s: Step,
    k: Space,
    # out; record 0 is given
    x: wp.array3d[DualVertex],
    v: wp.array3d[DualVertex],
    worst: wp.array2d[Real],  # of each record: the square of a residual over where the step ends
    counts: wp.array2d[wp.int32],  # of products, and of Newton's steps
):
    i = offset + wp.tid()
    blocks = p.inverse_mass.shape[1]
    rows = x.shape[2]
    one = zero(0) + 1.0
    for n in range((x.shape[1] - 1) * stride):
        frame = first + n // substeps
        record = n // stride
        row = first * substeps + n
        if n % stride == 0:
            for b in range(rows):
                dual_store(s.x[i], b, dual_load(x[i, record], b))
                dual_store(s.v[i], b, dual_load(v[i, record], b))
        fill_rows(d, bodies, blocks, row, s.p.step[i, frame], i, s.x[i], s.v[i], s.xn[i], s.u[i])
        level = solve_step(p, e, s, k, i, frame, tolerance, rounding, newtons, products, counts[i])
        worst[i, record + 1] = max(worst[i, record + 1], level)
        if tangent == 1:
            differentiate(s, k, i, frame, tolerance, products)
        for b in range(rows):
            dual_store(s.f[i], b, pair(zero3(0), zero3(0)))
        add_forces(s.e, i, frame, s.xn[i], s.u[i], s.f[i])
        step_bodies(d, bodies, blocks, row, s.p.step[i, frame], whole, i, s.xn[i], s.u[i], s.f[i], s.x[i], s.v[i])
        for b in range(blocks):
            dual_store(s.x[i], b, between(dual_load(s.x[i], b), dual_load(s.xn[i], b), one * whole))
            dual_store(s.v[i], b, between(dual_load(s.v[i], b), dual_load(s.u[i], b), one * whole))
        for b in range(rows):
            dual_store(s.f[i], b, pair(zero3(0), zero3(0)))
            if (n + 1) % stride == 0:
                dual_store(x[i, record + 1], b, dual_load(s.x[i], b))
                dual_store(v[i, record + 1], b, dual_load(s.v[i], b))


# Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
@wp.kernel(enable_backward=True)
def keep_adjoints(a: wp.array[Vec3], m: wp.array[Mat3], r: wp.array[Real]):
    if never(0):
        r[1] = all_powers(a[0], m[0], r[0])
