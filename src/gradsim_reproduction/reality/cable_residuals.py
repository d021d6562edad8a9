"""What is left of a cable's training runs that a fit did not have, and how much of it a roll, numbers or a start of a run's own would take away.

    predicted    numbers of the fit, the roll by the first two frames
    roll         the same numbers, and the roll that fits all frames of this run best
    numbers      numbers and roll that fit this run best: what the law leaves of any one run, but for its natural shape
    restart      numbers and roll of the fit, let go again from shape and speed in the middle of the recording, with the roll that fits the rest best

Each is the mean absolute error over all frames; `late` and `restart` are over the second half of the run, as predicted from its start with the best roll, and let go again.
"""

from dataclasses import replace

import torch
from torch import Tensor

from gradsim_reproduction.reality.cable_model import Cable, CableRun, Squares, descend
from gradsim_reproduction.reality.cable_recordings import Recording

STEPS = 3  # of a fit to one run, at most
CAUSES = ("predicted", "roll", "numbers", "late", "restart")


def split_error(cable: Cable, recording: Recording, frames: int) -> dict[str, float]:
    """Mean absolute errors [m] of a run that was not fitted, by `CAUSES`."""
    frames = min(frames, len(recording.x))
    run = cable.run(recording, frames)
    rolled = fit_roll(run, cable.u)
    roll = torch.tensor([rolled.roll], dtype=torch.float64)
    x = descend(lambda x: Squares.of(replace(run, roll=float(x[-1])), x[:-1]), torch.cat([cable.u, roll]), STEPS)[0]
    single = replace(run, roll=float(x[-1]))
    middle = frames // 2
    again = cable.run(Recording(recording.name, recording.x[middle:frames]), frames - middle)
    late = (rolled.predict(cable.u) - run.target).abs()[middle:]
    return {
        "predicted": _error(run, cable.u),
        "roll": _error(rolled, cable.u),
        "numbers": _error(single, x[:-1]),
        "late": float(late.mean()),
        "restart": _error(fit_roll(again, cable.u), cable.u),
    }


def fit_roll(run: CableRun, u: Tensor) -> CableRun:
    """The run with the roll that fits all of its frames best, numbers as they are."""

    def squares(roll: Tensor) -> Squares:
        one = Squares.of(replace(run, roll=float(roll)), u)
        return Squares(one.normal[-1:, -1:], one.gradient[-1:], one.loss)

    return replace(run, roll=float(descend(squares, torch.tensor([run.roll], dtype=torch.float64), STEPS)[0]))


def _error(run: CableRun, u: Tensor) -> float:
    return float((run.predict(u) - run.target).abs().mean())
