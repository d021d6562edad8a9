"""Budgets and outcomes of baselines, and a controller of few numbers for a body of many elements.

The controller is a product of splines of position and time:

    u_i(t) = Σ_j w_j(X_i) tanh(s_j(t))

w_j are linear B-splines (hats) over a grid that spans the body at rest; they are not negative and add up to 1 at each
element's centre X_i, so that u stays within [-1, 1]. s_j are cubic B-splines of time (`policies.Spline`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from gradsim.control.training.history import History, Iteration
from gradsim.control.training.train import IterationProgress
from gradsim.errors import InputError
from gradsim.geometry.validation import counts

if TYPE_CHECKING:
    from gradsim.control.plant import Episode, Plant
import itertools
from typing import TYPE_CHECKING

from torch import nn

from gradsim.control.actuator_sharing import element_centers
from gradsim.control.policies import Spline

if TYPE_CHECKING:
    from gradsim.control.plant import Plant


@dataclass(frozen=True)
class Budget:
    """Number of rollouts of one world from start to end; each simulates `plant.steps` steps.

    Args:
        rollouts: Upper bound of the total, including rollouts that only measure the learning curves.
        worlds: Worlds rolled out together in one iteration, as a generation or a batch.
    """

    rollouts: int
    worlds: int = 16

    def __post_init__(self):
        counts("rollouts", self.rollouts)
        counts("worlds", self.worlds)

    def rounds(self, worlds: int) -> int:
        """Number of iterations with this many worlds.

        Raises:
            InputError: If the budget is less than one iteration.
        """
        if self.rollouts < worlds:
            raise InputError(
                f"the budget is {self.rollouts} rollouts, and one iteration takes {worlds}; give more, or fewer `worlds`."
            )
        return self.rollouts // worlds


class BaselineOutcome(NamedTuple):
    """Final loss, distance [m] and position error [m²] of episodes, (worlds,) each; NaN where unknown."""

    loss: Tensor
    distance: Tensor
    position_error: Tensor

    def entry(self, world: int, seconds: float, rollouts: int, plant: "Plant") -> Iteration:
        """History entry with the values of one world."""
        loss, distance, error = (float(x[world]) for x in self)
        return Iteration(
            loss,
            seconds=seconds,
            rollouts=rollouts,
            steps=rollouts * plant.steps,
            distance=distance,
            position_error=error,
            frames=plant.frames,
        )


def record_iteration(
    history: History, entry: Iteration, policy: Mapping[str, Tensor], total: int, progress: IterationProgress | None
) -> None:
    """Append one of `total` iterations with its policy, and report it."""
    history.add(entry, policy)
    if len(history) == total // 2 + 1:
        history.keep_middle()
    if progress is not None:
        progress.update(len(history) - 1, entry.loss, {"distance [m]": (entry.distance, math.nan)})


def evaluate_episode(goal, episode: "Episode", iteration: int = 0) -> BaselineOutcome:
    """Outcome of each world of an episode; the distances are for figures only."""
    with torch.no_grad():
        loss = goal.loss(episode, iteration)
        unknown = torch.full_like(loss, torch.nan)
        distance, error = goal.distance(episode), goal.position_error(episode)
    return BaselineOutcome(loss, unknown if distance is None else distance, unknown if error is None else error)


ROUNDING = 1e-9  # weights below are zero
FLAT_EXTENT_RATIO = 1e-3  # extent relative to the largest, below which a body is flat along an axis


class SmoothActions(nn.Module):
    """Controller with B-splines of position and time.

    Args:
        plant: Plant. Controls that do not act on elements of a soft body have one curve for each output.
        cells: Cells of the grid along each axis.
        knots: Knots of each curve, at least 4.
        seed: Seed of the initial parameters.
    """

    feedback = False

    def __init__(self, plant: "Plant", cells: int = 2, knots: int = 6, seed: int = 0):
        super().__init__()
        shares = basis_weights(plant, cells)
        self.register_buffer("shares", shares, persistent=False)
        duration = plant.model.scene.timing.frames / plant.model.scene.timing.fps
        self.spline = Spline(shares.shape[1], knots, duration, seed)

    def forward(self, times: Tensor, observation: Tensor | None = None) -> Tensor:
        return self.spline(times) @ self.shares.T


def basis_weights(plant: "Plant", cells: int = 2) -> Tensor:
    """w (outputs, modes) of all controls; arguments as for `SmoothActions`."""
    blocks = []
    for name, count in plant.outputs_of.items():
        places = _places(plant, name)
        blocks.append(torch.eye(count, dtype=torch.float64) if places is None else hat_weights(places, cells))
    return torch.block_diag(*blocks)


def hat_weights(places: Tensor, cells: int) -> Tensor:
    """Weights (n, modes) of grid points at positions (n, 3); rows add up to 1. Points without weight are omitted."""
    low, extent = places.amin(0), places.amax(0) - places.amin(0)
    axes = []
    for k in (extent > FLAT_EXTENT_RATIO * extent.max()).nonzero()[:, 0].tolist():
        where = (places[:, k] - low[k]) / extent[k] * cells
        points = torch.arange(cells + 1, dtype=places.dtype)
        axes.append((1 - (where[:, None] - points).abs()).clamp(min=0))
    columns = [torch.stack(factors).prod(0) for factors in itertools.product(*(axis.unbind(1) for axis in axes))]
    shares = torch.stack(columns, 1).double()
    return shares[:, shares.amax(0) > ROUNDING]


def _places(plant: "Plant", name: str) -> Tensor | None:
    """Rest positions (outputs, 3) [m] of the outputs of a control: the centre of the element, or of the group."""
    centers = element_centers(plant.model, name)
    if centers is None or name not in plant.sharing:
        return centers
    return torch.stack([centers[plant.sharing[name] == k].mean(0) for k in range(plant.outputs_of[name])])
