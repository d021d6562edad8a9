"""Rows of a rigid body behind the vertices, a template for `engine.lanes`; see `coupled/kernels.py`."""

import warp as wp

from gradsim.engine.lanes import *

ROWS = 5
NODE = 3  # the first row that forces act on


@wp.func(inline=True)
def scalar(a: Vec3) -> Real:
    """The first component."""
    return dot(a, vec3(spread(Scalar(1.0)), zero(0), zero(0)))


@wp.func(inline=True)
def row_of(q: Quat) -> Vec3:
    """The scalar of a quaternion as a row."""
    return vec3(qdot(q, quat(zero3(0), spread(Scalar(1.0)))), zero(0), zero(0))
