"""A second look over the ranges, for minima that a search did not come by.

Starts of a search follow the first frames of a clip, which leave little apart, and the best of them sow the others: all end in one
place, and another that explains the whole clip as well is not met. So when there is an answer, the cost of the whole clip is
compared at even places over the ranges, by sums along rows and columns of images, whose basins are wide. Those that are lower than
their neighbors, of which the answer is one, descend.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.problem import Problem
from gradsim.identification.solvers.levenberg_marquardt import DAMPING_FACTORS, Population, descend

SEEDS = 2**31
PLACES = 32  # for each unknown, of which the cost is compared
MOST_PLACES, LEAST_PLACES = 128, 16
SCREENING_SHARE, DESCENT_SHARE = 0.05, 0.15  # of the effort of the search that costs and descents may take, about
MOST_DESCENTS = 6
COARSE_ITERATIONS, FINE_ITERATIONS = 8, 10  # linearizations by sums along rows and columns, and by pixels
COARSE_RTOL, FINE_RTOL = 1e-3, 1e-4  # relative decrease of the cost at which these rest
NEAR_ANSWER = 1e-3  # of a logarithm or range: an end so near to the answer is there, on other time steps, too
MIN_DISTANCE = 0.2  # of the ranges: distance between descents that are not lowest among neighbors


def second_look(
    problem: Problem, u: Tensor, rng: np.random.Generator, bound: Callable[[], float] = lambda: math.inf
) -> Tensor:
    """Ends of descents from elsewhere (ends, unknowns), not all the way at minima, and not near the answer.

    Args:
        problem: The problem, whose effort so far is that of the search.
        u: The answer (unknowns,).
        rng: Draws the places.
        bound: Returns the largest cost that matters: where the way down to it is longer than this, a descent ends.
    """
    space, n, spent = problem.space, len(u), problem.effort.rollouts
    screened = int(min(PLACES * n, MOST_PLACES, max(LEAST_PLACES, SCREENING_SHARE * spent)))
    of_one = (len(DAMPING_FACTORS) + n) * (COARSE_ITERATIONS + FINE_ITERATIONS)
    descents = int(min(MOST_DESCENTS, DESCENT_SHARE * spent / of_one))
    even = torch.quasirandom.SobolEngine(n, scramble=True, seed=int(rng.integers(SEEDS)))
    shares = even.draw(screened, dtype=torch.float64)
    answer = (u - space.low) / (space.high - space.low)
    places = torch.cat([answer[None], shares])
    cost = problem.cost(space.low + (space.high - space.low) * places, problem.frames, "cdf")
    rows = _basins(places, cost, descents)
    if not rows:
        return u[None][:0]
    start = Population.at(space.low + (space.high - space.low) * places[rows])
    iterates, _ = descend(problem, start, problem.frames, "cdf", COARSE_ITERATIONS, rtol=COARSE_RTOL)
    iterates, _ = descend(problem, iterates, problem.frames, "pixels", FINE_ITERATIONS, rtol=FINE_RTOL, bound=bound())
    away = ((iterates.u - u) / space.unit).abs().amax(1) > NEAR_ANSWER
    return iterates.u[iterates.cost.isfinite() & away]


def _basins(places: Tensor, cost: Tensor, most: int) -> list[int]:
    """Rows of places (n, unknowns) in shares of the ranges that are in other basins than the first: those lower in cost (n,) than their
    neighbors, at least one of them, then, of several unknowns, low ones that are apart from these.
    """
    unknowns = places.shape[1]
    distance = torch.cdist(places, places)
    neighbors = distance.argsort(1)[:, 1 : 1 + 3 * unknowns]
    lowest = (cost[:, None] < cost[neighbors]).all(1) & cost.isfinite()
    rows: list[int] = []
    order = cost.argsort().tolist()
    for row in order:
        if row and lowest[row] and len(rows) < max(1, most):
            rows.append(row)
    for row in order if unknowns > 1 else []:
        if len(rows) < most and cost[row].isfinite() and (distance[row, [0, *rows]] > MIN_DISTANCE).all():
            rows.append(row)
    return rows
