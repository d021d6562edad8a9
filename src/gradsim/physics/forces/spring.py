"""Damped spring between two vertices (paper, Appendix A "deformable" bodies as mass–spring nets), a template.

    d = x1 - x0,  l = |d|,  n = d / l          direction of the spring
    l' = n · (v1 - v0)                         rate of its length [m/s]
    f0 = (k (l - l0) + c l') n,  f1 = -f0      Hooke's law, and viscous damping along the spring
    E = ½ k (l - l0)²

Where the length vanishes the direction is unknown. There n = d / max(l, ε) with ε = 1 pm, so force and derivatives stay
finite and continuous, and the energy is ½ k (l² - 2 l0 l̂ + l0²) with l̂ = ½ (l² / ε + ε) below ε: a spring of rest length 0
is k d, smooth everywhere.
"""

import warp as wp
from torch import Tensor, as_tensor, stack

from gradsim.engine.lanes import *
from gradsim.physics.forces.base import Force

EPSILON = 1e-12  # ε [m]; its square, and the inverse of that, are numbers of float32
EPSILON_SQUARED = Scalar(EPSILON**2)  # a bare number would pass through float32

FORCE = Force("spring", nodes=2, parameters={"rest_length": "Real", "stiffness": "Real", "damping": "Real"})


@wp.func(inline=True)
def forces(x0: Vec3, x1: Vec3, v0: Vec3, v1: Vec3, rest_length: Real, stiffness: Real, damping: Real):
    d = x1 - x0
    inverse = 1.0 / sqrt(max(dot(d, d), spread(EPSILON_SQUARED)))
    n = d * inverse
    f = d * (stiffness * (1.0 - rest_length * inverse)) + n * (damping * dot(n, v1 - v0))
    return f, neg(f)


def energy(x: Tensor, rest_length: Tensor, stiffness: Tensor, damping: Tensor | None = None) -> Tensor:
    """Elastic energy [J] (..., springs).

    Args:
        x: Positions of the ends [m] (..., springs, 2, 3).
        rest_length: l0 [m] (..., springs).
        stiffness: k [N/m] (..., springs).
        damping: Has no energy.
    """
    square = (x[..., 1, :] - x[..., 0, :]).square().sum(-1)
    least = square.clamp(min=EPSILON**2).sqrt()
    length = 0.5 * (square / least + least)
    return 0.5 * stiffness * (square - 2 * rest_length * length + rest_length.square())


def reference(x: Tensor, v: Tensor, rest_length: Tensor, stiffness: Tensor, damping: Tensor) -> Tensor:
    """Forces on the ends [N] (..., springs, 2, 3), from positions and velocities of that shape; the same in PyTorch."""
    d, u = x[..., 1, :] - x[..., 0, :], v[..., 1, :] - v[..., 0, :]
    length = d.square().sum(-1).clamp(min=EPSILON**2).sqrt()
    n = d / length[..., None]
    tension = stiffness * (length - rest_length) + damping * (n * u).sum(-1)
    return stack([tension[..., None] * n, -tension[..., None] * n], -2)


def rest_length(x: Tensor, springs: Tensor) -> Tensor:
    """Lengths [m] (springs,) between rest positions [m] (n, 3) of the two vertices of each spring (springs, 2)."""
    ends = as_tensor(x).double()[as_tensor(springs).long()]
    return (ends[:, 1] - ends[:, 0]).norm(dim=-1)


__all__ = ["EPSILON", "FORCE", "energy", "reference", "rest_length"]
