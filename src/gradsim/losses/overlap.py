"""One minus intersection over union, of shares of pixels (Jaccard 1912; Ružička 1958 for shares).

    1 − IoU = Σ |A − T| / Σ max(A, T),      r = ±√|A − T| · √(m / Σ max(A, T)),     max(A, T) = (A + T + |A − T|)/2

The form Σ A T / Σ (A + T − A T) of soft masks (Rahman & Wang 2016) is not 1 for two equal images with pixels that are
covered in part; this one is. |·| is smooth at 0 as in `absolute.py`. A body that does not touch its target has 1, and
no derivative that pulls it there.
"""

from typing import final

from torch import Tensor

from gradsim.losses.absolute import root
from gradsim.losses.loss import ImageLoss

EMPTY = 1e-3  # [pixel] added to the union, so that two empty images differ by 0 and have finite derivatives


@final
class IoU(ImageLoss):
    """1 − IoU of each image, from 0 (equal) to 1 (apart)."""

    name = "iou"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        difference = root((image - target).flatten(-2))
        union = (image + target).flatten(-2).sum(-1) / 2 + difference.square().sum(-1) / 2 + EMPTY
        return difference * (difference.shape[-1] / union).sqrt()[..., None]
