"""Receding horizon (model predictive control): plan, act for one interval, look, plan anew from what is there.

    u_k .. u_{k+h-1} = argmin goal.loss(rollout of the model from the measured state),   act u_k,   k ← k + 1

The model that plans and the plant that moves may differ: what the model gets wrong in one interval is in the state that
the next plan begins with. A plan begins as the one before without its first interval (warm start), its last interval
held for one more, so that a few iterations are enough (Rawlings, Mayne and Diehl 2017, §1.5). The paper names MPC for its
controllers; they are open loops that are trained once.
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
    """A controller that plans with a model.

    Its plan has a number for each output and interval, kept in [-1, 1].

    Args:
        plant: The model that it plans with; senses are not needed, it is shown the state.
        goal: What a plan is to reach at its end, be that the end of the film or not.
        horizon: Intervals in a plan; None plans to the end of the film each time.
        search: For each plan; at least 2 iterations, for a plan is rolled out before it is used.
        first: Iterations for the first plan, which has none before it; None as many as for the others.
        start: Open-loop policy that the first plan begins as; None begins with u = 0.
        given: Parameters of the model that differ from its own, (1, ...) by name.

    Raises:
        InputError: If the plant has launches, the goal is in other frames than the last, or there is no interval or too
            few iterations.
    """

    def __init__(
        self,
        plant: Plant,
        goal,
        horizon: int | None = 10,
        config: TrainingConfig | None = None,
        first: int | None = None,
        start: nn.Module | None = None,
        given: Parameters | None = None,
    ):
        launches = [c.name for c in plant.controls if not plant.model.kinds[c.name].timed]
        if launches:
            raise InputError(
                f"`{launches[0]}` is set at the start, so there is nothing to plan anew: leave it out, or `train`."
            )
        if set(getattr(goal, "frames", None) or [-1]) != {-1}:
            raise InputError(
                "the goal is in other frames than the last; a plan ends elsewhere in each interval: give -1."
            )
        if horizon is not None:
            counts("horizon", horizon)
        self.config = config or TrainingConfig("polyak", iterations=5)
        counts("search.iterations of MPC", self.config.iterations, least=2)
        if first is not None:
            counts("first", first, least=2)
        self.plant, self.goal, self.horizon, self.first, self.given = plant, goal, horizon, first, given
        self.numbers = torch.zeros(plant.intervals, plant.outputs, dtype=torch.float64)
        if start is not None:
            plant.check(start)
            with torch.no_grad():
                self.numbers = start(plant.times, None)[0].double().clamp(-1, 1)

    def act(self, states: States, interval: int) -> tuple[Tensor, History]:
        """Plan from what is measured, at the start of an interval of the film.

        Args:
            states: (1, ...) by body and name; of rigid bodies, `l` is that of the model's inertia.
            interval: From 0 on; earlier ones first, for each warms the next.

        Returns:
            u (1, outputs) for this interval, and how the plan was found.
        """
        left = self.plant.intervals - interval
        length = left if self.horizon is None else min(self.horizon, left)
        rows = slice(interval, interval + length)
        ahead = _Ahead(self.plant, states, interval, length)
        seconds = length * self.plant.interval / self.plant.model.scene.timing.fps
        plan = PiecewiseConstant(self.plant.outputs, length, seconds, self.numbers[rows], bounded=True)
        config = replace(self.config, iterations=self.first) if self.first and not interval else self.config
        run = Descent(ahead, plan, self.goal, config, self.given)
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
    controller: Mpc, plant: Plant, goal, given: Parameters | None = None, progress: IterationProgress | None = None
) -> tuple[Episode, History]:
    """Let a controller act on a plant for a film.

    Args:
        controller: It begins with its first plan; make a new one for each run.
        plant: What moves; with the same bodies, controls and intervals as the controller's model, and perhaps another mass.
        goal: Measures what came of it.
        given: Parameters of the plant that differ from its own, (1, ...) by name, and kicks (`impulses.py`): what the
            controller does not know.
        progress: Is told each interval, with the loss of its plan.

    Returns:
        The episode, and the iterations of all plans, each interval a stage of its own; the last entry is the episode.

    Raises:
        InputError: If plant and model have other intervals or outputs, or there are several worlds.
    """
    _check(controller.plant, plant, given)
    given, impulses = split(given, plant.model)
    states, values = plant.begin(given), plant.model.values(given)
    history, pieces, actions = History(), [], []
    for k in range(plant.intervals):
        states = apply_impulses(states, impulses, k)
        u, found = controller.act(_as_seen(states, plant, values, controller), k)
        history.iterations += [replace(entry, stage=f"interval {k}") for entry in found.iterations]
        history.retreats += found.retreats
        frames = min(plant.interval, plant.frames - 1 - k * plant.interval)
        with torch.no_grad():
            pieces.append(plant.advance(states, u, given, frames))
        states = last(pieces[-1])
        actions.append(u)
        if progress is not None:
            progress.update(k, found.at_best()[-1], {})
    episode = Episode(concatenate(pieces, plant.model), torch.stack(actions, 1))
    with torch.no_grad():
        figures = [
            found if found is None else found.item() for found in (goal.distance(episode), goal.position_error(episode))
        ]
        distance, error = (float("nan") if found is None else found for found in figures)
        loss = goal.loss(episode, 0).item()
    entry = Iteration(loss, rollouts=1, steps=plant.steps, distance=distance, position_error=error, frames=plant.frames)
    history.add(replace(entry, stage="episode"))
    return episode, history


class _Ahead:
    """A plant from a state on, for `train`."""

    observation = None

    def __init__(self, plant: Plant, states: States, first: int, intervals: int):
        self.plant, self.states, self.model = plant, states, plant.model
        self.outputs, self.outputs_of = plant.outputs, plant.outputs_of
        self.times = plant.times_of(intervals)
        self.frames = 1 + min(intervals * plant.interval, plant.frames - 1 - first * plant.interval)

    def rollout(self, policy, given: Parameters | None, frames: int, worlds: int = 1) -> Episode:
        u = policy(self.times, None)
        moved = self.model.rollout(self.plant.values(u, frames, given), frames, start=self.states)
        return Episode(moved, u)


def _check(model: Plant, plant: Plant, given: Parameters | None) -> None:
    for name in ("outputs_of", "interval", "frames"):
        ours, theirs = getattr(model, name), getattr(plant, name)
        if ours != theirs:
            raise InputError(
                f"`{name}` of the plant that plans is {ours}, of the one that moves {theirs}; make them alike."
            )
    worlds = max((len(value) for value in (given or {}).values()), default=1)
    if worlds != 1:
        raise InputError(f"the plant is given {worlds} worlds; a controller acts on one: run it for each of them.")


def _as_seen(states: States, plant: Plant, values: Mapping[str, Tensor], controller: Mpc) -> States:
    """States as the model has them: a rigid body spins as it is seen to, with the inertia that the model gives it."""
    own, found = controller.plant.model.values(controller.given), {}
    for there, here in zip(plant.model.systems, controller.plant.model.systems, strict=True):
        state = {name: y.detach() for name, y in states[there.name].items()}
        moved = there.transfer(state, dict(values), here, own)
        found[there.name] = {name: y.detach() for name, y in moved.items()}
    return found
