"""Convergence in the time step: a model whose trajectory half the step no longer moves.

    e(h) = max over vertices and frames of |x_{h/2} − x_h|, over the radius of the body

`Model` with `substeps: auto` takes steps that are stable and resolve contacts; how accurate they are only a second
trajectory tells.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

from gradsim.physics.model import Model
from gradsim.physics.trajectory import Trajectory

TOLERANCE = 1e-4  # of the radius of a body: a hundredth of a pixel, where it is 200 pixels wide
HALVINGS = 2  # of the step at most: methods of first order would need many more than anyone waits for

Level = TypeVar("Level")
Change = TypeVar("Change")


@dataclass(frozen=True)
class Convergence:
    """A model and its trajectory, and how far half the step moves it.

    Args:
        model: At the steps of the trajectory.
        trajectory: All frames of one world.
        shift: Largest distance between vertices of both [m].
        relative: The same over the radius of the body.
    """

    model: Model
    trajectory: Trajectory
    shift: float
    relative: float

    @property
    def converged(self) -> bool:
        return self.relative <= TOLERANCE


def converged(model: Model) -> Convergence:
    """Halve the time step of a model until its trajectory stays, or `HALVINGS` times.

    A scene that states its steps keeps them, and is only judged.

    Raises:
        Divergence: If a rollout leaves the finite numbers.
    """
    adaptive = model.scene.timing.substeps == "auto"

    def compare(coarse: tuple[Model, Trajectory]):
        model, trajectory = coarse
        finer = model.with_substeps(2 * model.substeps)
        after = _rollout(finer)
        shifts = _shifts(trajectory, after)
        if shifts[1] <= TOLERANCE or not adaptive:
            return coarse, shifts, True
        return (finer, after), shifts, False

    level, shifts = halve((model, _rollout(model)), compare, HALVINGS)
    return Convergence(*level, *shifts)


def halve(level: Level, compare: Callable[[Level], tuple[Level, Change, bool]], halvings: int) -> tuple[Level, Change]:
    """Halve the time step until that changes nothing that counts.

    Args:
        level: Result on the first step.
        compare: From a result to the one to continue from, on the same step or half of it; what half the step changes;
            and whether that is the end.
        halvings: Number of halvings at most, 1 or more.

    Returns:
        The last result, and the change by the last halving.
    """
    count = 0
    while True:
        level, change, done = compare(level)
        count += 1
        if done or count == halvings:
            return level, change


def _rollout(model: Model) -> Trajectory:
    with torch.no_grad():
        return model.rollout()


def _shifts(coarse: Trajectory, fine: Trajectory) -> tuple[float, float]:
    """Largest distance between vertices [m], and over the radius of their body."""
    away = torch.linalg.vector_norm(fine.surface.vertices - coarse.surface.vertices, dim=-1)[0]  # (frames, vertices)
    shift = relative = 0.0
    for system in fine.systems:
        for part in system.parts:
            largest = away[:, part.vertices].max().item()
            shift = max(shift, largest)
            relative = max(relative, largest / system.bounding_radius(fine.values))
    return shift, relative
