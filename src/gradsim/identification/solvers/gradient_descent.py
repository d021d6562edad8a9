"""Gradient descent by adjoints with PyTorch's optimizers: the paper's protocol, and for many unknowns.

One iteration is one rollout forward and one backward of each start. A start is a world, so starts run side by side.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from gradsim.identification.observation.base import Residual
from gradsim.identification.problem import Problem
from gradsim.losses import Schedule

OPTIMISERS = {
    "adam": lambda parameters, rate: torch.optim.Adam(parameters, rate),
    "sgd": lambda parameters, rate: torch.optim.SGD(parameters, rate, momentum=0.9),
    "lbfgs": lambda parameters, rate: torch.optim.LBFGS(parameters, rate, line_search_fn="strong_wolfe"),
}
AVERAGED = 10  # iterations: a stochastic step or one with momentum may go up


def descend(
    problem: Problem,
    start: Tensor,
    iterations: int,
    optimiser: str = "adam",
    rate: float = 0.05,
    residual: Residual = "pixels",
    rtol: float = 0.0,
    report: Callable[[int, Tensor], None] = lambda iteration, losses: None,
) -> tuple[Tensor, Tensor]:
    """Descend on the mean of the squared residuals from given starts.

    Args:
        problem: The problem; its unknowns move as least squares moves them (logarithms of positive quantities).
        start: (starts, unknowns), such as `problem.space.draw(rng, n)`.
        iterations: Number of steps of the optimiser.
        optimiser: "adam", "sgd" (momentum 0.9) or "lbfgs".
        rate: Learning rate.
        residual: Which residuals: "pixels", "cdf" (wide basin) or an image loss.
        rtol: Ends where no start's best loss has fallen by this share in an iteration, on average of ten.
        report: Called with the iteration and the loss of each start.

    Returns:
        Where each start ended (starts, unknowns), and the losses (iterations, starts).

    Raises:
        ValueError: If the optimiser is not one of these.
        Divergence: If a rollout leaves the finite numbers.
    """
    if optimiser not in OPTIMISERS:
        raise ValueError(f"no optimiser {optimiser!r}; choose one of {', '.join(OPTIMISERS)}.")
    u = start.clone().requires_grad_()
    steps = OPTIMISERS[optimiser]([u], rate)
    losses = []

    def loss_of_each() -> Tensor:
        trajectory = problem.model.rollout(problem.space.values(u), frames=problem.frames)
        problem.effort.rollouts += len(u)
        blocks = problem.observation.residuals(trajectory, problem.frames, residual)
        return torch.stack([r.square().mean(1) for r in blocks]).mean(0)

    def closure() -> Tensor:
        steps.zero_grad()
        per_start = loss_of_each()
        per_start.sum().backward()
        closure.last = per_start.detach()
        return per_start.sum()

    for iteration in range(iterations):
        steps.step(closure)
        with torch.no_grad():
            u.clamp_(problem.space.low, problem.space.high)
        losses.append(closure.last)
        report(iteration, closure.last)
        if rtol and len(losses) > AVERAGED:
            best = torch.stack(losses).cummin(0).values
            if (best[-1 - AVERAGED] - best[-1] <= AVERAGED * rtol * best[-1 - AVERAGED]).all():
                break
    return u.detach(), torch.stack(losses)


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
