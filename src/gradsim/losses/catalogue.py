"""The losses by name."""

from gradsim.errors import InputError
from gradsim.losses.absolute import L1
from gradsim.losses.centroid import Moments
from gradsim.losses.cumulative import CDF
from gradsim.losses.distances import Distance
from gradsim.losses.loss import ImageLoss
from gradsim.losses.overlap import IoU
from gradsim.losses.pixels import MSE
from gradsim.losses.scales import Pyramid
from gradsim.losses.whereabouts import Whereabouts

LOSSES: dict[str, ImageLoss] = {
    loss.name: loss for loss in (MSE(), L1(), IoU(), Pyramid(), CDF(), Moments(), Whereabouts(), Distance())
}


def image_loss(name: ImageLoss | str) -> ImageLoss:
    """The loss of a name; a loss is itself.

    Raises:
        InputError: If there is none.
    """
    if isinstance(name, ImageLoss):
        return name
    if name not in LOSSES:
        raise InputError(f"there is no image loss {name!r}; choose one of {', '.join(LOSSES)}.")
    return LOSSES[name]
