"""Damped spring of rest length 0 from a vertex to a fixed point, a template.

    f = k (p - x) - c v
    E = ½ k |p - x|²

Linear, hence smooth everywhere; v is the velocity relative to the point, which does not move.
"""

import warp as wp
from torch import Tensor

from gradsim.engine.lanes import *
from gradsim.physics.forces.base import Force

FORCE = Force("anchor", nodes=1, parameters={"point": "Vec3", "stiffness": "Real", "damping": "Real"})


@wp.func(inline=True)
def forces(x0: Vec3, v0: Vec3, point: Vec3, stiffness: Real, damping: Real):
    return (point - x0) * stiffness - v0 * damping


def energy(x: Tensor, point: Tensor, stiffness: Tensor, damping: Tensor | None = None) -> Tensor:
    """Elastic energy [J] (..., anchors).

    Args:
        x: Positions of the vertices [m] (..., anchors, 1, 3).
        point: p [m] (..., anchors, 3).
        stiffness: k [N/m] (..., anchors).
        damping: Has no energy.
    """
    return 0.5 * stiffness * (point - x[..., 0, :]).square().sum(-1)


def reference(x: Tensor, v: Tensor, point: Tensor, stiffness: Tensor, damping: Tensor) -> Tensor:
    """Forces on the vertices [N] (..., anchors, 1, 3), from positions and velocities of that shape; in plain PyTorch."""
    return stiffness[..., None, None] * (point[..., None, :] - x) - damping[..., None, None] * v


__all__ = ["FORCE", "energy", "reference"]
