"""Where the mass of an image is, and how it spreads: centroid and second central moments (Hu 1962).

    c = Σ A p / M,    S = Σ A p pᵀ / M − c cᵀ,    r = (c_x, c_y, S_xx, S_xy, S_yy) of the image − of the target

p is measured from the middle of the image in units of its width and height. Five numbers see a body anywhere, and also
its size and attitude, but not its outline. A body that the edge of the image cuts has other moments.
"""

from typing import final

import torch
from torch import Tensor

from gradsim.losses.cumulative import EMPTY
from gradsim.losses.loss import ImageLoss


def moments(image: Tensor) -> Tensor:
    """Centroid and second central moments (..., 5) of (..., height, width); an empty image has 0."""
    height, width = image.shape[-2:]
    steps = lambda n: (torch.arange(n, dtype=image.dtype, device=image.device) + 0.5) / n - 0.5
    y, x = steps(height)[:, None], steps(width)
    mass = image.sum((-2, -1)) + EMPTY
    mean = lambda weight: (image * weight).sum((-2, -1)) / mass
    cx, cy = mean(x), mean(y)
    return torch.stack([cx, cy, mean(x * x) - cx * cx, mean(x * y) - cx * cy, mean(y * y) - cy * cy], -1)


@final
class Moments(ImageLoss):
    """Mean squared difference of centroid and second moments."""

    name = "moments"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        return moments(image) - moments(target)
