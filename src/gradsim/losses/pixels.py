"""The difference of pixels: what Gaussian noise of the same size in every pixel asks for.

    r = image − target

It sees a body about one diameter away (design: the loss decides the basin), and nothing beyond.
"""

from typing import final

from torch import Tensor

from gradsim.losses.loss import ImageLoss


@final
class MSE(ImageLoss):
    """Mean squared difference of pixels."""

    name = "mse"

    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        return (image - target).flatten(-2)
