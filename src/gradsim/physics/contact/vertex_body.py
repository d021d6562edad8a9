"""Compliant contact of a vertex with a rigid ball or box that moves: gap and normal of `point_sdf.py` in the body's frame.

    u = v − v_b − ω × (x − x_b)                                relative to the body's material there
    f = f_n n − min(μ f_n / |u_t|, k_f) u_t on the vertex       as in `vertex_plane.py`
    −f,  (x − x_b) × (−f)                                       force and torque on the body: momenta are kept

A ball is a box without size and the radius as rounding. Nodes of the body as in `coupled/kernels.py`. Only vertices touch:
a body smaller than the meshes of a cloth slips through it.
"""

from functools import cache, partial
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor, linalg, stack

from gradsim.engine.lanes import *
from gradsim.numerics import rotation
from gradsim.physics.contact import hunt_crossley, point_plane
from gradsim.physics.contact.laws import contact_functions, obstacle_functions
from gradsim.physics.contact.point_sdf import direction, distance
from gradsim.physics.forces.base import Force

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.point_plane import contact_force
    from gradsim.physics.contact.point_sdf import solid_touch

PARAMETERS = {
    **{f"half{k}": "Real" for k in range(3)},  # half of its size along each of its axes [m]
    "rounding": "Real",  # radius of its edges [m]
    "stiffness": "Real",  # as in `vertex_plane.py`, so the next three
    "damping": "Real",
    "friction_stiffness": "Real",
    "friction": "Real",
}


@wp.func(inline=True)
def active(x0: Vec3, x1: Vec3, half0: Real, half1: Real, half2: Real, rounding: Real) -> Mask:
    """True for a vertex inside the bounding ball of the body."""
    arm = x0 - x1
    reach = sqrt(half0 * half0 + half1 * half1 + half2 * half2) + rounding
    return less(dot(arm, arm), reach * reach)


@wp.func(inline=True)
def forces(
    x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3, v0: Vec3, v1: Vec3, v2: Vec3, v3: Vec3, half0: Real, half1: Real, half2: Real,
    rounding: Real, stiffness: Real, damping: Real, friction_stiffness: Real, friction: Real,
):  # fmt: skip
    one = spread(Scalar(1.0))
    none = zero(0)
    ex = vec3(one, none, none)
    q = quat(x2, dot(x3, ex))
    arm = x0 - x1
    axis0 = rotate(q, ex)
    axis1 = rotate(q, vec3(none, one, none))
    axis2 = rotate(q, vec3(none, none, one))
    gap, n = solid_touch(arm, none, axis0, axis1, axis2, half0, half1, half2, rounding)
    u = v0 - v1 - cross(v2, arm)
    touching = contact_force(gap, u, n, stiffness, damping, friction_stiffness, friction)
    f = where(less(gap, none), touching, zero3(0))
    return f, neg(f), cross(f, arm), zero3(0)


@cache
def touch_body(law: str) -> Force:
    """The force of a contact law, a key of `contact.laws.LAWS`."""
    return Force("gradsim.physics.contact.vertex_body", 4, {}, PARAMETERS, partial(_bound, law), body_nodes=3)


def _bound(law: str, lane) -> dict:
    return {**contact_functions(law, lane), **obstacle_functions(law, lane)}


def _gap(x: Tensor, half: Tensor, rounding: Tensor) -> tuple[Tensor, Tensor]:
    """Gap [m] and normal of vertices and bodies (..., 4, 3)."""
    q = torch.cat([x[..., 2, :], x[..., 3, :1]], -1)[..., None, :]
    axes = rotation.rotate(q, torch.eye(3, dtype=x.dtype, device=x.device))
    local = (axes @ (x[..., 0, :] - x[..., 1, :])[..., None])[..., 0]
    return distance(local, half) - rounding, (axes.mT @ direction(local, half)[..., None])[..., 0]


def energy(
    x: Tensor, half0: Tensor, half1: Tensor, half2: Tensor, rounding: Tensor, stiffness: Tensor, **_: Tensor
) -> Tensor:
    """½ k_e C² [J] (..., pairs): the conservative part, of the depth C. x: vertex and body (..., pairs, 4, 3)."""
    gap, _normal = _gap(x, stack([half0, half1, half2], -1), rounding)
    return 0.5 * stiffness * (-gap).clamp(min=0).square()


def reference(
    x: Tensor, v: Tensor, half0: Tensor, half1: Tensor, half2: Tensor, rounding: Tensor, stiffness: Tensor,
    damping: Tensor, friction_stiffness: Tensor, friction: Tensor,
) -> Tensor:  # fmt: skip
    """Forces of the continuous law on vertex and body, torque on it, and zero (..., pairs, 4, 3)."""
    gap, n = _gap(x, stack([half0, half1, half2], -1), rounding)
    arm = x[..., 0, :] - x[..., 1, :]
    u = v[..., 0, :] - v[..., 1, :] - linalg.cross(v[..., 2, :], arm)
    f_n = hunt_crossley.reference(gap, (u * n).sum(-1), stiffness, damping)
    f = point_plane.reference(u, n, f_n, friction_stiffness, friction) * (gap < 0)[..., None]
    return stack([f, -f, -linalg.cross(arm, f), torch.zeros_like(f)], -2)


__all__ = ["active", "energy", "forces", "reference", "touch_body"]
