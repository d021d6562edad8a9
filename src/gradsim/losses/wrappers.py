"""Wrappers of another loss: of blurred images, and of robust residuals.

Blurred: the loss of both images after a Gaussian blur.

    r(G A, G T)        G: a Gaussian of standard deviation σ [px] along rows and columns, reflected at the edges

It widens the basin of a difference of pixels by about 3 σ. The reflection conserves the mass of the image: a blur that
loses mass over the edge has its minimum where the body has left the image.

Robust: the loss with residuals of bounded influence.

    r = ±√(σ² λ ρ(x/σ)),        x the residuals of the wrapped loss, ρ and λ of `gradsim.numerics.robust`

Near 0, r is √λ times the wrapped residual; beyond the threshold it grows as √|x| (huber) or slower (cauchy).
"""

from functools import lru_cache
from typing import final

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.losses.base import ImageLoss
from gradsim.losses.registry import image_loss
from gradsim.numerics import robust

TRUNCATION_SIGMAS = 4.0  # [σ] at which the Gaussian is truncated: 6e-5 of its mass


@final
class Blurred(ImageLoss):
    """Loss of blurred images.

    Args:
        loss: Loss of the blurred images, or its name.
        sigma: Standard deviation of the Gaussian [px], above 0.

    Raises:
        InputError: If the loss is unknown, or sigma is not above 0.
    """

    def __init__(self, loss: ImageLoss | str, sigma: float):
        if not 0 < sigma < float("inf"):
            raise InputError(f"the blur is {sigma} px; it must be above 0.")
        self.loss, self.sigma = image_loss(loss), float(sigma)
        self.name = f"{self.loss.name} blurred by {self.sigma:.3g} px"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        return self.loss.compare(blur(image, self.sigma), blur(target, self.sigma))


def blur(image: Tensor, sigma: float) -> Tensor:
    """Blur an image (..., height, width) by a Gaussian [px]; differentiable, conserves the sum of pixels."""
    rows, columns = (_gaussian_matrix(n, sigma, image.dtype, str(image.device)) for n in image.shape[-2:])
    return rows @ image @ columns


@lru_cache(maxsize=64)
def _gaussian_matrix(n: int, sigma: float, dtype: torch.dtype, device: str) -> Tensor:
    """G (n, n), symmetric, whose rows sum to 1."""
    reach = max(1, round(TRUNCATION_SIGMAS * sigma))
    offset = torch.arange(-reach, reach + 1)
    weight = torch.exp(-0.5 * (offset / sigma).double().square())
    column = (torch.arange(n)[:, None] + offset) % (2 * n)  # reflected at both edges: period 2 n
    G = torch.zeros(n, n, dtype=torch.float64)
    G.scatter_add_(1, torch.minimum(column, 2 * n - 1 - column), (weight / weight.sum()).expand(n, -1))
    return G.to(device, dtype)


@final
class Robust(ImageLoss):
    """Robust form of another loss.

    Args:
        of: Loss to wrap.
        sigma: Standard deviation of its residuals under noise; for `MSE`, of pixels.
        rho: "huber" or "cauchy".

    Raises:
        InputError: If ρ is unknown, or σ is not positive.
    """

    def __init__(self, of: ImageLoss, sigma: float, rho: str = "huber"):
        if not sigma > 0:
            raise InputError(f"sigma is {sigma}; it must be the noise of the wrapped residuals, above 0.")
        self.of, self.sigma, self.rho = of, sigma, robust.robust_loss(rho)
        self.name = f"{rho} {of.name}"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        return self.sigma * self.rho.root(self.of.compare(image, target) / self.sigma)
