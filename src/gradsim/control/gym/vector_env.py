"""Worlds that act interval by interval: what they see, and what each action takes from the goal's loss.

    reward = (L(before) - L(after)) / L(start)

L is the loss of the goal, as of its picture, for the state at that instant; no 3-D truth enters. (A `Reward`, and a loss
that is 0 at the start, are not divided.) The rewards of an
episode add up to the share of the first loss that is gone at its end (potential-based shaping, Ng, Harada and Russell
1999): without discount, what earns most is what ends with the least loss.
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
BOUND = 100.0  # of what is seen, which is of order 1: spaces of environments are finite
LOST = -1.0  # reward where a world diverges: as much as the whole of the first loss


class EnvBatch:
    """Several worlds of one plant, outside autograd.

    Args:
        plant: Plant; without senses it gets `StateObservation`.
        goal: Goal at the end of an episode (frame -1), of which the loss of a single instant is asked.
        size: Number of worlds.
        draw: Draws the parameters of a world at each start, as masses or pushes, (1, ...) by name; always the same names.
        iteration: The goal's loss is that of this iteration, where it has a schedule; 0 is the one that sees farthest.

    Raises:
        InputError: If the goal is not one of the end.
    """

    def __init__(self, plant: Plant, goal, size: int = 1, draw: Draw | None = None, iteration: int = 0):
        self.plant, self.goal, self.draw, self.iteration = plant, goal, draw, iteration
        self.observation = plant.observation or StateObservation(plant.model)
        (self.size,) = counts("num_envs", size)
        frames = set(getattr(goal, "frames", None) or [-1])
        if frames != {-1}:
            raise InputError(
                f"the goal is in frames {', '.join(map(str, sorted(frames)))}; environments reward every instant by its "
                "distance from the end: give a goal at -1."
            )
        self.given: dict[str, Tensor] = {}
        self.states: States = {}
        self.interval = torch.zeros(size, dtype=torch.long)  # next of each world
        self.diverged = torch.zeros(size, dtype=torch.bool)  # diverged; the state stays as it was before
        self.loss = self.unit = torch.ones(size, dtype=torch.float64)
        self._drawn: list[dict[str, Tensor]] = [{} for _ in range(size)]

    @property
    def inputs(self) -> int:
        """Numbers that a world sees: those of its senses, and the time."""
        return self.observation.size + 1

    @property
    def terminated(self) -> Tensor:
        """Worlds (size,) that are through, or diverged."""
        return self.diverged | (self.interval >= self.plant.intervals)

    @torch.no_grad()
    def reset(self, generators: Sequence[np.random.Generator], which: Tensor | None = None) -> None:
        """Begin anew.

        Args:
            generators: For `draw`, one for each world.
            which: Which worlds do (size,); None: all.
        """
        which = torch.ones(self.size, dtype=torch.bool) if which is None else which
        if self.draw is not None:
            for world in which.nonzero()[:, 0].tolist():
                self._drawn[world] = self.draw(generators[world])
            self.given = {name: torch.cat([one[name] for one in self._drawn]) for name in self._drawn[0]}
        self.states = _where(which, self.plant.begin(self.given, self.size), self.states)
        self.interval = torch.where(which, 0, self.interval)
        self.diverged = self.diverged & ~which
        self.loss = torch.where(which, self._loss(self.states), self.loss)
        unit = torch.ones_like(self.loss) if isinstance(self.goal, Reward) else self.loss
        self.unit = torch.where(which, torch.where(unit > 0, unit, 1.0), self.unit)

    @torch.no_grad()
    def step(self, u: Tensor) -> Tensor:
        """Rewards (size,) of one control interval; 0 for worlds that have ended, which stay as they are.

        Args:
            u: Actions (size, outputs).
        """
        live = ~self.terminated
        states, lost = self._advanced(u)
        lost &= live
        self.states = _where(live & ~lost, states, self.states)
        loss = torch.where(live & ~lost, self._loss(self.states), self.loss)
        reward = torch.where(lost, LOST, (self.loss - loss) / self.unit)
        self.loss, self.diverged, self.interval = loss, self.diverged | lost, self.interval + live
        return reward

    @torch.no_grad()
    def observe(self) -> Tensor:
        """What each world sees (size, inputs), within ±`BOUND`: the share of time from -1 to 1, then its senses."""
        share = 2 * self.interval.double() / self.plant.intervals - 1
        seen = self.observation(self.states, self.plant.model.values(self.given), self.plant)
        return torch.cat([share[:, None], seen.double()], 1).clamp(-BOUND, BOUND)

    def snapshot(self) -> Trajectory:
        """The present, as a trajectory of one frame."""
        return make_snapshot(self.plant, self.states, self.given)

    def _loss(self, states: States) -> Tensor:
        actions = torch.zeros(self.size, 1, self.plant.outputs, dtype=torch.float64)
        return self.goal.loss(Episode(make_snapshot(self.plant, states, self.given), actions), self.iteration).double()

    def _advanced(self, u: Tensor) -> tuple[States, Tensor]:
        """States after one interval, and which worlds diverge; these stay as they are."""
        try:
            return self._moved(self.states, u, self.given, self.interval), torch.zeros(self.size, dtype=torch.bool)
        except Divergence:  # of one of them: each alone tells which
            alone = [self._alone(u, slice(k, k + 1)) for k in range(self.size)]
        lost = torch.tensor([one is None for one in alone])
        rows = [one or _rows(self.states, slice(k, k + 1)) for k, one in enumerate(alone)]
        return {b: {n: torch.cat([row[b][n] for row in rows]) for n in own} for b, own in rows[0].items()}, lost

    def _alone(self, u: Tensor, world: slice) -> States | None:
        given = {name: x[world] for name, x in self.given.items()}
        try:
            return self._moved(_rows(self.states, world), u[world], given, self.interval[world])
        except Divergence:
            return None

    def _moved(self, states: States, u: Tensor, given: Parameters, interval: Tensor) -> States:
        """States after an interval; launches are set at its start, in the first one."""
        plant, at = self.plant, lambda y, k: y[torch.arange(len(y)), k]
        if plant.launched:
            piece, last = (
                plant.model.rollout(plant.values(u[:, None], plant.frames, given), plant.frames),
                interval * 0 - 1,
            )
        else:
            launches = [c.name for c in plant.controls if not plant.model.kinds[c.name].timed]
            if launches and (interval == 0).any():
                values = plant.values(u[:, None], 1, given)
                states = _where(interval == 0, plant.begin({**given, **{k: values[k] for k in launches}}), states)
            piece = plant.advance(states, u, given)
            last = (plant.frames - 1 - interval * plant.interval).clamp(0, plant.interval)  # the last may be shorter
        return {body: {name: at(y, last) for name, y in own.items()} for body, own in piece.states.items()}


def make_snapshot(plant: Plant, states: States, given: Parameters | None = None) -> Trajectory:
    """States (worlds, ...) at an instant as a trajectory of one frame."""
    values = plant.model.values(given)
    worlds = len(next(y for own in states.values() for y in own.values()))
    values = {name: x.expand(worlds, *x.shape[1:]) for name, x in values.items()}
    frame = {body: {name: y[:, None] for name, y in own.items()} for body, own in states.items()}
    return Trajectory(torch.zeros(1, dtype=torch.float64), frame, values, plant.model.systems, plant.model.scenery)


def _rows(states: States, worlds: slice) -> States:
    return {body: {name: y[worlds] for name, y in own.items()} for body, own in states.items()}


def _where(which: Tensor, new: States, old: States) -> States:
    """States, new for some worlds."""
    if not old:
        return new
    mask = lambda y: which.reshape(-1, *[1] * (y.ndim - 1))
    return {b: {n: torch.where(mask(y), y, old[b][n]) for n, y in own.items()} for b, own in new.items()}


__all__ = ["BOUND", "LOST", "Draw", "EnvBatch", "make_snapshot"]
