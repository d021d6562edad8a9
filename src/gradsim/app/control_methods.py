"""The methods of `gradsim control`: how each searches, and how what it found acts."""

import time
from typing import TYPE_CHECKING

import torch
from torch import nn

from gradsim.control.checkpoint import Checkpoint
from gradsim.control.history import History
from gradsim.control.training import train
from gradsim.identify.progress import Progress

if TYPE_CHECKING:
    from gradsim.control.plant import Episode
    from gradsim.control.setup import Setup

WORLDS = 16  # that a baseline rolls out together, in each of its iterations


class Told:
    """Passes on iterations, with the CPU time of each, and how many there are.

    Args:
        progress: Is told.
        total: Iterations.
    """

    def __init__(self, progress: Progress, total: int):
        self.progress, self.total, self._begun = progress, total, time.process_time()

    def update(self, iteration: int, loss: float, values: dict[str, tuple[float, float]]) -> None:
        """See `Progress`."""
        now = time.process_time()
        seconds, self._begun = now - self._begun, now
        self.progress.update(iteration + 1, loss, {**values, "CPU [s]": (seconds, float("nan"))})
        self.progress.share(iteration + 1, self.total)


def search(setup: "Setup", method: str, seed: int, keeper: Checkpoint, progress: Progress) -> tuple[nn.Module, History]:
    """Look for a policy.

    Args:
        setup: Task, plant, policy, goal and settings. One iteration of a baseline that needs several rollouts takes
            `WORLDS` of them.
        method: One of `METHODS`.
        seed: Of what a baseline draws.
        keeper: Where a search by gradients goes on; baselines begin anew.
        progress: Is told every iteration.

    Returns:
        A policy of the kind whose states are in the history, and the history.
    """
    count = setup.search.iterations
    told = Told(progress, count)
    if method == "gradient":
        return setup.policy, train(setup.plant, setup.policy, setup.goal, setup.search, told, keeper)
    from gradsim.control.baselines import BASELINES, Budget

    alone = method in ("diffphysics", "random")  # one rollout is one iteration
    budget = Budget(count if alone else count * WORLDS, WORLDS)
    return BASELINES[method](setup, budget, seed, told)


def played(setup: "Setup", policy: nn.Module) -> "Episode":
    """The motion under a policy."""
    with torch.no_grad():
        return setup.plant.rollout(policy)  # pyright: ignore[reportArgumentType]
