"""The normalised CDF of rows and columns: a transport distance that is also a residual.

    r = (cdf of rows, cdf of columns) of the image − of the target

It sees a body anywhere in the image, where the difference of pixels sees about one diameter (design: the loss decides
the basin). Use it first, and pixels to finish, since it weighs the evidence of pixels unevenly.
"""

from typing import final

import torch
from torch import Tensor

from gradsim.losses.loss import ImageLoss

EMPTY = 1e-3  # [pixel] added to the mass, so that an empty image has a CDF and a finite derivative


def cdf(image: Tensor) -> Tensor:
    """Cumulative share of an image's mass by row and by column.

    Args:
        image: (..., height, width), at least 0.

    Returns:
        (..., height + width), in [0, 1].
    """
    mass = image.sum((-2, -1)) + EMPTY
    return torch.cat([image.sum(-1).cumsum(-1), image.sum(-2).cumsum(-1)], -1) / mass[..., None]


def cdf_tangent(image: Tensor, tangent: Tensor) -> tuple[Tensor, Tensor]:
    """`cdf` of (..., height, width), and its derivative (..., height + width, unknowns).

    Args:
        image: (..., height, width).
        tangent: (..., height, width, unknowns).
    """
    sums = torch.cat([image.sum(-1), image.sum(-2)], -1)
    slopes = torch.cat([tangent.sum(-2), tangent.sum(-3)], -2)
    return cdf_of_sums_tangent(sums, slopes, image.shape[-2])


def cdf_of_sums_tangent(sums: Tensor, slopes: Tensor, height: int) -> tuple[Tensor, Tensor]:
    """`cdf_tangent` from the sums over rows and columns (..., height + width) and their derivatives."""
    mass = (sums[..., :height].sum(-1) + EMPTY)[..., None]
    change = slopes[..., :height, :].sum(-2)[..., None, :]
    running = torch.cat([x.cumsum(-1) for x in (sums[..., :height], sums[..., height:])], -1)
    moving = torch.cat([x.cumsum(-2) for x in (slopes[..., :height, :], slopes[..., height:, :])], -2)
    value = running / mass
    return value, (moving - value[..., None] * change) / mass[..., None]


@final
class CDF(ImageLoss):
    """Mean squared difference of the CDFs."""

    name = "cdf"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        return cdf(image) - cdf(target)
