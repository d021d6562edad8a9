"""The cost of a fit along one or two of its unknowns, the others held: how wide the valley is that leads to the answer.

Costs are Σ r² over pixels, and over the row and column CDFs of the masks, which see further; both from the same rollouts, and
both with the cost of priors.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.problem import Problem

WORLDS = 64  # simulated at once
DECADE = 10.0  # a positive unknown whose range spans more than this is divided evenly by its logarithm


@dataclass(frozen=True)
class Axis:
    """An unknown and its values.

    Args:
        name: Name of the unknown.
        unit: SI unit of its values.
        values: Increasing, in SI units (n,).
        logarithmic: Whether they are spread evenly by their logarithm.
    """

    name: str
    unit: str
    values: np.ndarray
    logarithmic: bool

    @classmethod
    def along(cls, problem: Problem, name: str, points: int) -> "Axis":
        """Over the range of an unknown of a problem."""
        space = problem.space
        k = space.names.index(name)
        low, high = space.range(k)
        logarithmic = bool(space.logarithmic[k]) and high > DECADE * low
        values = np.geomspace(low, high, points) if logarithmic else np.linspace(low, high, points)
        return cls(name, space.units[k], values, logarithmic)


@dataclass(frozen=True)
class Landscape:
    """Costs over a grid.

    Args:
        axes: One or two.
        pixels: Σ r² of the pixels, whitened (n,) or (n, m); infinite where a rollout diverges.
        cdf: Σ r² of the CDF residuals, likewise.
    """

    axes: tuple[Axis, ...]
    pixels: np.ndarray
    cdf: np.ndarray


def landscape(
    problem: Problem, base: Tensor, axes: Sequence[Axis], report: Callable[[int, float], None] = lambda done, cost: None
) -> Landscape:
    """Both costs at every point of the grid.

    Args:
        problem: The fit.
        base: Where the other unknowns are held, as the solver moves them (unknowns,).
        axes: One or two of its unknowns.
        report: Called with the number of finished points and the lowest pixel cost so far.
    """
    columns = [problem.space.names.index(axis.name) for axis in axes]
    points = torch.tensor(list(itertools.product(*(axis.values for axis in axes))), dtype=torch.float64)
    numbers = problem.space.numbers(base).expand(len(points), -1).clone()
    numbers[:, columns] = points
    pixels, cdf = [], []
    for chunk in problem.space.inner(numbers).split(WORLDS):
        near, far = _costs(problem, chunk)
        pixels.append(near)
        cdf.append(far)
        report(sum(map(len, pixels)), min(p.min().item() for p in pixels))
    shape = [len(axis.values) for axis in axes]
    grids = [torch.cat(parts).reshape(shape).numpy() for parts in (pixels, cdf)]
    return Landscape(tuple(axes), *grids)


def _costs(problem: Problem, u: Tensor) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        trajectory = problem.model.rollout_unchecked(problem.model.values(problem.space.values(u)), problem.frames)
        near, far = (problem.observation.cost(trajectory, problem.frames, residual) for residual in ("pixels", "cdf"))
    problem.effort.rollouts += len(u)
    near, far = near + problem.prior_cost(u), far + problem.prior_cost(u)
    return torch.where(near.isfinite(), near, torch.inf), torch.where(far.isfinite(), far, torch.inf)


def valleys(cost: np.ndarray) -> tuple[int, float]:
    """Count the local minima of a grid, and the share of its points that lead downhill to the lowest.

    Downhill is to the lowest of the neighbours (eight of them on a plane), again and again.
    """
    place = np.indices(cost.shape).reshape(cost.ndim, -1).T
    padded = np.pad(cost, 1, constant_values=np.inf)
    steps = np.array(sorted(itertools.product((-1, 0, 1), repeat=cost.ndim), key=lambda s: np.abs(s).sum()))
    around = np.stack([padded[tuple((place + 1 + step).T)] for step in steps], 1)  # the first step is to stay
    following = np.asarray(np.ravel_multi_index(tuple((place + steps[around.argmin(1)]).T), cost.shape))
    while not np.array_equal(following[following], following):
        following = following[following]
    ends = np.unique(following)
    return len(ends), float((following == cost.argmin()).mean())
