"""Compliant contact of a vertex with a plane: the law of rigid bodies (`point_plane.py`) at a point without a body.

    gap = n·x − h,   f = f_n n − min(μ f_n / |u_t|, k_f) u_t        u_t = v − (n·v) n

n: unit normal, h: height of the plane along it [m]. f_n is the law in `hunt_crossley.py` or `kelvin_voigt.py`. Stiffness
and damping are those of one vertex, so a finer mesh meets a stiffer ground.
"""

from functools import cache, partial
from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.physics.contact.laws import contact_functions
from gradsim.physics.forces.base import Force

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.point_plane import contact_force

PARAMETERS = {
    "normal": "Vec3",
    "height": "Real",  # [m]
    "stiffness": "Real",  # k_e [N/m]
    "damping": "Real",  # of the law
    "friction_stiffness": "Real",  # k_f [N s/m]
    "friction": "Real",  # μ
}


@wp.func(inline=True)
def active(x0: Vec3, normal: Vec3, height: Real) -> Mask:
    """True for a vertex below the plane."""
    return less(dot(normal, x0), height)


@wp.func(inline=True)
def forces(
    x0: Vec3, v0: Vec3, normal: Vec3, height: Real, stiffness: Real, damping: Real, friction_stiffness: Real,
    friction: Real,
):  # fmt: skip
    gap = dot(normal, x0) - height
    touching = contact_force(gap, v0, normal, stiffness, damping, friction_stiffness, friction)
    return where(less(gap, zero(0)), touching, zero3(0))


@cache
def touch(law: str) -> Force:
    """The force of a contact law, a key of `contact.laws.LAWS`."""
    return Force("gradsim.physics.contact.vertex_plane", 1, {}, PARAMETERS, partial(contact_functions, law))


__all__ = ["active", "forces", "touch"]
