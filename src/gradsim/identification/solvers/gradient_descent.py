"""Gradient descent by adjoints with PyTorch's optimizers: the paper's protocol, and for many unknowns.

One iteration is one rollout forward and one backward of each start. A start is a world, so starts run side by side.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.observation.base import Residual
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.multistart import MultistartConfig, Outcome, history_entry
from gradsim.losses import Schedule
from gradsim.runtime.progress import CheckpointStore

OPTIMISERS = {
    "adam": lambda parameters, rate: torch.optim.Adam(parameters, rate),
    "sgd": lambda parameters, rate: torch.optim.SGD(parameters, rate, momentum=0.9),
    "lbfgs": lambda parameters, rate: torch.optim.LBFGS(parameters, rate, line_search_fn="strong_wolfe"),
}
AVERAGED_ITERATIONS = 10  # iterations: a stochastic step or one with momentum may go up
STAGES: tuple[tuple[Residual, float, int], ...] = (  # of `search`: residuals, learning rate, iterations
    ("cdf", 0.03, 60),
    ("pixels", 0.03, 60),
    ("pixels", 0.003, 60),  # Adam at a constant rate circles the minimum at a distance of about that rate
    ("pixels", 0.0003, 60),
)


def descend(
    problem: Problem,
    start: Tensor,
    iterations: int,
    optimiser: str = "adam",
    rate: float = 0.05,
    residual: Residual = "pixels",
    rtol: float = 0.0,
    report: Callable[[int, Tensor], None] = lambda iteration, losses: None,
    unit: Tensor | float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Descend on the mean of the squared residuals, and on priors over their number, from given starts.

    Args:
        problem: The problem; its unknowns move as least squares moves them (logarithms of positive quantities).
        start: (starts, unknowns), such as `problem.space.draw(rng, n)`.
        iterations: Number of steps of the optimiser.
        optimiser: "adam", "sgd" (momentum 0.9) or "lbfgs".
        rate: Learning rate.
        residual: Which residuals: "pixels", "cdf" (wide basin) or an image loss.
        rtol: Ends where no start's best loss has fallen by this share in an iteration, on average of ten.
        report: Called with the iteration and the loss of each start.
        unit: Unit of each unknown in which the optimiser steps (unknowns,).

    Returns:
        Where each start ended (starts, unknowns), and the losses (iterations, starts).

    Raises:
        ValueError: If the optimiser is not one of these.
        Divergence: If a rollout leaves the finite numbers.
    """
    if optimiser not in OPTIMISERS:
        raise ValueError(f"no optimiser {optimiser!r}; choose one of {', '.join(OPTIMISERS)}.")
    scaled = (start / unit).requires_grad_()
    steps = OPTIMISERS[optimiser]([scaled], rate)
    losses = []

    def closure() -> Tensor:
        steps.zero_grad()
        u = scaled * unit
        total, count = problem.sum_of_squares(u, residual)
        per_start = (total + problem.prior_cost(u)) / count
        per_start.sum().backward()
        closure.last = per_start.detach()
        return per_start.sum()

    for iteration in range(iterations):
        steps.step(closure)
        with torch.no_grad():
            scaled.clamp_(problem.space.low / unit, problem.space.high / unit)
        losses.append(closure.last)
        report(iteration, closure.last)
        if rtol and len(losses) > AVERAGED_ITERATIONS:
            best = torch.stack(losses).cummin(0).values
            if (
                best[-1 - AVERAGED_ITERATIONS] - best[-1] <= AVERAGED_ITERATIONS * rtol * best[-1 - AVERAGED_ITERATIONS]
            ).all():
                break
    return (scaled.detach() * unit).clamp(problem.space.low, problem.space.high), torch.stack(losses)


def search(
    problem: Problem,
    plan: MultistartConfig,
    rng: np.random.Generator,
    report: Callable[[dict], None] = lambda entry: None,
    checkpoint: CheckpointStore | None = None,
) -> Outcome:
    """Descend with Adam from starts drawn from the ranges, through `STAGES`; an estimator (`identification/estimators.py`).

    Steps are in units of the range, or of a logarithm. Starts that cannot be simulated stay where they are.

    Args:
        problem: The problem.
        plan: Settings; `starts` counts.
        rng: Random generator of the starts.
        report: Called after each stage with its entry of the history.
        checkpoint: Not used: an interrupted descent begins again.

    Raises:
        Divergence: If a rollout leaves the finite numbers on the way.
    """
    space, iteration, history = problem.space, 0, []
    initial = space.draw(rng, plan.starts)
    final, cost = initial.clone(), problem.cost(initial, problem.frames)
    movable = torch.isfinite(cost)
    for residual, rate, iterations in STAGES if movable.any() else ():
        final[movable], _ = descend(problem, final[movable], iterations, "adam", rate, residual, unit=space.unit)
        iteration += iterations
        cost = problem.cost(final, problem.frames)
        history.append(history_entry(problem, str(residual), problem.frames, final, cost, iteration))
        report(history[-1])
    return Outcome.of(problem, initial, final, iteration, history)


def follow(
    problem: Problem, start: Tensor, schedule: Schedule, optimiser: str = "adam", rate: float = 0.05
) -> tuple[Tensor, list[Tensor]]:
    """Descend on one loss after another, each with an optimiser that knows nothing of the others.

    Returns:
        Where each start ended (starts, unknowns), and the losses (iterations, starts) of each stage.
    """
    u, losses = start, []
    for stage in schedule.stages:
        u, stage_losses = descend(problem, u, stage.iterations, optimiser, rate, stage.loss, stage.rtol)
        losses.append(stage_losses)
    return u, losses
