"""Schedules of losses: a wide basin first, then an exact one.

`follow` of `gradsim.identification.solvers.gradient_descent` and of `levenberg_marquardt` runs through a schedule; a custom
loop calls `Schedule.at`.
"""

from dataclasses import dataclass

from gradsim.errors import InputError
from gradsim.losses.base import ImageLoss
from gradsim.losses.registry import image_loss
from gradsim.losses.wrappers import Blurred


@dataclass(frozen=True)
class LossStage:
    """A loss and its number of iterations; `stage` makes one from the name of a loss.

    Args:
        loss: Image loss.
        iterations: Maximum number of iterations.
        rtol: Relative decrease in one iteration below which the stage ends; 0: never.
    """

    loss: ImageLoss
    iterations: int
    rtol: float = 0.0


def stage(loss: ImageLoss | str, iterations: int, rtol: float = 0.0) -> LossStage:
    """Make a stage; arguments as for `LossStage`.

    Raises:
        InputError: If the loss is unknown or iterations is below 1.
    """
    if iterations < 1:
        raise InputError(f"a stage of {loss!r} has {iterations} iterations; it needs at least one.")
    return LossStage(image_loss(loss), iterations, rtol)


class Schedule:
    """Stages in order.

    Args:
        stages: At least one.

    Raises:
        InputError: If there are no stages.
    """

    def __init__(self, *stages: LossStage):
        if not stages:
            raise InputError("a schedule has no stages; it needs at least one, such as stage('cdf', 30).")
        self.stages = stages

    @property
    def iterations(self) -> int:
        """Total number of iterations."""
        return sum(s.iterations for s in self.stages)

    def at(self, iteration: int) -> ImageLoss:
        """Loss of an iteration, counted from 0; past the end, that of the last stage."""
        for entry in self.stages:
            if iteration < entry.iterations:
                return entry.loss
            iteration -= entry.iterations
        return self.stages[-1].loss


def coarse_to_fine(
    far: ImageLoss | str = "cdf", near: ImageLoss | str = "mse", iterations: tuple[int, int] = (30, 60)
) -> Schedule:
    """Schedule of two stages: a loss with a wide basin, then an exact one."""
    return Schedule(stage(far, iterations[0]), stage(near, iterations[1]))


def blur_to_sharp(
    loss: ImageLoss | str = "mse", sigma: tuple[float, float] = (16.0, 1.0), iterations: int = 20
) -> tuple[LossStage, ...]:
    """Stages of one iteration each; the blur decreases geometrically from the first sigma to the last [px].

    As in `Schedule(*blur_to_sharp(), stage("mse", 20))`.

    Raises:
        InputError: If the loss is unknown, iterations is below 1, or a sigma is not above 0.
    """
    if iterations < 1:
        raise InputError(f"blur_to_sharp has {iterations} iterations; it needs at least one.")
    wide, narrow = (Blurred(loss, s).sigma for s in sigma)
    fractions = [k / max(1, iterations - 1) for k in range(iterations)]
    return tuple(LossStage(Blurred(loss, wide ** (1 - s) * narrow**s), 1) for s in fractions)
