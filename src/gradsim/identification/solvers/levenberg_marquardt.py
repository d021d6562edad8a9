"""Levenberg–Marquardt for many starts side by side (Levenberg 1944, Marquardt 1963; bounds by projection).

    (A + λ diag A) d = −g,   u ← clamp(u + d)       accept if the cost falls

Every start has its own λ and tries a ladder of them at once, since many worlds cost little more than few; the best rung
is the next λ. Unknowns at a bound that the gradient pushes outward are held there for the step.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.identification.observation.base import Residual
from gradsim.identification.problem import Problem
from gradsim.losses import Schedule

DAMPING_FACTORS = (0.2, 1.0, 6.0, 36.0)  # shares of λ that are tried at once
LARGEST = 1e8  # λ at which a start is given up: the step is then a hundred-millionth of steepest descent's


@dataclass
class Population:
    """Starts on their way.

    Args:
        u: Where they are (starts, unknowns).
        cost: What it costs (starts,).
        damping: λ of each (starts,).
    """

    u: Tensor
    cost: Tensor
    damping: Tensor

    @classmethod
    def at(cls, u: Tensor) -> "Population":
        return cls(u.clone(), torch.full((len(u),), torch.inf).double(), torch.full((len(u),), 1e-2).double())

    def __getitem__(self, index) -> "Population":
        return Population(self.u[index].clone(), self.cost[index].clone(), self.damping[index].clone())

    def put(self, index, other: "Population") -> None:
        """Write `other` at the places `index`."""
        self.u[index], self.cost[index], self.damping[index] = other.u, other.cost, other.damping


def descend(
    problem: Problem,
    start: Population,
    frames: int,
    residual: Residual,
    iterations: int,
    target_cost: float = 0.0,
    min_decrease: float = 0.0,
    rtol: float = 1e-9,
    tries: int = 3,
) -> tuple[Population, int]:
    """Lower the cost of all starts.

    Args:
        problem: The problem.
        start: Where the starts are; not changed.
        frames: Number of first frames that count.
        residual: Which residuals: "pixels", "cdf" (wide basin) or an image loss.
        iterations: At most so many linearisations.
        target_cost: Cost at which a start rests.
        min_decrease: Decrease below which a start rests.
        rtol: Relative decrease at which a start rests.
        tries: Ladders tried from one linearisation, each from where the last one ended.

    Returns:
        The starts after it, and the number of linearisations.
    """
    here = start[slice(None)]
    here.damping.fill_(1e-2)
    low, high = problem.space.low, problem.space.high
    reach = torch.where(torch.tensor(problem.space.logarithmic), 1.0, 0.5 * (high - low))
    rungs = torch.tensor(DAMPING_FACTORS, dtype=torch.float64)
    here.cost, count = problem.cost(here.u, frames, residual), 0
    active = torch.isfinite(here.cost) & (here.cost > target_cost)
    for _ in range(iterations):
        rows = active.nonzero()[:, 0]
        if not len(rows):
            break
        count += 1
        _, A, g = problem.linearize(here.u[rows], frames, residual)
        u, before = here.u[rows], here.cost[rows]
        held = ((u <= low) & (g > 0)) | ((u >= high) & (g < 0))
        waiting = torch.arange(len(rows))
        for _ in range(tries):
            damping = here.damping[rows[waiting], None] * rungs
            step = torch.stack(
                [_step(A[waiting], g[waiting], damping[:, k], held[waiting]) for k in range(len(rungs))], 1
            )
            trial = (u[waiting, None] + step.clamp(-reach, reach)).clamp(low, high)
            cost = problem.cost(trial.flatten(0, 1), frames, residual).unflatten(0, (-1, len(rungs)))
            cost, rung = cost.min(1)
            better = cost < before[waiting]
            won = rows[waiting[better]]
            here.u[won], here.cost[won] = trial[better, rung[better]], cost[better]
            here.damping[won] = damping[better, rung[better]].clamp(min=1e-14)
            waiting = waiting[~better]
            here.damping[rows[waiting]] *= DAMPING_FACTORS[-1] / DAMPING_FACTORS[0]
            waiting = waiting[here.damping[rows[waiting]] < LARGEST]
            if not len(waiting):
                break
        gain = before - here.cost[rows]
        relative = gain / before.clamp(min=1e-300)
        active[rows] = (gain > 0) & (relative > rtol) & (gain > min_decrease) & (here.cost[rows] > target_cost)
    return here, count


def follow(problem: Problem, start: Population, frames: int, schedule: Schedule) -> tuple[Population, int]:
    """Lower one loss after another; arguments and returns as for `descend`."""
    here, count = start, 0
    for stage in schedule.stages:
        here, n = descend(problem, here, frames, stage.loss, stage.iterations, rtol=stage.rtol)
        count += n
    return here, count


def _step(A: Tensor, g: Tensor, damping: Tensor, held: Tensor) -> Tensor:
    """The damped Gauss–Newton step of every start, zero where held."""
    diagonal = A.diagonal(dim1=1, dim2=2)
    scale = (diagonal + 1e-14 * diagonal.amax(1, keepdim=True) + 1e-300).rsqrt()
    scaled = A * scale[:, :, None] * scale[:, None, :]  # unit diagonal: ranges of units do not matter
    free = (~held).double()
    eye = torch.eye(A.shape[1], dtype=A.dtype)
    system = (
        scaled * free[:, :, None] * free[:, None, :] + torch.diag_embed(damping[:, None] + (1 - free)) + 1e-15 * eye
    )
    step, failed = torch.linalg.solve_ex(system, -(g * scale * free)[..., None])
    return torch.where((failed == 0)[:, None], step[..., 0] * scale, 0.0).nan_to_num(0.0, 0.0, 0.0)
