"""Model predictive control (receding horizon): plan, apply the first interval, measure the state, plan again.

    u_k .. u_{k+h-1} = argmin goal.loss(rollout of the model from the measured state),   act u_k,   k ← k + 1

The model used for planning and the simulated plant may differ: the error of the model in one interval is part of the
measured state from which the next plan starts. A plan is initialized with the previous one without its first interval
(warm start) and with its last interval repeated, so that a few iterations are enough (Rawlings, Mayne and Diehl 2017,
§1.5). The paper calls its controllers MPC; they are open loops that are trained once.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from gradsim.control.impulses import apply_impulses, split
from gradsim.control.plant import Episode, Parameters, Plant, concatenate, last
from gradsim.control.policies import PiecewiseConstant
from gradsim.control.training.descent import Descent
from gradsim.control.training.history import History, Iteration
from gradsim.control.training.settings import TrainingConfig
from gradsim.control.training.train import IterationProgress
from gradsim.errors import InputError
from gradsim.geometry.validation import counts
from gradsim.physics.model import States


class Mpc:
    """Controller that plans with a model.

    A plan has one number in [-1, 1] for each output and interval.

    Args:
        plant: Model for planning; it needs no observation, since the controller receives the state.
        goal: Goal at the end of each plan, also of plans that end before the episode.
        horizon: Intervals in a plan; None: plan to the end of the episode.
        config: Training configuration of each plan; at least 2 iterations, since a plan is evaluated before it is used.
        first: Iterations of the first plan, which has no warm start; None: as many as the others.
        start: Open-loop policy that initializes the first plan; None: u = 0.
        overrides: Parameters that replace those of the model, (1, ...) by name.

    Raises:
        InputError: If a control is set at the start only, the goal is not in the last frame, or the horizon or the
            number of iterations is too small.
    """

    def __init__(
        self,
        plant: Plant,
        goal,
        horizon: int | None = 10,
        config: TrainingConfig | None = None,
        first: int | None = None,
        start: nn.Module | None = None,
        overrides: Parameters | None = None,
    ):
        launches = [c.name for c in plant.controls if not plant.model.kinds[c.name].timed]
        if launches:
            raise InputError(
                f"`{launches[0]}` is set at the start only, so MPC cannot replan it; remove it from the controls, or use "
                "`train`."
            )
        if set(getattr(goal, "frames", None) or [-1]) != {-1}:
            raise InputError(
                "the goal is not in the last frame; each plan ends in a different frame, so give frame -1."
            )
        if horizon is not None:
            counts("horizon", horizon)
        self.config = config or TrainingConfig("polyak", iterations=5)
        counts("search.iterations of MPC", self.config.iterations, least=2)
        if first is not None:
            counts("first", first, least=2)
        self.plant, self.goal, self.horizon, self.first, self.overrides = plant, goal, horizon, first, overrides
        self.numbers = torch.zeros(plant.intervals, plant.outputs, dtype=torch.float64)
        if start is not None:
            plant.check(start)
            with torch.no_grad():
                self.numbers = start(plant.times, None)[0].double().clamp(-1, 1)

    def act(self, states: States, interval: int) -> tuple[Tensor, History]:
        """Plan from the measured state at the start of an interval of the episode.

        Args:
            states: (1, ...) by body and name; of rigid bodies, `l` is that of the model's inertia.
            interval: Index from 0, in ascending order, since each plan initializes the next.

        Returns:
            u (1, outputs) for this interval, and the training history of the plan.
        """
        left = self.plant.intervals - interval
        length = left if self.horizon is None else min(self.horizon, left)
        rows = slice(interval, interval + length)
        ahead = _Ahead(self.plant, states, interval, length)
        seconds = length * self.plant.interval / self.plant.model.scene.timing.fps
        plan = PiecewiseConstant(self.plant.outputs, length, seconds, self.numbers[rows], bounded=True)
        config = replace(self.config, iterations=self.first) if self.first and not interval else self.config
        run = Descent(ahead, plan, self.goal, config, self.overrides)
        while not run.finished:
            run.iterate()
        history = run.history
        plan.load_state_dict(history.policies["best"])
        with torch.no_grad():
            self.numbers = self.numbers.clone()
            self.numbers[rows] = plan.table
            self.numbers[rows.stop : rows.stop + 1] = plan.table[-1]
            return plan(ahead.times[:1])[:, 0], history


def run_mpc(
    controller: Mpc, plant: Plant, goal, overrides: Parameters | None = None, progress: IterationProgress | None = None
) -> tuple[Episode, History]:
    """Simulate an episode of a plant under a controller.

    Args:
        controller: Controller without a plan; make a new one for each run.
        plant: Simulated plant; same bodies, controls and intervals as the controller's model, other parameters may
            differ.
        goal: Goal that the episode is evaluated with.
        overrides: Parameters that replace those of the plant, (1, ...) by name, and impulses (`impulses.py`); unknown to
            the controller.
        progress: Called after each interval with the loss of its plan.

    Returns:
        The episode, and the iterations of all plans with one stage for each interval; the last entry is the episode.

    Raises:
        InputError: If intervals or outputs of plant and model differ, or there are several worlds.
    """
    _check(controller.plant, plant, overrides)
    parameters, impulses = split(overrides, plant.model)
    states, values = plant.begin(parameters), plant.model.values(parameters)
    history, pieces, actions = History(), [], []
    for k in range(plant.intervals):
        states = apply_impulses(states, impulses, k)
        u, plan_history = controller.act(_as_seen(states, plant, values, controller), k)
        history.iterations += [replace(entry, stage=f"interval {k}") for entry in plan_history.iterations]
        history.retreats += plan_history.retreats
        frames = min(plant.interval, plant.frames - 1 - k * plant.interval)
        with torch.no_grad():
            pieces.append(plant.advance(states, u, parameters, frames))
        states = last(pieces[-1])
        actions.append(u)
        if progress is not None:
            progress.update(k, plan_history.at_best()[-1], {})
    episode = Episode(concatenate(pieces, plant.model), torch.stack(actions, 1))
    with torch.no_grad():
        figures = [
            value if value is None else value.item() for value in (goal.distance(episode), goal.position_error(episode))
        ]
        distance, error = (float("nan") if value is None else value for value in figures)
        loss = goal.loss(episode, 0).item()
    entry = Iteration(loss, rollouts=1, steps=plant.steps, distance=distance, position_error=error, frames=plant.frames)
    history.add(replace(entry, stage="episode"))
    return episode, history


class _Ahead:
    """Rest of an episode of a plant, from a state on, for `Descent`."""

    observation = None

    def __init__(self, plant: Plant, states: States, first: int, intervals: int):
        self.plant, self.states, self.model = plant, states, plant.model
        self.outputs, self.outputs_of = plant.outputs, plant.outputs_of
        self.times = plant.times_of(intervals)
        self.frames = 1 + min(intervals * plant.interval, plant.frames - 1 - first * plant.interval)

    def rollout(self, policy, overrides: Parameters | None, frames: int, worlds: int = 1) -> Episode:
        u = policy(self.times, None)
        trajectory = self.model.rollout(self.plant.values(u, frames, overrides), frames, start=self.states)
        return Episode(trajectory, u)


def _check(model: Plant, plant: Plant, overrides: Parameters | None) -> None:
    for name in ("outputs_of", "interval", "frames"):
        ours, theirs = getattr(model, name), getattr(plant, name)
        if ours != theirs:
            raise InputError(f"`{name}` of the model is {ours} and of the plant {theirs}; make them equal.")
    worlds = max((len(value) for value in (overrides or {}).values()), default=1)
    if worlds != 1:
        raise InputError(f"the plant has {worlds} worlds; a controller acts on one: run it for each of them.")


def _as_seen(states: States, plant: Plant, values: Mapping[str, Tensor], controller: Mpc) -> States:
    """States of the plant for the model: rigid bodies keep their angular velocity, with the inertia of the model."""
    model_values, measured = controller.plant.model.values(controller.overrides), {}
    for system, model_system in zip(plant.model.systems, controller.plant.model.systems, strict=True):
        state = {name: y.detach() for name, y in states[system.name].items()}
        converted = system.transfer(state, dict(values), model_system, model_values)
        measured[system.name] = {name: y.detach() for name, y in converted.items()}
    return measured
