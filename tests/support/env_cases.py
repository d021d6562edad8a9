"""A plant small enough to check by hand: a point that two forces push in a plane, and a goal for it."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from gradsim.control.plant import Episode
from gradsim.physics.model import Divergence

DT = 0.1  # of a control interval


class PointObservation:
    size = 4

    def __call__(self, states, values, plant) -> Tensor:
        return torch.cat([states["point"]["x"], states["point"]["v"]], 1)


class PointPlant:
    """x'' = u / mass over 12 intervals, from x = 0 at rest; a mass of 0 diverges."""

    outputs, intervals, interval, frames, steps, launched = 2, 12, 1, 13, 12, False
    outputs_of, controls = {"point.force": 2}, ()
    observation = PointObservation()
    model = SimpleNamespace(
        values=lambda overrides=None: {"point.mass": torch.ones(1, dtype=torch.float64)} | (overrides or {}),
        systems=(),
        scenery=(),
        scene=SimpleNamespace(timing=SimpleNamespace(fps=10, frames=13)),
        substeps=1,
    )
    times = DT * torch.arange(12, dtype=torch.float64)

    def begin(self, overrides=None, worlds=1):
        zero = torch.zeros(worlds, 2, dtype=torch.float64)
        return {"point": {"x": zero, "v": zero}}

    def observe(self, states, overrides=None):
        return self.observation(states, overrides, self)

    def check(self, policy):
        pass

    def advance(self, states, u, overrides=None, frames=None):
        mass = (overrides or {}).get("point.mass", torch.ones(1, dtype=torch.float64))[:, None]
        v = states["point"]["v"] + DT * u / mass
        x = states["point"]["x"] + DT * v
        if not torch.isfinite(x).all():
            raise Divergence("`point` diverges.")
        after = {"x": x, "v": v}
        both = {name: torch.stack([y.expand(len(x), -1), after[name]], 1) for name, y in states["point"].items()}
        return SimpleNamespace(states={"point": both})

    def rollout(self, policy, overrides=None, frames=None, worlds=1):
        states, xs, us = self.begin(overrides, worlds), [], []
        plan = None if policy.feedback else policy(self.times, None)
        for k in range(self.intervals):
            seen = self.observation(states, None, self)
            u = plan[:, k] if plan is not None else policy(self.times[k : k + 1], seen)[:, 0]
            us.append(u)
            xs.append(states["point"]["x"])
            piece = self.advance(states, us[-1], overrides)
            states = {"point": {name: y[:, -1] for name, y in piece.states["point"].items()}}
        x = torch.stack([*xs, states["point"]["x"]], 1)
        trajectory: Any = SimpleNamespace(states={"point": {"x": x}})
        return Episode(trajectory, torch.stack(us, 1))


class PointGoal:
    """Squared distance from a place at the end [m²]."""

    place = torch.tensor([0.4, -0.3], dtype=torch.float64)

    def loss(self, episode, iteration=0) -> Tensor:
        return (episode.trajectory.states["point"]["x"][:, -1] - self.place).square().sum(-1)

    def distance(self, episode) -> Tensor:
        return self.loss(episode).sqrt()

    def position_error(self, episode) -> Tensor:
        return self.loss(episode) / 3


def point() -> Any:
    """A `PointPlant` in the place of a `Plant`."""
    return PointPlant()
