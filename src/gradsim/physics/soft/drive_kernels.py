# pyright: reportInvalidTypeForm=false
"""Vertices that explicit steps put where a recording has them, a template for `engine.lanes`.

    x_j ← p_j,   v_j ← dp_j/dt                                  of each driven vertex j, before forces see them
    b_p ← b_p + b_x,   b_x ← 0,   b_ṗ ← b_ṗ + b_v,   b_v ← 0    adjoint

Their inverse mass is 0, so forces on them move nothing.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.lanes import Vec3 as Vertex


@wp.struct
class Drive:
    vertices: wp.array[wp.int32]
    x: wp.array3d[Vertex]  # (packs, instants, driven) [m]
    v: wp.array3d[Vertex]  # [m/s]


@wp.func
def drive(d: Drive, instant: int, i: int, x: wp.array[Vertex], v: wp.array[Vertex]):
    """Set the driven vertices to an instant of the recording."""
    for k in range(d.vertices.shape[0]):
        j = d.vertices[k]
        x[j] = d.x[i, instant, k]
        v[j] = d.v[i, instant, k]


if not DUAL:

    @wp.func
    def drive_adjoint(d: Drive, grad: Drive, instant: int, i: int, ax: wp.array[Vertex], av: wp.array[Vertex]):
        """Move adjoints of the driven vertices to that instant of the recording."""
        for k in range(d.vertices.shape[0]):
            j = d.vertices[k]
            grad.x[i, instant, k] = grad.x[i, instant, k] + ax[j]
            grad.v[i, instant, k] = grad.v[i, instant, k] + av[j]
            ax[j] = Vertex()
            av[j] = Vertex()
