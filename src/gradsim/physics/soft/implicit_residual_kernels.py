"""Residual of a backward Euler step in dual numbers, with its derivative along a direction.

    r(u) = M (u - v - h g) - h f(x + h u, u),   x' = x + h u,  v' = u        [kg m/s]

Rows of pinned vertices are u - v, so their velocity is constant.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.access_kernels import load, store
    from gradsim.engine.lanes import Vec3 as Vertex
    from gradsim.physics.forces.assembly import Elements, add_forces
    from gradsim.physics.soft.kernels import VertexParameters, constant


@wp.func
def evaluate(
    p: VertexParameters,
    e: Elements,
    i: int,
    frame: int,
    share: Scalar,  # of the step
    x: wp.array[Vertex],
    v: wp.array[Vertex],
    u: wp.array[Vertex],
    f: wp.array[Vertex],  # zero before and after
    # out
    xn: wp.array[Vertex],
    r: wp.array[Vertex],
):
    h = p.step[i, frame] * share
    g = p.gravity[i, 0]
    blocks = p.inverse_mass.shape[1]
    for b in range(blocks):
        store(xn, b, load(x, b) + load(u, b) * h)
    add_forces(e, i, frame, xn, u, f)
    for b in range(blocks):
        free = constant(p.free[b])
        mass = 1.0 / (p.inverse_mass[i, b] + (1.0 - free))
        store(r, b, (load(u, b) - load(v, b) - g * (free * h)) * mass - load(f, b) * (free * h))
        store(f, b, zero3(0))
