"""A loss of blurred images, and the blur that goes from wide to none.

    r(G A, G T)        G: a Gaussian of standard deviation σ [px] along rows and columns, reflected at the edges

Pixels of a blurred body differ from those of its target until both are some σ apart, so that the difference of pixels
sees about 3 σ further. The reflection keeps the mass of the image: a blur that lets it run out over the edge is lowest
where the body itself is out of the picture.

Another loss whose residuals outliers cannot pull.

    r = ±√(σ² λ ρ(x/σ)),        x the residuals of the other loss, ρ and λ of `gradsim.numerics.robust`

Near 0 it is √λ times the other loss's residual; beyond the bend it grows as √|x| (huber) or slower (cauchy).
"""

from functools import lru_cache
from typing import final

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.losses.base import ImageLoss
from gradsim.losses.registry import Stage, image_loss
from gradsim.numerics import robust

REACH = 4.0  # σ beyond which a Gaussian is cut off: 6e-5 of its mass


@final
class Blurred(ImageLoss):
    """Another loss of both images blurred.

    Args:
        loss: What compares them, or its name.
        sigma: Of the Gaussian [px], above 0.

    Raises:
        InputError: If there is no such loss, or sigma is not above 0.
    """

    def __init__(self, loss: ImageLoss | str, sigma: float):
        if not 0 < sigma < float("inf"):
            raise InputError(f"the blur is {sigma} px; it has to be above 0.")
        self.loss, self.sigma = image_loss(loss), float(sigma)
        self.name = f"{self.loss.name} blurred by {self.sigma:.3g} px"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        return self.loss.compare(blur(image, self.sigma), blur(target, self.sigma))


def blur(image: Tensor, sigma: float) -> Tensor:
    """An image (..., height, width) spread by a Gaussian [px]; differentiable. The sum of its pixels stays."""
    rows, columns = (_spread(n, sigma, image.dtype, str(image.device)) for n in image.shape[-2:])
    return rows @ image @ columns


def blur_to_sharp(
    loss: ImageLoss | str = "mse", sigma: tuple[float, float] = (16.0, 1.0), iterations: int = 20
) -> tuple[Stage, ...]:
    """Stages of one iteration each, whose blur falls from the first sigma to the last [px] by a constant factor.

    As in `Schedule(*blur_to_sharp(), stage("mse", 20))`.

    Raises:
        InputError: If there is no such loss, no iteration, or a sigma is not above 0.
    """
    if iterations < 1:
        raise InputError(f"a blur that becomes sharp has {iterations} iterations; it needs at least one.")
    wide, narrow = (Blurred(loss, s).sigma for s in sigma)
    share = [k / max(1, iterations - 1) for k in range(iterations)]
    return tuple(Stage(Blurred(loss, wide ** (1 - s) * narrow**s), 1) for s in share)


@lru_cache(maxsize=64)
def _spread(n: int, sigma: float, dtype: torch.dtype, device: str) -> Tensor:
    """G (n, n), symmetric, whose rows sum to 1."""
    reach = max(1, round(REACH * sigma))
    offset = torch.arange(-reach, reach + 1)
    weight = torch.exp(-0.5 * (offset / sigma).double().square())
    place = (torch.arange(n)[:, None] + offset) % (2 * n)
    G = torch.zeros(n, n, dtype=torch.float64)
    G.scatter_add_(1, torch.minimum(place, 2 * n - 1 - place), (weight / weight.sum()).expand(n, -1))
    return G.to(device, dtype)


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
