"""Worlds that act interval by interval: observations, and rewards for lowering the loss of the goal.

    reward = (L(before) - L(after)) / L(start)

L is the loss of the goal, such as that of its image, for the state at that instant; the 3-D truth is not used. (A
`Reward`, and a loss that is 0 at the start, are not divided.) The rewards of an episode add up to the relative decrease
of the loss over the episode (potential-based shaping, Ng, Harada and Russell 1999): without discount, the largest
return is the smallest final loss.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from gradsim.control.goals.base import Reward
from gradsim.control.observations import StateObservation
from gradsim.control.plant import Episode, Parameters, Plant
from gradsim.errors import InputError
from gradsim.geometry.validation import counts
from gradsim.physics.model import Divergence, States
from gradsim.physics.trajectory import Trajectory

Draw = Callable[[np.random.Generator], dict[str, Tensor]]  # parameters of one world, (1, ...) each
BOUND = 100.0  # of observations, which are of order 1: spaces of environments are finite
DIVERGED_REWARD = -1.0  # reward of a world that diverges: minus the whole first loss


class EnvBatch:
    """Several worlds of one plant, outside autograd.

    Args:
        plant: Plant; without an observation, `StateObservation` is used.
        goal: Goal at the end of an episode (frame -1); its loss is evaluated for single instants.
        size: Number of worlds.
        draw: Samples the parameters of a world at each start, such as masses or pushes, (1, ...) by name; always the
            same names.
        iteration: Iteration of the loss schedule, if the goal has one; 0 has the widest basin of attraction.

    Raises:
        InputError: If the goal is not in the last frame.
    """

    def __init__(self, plant: Plant, goal, size: int = 1, draw: Draw | None = None, iteration: int = 0):
        self.plant, self.goal, self.draw, self.iteration = plant, goal, draw, iteration
        self.observation = plant.observation or StateObservation(plant.model)
        (self.size,) = counts("num_envs", size)
        frames = set(getattr(goal, "frames", None) or [-1])
        if frames != {-1}:
            raise InputError(
                f"the goal is in frames {', '.join(map(str, sorted(frames)))}; environments evaluate it in every interval: "
                "give a goal at -1."
            )
        self.overrides: dict[str, Tensor] = {}
        self.states: States = {}
        self.interval = torch.zeros(size, dtype=torch.long)  # next interval of each world
        self.diverged = torch.zeros(size, dtype=torch.bool)  # diverged; the state stays as it was before
        self.loss = self.unit = torch.ones(size, dtype=torch.float64)
        self._drawn: list[dict[str, Tensor]] = [{} for _ in range(size)]

    @property
    def inputs(self) -> int:
        """Size of an observation: that of the plant, and the time."""
        return self.observation.size + 1

    @property
    def terminated(self) -> Tensor:
        """Worlds (size,) that have ended or diverged."""
        return self.diverged | (self.interval >= self.plant.intervals)

    @torch.no_grad()
    def reset(self, generators: Sequence[np.random.Generator], mask: Tensor | None = None) -> None:
        """Reset worlds.

        Args:
            generators: Generators for `draw`, one for each world.
            mask: Mask of the worlds to reset (size,); None: all.
        """
        mask = torch.ones(self.size, dtype=torch.bool) if mask is None else mask
        if self.draw is not None:
            for world in mask.nonzero()[:, 0].tolist():
                self._drawn[world] = self.draw(generators[world])
            self.overrides = {name: torch.cat([one[name] for one in self._drawn]) for name in self._drawn[0]}
        self.states = _where(mask, self.plant.begin(self.overrides, self.size), self.states)
        self.interval = torch.where(mask, 0, self.interval)
        self.diverged = self.diverged & ~mask
        self.loss = torch.where(mask, self._loss(self.states), self.loss)
        unit = torch.ones_like(self.loss) if isinstance(self.goal, Reward) else self.loss
        self.unit = torch.where(mask, torch.where(unit > 0, unit, 1.0), self.unit)

    @torch.no_grad()
    def step(self, u: Tensor) -> Tensor:
        """Rewards (size,) of one control interval; 0 for worlds that have ended, whose states do not change.

        Args:
            u: Actions (size, outputs).
        """
        live = ~self.terminated
        states, lost = self._advanced(u)
        lost &= live
        self.states = _where(live & ~lost, states, self.states)
        loss = torch.where(live & ~lost, self._loss(self.states), self.loss)
        reward = torch.where(lost, DIVERGED_REWARD, (self.loss - loss) / self.unit)
        self.loss, self.diverged, self.interval = loss, self.diverged | lost, self.interval + live
        return reward

    @torch.no_grad()
    def observe(self) -> Tensor:
        """Observations (size, inputs), within ±`BOUND`: the time scaled to [-1, 1], then that of the plant."""
        share = 2 * self.interval.double() / self.plant.intervals - 1
        observation = self.observation(self.states, self.plant.model.values(self.overrides), self.plant)
        return torch.cat([share[:, None], observation.double()], 1).clamp(-BOUND, BOUND)

    def snapshot(self) -> Trajectory:
        """Current states, as a trajectory of one frame."""
        return make_snapshot(self.plant, self.states, self.overrides)

    def _loss(self, states: States) -> Tensor:
        actions = torch.zeros(self.size, 1, self.plant.outputs, dtype=torch.float64)
        return self.goal.loss(
            Episode(make_snapshot(self.plant, states, self.overrides), actions), self.iteration
        ).double()

    def _advanced(self, u: Tensor) -> tuple[States, Tensor]:
        """States after one interval, and the mask of worlds that diverge, whose states do not change."""
        try:
            return self._simulate(self.states, u, self.overrides, self.interval), torch.zeros(
                self.size, dtype=torch.bool
            )
        except Divergence:  # of at least one world: simulate each alone
            alone = [self._alone(u, slice(k, k + 1)) for k in range(self.size)]
        lost = torch.tensor([one is None for one in alone])
        rows = [one or _rows(self.states, slice(k, k + 1)) for k, one in enumerate(alone)]
        return {b: {n: torch.cat([row[b][n] for row in rows]) for n in state} for b, state in rows[0].items()}, lost

    def _alone(self, u: Tensor, world: slice) -> States | None:
        parameters = {name: x[world] for name, x in self.overrides.items()}
        try:
            return self._simulate(_rows(self.states, world), u[world], parameters, self.interval[world])
        except Divergence:
            return None

    def _simulate(self, states: States, u: Tensor, overrides: Parameters, interval: Tensor) -> States:
        """States after an interval; controls of the start are set in the first one."""
        plant, at = self.plant, lambda y, k: y[torch.arange(len(y)), k]
        if plant.launched:
            piece, last = (
                plant.model.rollout(plant.values(u[:, None], plant.frames, overrides), plant.frames),
                interval * 0 - 1,
            )
        else:
            launches = [c.name for c in plant.controls if not plant.model.kinds[c.name].timed]
            if launches and (interval == 0).any():
                values = plant.values(u[:, None], 1, overrides)
                states = _where(interval == 0, plant.begin({**overrides, **{k: values[k] for k in launches}}), states)
            piece = plant.advance(states, u, overrides)
            last = (plant.frames - 1 - interval * plant.interval).clamp(0, plant.interval)  # the last may be shorter
        return {body: {name: at(y, last) for name, y in state.items()} for body, state in piece.states.items()}


def make_snapshot(plant: Plant, states: States, overrides: Parameters | None = None) -> Trajectory:
    """States (worlds, ...) at an instant as a trajectory of one frame."""
    values = plant.model.values(overrides)
    worlds = len(next(y for state in states.values() for y in state.values()))
    values = {name: x.expand(worlds, *x.shape[1:]) for name, x in values.items()}
    frame = {body: {name: y[:, None] for name, y in state.items()} for body, state in states.items()}
    return Trajectory(torch.zeros(1, dtype=torch.float64), frame, values, plant.model.systems, plant.model.scenery)


def _rows(states: States, worlds: slice) -> States:
    return {body: {name: y[worlds] for name, y in state.items()} for body, state in states.items()}


def _where(which: Tensor, new: States, old: States) -> States:
    """New states for the worlds of a mask, old ones for the others."""
    if not old:
        return new
    mask = lambda y: which.reshape(-1, *[1] * (y.ndim - 1))
    return {b: {n: torch.where(mask(y), y, old[b][n]) for n, y in state.items()} for b, state in new.items()}


__all__ = ["BOUND", "DIVERGED_REWARD", "Draw", "EnvBatch", "make_snapshot"]
