"""Any loss of images as what a fit lowers, by least squares and by descent."""

import numpy as np
import pytest
import torch
from fit_cases import THROW_TRUTH, swinging, thrown, true_inner
from tolerances import SOLVED, assert_near, near

from gradsim.identification.solvers import gradient_descent
from gradsim.identification.solvers.levenberg_marquardt import Population, follow
from gradsim.losses import LOSSES, MSE, Robust, coarse_to_fine

EVERY = [*LOSSES.values(), Robust(MSE(), 0.05)]


@pytest.mark.parametrize("loss", EVERY, ids=lambda loss: loss.name)
def test_normal_equations_are_those_of_the_residuals_that_descent_differentiates(loss):
    """Cost Σ r² and g = Jᵀ r, against ½ ∂(Σ r²)/∂u of autograd; A = Jᵀ J of the blocks."""
    problem = thrown()
    u = (true_inner(problem, THROW_TRUTH) + 0.1).requires_grad_()
    trajectory = problem.model.rollout(problem.space.values(u))
    blocks = list(problem.observation.residuals(trajectory, problem.frames, loss))
    cost = torch.stack([r.square().sum() for r in blocks]).sum()
    (gradient,) = torch.autograd.grad(cost, u)
    total, A, g = problem.linearize(u.detach(), problem.frames, loss)
    assert total.item() == near(cost.item(), SOLVED)
    assert problem.cost(u.detach(), problem.frames, loss).item() == near(cost.item(), SOLVED)
    assert torch.allclose(g, gradient / 2, rtol=1e-7)
    jacobian = torch.cat([J[0] for _, J in problem.jacobian(u.detach(), problem.frames, loss)])
    assert_near(A[0], jacobian.mT @ jacobian, SOLVED)


def test_the_cdf_by_its_name_is_what_coarse_means():
    problem = thrown()
    u = true_inner(problem, THROW_TRUTH) + 0.1
    for own, expected in zip(*(problem.linearize(u, 4, x) for x in (LOSSES["cdf"], "cdf")), strict=True):
        assert torch.equal(own, expected)


def test_least_squares_and_descent_follow_a_schedule():
    problem = swinging()
    start = problem.space.draw(np.random.default_rng(0), 2)
    found, _ = follow(problem, Population.at(start), problem.frames, coarse_to_fine(iterations=(10, 10)))
    assert (found.cost < 1e-8 * problem.cost(start, problem.frames)).all()
    end, losses = gradient_descent.follow(problem, start, coarse_to_fine("moments", "l1", (12, 6)), rate=0.03)
    assert [len(stage) for stage in losses] == [12, 6]
    assert (problem.cost(end, problem.frames) < 0.5 * problem.cost(start, problem.frames)).all()


def test_descent_ends_where_nothing_is_gained():
    problem = thrown()
    start = true_inner(problem, THROW_TRUTH)
    _, losses = gradient_descent.descend(problem, start, 60, "sgd", rate=1e-12, rtol=1e-3)
    assert len(losses) == 11
