"""Methods of Fig. 6: one image of the goal, its place in three dimensions, and searches without gradients.

All have the same policy, the same goals and the same start. What has gradients takes one rollout forward and backward in
an iteration; the others take a batch of rollouts, which count.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from gradsim.app.figures import figure
from gradsim.control.baselines import BASELINES, Budget, diffphysics
from gradsim.control.task.setup import Setup
from gradsim.control.task.task import Task
from gradsim.control.training.history import History, State
from gradsim.control.training.train import train
from gradsim.runtime.atomic import atomic_path
from gradsim.runtime.checkpoint import Ledger, digest
from gradsim.runtime.progress import Progress

IMAGE, PLACE = "image", "place in 3-D"  # the search is given the position
WITHOUT = ("cma", "reinforce", "ppo")  # without gradients
WORLDS = 16  # rolled out together by these
Method = Callable[[Setup, int, Progress], History]


def from_image(setup: Setup, seed: int, progress: Progress) -> History:
    """The search of the task, from its image."""
    return train(setup.plant, setup.policy, setup.goal, setup.config, progress)


def from_position(setup: Setup, seed: int, progress: Progress) -> History:
    """The same search, given the position."""
    return train(setup.plant, setup.policy, setup.state_goal(), setup.config, progress)


def by_adam(rate: float) -> Method:
    """The paper's baseline: given the position, Adam at this rate."""
    return lambda setup, seed, progress: diffphysics(setup, Budget(setup.config.iterations), seed, progress, rate)[1]


def gradient_free(name: str, rollouts: int) -> Method:
    """A baseline of `WITHOUT`, or random policies, with this number of rollouts."""
    return lambda setup, seed, progress: BASELINES[name](setup, Budget(rollouts, WORLDS), seed, progress)[1]


def task_digest(task: Task) -> str:
    """Digest of a task; cached runs of a different task are not reused."""
    return digest(task.model_dump(by_alias=True), str)[:12]


class Runs:
    """Runs that are finished stay in a folder.

    Args:
        out: The folder.
        task: Name of the file.
        settings: Settings that all runs depend on.
        progress: Receives stages and shares.
    """

    def __init__(self, out: Path, task: str, settings: dict, progress: Progress):
        self.out, self.task, self.progress = Path(out), task, progress
        self.done = Ledger(self.out / f"{task}.jsonl", settings)

    def run(self, name: str, method: Method, setup: Setup, goal: int, iterations: int, **names: float) -> History:
        """A search of `iterations` steps: entry k of its history is what k steps led to.

        Args:
            name: Name of the method.
            method: How.
            setup: The task with its goal.
            goal: The seed of it.
            iterations: Steps.
            names: Further entries of the history's names.
        """
        key = f"{name}, goal {goal}"

        def make() -> dict:
            self.progress.stage(f"{self.task}: {key}")
            longer = replace(setup, config=replace(setup.config, iterations=iterations + 1))
            history = method(longer, goal, self.progress)
            if name == IMAGE:
                save_policies(self.out, self.task, goal, history.policies)
            return history.named(method=name, goal=goal, **names).json()

        return History.parse(self.done.once(key, make))

    def number(self, name: str, make: Callable[[], float]) -> float:
        """A number that is found once."""
        self.progress.stage(f"{self.task}: {name}")
        return self.done.once(name, lambda: {"value": make()})["value"]


def save_policies(out: Path, task: str, goal: int, policies: dict[str, State]) -> None:
    """Write what the search from images found, state dictionaries of first, middle, best and last, for `load_policies`."""
    with atomic_path(_policies(out, task, goal)) as draft:
        torch.save(policies, draft)


def load_policies(out: Path, task: str, goal: int) -> dict[str, State]:
    """Policies written by `save_policies`."""
    return torch.load(_policies(out, task, goal), weights_only=True)


def _policies(out: Path, task: str, goal: int) -> Path:
    return Path(out) / f"{task}_{goal}.pt"


def errors(runs: list[History], name: str) -> list[list[float]]:
    """Position errors [m²] of the runs of a method, iteration by iteration."""
    return [run.raw("position_error") for run in runs if run.names["method"] == name]


def mean_at(runs: list[History], name: str, k: int) -> float | None:
    """Mean over goals after k iterations, raw; None where it did not run for so long."""
    curves = errors(runs, name)
    return sum(e[k] for e in curves) / len(curves) if curves and min(map(len, curves)) > k else None


def mean_after(runs: list[History], name: str, steps: float) -> float | None:
    """The same after the last iteration within this number of simulated steps."""
    part = [run for run in runs if run.names["method"] == name]
    last = [sum(total <= steps for total in run.total("steps")) - 1 for run in part]
    if not part or min(last) < 0:
        return None
    return sum(run.raw("position_error")[k] for run, k in zip(part, last, strict=True)) / len(part)


def at_equal_steps(runs: list[History], task: str) -> dict[str, dict]:
    """Figures of searches that see no gradient, after as many simulated steps as those from images took."""
    steps = min(run.total("steps")[-1] for run in runs if run.names["method"] == IMAGE)
    means = {name: mean_after(runs, name, steps) for name in ("random", *WITHOUT)}
    return {f"{task}_{name}_error_at_equal_steps": figure(x) for name, x in means.items() if x is not None}


REPEATS = 7


def iteration_seconds(setup: Setup, repeats: int = REPEATS) -> dict[str, float]:
    """CPU seconds of one rollout of one world forward and backward, medians.

    Returns:
        `physics`: the gradient of where the body ends; `whole`: that of the goal's loss of the image. They take turns,
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
            spent[name].append(_cpu_seconds(work))
    setup.policy.zero_grad()
    return {name: median(times) for name, times in spent.items()}


def _cpu_seconds(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
