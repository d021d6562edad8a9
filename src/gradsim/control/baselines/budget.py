"""What a baseline may spend, and what it finds for it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from gradsim.control.history import History, Iteration
from gradsim.control.training import Progress
from gradsim.errors import InputError
from gradsim.geometry.validation import counts

if TYPE_CHECKING:
    from gradsim.control.plant import Episode, Plant


@dataclass(frozen=True)
class Budget:
    """Rollouts of one world from start to end; each simulates `plant.steps` steps.

    Args:
        rollouts: In all, those that only measure for the curves included. No baseline goes beyond.
        worlds: Rolled out together, as a generation or a batch; one iteration of the baselines that need several.
    """

    rollouts: int
    worlds: int = 16

    def __post_init__(self):
        counts("rollouts", self.rollouts)
        counts("worlds", self.worlds)

    def rounds(self, worlds: int) -> int:
        """How many times so many worlds can be rolled out.

        Raises:
            InputError: If they cannot be once.
        """
        if self.rollouts < worlds:
            raise InputError(
                f"the budget is {self.rollouts} rollouts, and one iteration takes {worlds}; give more, or fewer `worlds`."
            )
        return self.rollouts // worlds


class Outcome(NamedTuple):
    """How episodes ended, (worlds,) each; of the last two, not a number where nobody knows."""

    loss: Tensor
    distance: Tensor
    position_error: Tensor

    def entry(self, world: int, seconds: float, rollouts: int, plant: "Plant") -> Iteration:
        """An iteration whose loss is that of one world."""
        loss, distance, error = (float(x[world]) for x in self)
        return Iteration(
            loss,
            seconds=seconds,
            rollouts=rollouts,
            steps=rollouts * plant.steps,
            distance=distance,
            position_error=error,
            frames=plant.frames,
        )


def keep(
    history: History, entry: Iteration, policy: Mapping[str, Tensor], total: int, progress: Progress | None
) -> None:
    """Append one of `total` iterations, with the policy that it is of, and tell it."""
    history.add(entry, policy)
    if len(history) == total // 2 + 1:
        history.keep_middle()
    if progress is not None:
        progress.update(len(history) - 1, entry.loss, {"distance [m]": (entry.distance, math.nan)})


def outcome(goal, episode: "Episode", iteration: int = 0) -> Outcome:
    """Of every world of an episode; the distances are for figures only."""
    with torch.no_grad():
        loss = goal.loss(episode, iteration)
        unknown = torch.full_like(loss, torch.nan)
        distance, error = goal.distance(episode), goal.position_error(episode)
    return Outcome(loss, unknown if distance is None else distance, unknown if error is None else error)
