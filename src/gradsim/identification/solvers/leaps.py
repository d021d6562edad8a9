"""Leaps of a search: from the first frames of a clip, where they tell enough, to all of it."""

import math
from collections.abc import Callable
from dataclasses import dataclass

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
STRIDE_ITERATIONS = 8  # linearizations on the frames of each stride
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


@dataclass(frozen=True)
class Descent:
    """Descent of starts in the first frames of a clip.

    Args:
        frames: Their number.
        target_cost: Cost at which a start rests.
        min_decrease: Decrease of the cost, and
        rtol: relative decrease, at or below which it rests.
        iterations: Largest number of linearizations.
    """

    frames: int
    target_cost: float
    min_decrease: float
    rtol: float
    iterations: int

    def lower(
        self,
        problem: Problem,
        iterates: Population,
        enough: Callable[[Population], bool] = lambda now: False,
    ) -> tuple[Population, int]:
        """The starts after it, and the number of linearizations; it ends as soon as `enough` of them is true."""
        limits = self.iterations, self.target_cost, self.min_decrease, self.rtol
        return descend(problem, iterates, self.frames, "pixels", *limits, ends=lambda now, active: enough(now))


def slide(problem: Problem, frames: int) -> Callable[[Population], bool]:
    """True of starts of which several nearly explain these first frames, and the best are not at one place: the frames leave a direction open."""
    nearly = solved_cost(problem, frames) + SAME_COST

    def several(now: Population) -> bool:
        best = now.cost.argsort()[:MIN_SOLVED_STARTS]
        return len(best) == MIN_SOLVED_STARTS and bool(now.cost[best[-1]] < nearly) and not are_one(problem, now[best])

    return several


def leap_early(problem: Problem, iterates: Population, stage: Descent, places: int) -> tuple[int, Population, Tensor]:
    """Take the best of starts that `slide` to the end of a clip without noise.

    They would slide for many iterations, and more frames bring them to one place in a few. If one explains the clip, the others go on in the
    first frames until enough of them nearly explain these, too, and follow.

    Args:
        problem: The problem.
        iterates: The starts.
        stage: Their descent.
        places: Starts that follow the clip.

    Returns:
        The number of linearizations, the starts, and which of them are at the end; none of them where none explains the clip.
    """
    nearly = lambda now: now.cost < solved_cost(problem, stage.frames) + SAME_COST
    answer, count = _explain(problem, iterates, nearly(iterates), stage.frames, stage.rtol)
    if answer is None:
        return count, iterates, torch.zeros_like(iterates.cost, dtype=torch.bool)
    arrived, others = answer.arrived, places - MIN_SOLVED_STARTS  # that follow in strides
    iterates.put(arrived, answer.start[[0] * len(arrived)])
    waits = lambda now: nearly(now) & ~answer.is_at(now)
    far = (~nearly(iterates)).nonzero()[:, 0]
    wanted = others - int(waits(iterates).sum())
    if len(far) and wanted > 0:
        nearer, n = stage.lower(problem, iterates[far], lambda now: int(waits(now).sum()) >= wanted)
        iterates.put(far, nearer)
        count += n
    order = iterates.cost.argsort()
    solved = answer.is_at(iterates)
    solved[order[waits(iterates)[order]][:others]] = True
    n, extended = _follow(problem, iterates, solved, stage.frames, stage.rtol, answer)
    return count + n, iterates, extended


def leap_without_noise(
    problem: Problem, iterates: Population, solved: Tensor, frames: int, rtol: float
) -> tuple[int, Tensor]:
    """Take the best of the solved starts to the end of the clip in strides; if one explains it, all that come to it, or explain it elsewhere.

    Returns the number of linearisations, and which starts are at the end.
    """
    answer, count = _explain(problem, iterates, solved, frames, rtol)
    if answer is None:
        return count, torch.zeros_like(solved)
    n, extended = _follow(problem, iterates, solved, frames, rtol, answer)
    return count + n, extended


@dataclass(frozen=True)
class _Answer:
    """A start that explains a clip without noise.

    Args:
        problem: The problem.
        start: The start, alone.
        came: Starts that went to the end of the clip with it, and
        which: which of all they are.
    """

    problem: Problem
    start: Population
    came: Population
    which: Tensor

    @property
    def arrived(self) -> Tensor:
        """Those that came to the answer itself."""
        return self.which[self.is_at(self.came)]

    def is_at(self, now: Population) -> Tensor:
        """True for starts that are there (starts,)."""
        return _are_at(self.problem, now, self.start.u)


def _are_at(problem: Problem, now: Population, place: Tensor) -> Tensor:
    """True for starts at a place (1, unknowns); others may go to another minimum next to it, however alike their costs (starts,)."""
    return ((now.u - place) / problem.space.unit).abs().amax(1) < MERGE_DISTANCE


def _explain(
    problem: Problem, iterates: Population, solved: Tensor, frames: int, rtol: float
) -> tuple[_Answer | None, int]:
    """The best of some solved starts at the end of the clip, if it explains it, and the number of linearizations."""
    order, count = iterates.cost.argsort(), 0
    order = order[solved[order]][:MIN_SOLVED_STARTS]
    came, which = iterates[order], torch.arange(len(order))
    if not _explains_all(problem, came, frames):  # unlike where a few frames tell all
        came, which, count = _lead(problem, iterates[order], frames)
    if not len(which):
        return None, count
    best = came[[int(came.cost.argmin())]]
    if best.cost > rounding_level(problem):
        best, n = descend(problem, best, problem.frames, "pixels", 60, rest_cost(problem, best.u[0]), rtol=rtol)
        count += n
    return _Answer(problem, best, came, order[which]), count


def _follow(
    problem: Problem, iterates: Population, solved: Tensor, frames: int, rtol: float, answer: _Answer
) -> tuple[int, Tensor]:
    """Take solved starts to an answer, or to the end of the clip elsewhere; returns and changes as `leap_without_noise`."""
    best, count = answer.start, 0
    extended = solved & answer.is_at(iterates)
    extended[answer.arrived] = True
    order = iterates.cost.argsort()
    rest = order[(solved & ~extended)[order]]
    came, which, n = _extend(problem, iterates[rest], frames, answer)
    count, which = count + n, rest[which]
    at_answer = answer.is_at(came)
    extended[which[at_answer]] = True
    elsewhere = (~at_answer).nonzero()[:, 0]
    if len(elsewhere):  # which explain the clip as well, or are still on their way
        least = rest_cost(problem, came.u[elsewhere[0]])
        others, n = descend(problem, came[elsewhere], problem.frames, "pixels", 60, least, rtol=rtol)
        count, arrived = count + n, answer.is_at(others)
        extended[which[elsewhere[arrived]]] = True
        others, elsewhere = others[~arrived], which[elsewhere[~arrived]]
        iterates.put(elsewhere, others)
    iterates.put(extended, best[torch.zeros(int(extended.sum()), dtype=torch.int64)])
    extended[elsewhere] = True
    return count, extended


def _lead(problem: Problem, near: Population, frames: int) -> tuple[Population, Tensor, int]:
    """Starts that explain the clip so far, and more and more of it; the best goes on for all that are one.

    Returns those that explain all of it, which they are, and the number of linearisations.
    """
    count, which, united = 0, torch.arange(len(near.cost)), []
    while len(which) and frames < problem.frames:
        frames = _stride(problem, frames)
        near, n = _descend_stride(problem, near, frames, STRIDE_ITERATIONS, lambda now: _are_united(problem, now))
        count += n
        if _are_united(problem, near):
            best = int(near.cost.argmin())
            united = [*which[:best].tolist(), *which[best + 1 :].tolist()]
            near, n = _descend_stride(problem, near[[best]], frames, STRIDE_ITERATIONS)
            count, which = count + n, which[[best]]
        good = _explains(problem, near, frames)
        near, which = near[good], which[good]
        if _explains_all(problem, near, frames):
            break
    if united and len(which):
        return near[[0] * (1 + len(united))], torch.tensor([int(which), *united]), count
    return near, which, count


def _are_united(problem: Problem, now: Population) -> bool:
    """True of several starts at one place."""
    return len(now.cost) > 1 and bool(_are_at(problem, now, now.u[[int(now.cost.argmin())]]).all())


def _extend(problem: Problem, near: Population, frames: int, answer: _Answer) -> tuple[Population, Tensor, int]:
    """Starts that explain the clip so far, and more and more of it, each for itself; those that are at an answer rest.

    Returns those that explain all of it or are at the answer, which they are, and the number of linearizations.
    """
    count, arrived, which = 0, [], torch.arange(len(near.cost))
    while len(which) and frames < problem.frames:
        frames, left = _stride(problem, frames), STRIDE_ITERATIONS
        many = lambda now: 2 * int(answer.is_at(now).sum()) >= len(now.cost)
        while len(which) and left > 0:
            near, n = _descend_stride(problem, near, frames, left, many)
            count, left, rests = count + n, left - n, answer.is_at(near)
            arrived.append((near[rests], which[rests]))
            near, which = near[~rests], which[~rests]
            if not rests.any():
                break
        good = _explains(problem, near, frames)
        near, which = near[good], which[good]
    arrived.append((near, which))
    iterates = Population(*(torch.cat([getattr(p, k) for p, _ in arrived]) for k in ("u", "cost", "damping")))
    return iterates, torch.cat([k for _, k in arrived]), count


def _stride(problem: Problem, frames: int) -> int:
    """Frames of the next stride."""
    return min(problem.frames, math.ceil(CLIP_GROWTH * frames))


def _descend_stride(
    problem: Problem,
    near: Population,
    frames: int,
    iterations: int,
    enough: Callable[[Population], bool] = lambda now: False,
) -> tuple[Population, int]:
    """Starts after the descent in the frames of a stride, and the number of linearizations."""
    rest = 1e-6 * solved_cost(problem, frames)
    return descend(problem, near, frames, "pixels", iterations, rest, ends=lambda now, active: enough(now))


def _explains(problem: Problem, near: Population, frames: int) -> Tensor:
    """True for starts that explain the first frames, or of which rounding is all that is left, if none does (starts,)."""
    good = near.cost < solved_cost(problem, frames)
    if len(good) and not good.any():
        good = near.cost < rounding_cost(problem, near.u[int(near.cost.argmin())], frames)
    return good


def _explains_all(problem: Problem, now: Population, frames: int) -> bool:
    """True if starts that explain these first frames explain all, with the costs of which they are left."""
    if not len(now.cost) or not (now.cost < solved_cost(problem, frames)).all():
        return False
    now.cost = problem.cost(now.u, problem.frames)
    return bool((now.cost < solved_cost(problem, problem.frames)).all())
