"""The continuous normal force, default of gradsim (Hunt & Crossley 1975), as a template for `engine.lanes`.

    f_n = max(0, k_e C (1 + a Ċ))          C: depth [m], Ċ its rate [m/s]

The damping grows with the depth, so the force is continuous at touch and discrete gradients converge as h → 0. The
paper's damping switches on at full size at touch (`kelvin_voigt.py`); gradients through its first step do not.
"""

import warp as wp
from torch import Tensor

from gradsim.engine.lanes import *

DAMPING = "dissipation"  # a [s/m]
ODD = True  # -f_n(-gap) continues it past touch, see `point_plane.py`


@wp.func(inline=True)
def normal_force(gap: Real, rate: Real, stiffness: Real, dissipation: Real) -> Real:
    depth = max(neg(gap), zero(0))
    return max(stiffness * depth * (1.0 - dissipation * rate), zero(0))


def reference(gap: Tensor, rate: Tensor, stiffness: Tensor, dissipation: Tensor) -> Tensor:
    """Normal force [N] for a gap [m] (negative inside) that changes at `rate` [m/s]; the same in plain PyTorch."""
    depth = (-gap).clamp(min=0)
    return (stiffness * depth * (1 - dissipation * rate)).clamp(min=0)


def energy(gap: Tensor, stiffness: Tensor) -> Tensor:
    """½ k_e C² [J]: the conservative part (a = 0)."""
    return 0.5 * stiffness * (-gap).clamp(min=0) ** 2


def damping_rate(dissipation: Tensor, stiffness: Tensor, depth: Tensor) -> Tensor:
    """∂f_n/∂Ċ [N s/m] at a depth, for the stability bound."""
    return dissipation * stiffness * depth


__all__ = ["DAMPING", "ODD", "damping_rate", "energy", "normal_force", "reference"]
