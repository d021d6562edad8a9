"""Where the mass of an image is, and how it spreads: centroid and second central moments (Hu 1962).

    c = Σ A p / M,    S = Σ A p pᵀ / M − c cᵀ,    r = (c_x, c_y, S_xx, S_xy, S_yy) of the image − of the target

p is measured from the middle of the image in units of its width and height. Five numbers see a body anywhere, and also
its size and attitude, but not its outline. A body that the edge of the image cuts has other moments.

The normalised CDF of rows and columns: a transport distance that is also a residual.

    r = (cdf of rows, cdf of columns) of the image − of the target

It sees a body anywhere in the image, where the difference of pixels sees about one diameter (design: the loss decides
the basin). Use it first, and pixels to finish, since it weighs the evidence of pixels unevenly.

Where a body is and how far away, in the same unit: its direction, and its size as a distance.

    r = (c_x, c_y, ½ ln M) of the image − of the target,   c = Σ A p / M, p in widths of the image;   M = Σ A

A body of constant attitude that moves by d across the line of sight, at a distance D, moves c by (f/width) d/D; moved by
d along it, ½ ln M changes by −d/D. At a focal length of one width (a field of view of 53°) r is therefore the error of
its place over D, the same in all directions: descent goes straight there, where `moments` and `cdf` see the less of
depth the smaller it is in the image, and it slides along the line of sight to raise itself there.

Three numbers see a body anywhere, and not its outline. One that grows looks nearer, and so does one that turns its broad
side; one that the edge of the image cuts looks farther. Use it first, and pixels to finish.
"""

from typing import final

import torch
from torch import Tensor

from gradsim.losses.base import ImageLoss

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


def whereabouts(image: Tensor) -> Tensor:
    """Centroid, and half the logarithm of the mass [pixels], (..., 3) of (..., height, width)."""
    height, width = image.shape[-2:]
    steps = lambda n: (torch.arange(n, dtype=image.dtype, device=image.device) + 0.5 - n / 2) / width
    mass = image.sum((-2, -1)) + EMPTY
    x, y = ((image * weight).sum((-2, -1)) / mass for weight in (steps(width), steps(height)[:, None]))
    return torch.stack([x, y, 0.5 * mass.log()], -1)


@final
class CentroidSize(ImageLoss):
    """Mean squared difference of centroid and logarithmic size."""

    name = "whereabouts"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        return whereabouts(image) - whereabouts(target)
