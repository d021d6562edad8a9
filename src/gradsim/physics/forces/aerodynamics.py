"""Lift and drag of the surrounding air on triangles, a template.

    u = (v0 + v1 + v2) / 3 - wind,   n A = ½ (x1 - x0) × (x2 - x0),   β: angle between u and the plane, sin β = n · u / |u|
    drag = -½ ρ A C_D sin²β |u|² û                            against the flow
    lift = -½ ρ A C_L sin β |u|² (n - sin β û)                across it, ½ ρ A C_L |u|² sin β cos β in size
    f0 = f1 = f2 = (drag + lift) / 3

The coefficients of an inclined flat plate with separated flow: C_D sin²β and C_L sin β cos β (Hoerner 1965; Pesavento &
Wang 2004, without friction along the plate). A plate that meets the air face-on has the drag ½ ρ C_D A |u|². With C_L =
C_D the force is ½ ρ C |u| A (n · u), a pressure, along the normal alone.

The power of drag is -½ ρ A C_D |u| (n · u)², never positive, and lift has none, relative to the wind. Both sides count
alike: n -> -n changes nothing. As

    f = -½ ρ (C_L |u| (n · u) A n + (C_D - C_L) (n · u)² A u / |u|)

it is smooth edge-on and face-on, and once differentiable at u = 0, where the derivative is 0. |u| is at least 1e-12 m/s
as a divisor, and 2 A at least 1e-12 m², so derivatives are finite for still air and for collapsed triangles too.
"""

import torch
import warp as wp
from torch import Tensor, linalg

from gradsim.engine.lanes import *
from gradsim.physics.forces.base import Force

EPSILON = 1e-12  # [m/s], [m²]; its square, and the inverse of that, are numbers of float32
EPSILON_SQUARED = Scalar(EPSILON**2)  # a bare number would pass through float32

FORCE = Force("aerodynamics", nodes=3, parameters={"density": "Real", "drag": "Real", "lift": "Real", "wind": "Vec3"})


@wp.func(inline=True)
def forces(
    x0: Vec3,
    x1: Vec3,
    x2: Vec3,
    v0: Vec3,
    v1: Vec3,
    v2: Vec3,
    density: Real,
    drag: Real,
    lift: Real,
    wind: Vec3,
):
    u = (v0 + v1 + v2) * spread(Scalar(1.0) / Scalar(3.0)) - wind
    normal = cross(x1 - x0, x2 - x0)  # 2 A n
    n = normal * (1.0 / sqrt(max(dot(normal, normal), spread(EPSILON_SQUARED))))
    speed = sqrt(max(dot(u, u), spread(EPSILON_SQUARED)))
    across = dot(normal, u)  # 2 A n · u
    along = dot(n, u) / speed  # sin β
    f = n * (lift * speed * across) + u * ((drag - lift) * across * along)
    nodal = f * (density * spread(Scalar(-1.0) / Scalar(12.0)))
    return nodal, nodal, nodal


def energy(x: Tensor, **_: Tensor) -> Tensor:
    """[J] (..., triangles) of positions (..., triangles, 3, 3): air only takes energy away, or brings it with the wind."""
    return torch.zeros_like(x[..., 0, 0])


def reference(x: Tensor, v: Tensor, density: Tensor, drag: Tensor, lift: Tensor, wind: Tensor) -> Tensor:
    """Forces on the vertices [N] (..., triangles, 3, 3), from positions and velocities of that shape; in plain PyTorch.

    Args:
        x: Positions [m].
        v: Velocities [m/s].
        density: ρ of the air [kg/m³] (..., triangles).
        drag, lift: C_D, C_L (..., triangles).
        wind: Velocity of the air [m/s] (..., triangles, 3).
    """
    u = v.mean(-2) - wind
    normal = linalg.cross(x[..., 1, :] - x[..., 0, :], x[..., 2, :] - x[..., 0, :])
    speed, twice = (y.square().sum(-1, keepdim=True).clamp(min=EPSILON**2).sqrt() for y in (u, normal))
    n = normal / twice
    sine = (n * u).sum(-1, keepdim=True) / speed
    pressure = 0.5 * density[..., None] * speed.square() * 0.5 * twice
    dragged = -pressure * drag[..., None] * sine.square() * u / speed
    lifted = -pressure * lift[..., None] * sine * (n - sine * u / speed)
    return ((dragged + lifted) / 3)[..., None, :].expand(x.shape)


__all__ = ["EPSILON", "FORCE", "energy", "reference"]
