"""Levenberg–Marquardt for many starts side by side (Levenberg 1944, Marquardt 1963; bounds by projection).

    (A + λ diag A) d = −g,   u ← clamp(u + d)       accept if the cost falls

Every start has its own λ and tries several factors of it at once, since many worlds cost little more than few; the best
is the next λ. Unknowns at a bound that the gradient pushes outward are held there for the step.

A start rests where trials gain nothing, or where none is needed: where the quadratic model, which has just been right about a step
to within what counts, promises no more (`remaining_decrease`). Where only costs up to a bound matter, it rests as well once the model has
promised so little, two times in a row, that as much in each iteration that is left would not lead there.

`minimize` is the loop; a solver gives it its linearization and its trial step. `descend` is the solver of a `Problem`;
`multiple_shooting` and `clip_ensemble` have theirs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from gradsim.identification.observation.base import Residual
from gradsim.identification.problem import Problem
from gradsim.identification.unknowns import Ranges
from gradsim.losses import Schedule

DAMPING_FACTORS = (0.2, 1.0, 6.0, 36.0)  # of λ that are tried at once
INITIAL_DAMPING = 1e-2
RTOL = 1e-9  # relative decrease of the cost at which a start rests
MAX_DAMPING = 1e8  # λ at which a start is given up: the step is then a hundred-millionth of steepest descent's
NEGLIGIBLE_SHARE = 0.1  # of the decrease that counts: what a start may leave that rests without another trial
RIDGE = 1e-12  # of a matrix of unit diagonal, whose directions below it are none


class Iterates:
    """Starts side by side: a dataclass of tensors whose first dimension is the start.

    Attributes:
        u: Shared unknowns (starts, unknowns).
        cost: (starts,).
    """

    u: Tensor
    cost: Tensor

    def __getitem__(self, rows) -> Self:
        return type(self)(*(getattr(self, f.name)[rows].clone() for f in fields(self)))  # pyright: ignore[reportArgumentType]

    def put(self, rows, other: Self) -> None:
        """Overwrite `rows`."""
        for f in fields(self):  # pyright: ignore[reportArgumentType]
            getattr(self, f.name)[rows] = getattr(other, f.name)


I = TypeVar("I", bound=Iterates)


@dataclass
class Population(Iterates):
    """Starts of a `Problem`.

    Args:
        u: (starts, unknowns).
        cost: (starts,).
        damping: λ of each (starts,).
    """

    u: Tensor
    cost: Tensor
    damping: Tensor

    @classmethod
    def at(cls, u: Tensor) -> "Population":
        unknown = torch.full((len(u),), torch.inf).double()
        return cls(u.clone(), unknown, torch.full_like(unknown, INITIAL_DAMPING))


@dataclass(frozen=True)
class Stopping:
    """When a start rests, and how λ moves.

    Args:
        rtol: Relative decrease of the cost, at or below which an iteration counts as idle.
        min_decrease: Decrease of the cost, likewise.
        target_cost: Cost at which a start rests.
        patience: Idle iterations in a row after which it rests.
        tries: Trial batches from one linearization, each from where the last one ended.
        refusal: Factor of λ where all trials of a batch are refused.
        min_damping: Least λ.
        bound: Largest cost that matters.
    """

    rtol: float
    min_decrease: float = 0.0
    target_cost: float = -torch.inf
    patience: int = 1
    tries: int = 1
    refusal: float = DAMPING_FACTORS[-1] * 6.0
    min_damping: float = 1e-12
    bound: float = torch.inf

    def negligible(self, cost: Tensor) -> Tensor:
        """Decrease that a start of this cost (rows,) may leave."""
        return NEGLIGIBLE_SHARE * (self.rtol * cost).clamp(min=self.min_decrease)

    def hopeless(self, cost: Tensor, promised: Tensor, iterations: int) -> Tensor:
        """True for starts of these costs (rows,) that stay beyond the bound if each of the iterations lowers them as is promised (rows,)."""
        return cost - iterations * promised > self.bound


def minimize(
    start: I,
    linearize: Callable[[I, Tensor], Sequence[Any]],
    step: Callable[[I, Sequence[Any], Tensor], tuple[I, Tensor]],
    iterations: int,
    stopping: Stopping,
    report: Callable[[int, I], None] = lambda iteration, iterates: None,
    remaining: Callable[[I, Sequence[Any], I], Tensor] | None = None,
    ends: Callable[[I, Tensor], bool] = lambda iterates, active: False,
) -> tuple[I, Tensor, int]:
    """The Levenberg–Marquardt loop.

    Args:
        start: With their costs; changed in place.
        linearize: From iterates and their rows among the starts to tensors whose first dimension is the row.
        step: From iterates, their linearization and λ to the best trial of each and its factor of λ.
        iterations: Largest number of linearizations.
        stopping: When starts rest.
        report: Called after each iteration with its number and the current iterates.
        remaining: From iterates, their linearization and trials to the decrease that is left at these (rows,); None if unknown.
        ends: Called after each iteration with the iterates and those that do not rest yet (starts,); True ends the loop.

    Returns:
        The iterates, λ of each, and the number of linearizations.
    """
    current, count = start, 0
    damping, idle = torch.full_like(current.cost, INITIAL_DAMPING), torch.zeros_like(current.cost)
    promised = torch.full_like(current.cost, torch.inf)  # decrease by the model of the last iteration
    active = torch.isfinite(current.cost) & (current.cost > stopping.target_cost)
    for iteration in range(iterations):
        rows = active.nonzero()[:, 0]
        if not len(rows):
            break
        count += 1
        now = current[rows]
        linear, waiting = linearize(now, rows), torch.arange(len(rows))
        ended = torch.zeros_like(rows, dtype=torch.bool)  # as nothing is left that counts
        if remaining:
            left = remaining(now, linear, now)
            hopeless = stopping.hopeless(now.cost, torch.maximum(left, promised[rows]), iterations - iteration)
            ended, promised[rows] = hopeless | (left <= stopping.negligible(now.cost)), left
            if ended.any():
                waiting, linear = (~ended).nonzero()[:, 0], [y[~ended] for y in linear]
        for _ in range(stopping.tries if len(waiting) else 0):
            before, trial_damping = now[waiting], damping[rows[waiting]]
            trial, factor = step(before, linear, trial_damping)
            better = trial.cost < before.cost
            current.put(rows[waiting[better]], trial[better])
            if remaining:
                ended[waiting] = better & (remaining(before, linear, trial) <= stopping.negligible(trial.cost))
            new_damping = trial_damping * torch.where(better, factor, stopping.refusal)
            damping[rows[waiting]] = new_damping.clamp(min=stopping.min_damping)
            refused = ~better & (damping[rows[waiting]] < MAX_DAMPING)
            waiting = waiting[refused]
            if not len(waiting):
                break
            linear = [y[refused] for y in linear]
        decrease = now.cost - current.cost[rows]
        relative = decrease / now.cost.clamp(min=1e-300)
        useful = (relative > stopping.rtol) & (decrease > stopping.min_decrease)
        idle[rows] = torch.where(useful, 0.0, idle[rows] + 1)
        lost = (decrease <= 0) & (damping[rows] >= MAX_DAMPING)
        unsolved = (idle[rows] < stopping.patience) & (current.cost[rows] > stopping.target_cost)
        active[rows] = unsolved & ~lost & ~ended
        report(iteration, current)
        if ends(current, active):
            break
    return current, damping, count


def damped_step(space: Ranges, u: Tensor, A: Tensor, g: Tensor, damping: Tensor) -> Tensor:
    """Unknowns (starts, n) after a damped Gauss–Newton step, within their ranges."""
    reach = torch.where(torch.tensor(space.logarithmic), 1.0, 0.5 * (space.high - space.low))
    step = _newton_step(space, u, A, g, damping + 1e-15)
    return (u + step.clamp(-reach, reach)).clamp(space.low, space.high)


def _newton_step(space: Ranges, u: Tensor, A: Tensor, g: Tensor, damping: Tensor) -> Tensor:
    """Step (starts, n) of the damped quadratic model, beyond ranges too; 0 where it has none."""
    diagonal = A.diagonal(dim1=1, dim2=2)
    scale = (diagonal + 1e-14 * diagonal.amax(1, keepdim=True) + 1e-300).rsqrt()
    system = A * scale[:, :, None] * scale[:, None, :]  # unit diagonal: ranges of units do not matter
    slope, ridge = g * scale, damping[:, None]
    held = ((u <= space.low) & (g > 0)) | ((u >= space.high) & (g < 0))
    if held.any():
        free = (~held).double()
        system, slope, ridge = system * free[:, :, None] * free[:, None, :], slope * free, ridge + (1 - free)
    system.diagonal(dim1=1, dim2=2).add_(ridge)
    step, failed = torch.linalg.solve_ex(system, -slope[..., None])
    return torch.where((failed == 0)[:, None], step[..., 0] * scale, 0.0).nan_to_num(0.0, 0.0, 0.0)


def remaining_decrease(space: Ranges, now: Population, A: Tensor, g: Tensor, trial: Population) -> Tensor:
    """Decrease of the cost (starts,) that is left at trials, as far as the quadratic model about `now` tells, and by how much that is wrong there.

        (gᵀ + dᵀ A) A⁻¹ (g + A d) + |cost(u + d) − cost(u) − 2 gᵀ d − dᵀ A d|          d: the step from `now` to the trial

    Infinite where numbers are not finite.
    """
    d = trial.u - now.u
    slope = g + (A @ d[..., None])[..., 0]
    error = (trial.cost - now.cost - (d * (g + slope)).sum(1)).abs()
    left = -(_newton_step(space, trial.u, A, slope, torch.full_like(now.cost, RIDGE)) * slope).sum(1)
    finite = torch.isfinite(A).flatten(1).all(1) & torch.isfinite(slope).all(1)
    return torch.where(finite, left.clamp(min=0) + error, torch.inf).nan_to_num(torch.inf)


def descend(
    problem: Problem,
    start: Population,
    frames: int,
    residual: Residual,
    iterations: int,
    target_cost: float = 0.0,
    min_decrease: float = 0.0,
    rtol: float = RTOL,
    tries: int = 3,
    foretold: bool = True,
    bound: float = torch.inf,
    ends: Callable[[Population, Tensor], bool] = lambda iterates, active: False,
) -> tuple[Population, int]:
    """Lower the cost of all starts.

    Args:
        problem: The problem.
        start: Where the starts are; not changed.
        frames: Number of first frames that count.
        residual: Which residuals: "pixels", "cdf" (wide basin) or an image loss.
        iterations: Largest number of linearizations.
        target_cost: Cost at which a start rests.
        min_decrease: Decrease at or below which a start rests.
        rtol: Relative decrease at or below which a start rests.
        tries: Trial batches from one linearization, each from where the last one ended.
        foretold: Whether a start may rest on what its quadratic model says is left.
        bound: Largest cost that matters: starts rest that will not come to it, as far as `foretold` tells.
        ends: Called after each iteration with the starts and those that do not rest yet (starts,); True ends the descent.

    Returns:
        The starts after it, and the number of linearizations.
    """
    factors = torch.tensor(DAMPING_FACTORS, dtype=torch.float64)

    def linearize(now: Population, rows: Tensor):
        return problem.linearize(now.u, frames, residual)[1:]

    def step(now: Population, linear, damping: Tensor) -> tuple[Population, Tensor]:
        A, g = linear
        tried = damping[:, None] * factors
        many = lambda x: x.repeat_interleave(len(factors), 0)
        u = damped_step(problem.space, many(now.u), many(A), many(g), tried.flatten())
        cost, k = problem.cost(u, frames, residual).unflatten(0, tried.shape).min(1)
        rows = torch.arange(len(k))
        return Population(u.unflatten(0, tried.shape)[rows, k], cost, tried[rows, k]), factors[k]

    current = start[slice(None)]
    current.cost = problem.cost(current.u, frames, residual)
    stopping = Stopping(
        rtol,
        min_decrease,
        target_cost,
        tries=tries,
        refusal=DAMPING_FACTORS[-1] / DAMPING_FACTORS[0],
        min_damping=1e-14,
        bound=bound,
    )

    def remaining(now: Population, linear, trial: Population) -> Tensor:
        A, g = linear
        return remaining_decrease(problem.space, now, A, g, trial)

    current, current.damping, count = minimize(
        current, linearize, step, iterations, stopping, remaining=remaining if foretold else None, ends=ends
    )
    return current, count


def follow(problem: Problem, start: Population, frames: int, schedule: Schedule) -> tuple[Population, int]:
    """Lower one loss after another; arguments and returns as for `descend`."""
    current, count = start, 0
    for stage in schedule.stages:
        current, n = descend(problem, current, frames, stage.loss, stage.iterations, rtol=stage.rtol)
        count += n
    return current, count
