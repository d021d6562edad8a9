"""Losses of pixels: squared and absolute difference, overlap, image pyramid, distance to the outline.

MSE: the maximum-likelihood loss for Gaussian noise of equal size in every pixel. Its basin is about one body diameter.

    r = A − T                                            A: image, T: target

L1: absolute difference, smooth at 0 (pseudo-Huber; Charbonnier et al. 1997).

    |x| ≈ √(x² + δ²) − δ = x² / (√(x² + δ²) + δ),        r = x / √(√(x² + δ²) + δ)

The last form subtracts no near numbers and has no 0/0: the derivative of r is 1/√(2 δ) at 0.

IoU: one minus intersection over union of soft masks (Jaccard 1912; Ružička 1958).

    1 − IoU = Σ |A − T| / Σ max(A, T),      r = ±√|A − T| · √(m / Σ max(A, T)),     max(A, T) = (A + T + |A − T|)/2

The form Σ A T / Σ (A + T − A T) (Rahman & Wang 2016) is not 1 for two equal images with partly covered pixels; this one
is. |·| is smooth at 0 as in `L1`. A body without overlap with its target has loss 1 and zero gradient.

Pyramid: differences at every scale, each level half the size of the one before (Burt & Adelson 1983).

    r = {Gˡ(A − T)}, l = 0, 1, ... down to one pixel        G: (1, 3, 3, 1)/4 in both directions, subsampled by 2

A pixel of level l holds the mass of about 4ˡ pixels, and G conserves mass: what it spreads beyond the edge goes to the
outermost pixel. A body of n pixels counts n on the fine levels and up to n² on the coarse ones, which have the wide
basin. Sums over 2 × 2 blocks would be worse: they change with a shift, and a distant body converges to block edges.

Distance: absolute difference, weighted by the distance of a pixel to the target's outline.

    L = Σ w |A − T|,   w = 1 + distance to the outline of T [px];      r = (±√L outside of T, ±√L inside) · √(2/pixels)

A pixel of the body outside of the target costs its distance (as in Chamfer matching, Barrow et al. 1977), and so does
one of the target that the body misses. The cost of a distant body is its area times its distance, so the basin is the
whole image; the weight 1 on the outline keeps the subpixel information. The difference is absolute and not squared: a
square has a local minimum wherever edges fall between pixels.

It has two residuals per image instead of one per pixel. The loss is the same, but with one per pixel Gauss–Newton takes
every rim pixel as a residual to be reduced by itself, and its steps are a hundred times too small. √L proposes twice the
step for a distant body, which damping halves. Two numbers hold less information than all pixels: finish with `MSE`.
"""

from typing import final

import numpy as np
import scipy
import torch
from torch import Tensor
from torch.nn.functional import pad

from gradsim.losses.base import ImageLoss

QUADRATIC_DIFFERENCE = 1 / 255  # δ: below one grey level the loss is quadratic
EMPTY_MASS = 1e-3  # [pixel] added to the union, so that two empty images differ by 0 and have finite derivatives


def root(x: Tensor, rounding: float = QUADRATIC_DIFFERENCE) -> Tensor:
    """±√|x|, smooth at 0: a residual whose square is the absolute value."""
    return x / ((x.square() + rounding**2).sqrt() + rounding).sqrt()


@final
class MSE(ImageLoss):
    """Mean squared difference of pixels."""

    name = "mse"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        return (image - target).flatten(-2)


@final
class L1(ImageLoss):
    """Mean absolute difference of pixels, less sensitive to outliers than `MSE`.

    Args:
        rounding: δ, in units of the image.
    """

    name = "l1"

    def __init__(self, rounding: float = QUADRATIC_DIFFERENCE):
        self.rounding = rounding

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        return root((image - target).flatten(-2), self.rounding)


@final
class IoU(ImageLoss):
    """1 − IoU of each image, from 0 (equal) to 1 (disjoint)."""

    name = "iou"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        difference = root((image - target).flatten(-2))
        union = (image + target).flatten(-2).sum(-1) / 2 + difference.square().sum(-1) / 2 + EMPTY_MASS
        return difference * (difference.shape[-1] / union).sqrt()[..., None]


@final
class Pyramid(ImageLoss):
    """Mean squared difference of mass over all pixels of all levels."""

    name = "pyramid"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        level = image - target
        levels = [level.flatten(-2)]
        while max(level.shape[-2:]) > 1:
            level = _downsample(_downsample(level).mT).mT
            levels.append(level.flatten(-2))
        return torch.cat(levels, -1)


def _downsample(x: Tensor) -> Tensor:
    """Mass in half as many pixels along the last dimension."""
    n = x.shape[-1]
    if n == 1:
        return x
    wide = pad(x, (3, 3 + n % 2))  # pixels -3 to n + 2: new pixel j has the mass of pixels 2j - 1 to 2j + 2, j from -1
    spread = (wide[..., 0:-3:2] + 3 * wide[..., 1:-2:2] + 3 * wide[..., 2:-1:2] + wide[..., 3::2]) / 4
    inner = spread[..., 1:-1]
    last = (0, inner.shape[-1] - 1)
    return inner + pad(spread[..., :1], last) + pad(spread[..., -1:], last[::-1])


def distance_to_outline(target: Tensor) -> Tensor:
    """Distance of pixels (..., height, width) to the nearest one on the other side of the level 1/2, less one [px].

    0 on both sides of the outline; 0 everywhere in an image without an outline.
    """
    inside = target.detach().reshape(-1, *target.shape[-2:]).cpu().numpy() > 0.5
    distance = torch.zeros(inside.shape, dtype=torch.float64)
    for k, mask in enumerate(inside):
        if mask.any() and not mask.all():
            distance[k] = torch.from_numpy(
                np.asarray(scipy.ndimage.distance_transform_edt(mask)) + scipy.ndimage.distance_transform_edt(~mask) - 1
            )
    return distance.view(target.shape).to(target)


@final
class Distance(ImageLoss):
    """Mean absolute difference of pixels times their distance to the target's outline [px]."""

    name = "distance"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        cost = (1 + distance_to_outline(target)) * root(image - target).square()
        inside = (target > 0.5).to(cost)
        sums = torch.stack([(cost * (1 - inside)).sum((-2, -1)), (cost * inside).sum((-2, -1))], -1)
        return root(sums) * (2 / target.shape[-2] / target.shape[-1]) ** 0.5
