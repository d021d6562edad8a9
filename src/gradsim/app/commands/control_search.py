"""Search methods of `gradsim control`."""

import time
from dataclasses import replace

import torch
from torch import nn

from gradsim.app.job import ControlArguments
from gradsim.control.mpc import Mpc, run_mpc
from gradsim.control.observations import StateObservation
from gradsim.control.plant import Episode, Plant
from gradsim.control.policies import PiecewiseConstant
from gradsim.control.task.setup import Setup
from gradsim.control.training.history import History
from gradsim.control.training.settings import TrainingConfig
from gradsim.control.training.train import train
from gradsim.errors import InputError
from gradsim.runtime.checkpoint import CheckpointFile
from gradsim.runtime.optional import require_extra
from gradsim.runtime.progress import Progress

EXTRAS = {"cma": ("cma",), "ppo": ("gymnasium", "stable_baselines3")}  # libraries that methods need
PLAN_ITERATIONS = 5  # per plan of mpc
WORLDS = 16  # rollouts per iteration of a population method


class IterationProgress:
    """Passes iterations on with their CPU time and their number.

    Args:
        progress: Receives the iterations.
        total: Number of iterations.
    """

    def __init__(self, progress: Progress, total: int):
        self.progress, self.total, self._begun = progress, total, time.process_time()

    def update(self, iteration: int, loss: float, values: dict[str, tuple[float, float]]) -> None:
        """See `Progress`."""
        now = time.process_time()
        seconds, self._begun = now - self._begun, now
        self.progress.update(iteration, loss, {**values, "CPU [s]": (seconds, float("nan"))})
        self.progress.fraction(iteration + 1, self.total)


def set_up(arguments: ControlArguments) -> Setup:
    """Set up the task for the method.

    Raises:
        InputError: If anything in it is wrong.
    """
    goal = None if arguments.goal is None else str(arguments.goal)
    setup = Setup.of(arguments.load_task(), arguments.seed, arguments.quick, goal)
    if arguments.iterations is not None:
        setup = replace(setup, config=replace(setup.config, iterations=arguments.iterations))
    plant = setup.plant
    if arguments.method == "mpc" and plant.launched:
        raise InputError(
            f"--method mpc plans over time, but the controls of {setup.task.name} ({', '.join(plant.outputs_of)}) act at "
            "the start only; choose another method."
        )
    if arguments.method == "diffphysics":
        setup.state_goal()  # refuses a goal that is only an image
    for module in EXTRAS.get(arguments.method, ()):
        require_extra(module, f"--method {arguments.method}", "control")
    if arguments.method == "ppo" and plant.observation is None:  # it needs observations
        observed = Plant(plant.model, plant.controls, plant.interval, StateObservation(plant.model), plant.sharing)
        setup = replace(setup, plant=observed)
    return setup


def search(
    arguments: ControlArguments, setup: Setup, checkpoint: CheckpointFile, progress: Progress
) -> tuple[nn.Module, History]:
    """Search for a policy.

    Args:
        arguments: Method, seed and iterations. One iteration of a population method takes `WORLDS` rollouts.
        setup: See `set_up`.
        checkpoint: Where a gradient search is resumed; the other methods start again.
        progress: Receives every iteration.

    Returns:
        A policy, and the history, whose states the policy takes.
    """
    count, method = setup.config.iterations, arguments.method
    if method == "gradient":
        reporter = IterationProgress(progress, count)
        return setup.policy, train(setup.plant, setup.policy, setup.goal, setup.config, reporter, checkpoint)
    if method == "mpc":
        return _plan(arguments, setup, IterationProgress(progress, setup.plant.intervals))
    from gradsim.control.baselines import BASELINES, Budget

    is_single = method in ("diffphysics", "random")  # one rollout per iteration
    budget = Budget(count if is_single else count * WORLDS, WORLDS)
    policy, history = BASELINES[method](setup, budget, arguments.seed, IterationProgress(progress, count))
    if method == "ppo" and isinstance(policy, PiecewiseConstant):  # the actions of the actor, as an open loop
        history.policies = {"best": policy.state_dict()}
    return policy, history


def run_policy(setup: Setup, policy: nn.Module) -> Episode:
    """Roll out a policy without gradients."""
    with torch.no_grad():
        return setup.plant.rollout(policy)  # pyright: ignore[reportArgumentType]


def _plan(arguments: ControlArguments, setup: Setup, progress: IterationProgress) -> tuple[PiecewiseConstant, History]:
    """Model predictive control; the applied actions are an open loop, and the last entry of the history."""
    plant = setup.plant
    iterations = arguments.iterations or (PLAN_ITERATIONS // 2 if arguments.quick else PLAN_ITERATIONS)
    controller = Mpc(plant, setup.goal, config=TrainingConfig("polyak", iterations=max(2, iterations)))
    episode, history = run_mpc(controller, plant, setup.goal, progress=progress)
    seconds = plant.intervals * plant.interval / plant.model.scene.timing.fps
    open_loop = PiecewiseConstant(plant.outputs, plant.intervals, seconds, episode.actions[0])
    history.policies = {"best": open_loop.state_dict()}
    return open_loop, history
