"""The absolute difference of pixels, smooth at 0 (pseudo-Huber; Charbonnier et al. 1997).

    |x| ≈ √(x² + δ²) − δ = x² / (√(x² + δ²) + δ),        so  r = x / √(√(x² + δ²) + δ)

The last form has no difference of near numbers and no 0/0: r has the slope 1/√(2 δ) at 0.
"""

from typing import final

from torch import Tensor

from gradsim.losses.loss import ImageLoss

ROUND = 1 / 255  # δ: below one grey level the difference counts squared


def root(x: Tensor, rounding: float = ROUND) -> Tensor:
    """±√|x|, smooth at 0: a residual whose square is the absolute value."""
    return x / ((x.square() + rounding**2).sqrt() + rounding).sqrt()


@final
class L1(ImageLoss):
    """Mean absolute difference of pixels: an outlier counts by its size, not by its square.

    Args:
        rounding: δ, in units of the image.
    """

    name = "l1"

    def __init__(self, rounding: float = ROUND):
        self.rounding = rounding

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        return root((image - target).flatten(-2), self.rounding)
