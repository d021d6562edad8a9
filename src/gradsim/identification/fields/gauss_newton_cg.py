"""Matrix-free Gauss–Newton with conjugate gradients, for many unknowns.

    (JᵀJ + BᵀB + λ s) d = −g,   u ← u + d       accept if the cost falls

solved by conjugate gradients with the products of `fields.problem.Linear` to a tolerance that falls with the gradient
(Dembo, Eisenstat, Steihaug 1982), preconditioned by the prior; s is the curvature along the first gradient.
"""

from collections.abc import Callable

import torch
from scipy.sparse import csc_array, eye_array
from scipy.sparse.linalg import splu
from torch import Tensor

from gradsim.identification.fields.problem import FieldProblem, Linear
from gradsim.identification.observation.base import Residual

MAX_INNER_RESIDUAL = 0.1  # maximum relative residual of an inner solve
MIN_DAMPING, MAX_DAMPING = 1e-14, 1e6  # range of λ
MAX_STEP = 1.0  # maximum change of an unknown per step: a factor of e, or its scale


def descend(
    problem: FieldProblem,
    start: Tensor,
    frames: int,
    residual: Residual = "pixels",
    iterations: int = 30,
    inner: int = 200,
    target_cost: float = 0.0,
    rtol: float = 1e-9,
    report: Callable[[int, float], None] = lambda iteration, cost: None,
) -> tuple[Tensor, float, int]:
    """Minimize the cost from one start.

    Args:
        problem: The problem.
        start: u (unknowns,).
        frames: Number of first frames to fit.
        residual: Type of residuals, as for `Problem.cost`.
        iterations: Maximum number of linearizations.
        inner: Maximum number of products with JᵀJ per linearization.
        target_cost: Cost at which to stop.
        rtol: Relative decrease of the cost at which to stop.
        report: Called with the iteration and the cost.

    Returns:
        u, its cost, and the number of linearizations.

    Raises:
        Divergence: If the rollout of the start diverges.
    """
    u, damping, first, count = start.clone(), 1e-3, 0.0, 0
    linearization, cost = problem.at(u, frames, residual), torch.inf
    for count in range(1, iterations + 1):
        cost, g = linearization.cost, linearization.gradient()
        report(count, cost)
        size = torch.linalg.vector_norm(g).item()
        first = first or size
        if cost <= target_cost or size == 0:
            break
        scale = _curvature(problem, linearization, g)
        accepted = False
        while not accepted and damping < MAX_DAMPING:
            step = solve(
                problem, linearization, -g, damping * scale, min(MAX_INNER_RESIDUAL, (size / first) ** 0.5), inner
            )
            step = step * min(1.0, MAX_STEP / step.abs().max().clamp(min=1e-300).item())
            accepted = problem.cost((u + step)[None], frames, residual).item() < cost
            damping = max(MIN_DAMPING, damping * (0.1 if accepted else 10.0))
        if not accepted:
            break
        u = u + step
        linearization = problem.at(u, frames, residual)
        if cost - linearization.cost <= rtol * cost:
            break
    return u, linearization.cost, count


def solve(problem: FieldProblem, linearization: Linear, b: Tensor, shift: float, tolerance: float, most: int) -> Tensor:
    """d with (JᵀJ + BᵀB + shift) d ≈ b, to a relative residual."""
    precondition = _preconditioner(problem, shift)
    d, r = torch.zeros_like(b), b.clone()
    z = precondition(r)
    p, rho = z.clone(), (r @ z).item()
    goal = tolerance * torch.linalg.vector_norm(b).item()
    for _ in range(most):
        q = linearization.vjp(linearization.jvp(p)) + problem.prior_product(p) + shift * p
        bent = (p @ q).item()
        if bent <= 0:  # rounding
            break
        d, r = d + rho / bent * p, r - rho / bent * q
        if torch.linalg.vector_norm(r).item() <= goal:
            break
        z = precondition(r)
        rho, before = (r @ z).item(), rho
        p = z + rho / before * p
    return d


def _curvature(problem: FieldProblem, linearization: Linear, g: Tensor) -> float:
    """Curvature of the cost along its gradient."""
    along = g / torch.linalg.vector_norm(g)
    return (linearization.jvp(along).square().sum() + along @ problem.prior_product(along)).item()


def _preconditioner(problem: FieldProblem, shift: float) -> Callable[[Tensor], Tensor]:
    if not problem.has_prior:
        return lambda r: r
    n = len(problem.mean)
    solved = splu(csc_array(problem.root.T @ problem.root + (shift + 1e-300) * eye_array(n)))
    return lambda r: torch.tensor(solved.solve(r.numpy()))
