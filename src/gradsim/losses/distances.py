"""The absolute difference of pixels, weighed by how far a pixel is from the target's outline.

    L = Σ w |A − T|,   w = 1 + distance to the outline of T [px];      r = (±√L outside of T, ±√L inside) · √(2/pixels)

A pixel of the body outside of the target costs its distance (as in Chamfer matching, Barrow et al. 1977), and so does
one of the target that the body misses. The cost of a body far away is its area times its distance, so it is pulled from
everywhere; the weight 1 on the outline keeps what says where it is to a share of a pixel. The difference counts as such
and not squared: a square is smallest where edges fall between pixels, and a body would rest at every pixel on its way.

An image has two residuals and not one for each pixel. The loss is the same, but Gauss and Newton would think that
pixels of the rim can be lowered each by itself, and make steps of a hundredth of the way. √L asks a body far away for
twice the step, which damping halves. Where noise remains, two numbers say less than all pixels: finish with those.
"""

from typing import final

import numpy as np
import torch
from scipy.ndimage import distance_transform_edt
from torch import Tensor

from gradsim.losses.absolute import root
from gradsim.losses.loss import ImageLoss


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
