"""A normal force whose restitution does not depend on the speed of the impact, as a template for `engine.lanes`.

    f_n = k_e C (1 + k_d Ċ/√((k_e C)² + (k_d Ċ)²))          C: depth [m], Ċ its rate [m/s]

It is homogeneous, f_n(λC, λĊ) = λ f_n(C, Ċ), so a bounce λ times as fast is the same bounce, λ times as large. Deep inside
it is a spring and a dashpot, k_e C + k_d Ċ, as the paper's force; but it is continuous at touch, so that discrete gradients
converge as h → 0, and never below zero, so that it needs no clamp.
"""

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import *

DAMPING = "damping"  # k_d [N s/m]
STIFFENING = 2.0  # largest ∂f_n/∂C over k_e, at touch
ODD = True  # -f_n(-gap) continues it past touch, see `point_plane.py`


@wp.func(inline=True)
def normal_force(gap: Real, rate: Real, stiffness: Real, damping: Real) -> Real:
    spring = max(neg(stiffness * gap), zero(0))
    dashpot = neg(damping * rate)
    square = spring * spring + dashpot * dashpot
    moving = less(zero(0), square)
    size = sqrt(
        where(moving, square, spread(Scalar(1.0)))
    )  # 1 at rest on the surface: the slope of the root stays finite
    return spring * (1.0 + dashpot / size)


def reference(gap: Tensor, rate: Tensor, stiffness: Tensor, damping: Tensor) -> Tensor:
    """Normal force [N] for a gap [m] (negative inside) that changes at `rate` [m/s]; the same in plain PyTorch."""
    spring, dashpot = (-stiffness * gap).clamp(min=0), -damping * rate
    square = spring**2 + dashpot**2
    return spring * (1 + dashpot / torch.where(square > 0, square, torch.ones_like(square)).sqrt())


def energy(gap: Tensor, stiffness: Tensor) -> Tensor:
    """½ k_e C² [J]: the conservative part (k_d = 0)."""
    return 0.5 * stiffness * (-gap).clamp(min=0) ** 2


def damping_rate(damping: Tensor, stiffness: Tensor, depth: Tensor) -> Tensor:
    """∂f_n/∂Ċ [N s/m] where Ċ = 0, its largest, for the stability bound."""
    return damping + 0 * stiffness * depth


__all__ = ["DAMPING", "ODD", "STIFFENING", "damping_rate", "energy", "normal_force", "reference"]
