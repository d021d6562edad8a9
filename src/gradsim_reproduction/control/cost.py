"""What the picture adds to an iteration: physics alone, and physics with the frame that is compared, in one run."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from gradsim.control.task.setup import Setup

REPEATS = 7


def seconds(setup: Setup, repeats: int = REPEATS) -> dict[str, float]:
    """CPU seconds of one rollout of one world forward and backward, medians.

    Returns:
        `physics`: the gradient of where the body ends; `whole`: that of the goal's loss of the picture. They take turns,
        so that what else the machine does slows both.
    """

    policy: Any = setup.policy

    def physics():
        setup.plant.rollout(policy).centre()[:, -1].sum().backward()

    def whole():
        setup.goal.loss(setup.plant.rollout(policy)).sum().backward()

    works = {"physics": physics, "whole": whole}
    for work in works.values():  # compiles
        work()
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            spent[name].append(_timed(work))
    setup.policy.zero_grad()
    return {name: median(each) for name, each in spent.items()}


def _timed(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
