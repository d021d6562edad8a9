"""The absolute difference of pixels, smooth at 0 (pseudo-Huber; Charbonnier et al. 1997).

    |x| ≈ √(x² + δ²) − δ = x² / (√(x² + δ²) + δ),        so  r = x / √(√(x² + δ²) + δ)

The last form has no difference of near numbers and no 0/0: r has the slope 1/√(2 δ) at 0.

The absolute difference of pixels, weighed by how far a pixel is from the target's outline.

    L = Σ w |A − T|,   w = 1 + distance to the outline of T [px];      r = (±√L outside of T, ±√L inside) · √(2/pixels)

A pixel of the body outside of the target costs its distance (as in Chamfer matching, Barrow et al. 1977), and so does
one of the target that the body misses. The cost of a body far away is its area times its distance, so it is pulled from
everywhere; the weight 1 on the outline keeps what says where it is to a share of a pixel. The difference counts as such
and not squared: a square is smallest where edges fall between pixels, and a body would rest at every pixel on its way.

An image has two residuals and not one for each pixel. The loss is the same, but Gauss and Newton would think that
pixels of the rim can be lowered each by itself, and make steps of a hundredth of the way. √L asks a body far away for
twice the step, which damping halves. Where noise remains, two numbers say less than all pixels: finish with those.

One minus intersection over union, of shares of pixels (Jaccard 1912; Ružička 1958 for shares).

    1 − IoU = Σ |A − T| / Σ max(A, T),      r = ±√|A − T| · √(m / Σ max(A, T)),     max(A, T) = (A + T + |A − T|)/2

The form Σ A T / Σ (A + T − A T) of soft masks (Rahman & Wang 2016) is not 1 for two equal images with pixels that are
covered in part; this one is. |·| is smooth at 0 as in `absolute.py`. A body that does not touch its target has 1, and
no derivative that pulls it there.

The difference of pixels: what Gaussian noise of the same size in every pixel asks for.

    r = image − target

It sees a body about one diameter away (design: the loss decides the basin), and nothing beyond.

A pyramid of images, each half as large as the one before (Burt & Adelson 1983).

    r = {Gˡ(image − target)}, l = 0, 1, ... down to one pixel        G: spread by (1, 3, 3, 1)/4 both ways on half as many

A pixel of level l has the mass of about 4ˡ pixels, and G keeps the mass: what it spreads beyond the edge goes to the
outermost pixel. A body of n pixels counts n on the fine levels and up to n² on the coarse ones, which see far. Sums
over 2 × 2 blocks would do less well: they change with a shift, and a body far off comes to rest on the edges of blocks.
"""

from typing import final

import numpy as np
import torch
from scipy.ndimage import distance_transform_edt
from torch import Tensor
from torch.nn.functional import pad

from gradsim.losses.base import ImageLoss

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


def distance_to_outline(target: Tensor) -> Tensor:
    """Distance of pixels (..., height, width) to the nearest one on the other side of the level 1/2, less one [px].

    0 on both sides of the outline; 0 everywhere where there is none.
    """
    inside = target.detach().reshape(-1, *target.shape[-2:]).cpu().numpy() > 0.5
    far = torch.zeros(inside.shape, dtype=torch.float64)
    for k, mask in enumerate(inside):
        if mask.any() and not mask.all():
            far[k] = torch.from_numpy(np.asarray(distance_transform_edt(mask)) + distance_transform_edt(~mask) - 1)
    return far.view(target.shape).to(target)


@final
class Distance(ImageLoss):
    """Mean absolute difference of pixels times their distance to the target's outline [px]."""

    name = "distance"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        cost = (1 + distance_to_outline(target)) * root(image - target).square()
        inside = (target > 0.5).to(cost)
        sums = torch.stack([(cost * (1 - inside)).sum((-2, -1)), (cost * inside).sum((-2, -1))], -1)
        return root(sums) * (2 / target.shape[-2] / target.shape[-1]) ** 0.5


EMPTY = 1e-3  # [pixel] added to the union, so that two empty images differ by 0 and have finite derivatives


@final
class IoU(ImageLoss):
    """1 − IoU of each image, from 0 (equal) to 1 (apart)."""

    name = "iou"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        difference = root((image - target).flatten(-2))
        union = (image + target).flatten(-2).sum(-1) / 2 + difference.square().sum(-1) / 2 + EMPTY
        return difference * (difference.shape[-1] / union).sqrt()[..., None]


@final
class MSE(ImageLoss):
    """Mean squared difference of pixels."""

    name = "mse"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        return (image - target).flatten(-2)


@final
class Pyramid(ImageLoss):
    """Mean squared difference of mass over all pixels of all levels."""

    name = "pyramid"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        level = image - target
        levels = [level.flatten(-2)]
        while max(level.shape[-2:]) > 1:
            level = _halved(_halved(level).mT).mT
            levels.append(level.flatten(-2))
        return torch.cat(levels, -1)


def _halved(x: Tensor) -> Tensor:
    """Mass in half as many pixels along the last dimension."""
    n = x.shape[-1]
    if n == 1:
        return x
    wide = pad(x, (3, 3 + n % 2))  # pixels -3 to n + 2: new pixel j has the mass of pixels 2j - 1 to 2j + 2, j from -1
    spread = (wide[..., 0:-3:2] + 3 * wide[..., 1:-2:2] + 3 * wide[..., 2:-1:2] + wide[..., 3::2]) / 4
    inner = spread[..., 1:-1]
    last = (0, inner.shape[-1] - 1)
    return inner + pad(spread[..., :1], last) + pad(spread[..., -1:], last[::-1])
