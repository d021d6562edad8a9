"""Thresholds of a search: costs that noise, rounding and time steps leave, below which a start is solved."""

import math

import torch
from torch import Tensor

from gradsim.identification.problem import Problem
from gradsim.identification.solvers.levenberg_marquardt import Population

HOPELESS_CHI2_GAP = 30.0  # χ² above the best at which a start is surely elsewhere: odds of e^15
SOLVED_SHARE = 1.15  # times the cost that noise makes on average, of a start that is solved
ROUNDING_LEVEL = 1e-16  # χ²/N below which frames without noise are explained to all digits that matter
NOISELESS_LEVEL = 1e-6  # χ²/N of the noise, in units of σ², below which frames count as free of it
SAME_COST = 0.01  # χ² within which starts ended in one place
UNITED_DISTANCE = 0.02  # of a logarithm or range: starts so near to one another, and alike in cost, are one
# Times the χ² of the difference that half the step makes: a method of first order is off by 4 of them
STEP_CHI2_FACTOR = 16.0


def solved_cost(problem: Problem, frames: int, share: float = SOLVED_SHARE) -> float:
    """Cost below which a start is solved: noise explains the residuals. Infinite where the noise is unknown.

    Args:
        problem: The problem.
        frames: First frames that count.
        share: Of the cost that noise makes on average, beyond which only five of its standard deviations are chance.
    """
    floor, informative, level = problem.observation.noise_floor(frames)
    return floor + max(level, 1e-10) * (share * informative + 5 * math.sqrt(2 * informative))


def chi2_per_n(problem: Problem, frames: int, cost: float) -> float | None:
    """Mean square of the informative residuals; None where the noise is not known."""
    floor = problem.observation.noise_floor(frames)
    if problem.observation.outline_noise or not math.isfinite(floor.level) or not floor.informative:
        return None
    return max(0.0, cost - floor.cost) / floor.informative


def cost_of_steps(problem: Problem, iterates: Population, frames: int, target_cost: float) -> float:
    """Cost that time steps leave at most in frames without noise, where they may be all that is left; otherwise 0.

    A video that was not made with these steps is not explained by them exactly. A search of other valleys would not
    help, finer steps do (`uncertainty/discretization.py`).
    """
    cost, k = iterates.cost.min().item(), int(iterates.cost.argmin())
    if cost < target_cost or not hasattr(problem, "with_finer_steps"):
        return 0.0
    if all(scene.timing.tolerance == math.inf for scene in problem.scenes):  # videos of these very steps
        return 0.0
    u = iterates.u[k][None]
    finer = problem.with_finer_steps(2).residuals(u, frames) - problem.residuals(u, frames)
    steps = STEP_CHI2_FACTOR * finer.square().sum().item()
    return steps if cost < steps else 0.0


def rounding_level(problem: Problem) -> float:
    """Cost of all frames without noise below which no digit that matters is left."""
    return ROUNDING_LEVEL * problem.observation.noise_floor(problem.frames).informative


def rest_cost(problem: Problem, u: Tensor) -> float:
    """Cost of frames without noise below which residuals are rounding."""
    return max(rounding_level(problem), rounding_cost(problem, u, problem.frames))


def rounding_cost(problem: Problem, u: Tensor, frames: int) -> float:
    """Cost of a perfect fit with the unknowns off by one or two units in the last place.

    Where it is larger than a cost, rounding is all that the cost is made of.
    """
    up = torch.full_like(u, torch.inf)
    near = torch.nextafter(u, up)
    blocks = problem.residual_blocks(torch.stack([u, near, torch.nextafter(near, up)]), frames)
    cost = torch.stack([(r[1:] - r[0]).square().sum(1) for r in blocks]).sum(0)
    return cost.nan_to_num(0.0).max().item()


def least_decrease(problem: Problem) -> float:
    """Decrease of χ² on the whole clip at or below which a start rests: a tenth of an error bar is enough where noise is left, and where worlds
    take long.
    """
    level = problem.observation.noise_floor(problem.frames).level
    noisy = NOISELESS_LEVEL <= level < math.inf and not problem.observation.outline_noise
    return 0.01 * min(1.0, solved_cost(problem, problem.frames)) if noisy or may_unite(problem) else 0.0


def may_unite(problem: Problem) -> bool:
    """True if one start may go on for all that came to its place.

    Logs have no small valleys by which they would part again, and in another engine each world takes as long as the one before it.
    """
    return problem.observation.growth > 1 or problem.is_external


def are_solved(iterates: Population, target_cost: float) -> Tensor:
    """True where the noise explains the cost, and it is not clearly above the best."""
    best = iterates.cost.min()
    return (
        iterates.cost < min(target_cost, best.item() + HOPELESS_CHI2_GAP + 1e-3 * target_cost)
        if math.isfinite(target_cost)
        else iterates.cost < math.inf
    )


def are_one(problem: Problem, iterates: Population) -> bool:
    """True if several starts are at one place and alike in cost."""
    k = int(iterates.cost.argmin())
    off = ((iterates.u - iterates.u[k]) / problem.space.unit).abs()
    alike = iterates.cost - iterates.cost[k] < SAME_COST
    return len(alike) > 1 and bool((off < UNITED_DISTANCE).all() and alike.all())
