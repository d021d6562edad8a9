"""L-BFGS with adjoint gradients for many unknowns (Liu and Nocedal 1989): a simple alternative to Gauss–Newton."""

import torch
from torch import Tensor

from gradsim.identification.fields.problem import FieldProblem
from gradsim.identification.observation.base import Residual
from gradsim.physics.model import Divergence

MEMORY = 30  # history size
DIVERGED_COST = 1e30  # cost of diverged rollouts, from which the line search backtracks


def descend(
    problem: FieldProblem, start: Tensor, frames: int, residual: Residual, iterations: int, rtol: float = 1e-9
) -> tuple[Tensor, float, int]:
    """Minimize the cost from one start.

    Args:
        problem: The problem.
        start: u (unknowns,).
        frames: Number of first frames to fit.
        residual: Type of residuals, as for `Problem.cost`.
        iterations: Maximum number of steps.
        rtol: Relative change of the cost at which to stop.

    Returns:
        u, its cost, and the number of steps.
    """
    u = start.clone().requires_grad_()
    best = [torch.inf, start.clone()]
    method = torch.optim.LBFGS([u], 1.0, iterations, None, 0.0, 0.0, MEMORY, "strong_wolfe")
    first = problem.at(start, frames, residual).cost
    method.param_groups[0]["tolerance_change"] = rtol  # of the cost, which starts at 1

    def closure() -> float:
        try:
            linearization = problem.at(u.detach(), frames, residual)
        except Divergence:
            u.grad = torch.zeros_like(u)
            return DIVERGED_COST
        u.grad = 2 * linearization.gradient() / first
        if linearization.cost < best[0]:
            best[:] = linearization.cost, u.detach().clone()
        return linearization.cost / first

    if first > 0:
        method.step(closure)
    return best[1], min(best[0], first), int(method.state[u].get("n_iter", 0))
