"""Damped spring of no length between a vertex and a point of a rigid body, a template.

    X = x_b + R p                                  the point; p in the body's frame
    u = v_b + ω × (x − x_b) − v                    of the body's material at the vertex, relative to it
    f = k (X − x) + c u                            on the vertex
    −f,  (x − x_b) × (−f)                          force and torque on the body
    E = ½ k |X − x|²

The reaction acts at the vertex, so momenta are kept; k (X − x) makes the same torque at either end of it. Nodes of the
body as in `coupled/kernels.py`.
"""

import torch
import warp as wp
from torch import Tensor, linalg, stack

from gradsim.engine.lanes import *
from gradsim.numerics import rotation
from gradsim.physics.forces.base import Force

FORCE = Force("attachment", nodes=4, parameters={"point": "Vec3", "stiffness": "Real", "damping": "Real"}, body_nodes=3)


@wp.func(inline=True)
def forces(
    x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3, v0: Vec3, v1: Vec3, v2: Vec3, v3: Vec3, point: Vec3, stiffness: Real,
    damping: Real,
):  # fmt: skip
    q = quat(x2, dot(x3, vec3(spread(Scalar(1.0)), zero(0), zero(0))))
    arm = x0 - x1
    f = (rotate(q, point) - arm) * stiffness + (v1 + cross(v2, arm) - v0) * damping
    return f, neg(f), cross(f, arm), zero3(0)


def energy(x: Tensor, point: Tensor, stiffness: Tensor, damping: Tensor | None = None) -> Tensor:
    """Elastic energy [J] (..., attachments).

    Args:
        x: Vertex, body, vector and scalar of its quaternion (..., attachments, 4, 3).
        point: p [m] (..., attachments, 3).
        stiffness: k [N/m] (..., attachments).
        damping: Has no energy.
    """
    q = torch.cat([x[..., 2, :], x[..., 3, :1]], -1)
    stretch = rotation.rotate(q, point) + x[..., 1, :] - x[..., 0, :]
    return 0.5 * stiffness * stretch.square().sum(-1)


def reference(x: Tensor, v: Tensor, point: Tensor, stiffness: Tensor, damping: Tensor) -> Tensor:
    """Forces on vertex and body, torque on it, and zero (..., attachments, 4, 3); v: vertex, body, ω, and what it may."""
    q = torch.cat([x[..., 2, :], x[..., 3, :1]], -1)
    arm = x[..., 0, :] - x[..., 1, :]
    u = v[..., 1, :] + linalg.cross(v[..., 2, :], arm) - v[..., 0, :]
    f = stiffness[..., None] * (rotation.rotate(q, point) - arm) + damping[..., None] * u
    return stack([f, -f, -linalg.cross(arm, f), torch.zeros_like(f)], -2)


__all__ = ["FORCE", "energy", "forces", "reference"]
