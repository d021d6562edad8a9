"""A plant without physics of bodies: a mass on a line that is pushed, in PyTorch alone.

x' = v,   v' = force u - drag v,   semi-implicit, one step a frame
"""

from types import SimpleNamespace

import torch
from torch import Tensor


class Line:
    """Has the methods of a `Plant`; its observation is x and v."""

    def __init__(self, frames: int = 9, force: float = 3.0, interval: int = 2, observation: bool = False):
        self.force, self.interval, self.frames = force, interval, frames
        self.model = SimpleNamespace(substeps=4)
        self.outputs, self.outputs_of = 2, {"left.force": 1, "right.force": 1}
        self.launched, self.intervals = False, -(-(frames - 1) // interval)
        self.times = 0.1 * interval * torch.arange(self.intervals).double()
        self.observation = SimpleNamespace(size=2) if observation else None
        self.calls = []  # worlds of each rollout

    def rollout(self, policy, overrides=None, frames=None, worlds=1):
        mass = (overrides or {}).get("mass", torch.ones(worlds).double())
        x, v = torch.zeros(len(mass)).double(), torch.full((len(mass),), 0.3).double()
        self.calls.append(len(mass))
        path, actions = [x], []
        frames = frames or self.frames
        whole = torch.empty(0) if policy.feedback else policy(self.times, None).expand(len(mass), -1, -1)
        for k in range(frames - 1):
            if k % self.interval == 0:
                now = self.times[k // self.interval]
                seen = torch.stack([x, v], 1)
                u = policy(now[None], seen)[:, 0] if policy.feedback else whole[:, k // self.interval]
                actions.append(u)
            v = v + 0.1 * (self.force * (u[:, 0] - 0.5 * u[:, 1]) / mass - 0.2 * v)
            x = x + 0.1 * v
            path.append(x)
        trajectory = SimpleNamespace(times=0.1 * torch.arange(frames).double())
        return SimpleNamespace(trajectory=trajectory, actions=torch.stack(actions, 1), x=torch.stack(path, 1))


class Reach:
    """At the end, to be at a place."""

    def __init__(self, place: float = 0.9):
        self.place = place

    def loss(self, episode, iteration: int) -> Tensor:
        return (episode.x[:, -1] - self.place).square()

    def distance(self, episode) -> Tensor:
        return (episode.x[:, -1] - self.place).abs()

    def position_error(self, episode) -> Tensor:
        return (episode.x[:, -1] - self.place).square() / 3
