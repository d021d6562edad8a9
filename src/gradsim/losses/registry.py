"""The losses by name.

Losses one after another: one that sees far, then one that is exact.

A loop of one's own asks `at`; `follow` of `identify.descent` and of `identify.least_squares` run through one.
"""

from dataclasses import dataclass

from gradsim.errors import InputError
from gradsim.losses.base import ImageLoss
from gradsim.losses.image import L1, MSE, Distance, IoU, Pyramid
from gradsim.losses.transport import CDF, CentroidSize, Moments

LOSSES: dict[str, ImageLoss] = {
    loss.name: loss for loss in (MSE(), L1(), IoU(), Pyramid(), CDF(), Moments(), CentroidSize(), Distance())
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


@dataclass(frozen=True)
class Stage:
    """A loss, and how long; `stage` takes its name.

    Args:
        loss: The loss.
        iterations: At most so many.
        precision: The relative decrease in one iteration below which the stage ends; 0 goes on.
    """

    loss: ImageLoss
    iterations: int
    precision: float = 0.0


def stage(loss: ImageLoss | str, iterations: int, precision: float = 0.0) -> Stage:
    """A stage; arguments as for `Stage`.

    Raises:
        InputError: If there is no such loss, or no iteration.
    """
    if iterations < 1:
        raise InputError(f"a stage of {loss!r} has {iterations} iterations; it needs at least one.")
    return Stage(image_loss(loss), iterations, precision)


class Schedule:
    """Stages, in order.

    Args:
        stages: At least one.

    Raises:
        InputError: If there is none.
    """

    def __init__(self, *stages: Stage):
        if not stages:
            raise InputError("a schedule has no stages; it needs at least one, such as stage('cdf', 30).")
        self.stages = stages

    @property
    def iterations(self) -> int:
        """Of all stages."""
        return sum(s.iterations for s in self.stages)

    def at(self, iteration: int) -> ImageLoss:
        """The loss of an iteration, counted from 0; the last one afterwards."""
        for each in self.stages:
            if iteration < each.iterations:
                return each.loss
            iteration -= each.iterations
        return self.stages[-1].loss


def coarse_to_fine(
    far: ImageLoss | str = "cdf", near: ImageLoss | str = "mse", iterations: tuple[int, int] = (30, 60)
) -> Schedule:
    """Two stages: one that sees the body anywhere in the image, then one that says best where it is."""
    return Schedule(stage(far, iterations[0]), stage(near, iterations[1]))
