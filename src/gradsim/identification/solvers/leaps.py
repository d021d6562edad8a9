"""Leaps of a search: from the first frames of a clip, where they tell enough, to all of it."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.problem import Problem
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.restarts import explore
from gradsim.identification.solvers.thresholds import (
    SAME_COST,
    are_one,
    are_solved,
    rest_cost,
    rounding_cost,
    rounding_level,
    solved_cost,
)
from gradsim.identification.uncertainty.fisher import is_quadratic, secant_fisher
from gradsim.identification.uncertainty.valleys import principal_axes

CLIP_GROWTH = 1.5  # times the frames so far: growth of the clip for solved starts
MERGE_DISTANCE = 1e-6  # of a logarithm or range: a start that comes so near to the answer of another is there
MIN_SOLVED_STARTS = 3  # solved starts that make resampling needless
SPREAD_STARTS = 8  # places in the error bars of the first frames from which the whole clip has to lead to one
LEAP_ITERATIONS = 12  # linearisations in which starts that are one are to explain the whole clip


def leap_with_noise(
    problem: Problem,
    iterates: Population,
    solved: Tensor,
    frames: int,
    rtol: float,
    exploring: bool,
    rng: np.random.Generator,
) -> tuple[int, Population | None]:
    """The starts at the end of a clip with noise, where all of them are one; None where the frames between are needed.

    Where contact has cut small valleys, starts that go together end in the same wrong one, and χ² may be smooth within the error bars there,
    which are a thousandth of those of the first frames. So they are spread over the latter first. From all over, they have to come to
    one place, and explain the whole clip as well as noise does by chance; χ² has to be smooth there, and samples about it to find no better valley.

    Args:
        problem: The problem.
        iterates: Starts that follow the clip so far.
        solved: True where the noise explains these frames (starts,).
        frames: Their number.
        rtol: Relative decrease of the cost at which a start rests.
        exploring: Whether samples look for better valleys.
        rng: Draws places and samples.

    Returns:
        The number of linearisations, and the starts.
    """
    if not (solved.all() and are_one(problem, iterates)):
        return 0, None
    target_cost = solved_cost(problem, problem.frames, 1.0)
    rest, least = 1e-6 * target_cost, 0.01 * min(1.0, target_cost)
    spread = _spread(problem, iterates, frames, rng)
    parted = lambda now, active: bool((~active & (now.cost - now.cost.min() >= SAME_COST)).any())
    ended, count = descend(problem, spread, problem.frames, "pixels", LEAP_ITERATIONS, rest, least, rtol, ends=parted)
    if not (are_solved(ended, target_cost).all() and are_one(problem, ended)):
        return count, None
    best = ended.u[int(ended.cost.argmin())]
    _, fisher, _ = problem.linearize(best[None], problem.frames)
    away = ended.u - best
    apart = torch.einsum("ki,ij,kj->k", away, fisher[0], away) > 1  # error bars of the whole clip
    if apart.any() or secant_fisher(problem, best, fisher[0])[1] or not is_quadratic(problem, best, fisher[0]):
        return count + 1, None
    ended = ended[[int(ended.cost.argmin())] * len(iterates.cost)]
    if exploring:
        starts = torch.arange(len(ended.cost))
        _, who, n = explore(problem, ended, starts, problem.frames, rng, side_by_side=True)
        count += n
        if (who < 0).any():
            return count, None
    return count, ended


def _spread(problem: Problem, iterates: Population, frames: int, rng: np.random.Generator) -> Population:
    """The best start, and places all over the error bars that the first `frames` frames leave about it."""
    u = iterates.u[int(iterates.cost.argmin())]
    _, A, _ = problem.linearize(u[None], frames)
    normal = torch.tensor(rng.standard_normal((SPREAD_STARTS - 1, len(u))))
    away = normal @ principal_axes(A[0].nan_to_num(0.0, 0.0, 0.0)).T
    return Population.at(torch.cat([u[None], u + away]).clamp(problem.space.low, problem.space.high))


def leap_without_noise(
    problem: Problem, iterates: Population, solved: Tensor, frames: int, rtol: float
) -> tuple[int, Tensor]:
    """Take the best of the solved starts to the end of the clip in strides; if one explains it, all that come to it, or explain it elsewhere.

    Returns the number of linearisations, and which starts are at the end.
    """
    order = iterates.cost.argsort()
    order, extended = order[solved[order]], torch.zeros_like(solved)
    came, which, count = iterates[order[:MIN_SOLVED_STARTS]], torch.arange(min(len(order), MIN_SOLVED_STARTS)), 0
    came.cost = problem.cost(came.u, problem.frames)
    if not (came.cost < solved_cost(problem, problem.frames)).all():  # unlike where a few frames tell all
        came, which, count = _extend(problem, came, frames)
    if not len(which):
        return count, extended
    best = came[[int(came.cost.argmin())]]
    if best.cost > rounding_level(problem):
        best, n = descend(problem, best, problem.frames, "pixels", 60, rest_cost(problem, best.u[0]), rtol=rtol)
        count += n
    near = lambda u: ((u - best.u) / problem.space.unit).abs().amax(1) < MERGE_DISTANCE
    extended[order[near(iterates.u[order])]] = True
    extended[order[which[near(came.u)]]] = True
    rest = order[~extended[order]]
    came, which, n = _extend(problem, iterates[rest], frames, near)
    count, which = count + n, rest[which]
    extended[which[near(came.u)]] = True
    elsewhere = (~extended[which]).nonzero()[:, 0]
    if len(elsewhere):  # which explain the clip as well, or are still on their way
        least = rest_cost(problem, came.u[elsewhere[0]])
        others, n = descend(problem, came[elsewhere], problem.frames, "pixels", 60, least, rtol=rtol)
        count, arrived = count + n, near(others.u)
        extended[which[elsewhere[arrived]]] = True
        others, elsewhere = others[~arrived], which[elsewhere[~arrived]]
        iterates.put(elsewhere, others)
    iterates.put(extended, best[torch.zeros(int(extended.sum()), dtype=torch.int64)])
    extended[elsewhere] = True
    return count, extended


def _extend(
    problem: Problem,
    near: Population,
    frames: int,
    there: Callable[[Tensor], Tensor] = lambda u: torch.zeros(len(u), dtype=torch.bool),
) -> tuple[Population, Tensor, int]:
    """Starts that explain the clip so far, and more and more of it; those that are `there` rest.

    Returns those that explain all of it or are there, which they are, and the number of linearisations.
    """
    count, arrived = 0, []
    which = torch.arange(len(near.cost))
    while len(which):
        rests = there(near.u) if frames < problem.frames else torch.ones_like(which, dtype=torch.bool)
        arrived.append((near[rests], which[rests]))
        near, which = near[~rests], which[~rests]
        if not len(which):
            break
        frames = min(problem.frames, math.ceil(CLIP_GROWTH * frames))
        target_cost = solved_cost(problem, frames)
        near, n = descend(problem, near, frames, "pixels", 8, 1e-6 * target_cost)
        count += n
        good = near.cost < target_cost
        if not good.any():
            good = near.cost < rounding_cost(problem, near.u[int(near.cost.argmin())], frames)
        near, which = near[good], which[good]
    arrived.append((near, which))
    iterates = Population(*(torch.cat([getattr(p, k) for p, _ in arrived]) for k in ("u", "cost", "damping")))
    return iterates, torch.cat([k for _, k in arrived]), count
