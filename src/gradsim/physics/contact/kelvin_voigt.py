"""The paper's normal force (Appendix A, "Contact"; C.2), as a template for `engine.lanes`.

    f_n = k_e C + k_d Ċ   while C > 0, and never below zero (`CLAMPED`): a ground does not pull

For re-running the paper's tables. The damping switches on at full size at touch, so the discrete map is a sawtooth in
the phase of impact and its gradient is wrong by O(1) at every step size; `hunt_crossley.py` is the law without that.
"""

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import *

DAMPING = "damping"  # k_d [N s/m]
CLAMPED = globals().get("CLAMPED", True)  # False: the formula as printed, which pulls while the body leaves


if CLAMPED:

    @wp.func(inline=True)
    def normal_force(gap: Real, rate: Real, stiffness: Real, damping: Real) -> Real:
        force = max(neg(stiffness * gap + damping * rate), zero(0))
        return where(less(gap, zero(0)), force, zero(0))

else:

    @wp.func(inline=True)
    def normal_force(gap: Real, rate: Real, stiffness: Real, damping: Real) -> Real:
        return where(less(gap, zero(0)), neg(stiffness * gap + damping * rate), zero(0))


def reference(gap: Tensor, rate: Tensor, stiffness: Tensor, damping: Tensor) -> Tensor:
    """Normal force [N] for a gap [m] (negative inside) that changes at `rate` [m/s]; the same in plain PyTorch."""
    force = -(stiffness * gap + damping * rate)
    return torch.where(gap < 0, force.clamp(min=0) if CLAMPED else force, torch.zeros_like(force))


def energy(gap: Tensor, stiffness: Tensor) -> Tensor:
    """½ k_e C² [J]: the conservative part (k_d = 0)."""
    return 0.5 * stiffness * (-gap).clamp(min=0) ** 2


def damping_rate(damping: Tensor, stiffness: Tensor, depth: Tensor) -> Tensor:
    """∂f_n/∂Ċ [N s/m] at a depth, for the stability bound."""
    return damping + 0 * stiffness * depth


__all__ = ["CLAMPED", "DAMPING", "damping_rate", "energy", "normal_force", "reference"]
