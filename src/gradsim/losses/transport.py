"""Losses of mass distribution, whose basin is the whole image: CDF, moments, centroid and size.

Start with one of them and finish with pixels: all weigh the information of pixels unevenly. M = Σ A is the mass.

CDF: normalized cumulative sums of rows and columns, a transport distance that is also a residual.

    r = (CDF of rows, CDF of columns) of the image − of the target

Moments: centroid and second central moments (Hu 1962), p from the image center in widths and heights of the image.

    c = Σ A p / M,    S = Σ A p pᵀ / M − c cᵀ,    r = (c_x, c_y, S_xx, S_xy, S_yy) of the image − of the target

Sensitive to position, size and orientation, not to the outline. Truncation at the image border changes them.

CentroidSize: direction and distance of a body, in the same unit; p in widths of the image.

    r = (c_x, c_y, ½ ln M) of the image − of the target,   c = Σ A p / M

A body of constant orientation at a distance D that moves by d across the line of sight moves c by (f/width) d/D; moved by
d along it, ½ ln M changes by −d/D. At a focal length of one image width (a field of view of 53°) r is therefore the
position error over D, isotropic, and descent follows a straight line; `moments` and `cdf` are less sensitive to depth the
smaller the body is in the image, and descent drifts along the line of sight. A body that grows, or turns its broad side
to the camera, looks nearer; one truncated by the image border looks farther.
"""

from typing import final

import torch
from torch import Tensor

from gradsim.losses.base import ImageLoss

EMPTY_MASS = 1e-3  # [pixel] added to the mass, so that an empty image has a CDF and a finite derivative


def cdf(image: Tensor) -> Tensor:
    """Cumulative fraction of an image's mass by row and by column.

    Args:
        image: (..., height, width), at least 0.

    Returns:
        (..., height + width), in [0, 1].
    """
    mass = image.sum((-2, -1)) + EMPTY_MASS
    return torch.cat([image.sum(-1).cumsum(-1), image.sum(-2).cumsum(-1)], -1) / mass[..., None]


def cdf_of_sums(sums: Tensor, height: int) -> Tensor:
    """`cdf` from the sums over rows and columns (..., height + width)."""
    return cdf_of_sums_tangent(sums, sums.new_zeros(*sums.shape, 0), height)[0]


def cdf_tangent(image: Tensor, tangent: Tensor) -> tuple[Tensor, Tensor]:
    """`cdf` (..., height + width), and its derivative (..., height + width, unknowns).

    Args:
        image: (..., height, width).
        tangent: (..., height, width, unknowns).
    """
    sums = torch.cat([image.sum(-1), image.sum(-2)], -1)
    tangents = torch.cat([tangent.sum(-2), tangent.sum(-3)], -2)
    return cdf_of_sums_tangent(sums, tangents, image.shape[-2])


def cdf_of_sums_tangent(sums: Tensor, tangents: Tensor, height: int) -> tuple[Tensor, Tensor]:
    """`cdf_tangent` from the sums over rows and columns (..., height + width) and their derivatives."""
    mass = (sums[..., :height].sum(-1) + EMPTY_MASS)[..., None]
    mass_tangent = tangents[..., :height, :].sum(-2)[..., None, :]
    cumulative = torch.cat([x.cumsum(-1) for x in (sums[..., :height], sums[..., height:])], -1)
    cumulative_tangent = torch.cat([x.cumsum(-2) for x in (tangents[..., :height, :], tangents[..., height:, :])], -2)
    value = cumulative / mass
    return value, (cumulative_tangent - value[..., None] * mass_tangent) / mass[..., None]


@final
class CDF(ImageLoss):
    """Mean squared difference of the CDFs."""

    name = "cdf"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        return cdf(image) - cdf(target)


def moments(image: Tensor) -> Tensor:
    """Centroid and second central moments (..., 5) of an image (..., height, width); 0 for an empty image."""
    height, width = image.shape[-2:]
    steps = lambda n: (torch.arange(n, dtype=image.dtype, device=image.device) + 0.5) / n - 0.5
    y, x = steps(height)[:, None], steps(width)
    mass = image.sum((-2, -1)) + EMPTY_MASS
    mean = lambda weight: (image * weight).sum((-2, -1)) / mass
    cx, cy = mean(x), mean(y)
    return torch.stack([cx, cy, mean(x * x) - cx * cx, mean(x * y) - cx * cy, mean(y * y) - cy * cy], -1)


@final
class Moments(ImageLoss):
    """Mean squared difference of centroid and second moments."""

    name = "moments"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        return moments(image) - moments(target)


def centroid_and_size(image: Tensor) -> Tensor:
    """Centroid, and half the logarithm of the mass [px], (..., 3), of an image (..., height, width)."""
    height, width = image.shape[-2:]
    steps = lambda n: (torch.arange(n, dtype=image.dtype, device=image.device) + 0.5 - n / 2) / width
    mass = image.sum((-2, -1)) + EMPTY_MASS
    x, y = ((image * weight).sum((-2, -1)) / mass for weight in (steps(width), steps(height)[:, None]))
    return torch.stack([x, y, 0.5 * mass.log()], -1)


@final
class CentroidSize(ImageLoss):
    """Mean squared difference of centroid and logarithmic size."""

    name = "whereabouts"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        return centroid_and_size(image) - centroid_and_size(target)
