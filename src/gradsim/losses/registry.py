"""Image losses by name."""

from gradsim.errors import InputError
from gradsim.losses.base import ImageLoss
from gradsim.losses.image import L1, MSE, Distance, IoU, Pyramid
from gradsim.losses.transport import CDF, CentroidSize, Moments

LOSSES: dict[str, ImageLoss] = {
    loss.name: loss for loss in (MSE(), L1(), IoU(), Pyramid(), CDF(), Moments(), CentroidSize(), Distance())
}


def image_loss(name: ImageLoss | str) -> ImageLoss:
    """Look up a loss by name; a loss is returned as it is.

    Raises:
        InputError: If the name is unknown.
    """
    if isinstance(name, ImageLoss):
        return name
    if name not in LOSSES:
        raise InputError(f"unknown image loss {name!r}; choose one of {', '.join(LOSSES)}.")
    return LOSSES[name]
