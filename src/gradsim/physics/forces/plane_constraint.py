"""Damped spring from a vertex to a plane, a template: what holds a motion in two dimensions.

    f = n (k n·(p - x) - c n·v)
    E = ½ k (n·(p - x))²

p: a point of the plane, n: its unit normal. Linear, hence smooth everywhere. A sheet that is squeezed in its own plane
buckles out of it; where it starts exactly in the plane it stays there, but its adjoint out of the plane grows beyond
all numbers, unless the plane holds it.
"""

import warp as wp
from torch import Tensor

from gradsim.engine.lanes import *
from gradsim.physics.forces.base import Force

PARAMETERS = {"point": "Vec3", "normal": "Vec3", "stiffness": "Real", "damping": "Real"}
FORCE = Force("plane_constraint", nodes=1, parameters=PARAMETERS)


@wp.func(inline=True)
def forces(x0: Vec3, v0: Vec3, point: Vec3, normal: Vec3, stiffness: Real, damping: Real):
    return normal * (dot(normal, point - x0) * stiffness - dot(normal, v0) * damping)


def energy(x: Tensor, point: Tensor, normal: Tensor, stiffness: Tensor, damping: Tensor | None = None) -> Tensor:
    """Elastic energy [J] (..., vertices).

    Args:
        x: Positions of the vertices [m] (..., vertices, 1, 3).
        point: p [m] (..., vertices, 3).
        normal: n (..., vertices, 3).
        stiffness: k [N/m] (..., vertices).
        damping: Has no energy.
    """
    return 0.5 * stiffness * ((point - x[..., 0, :]) * normal).sum(-1).square()


def reference(x: Tensor, v: Tensor, point: Tensor, normal: Tensor, stiffness: Tensor, damping: Tensor) -> Tensor:
    """Forces on the vertices [N] (..., vertices, 1, 3), from positions and velocities of that shape; in plain PyTorch."""
    n = normal[..., None, :]
    along = lambda y: (n * y).sum(-1, keepdim=True)
    return n * (stiffness[..., None, None] * along(point[..., None, :] - x) - damping[..., None, None] * along(v))


__all__ = ["FORCE", "energy", "reference"]
