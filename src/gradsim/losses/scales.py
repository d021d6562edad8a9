"""A pyramid of images, each half as large as the one before (Burt & Adelson 1983).

    r = {Gˡ(image − target)}, l = 0, 1, ... down to one pixel        G: spread by (1, 3, 3, 1)/4 both ways on half as many

A pixel of level l has the mass of about 4ˡ pixels, and G keeps the mass: what it spreads beyond the edge goes to the
outermost pixel. A body of n pixels counts n on the fine levels and up to n² on the coarse ones, which see far. Sums
over 2 × 2 blocks would do less well: they change with a shift, and a body far off comes to rest on the edges of blocks.
"""

from typing import final

import torch
from torch import Tensor
from torch.nn.functional import pad

from gradsim.losses.loss import ImageLoss


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
