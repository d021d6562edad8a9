"""Compliant contact of a vertex with a ball or a box that stays where it is: gap and normal of `point_sdf.py`.

f = f_n n − min(μ f_n / |u_t|, k_f) u_t        as in `vertex_plane.py`, n the gradient of the distance
"""

from functools import cache, partial
from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.physics.contact.laws import contact_functions, obstacle_functions
from gradsim.physics.forces.base import Force

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.point_plane import contact_force
    from gradsim.physics.contact.point_sdf import solid_touch

PARAMETERS = {
    "centre": "Vec3",  # [m]
    **{f"axis{k}": "Vec3" for k in range(3)},  # unit vectors
    **{f"half{k}": "Real" for k in range(3)},  # half of its size along each [m]
    "rounding": "Real",  # radius of its edges [m]
    "stiffness": "Real",  # as in `vertex_plane.py`, so the next three
    "damping": "Real",
    "friction_stiffness": "Real",
    "friction": "Real",
}


@wp.func(inline=True)
def forces(
    x0: Vec3, v0: Vec3, centre: Vec3, axis0: Vec3, axis1: Vec3, axis2: Vec3, half0: Real, half1: Real, half2: Real,
    rounding: Real, stiffness: Real, damping: Real, friction_stiffness: Real, friction: Real,
):  # fmt: skip
    gap, n = solid_touch(x0 - centre, zero(0), axis0, axis1, axis2, half0, half1, half2, rounding)
    touching = contact_force(gap, v0, n, stiffness, damping, friction_stiffness, friction)
    return where(less(gap, zero(0)), touching, zero3(0))


@cache
def touch_solid(law: str) -> Force:
    """The force of a contact law, a key of `contact.laws.LAWS`."""
    return Force("gradsim.physics.contact.vertex_sdf", 1, {}, PARAMETERS, partial(_bound, law))


def _bound(law: str, lane) -> dict:
    return {**contact_functions(law, lane), **obstacle_functions(law, lane)}


__all__ = ["forces", "touch_solid"]
