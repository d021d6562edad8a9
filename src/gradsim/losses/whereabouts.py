"""Where a body is and how far away, in the same unit: its direction, and its size as a distance.

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

from gradsim.losses.cumulative import EMPTY
from gradsim.losses.loss import ImageLoss


def whereabouts(image: Tensor) -> Tensor:
    """Centroid, and half the logarithm of the mass [pixels], (..., 3) of (..., height, width)."""
    height, width = image.shape[-2:]
    steps = lambda n: (torch.arange(n, dtype=image.dtype, device=image.device) + 0.5 - n / 2) / width
    mass = image.sum((-2, -1)) + EMPTY
    x, y = ((image * weight).sum((-2, -1)) / mass for weight in (steps(width), steps(height)[:, None]))
    return torch.stack([x, y, 0.5 * mass.log()], -1)


@final
class Whereabouts(ImageLoss):
    """Mean squared difference of centroid and logarithmic size."""

    name = "whereabouts"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        return whereabouts(image) - whereabouts(target)
