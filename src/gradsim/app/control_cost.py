"""What an iteration costs: its physics, and its pictures, each alone, forward and backward."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from gradsim.control.goal import Goal
    from gradsim.control.plant import Episode, Plant


def cost(plant: "Plant", policy: nn.Module, goal: "Goal", iteration: int, repeats: int = 2) -> dict[str, float]:
    """CPU seconds of one world, the least of some repeats.

    Args:
        plant: The plant.
        policy: The policy.
        goal: Its loss is that of the pictures.
        iteration: Whose loss it is, where that changes.
        repeats: How often each is done.

    Returns:
        `physics_seconds`: a rollout and the gradient by the policy of where the body ends; `picture_seconds`: the loss
        of an episode that is there already, and its gradient by the states.
    """

    def physics():
        episode = plant.rollout(policy)  # pyright: ignore[reportArgumentType]
        episode.centre()[:, -1].sum().backward()

    episode = plant.rollout(policy)  # pyright: ignore[reportArgumentType]
    states = {
        body: {name: y.detach().requires_grad_(y.is_floating_point()) for name, y in own.items()}
        for body, own in episode.trajectory.states.items()
    }
    still: Episode = replace(episode, trajectory=replace(episode.trajectory, states=states))

    def pictures():
        loss = goal.loss(still, iteration).sum()
        if loss.requires_grad:
            loss.backward()

    found = {"physics_seconds": _least(physics, repeats), "picture_seconds": _least(pictures, repeats)}
    policy.zero_grad()
    return found


def _least(work: Callable[[], None], repeats: int) -> float:
    spent = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)
