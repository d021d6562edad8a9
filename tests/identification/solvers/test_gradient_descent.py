"""Gradient descent on the adjoint."""

import numpy as np
import pytest
import torch
from fit_cases import THROW_TRUTH, swinging, thrown, true_inner

from gradsim.identification.solvers.gradient_descent import OPTIMISERS, descend

RATES = {"adam": 0.05, "sgd": 3e-6, "lbfgs": 0.5}


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_every_optimiser_lowers_the_loss(optimiser):
    problem = thrown()
    start = true_inner(problem, THROW_TRUTH) + torch.tensor([[0.15, -0.2], [-0.1, 0.1]])
    _, losses = descend(problem, start, 6, optimiser, RATES[optimiser])
    assert losses.shape == (6, 2)
    assert (losses[-1] < 0.7 * losses[0]).all()


def test_adam_on_cdf_residuals_brings_a_ball_home():
    problem = swinging()
    start = problem.space.draw(np.random.default_rng(0), 2)
    end, losses = descend(problem, start, 40, rate=0.03, residual="cdf")
    assert (losses[-1] < 0.02 * losses[0]).all()
    assert (end >= problem.space.low).all() and (end <= problem.space.high).all()


def test_gradient_of_the_adjoint_is_that_of_the_sensitivities():
    """loss = mean r², so ∂loss/∂u = 2 Jᵀr/n."""
    problem = thrown()
    u = (true_inner(problem, THROW_TRUTH) + 0.1).requires_grad_()
    trajectory = problem.model.rollout(problem.space.values(u))
    (r,) = problem.observation.residuals(trajectory, problem.frames, "pixels")
    (gradient,) = torch.autograd.grad(r.square().mean(), u)
    _, _, g = problem.linearize(u.detach(), problem.frames)
    assert torch.allclose(gradient, 2 * g / r.shape[1], rtol=1e-8)


def test_one_iteration_of_one_start_counts_as_one_rollout():
    problem = thrown()
    descend(problem, true_inner(problem, THROW_TRUTH).expand(3, -1), 4)
    assert problem.effort.rollouts == 12


def test_an_optimiser_that_does_not_exist_is_refused():
    problem = thrown()
    with pytest.raises(ValueError, match="adam, sgd, lbfgs"):
        descend(problem, true_inner(problem, THROW_TRUTH), 1, "adagrad")
