"""Impulses on bodies between control intervals, as changes of velocity.

    v ← v + Δv   at the start of an interval, for all points of a body alike

A plant takes them among its parameters, as `BODY.impulses` (worlds, intervals, 3) [m/s], 0 for none. Policies do not
receive them; a policy with feedback observes their effect.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.physics.model import Model, States

NAME = ".impulses"

Parameters = Mapping[str, Tensor]


@dataclass(frozen=True)
class RandomImpulses:
    """Random impulses on a body, of one size; number, instants and directions are uniform.

    Args:
        body: Name of the body.
        size: |Δv| [m/s].
        intervals: Control intervals of an episode, `plant.intervals`.
        least, most: Smallest and largest number in an episode.
        span: Part of the episode in which they act, as two fractions of it.
        axes: Axes along which they act: (0,) left or right, (0, 2) any direction in the plane y = 0.

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
            raise InputError(
                f"the size of impulses on `{self.body}` is {self.size} m/s; expected a number of at least 0."
            )
        if not 0 <= self.least <= self.most:
            raise InputError(f"impulses: got from {self.least} to {self.most} of them; expected 0 ≤ least ≤ most.")
        if not 0 <= self.span[0] <= self.span[1] <= 1:
            raise InputError(
                f"the span of impulses is {self.span}; expected two fractions of the episode in [0, 1], in order."
            )
        if not self.axes or not set(self.axes) <= {0, 1, 2}:
            raise InputError(f"impulses act along the axes {self.axes}; expected some of 0, 1, 2.")

    def draw(self, worlds: int, generator: torch.Generator) -> Tensor:
        """(worlds, intervals, 3) [m/s]."""
        impulses = torch.zeros(worlds, self.intervals, 3, dtype=torch.float64)
        low, high = self.span
        for episode in impulses:
            count = int(torch.randint(self.least, self.most + 1, (), generator=generator))
            shares = low + (high - low) * torch.rand(count, generator=generator, dtype=torch.float64)
            ways = torch.randn(count, len(self.axes), generator=generator, dtype=torch.float64)  # no way is preferred
            ways = self.size * ways / torch.linalg.vector_norm(ways, dim=1, keepdim=True)
            for at, way in zip((shares * self.intervals).long().clamp(max=self.intervals - 1), ways, strict=True):
                episode[at, list(self.axes)] += way
        return impulses


def split(overrides: Parameters | None, model: Model) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Separate parameters of the model from impulses (worlds, intervals, 3) by body.

    Raises:
        InputError: If a body with impulses has no velocity, or impulses have another shape.
    """
    parameters = dict(overrides or {})
    impulses = {name.removesuffix(NAME): parameters.pop(name) for name in list(parameters) if name.endswith(NAME)}
    movable = [system.name for system in model.systems if "v" in system.states]
    for body, series in impulses.items():
        if body not in movable:
            raise InputError(
                f"`{body}` takes no impulses; they change the velocity of one of {', '.join(movable) or 'none'}."
            )
        if series.ndim != 3 or series.shape[2] != 3:
            raise InputError(f"`{body}{NAME}` has shape {tuple(series.shape)}; expected (worlds, intervals, 3) [m/s].")
    return parameters, impulses


def apply_impulses(states: States, impulses: Mapping[str, Tensor], interval: int) -> dict[str, dict[str, Tensor]]:
    """States at the start of an interval, after its impulses."""
    changed = {body: dict(state) for body, state in states.items()}
    for body, series in impulses.items():
        if interval < series.shape[1] and series[:, interval].any():
            v = changed[body]["v"]
            impulse = series[:, interval].to(v)
            changed[body]["v"] = v + (impulse[:, None] if v.ndim == 3 else impulse)
    return changed


def instants(impulses: Mapping[str, Tensor]) -> list[int]:
    """Intervals that begin with an impulse in some world, ascending."""
    return sorted({k for series in impulses.values() for k in series.any(2).any(0).nonzero()[:, 0].tolist()})
