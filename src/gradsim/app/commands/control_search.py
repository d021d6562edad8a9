"""The methods of `gradsim control`: how each searches, and how what it found acts."""

import time
from dataclasses import replace

import torch
from torch import nn

from gradsim.app.job import ControlJob
from gradsim.control.mpc import Mpc, run_mpc
from gradsim.control.observations import StateSenses
from gradsim.control.plant import Episode, Plant
from gradsim.control.policies import Free
from gradsim.control.task.setup import Setup
from gradsim.control.training.history import History
from gradsim.control.training.settings import TrainingConfig
from gradsim.control.training.train import train
from gradsim.errors import InputError
from gradsim.runtime.checkpoint import CheckpointFile
from gradsim.runtime.optional import require_extra
from gradsim.runtime.progress import Progress

EXTRAS = {"cma": ("cma",), "ppo": ("gymnasium", "stable_baselines3")}  # libraries that methods need
PLANS = 5  # iterations of each plan of mpc
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
        self.progress.update(iteration, loss, {**values, "CPU [s]": (seconds, float("nan"))})
        self.progress.share(iteration + 1, self.total)


def ready(job: ControlJob) -> Setup:
    """The task made ready for the method.

    Raises:
        InputError: If anything in it is wrong.
    """
    setup = Setup.of(job.load(), job.seed, job.quick, None if job.goal is None else str(job.goal))
    if job.iterations is not None:
        setup = replace(setup, search=replace(setup.search, iterations=job.iterations))
    plant = setup.plant
    if job.method == "mpc" and plant.launched:
        raise InputError(
            f"{setup.task.name} only sets {', '.join(plant.outputs_of)}, at the start, so there is nothing to plan anew: "
            "leave --method mpc out."
        )
    if job.method == "diffphysics":
        setup.state_goal()  # refuses a goal that is a picture alone
    for module in EXTRAS.get(job.method, ()):
        require_extra(module, f"--method {job.method}", "control")
    if job.method == "ppo" and plant.senses is None:  # it always looks
        looking = Plant(plant.model, plant.controls, plant.interval, StateSenses(plant.model), plant.share)
        setup = replace(setup, plant=looking)
    return setup


def search(job: ControlJob, setup: Setup, keeper: CheckpointFile, progress: Progress) -> tuple[nn.Module, History]:
    """Look for a policy.

    Args:
        job: Method, seed and iterations. One iteration of a baseline that needs several rollouts takes `WORLDS` of them.
        setup: See `ready`.
        keeper: Where a search by gradients goes on; the other methods begin anew.
        progress: Is told every iteration.

    Returns:
        A policy, and the history: the policy takes the states that are in it.
    """
    count = setup.search.iterations
    told = Told(progress, count)
    if job.method == "gradient":
        return setup.policy, train(setup.plant, setup.policy, setup.goal, setup.search, told, keeper)
    if job.method == "mpc":
        return _planned(job, setup, Told(progress, setup.plant.intervals))
    from gradsim.control.baselines import BASELINES, Budget

    alone = job.method in ("diffphysics", "random")  # one rollout is one iteration
    budget = Budget(count if alone else count * WORLDS, WORLDS)
    policy, history = BASELINES[job.method](setup, budget, job.seed, told)
    if job.method == "ppo" and isinstance(policy, Free):  # what an actor does in a launch, once
        history.policies = {"best": policy.state_dict()}
    return policy, history


def played(setup: Setup, policy: nn.Module) -> Episode:
    """The motion under a policy."""
    with torch.no_grad():
        return setup.plant.rollout(policy)  # pyright: ignore[reportArgumentType]


def _planned(job: ControlJob, setup: Setup, told: Told) -> tuple[Free, History]:
    """Plan anew in each interval; what was done is an open loop, and the last entry of the history."""
    plant, each = setup.plant, job.iterations or (PLANS // 2 if job.quick else PLANS)
    controller = Mpc(plant, setup.goal, search=TrainingConfig("polyak", iterations=max(2, each)))
    episode, history = run_mpc(controller, plant, setup.goal, progress=told)
    seconds = plant.intervals * plant.interval / plant.model.scene.timing.fps
    done = Free(plant.outputs, plant.intervals, seconds, episode.actions[0])
    history.policies = {"best": done.state_dict()}
    return done, history
