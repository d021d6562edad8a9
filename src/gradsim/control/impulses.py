"""Kicks: velocities that bodies get between two control intervals, as of a short push.

    v ← v + Δv   at the start of an interval, for all points of a body alike

A plant takes them among its parameters, as `BODY.kicks` (worlds, intervals, 3) [m/s], 0 where there is none. Nothing
else is told of them: a policy with feedback sees what came of them, an open loop goes on as it would have.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.physics.model import Model, States

NAME = ".kicks"

Given = Mapping[str, Tensor]


@dataclass(frozen=True)
class Kicks:
    """Random kicks of a body.

    Their number, instants and directions are drawn evenly; all have the same size.

    Args:
        body: Its name.
        size: |Δv| [m/s].
        intervals: Control intervals of an episode, `plant.intervals`.
        least, most: Of them in an episode.
        span: The part of the episode in which they come, as shares of it.
        axes: Those that they act along: (0,) to the left or right, (0, 2) any way in the plane y = 0.

    Raises:
        InputError: If a number is out of its range.
    """

    body: str
    size: float
    intervals: int
    least: int = 2
    most: int = 3
    span: tuple[float, float] = (0.1, 0.7)
    axes: tuple[int, ...] = (0,)

    def __post_init__(self):
        if not 0 <= self.size < math.inf:
            raise InputError(f"the size of kicks of `{self.body}` is {self.size} m/s; expected a number of at least 0.")
        if not 0 <= self.least <= self.most:
            raise InputError(f"kicks: got from {self.least} to {self.most} of them; expected 0 ≤ least ≤ most.")
        if not 0 <= self.span[0] <= self.span[1] <= 1:
            raise InputError(
                f"the span of kicks is {self.span}; expected two shares of the episode in [0, 1], in order."
            )
        if not self.axes or not set(self.axes) <= {0, 1, 2}:
            raise InputError(f"kicks act along the axes {self.axes}; expected some of 0, 1, 2.")

    def draw(self, worlds: int, generator: torch.Generator) -> Tensor:
        """(worlds, intervals, 3) [m/s]."""
        kicks = torch.zeros(worlds, self.intervals, 3, dtype=torch.float64)
        low, high = self.span
        for own in kicks:
            count = int(torch.randint(self.least, self.most + 1, (), generator=generator))
            shares = low + (high - low) * torch.rand(count, generator=generator, dtype=torch.float64)
            ways = torch.randn(count, len(self.axes), generator=generator, dtype=torch.float64)  # no way is preferred
            ways = self.size * ways / torch.linalg.vector_norm(ways, dim=1, keepdim=True)
            for at, way in zip((shares * self.intervals).long().clamp(max=self.intervals - 1), ways, strict=True):
                own[at, list(self.axes)] += way
        return kicks


def split(given: Given | None, model: Model) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Parameters of the model, and kicks (worlds, intervals, 3) by body.

    Raises:
        InputError: If a body that is kicked is none that can be, or kicks are of another shape.
    """
    given = dict(given or {})
    kicks = {name.removesuffix(NAME): given.pop(name) for name in list(given) if name.endswith(NAME)}
    movable = [system.name for system in model.systems if "v" in system.states]
    for body, each in kicks.items():
        if body not in movable:
            raise InputError(
                f"`{body}` cannot be kicked; a kick is a velocity of one of {', '.join(movable) or 'none'}."
            )
        if each.ndim != 3 or each.shape[2] != 3:
            raise InputError(f"`{body}{NAME}` has shape {tuple(each.shape)}; expected (worlds, intervals, 3) [m/s].")
    return given, kicks


def kicked(states: States, kicks: Mapping[str, Tensor], interval: int) -> dict[str, dict[str, Tensor]]:
    """States at the start of an interval, after its kicks."""
    found = {body: dict(own) for body, own in states.items()}
    for body, each in kicks.items():
        if interval < each.shape[1] and each[:, interval].any():
            v = found[body]["v"]
            blow = each[:, interval].to(v)
            found[body]["v"] = v + (blow[:, None] if v.ndim == 3 else blow)
    return found


def instants(kicks: Mapping[str, Tensor]) -> list[int]:
    """Intervals that begin with a kick in some world, in order."""
    return sorted({k for each in kicks.values() for k in each.any(2).any(0).nonzero()[:, 0].tolist()})
