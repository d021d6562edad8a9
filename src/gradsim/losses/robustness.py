"""Another loss whose residuals outliers cannot pull.

    r = ±√(σ² λ ρ(x/σ)),        x the residuals of the other loss, ρ and λ of `gradsim.numerics.robust`

Near 0 it is √λ times the other loss's residual; beyond the bend it grows as √|x| (huber) or slower (cauchy).
"""

from typing import final

from torch import Tensor

from gradsim.errors import InputError
from gradsim.losses.loss import ImageLoss
from gradsim.numerics import robust


@final
class Robust(ImageLoss):
    """Of another loss.

    Args:
        of: That loss.
        sigma: Noise of its residuals: for `MSE`, of pixels.
        rho: "huber" or "cauchy".

    Raises:
        InputError: If there is no such ρ, or σ is not positive.
    """

    def __init__(self, of: ImageLoss, sigma: float, rho: str = "huber"):
        if not sigma > 0:
            raise InputError(f"sigma is {sigma}; a robust loss needs the positive noise of the residuals it wraps.")
        self.of, self.sigma, self.rho = of, sigma, robust.loss_named(rho)
        self.name = f"{rho} {of.name}"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        return self.sigma * self.rho.root(self.of.compare(image, target) / self.sigma)
