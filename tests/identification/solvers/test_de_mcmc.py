"""Differential-evolution Markov chains on distributions whose moments are known."""

from types import SimpleNamespace

import numpy as np
import torch

from gradsim.identification.problem import Effort
from gradsim.identification.solvers.de_mcmc import sample

COVARIANCE = torch.tensor([[1.0, 0.9, 0.0], [0.9, 2.0, -0.4], [0.0, -0.4, 0.5]]).double()
CENTER = torch.tensor([1.0, -2.0, 0.5]).double()


def gaussian(low=-100.0, high=100.0):
    precision = torch.linalg.inv(COVARIANCE)
    cost = lambda u, frames: torch.einsum("wi,ij,wj->w", u - CENTER, precision, u - CENTER)
    bounds = {"low": torch.full((3,), low).double(), "high": torch.full((3,), high).double()}
    return SimpleNamespace(space=SimpleNamespace(**bounds), frames=1, cost=cost, effort=Effort())


def draw(problem, start=CENTER, seed=0, **options):
    scale = 0.3 * torch.eye(3).double()
    return sample(problem, start, scale, np.random.default_rng(seed), **options)


def test_samples_of_a_gaussian_have_its_mean_and_covariance():
    """χ² of a Gaussian, so its density is exp(−χ²/2). Chains are correlated over some 20 steps: 10 % and less."""
    drawn = draw(gaussian(), chains=24, generations=3000).u
    size = COVARIANCE.diagonal().sqrt()
    assert ((drawn.mean(0) - CENTER).abs() < 0.1 * size).all()
    assert ((torch.cov(drawn.T) - COVARIANCE).abs() < 0.2 * size[:, None] * size).all()


def test_no_sample_leaves_the_bounds():
    drawn = draw(gaussian(-2.5, 1.2), generations=400).u
    assert drawn.min() >= -2.5 and drawn.max() <= 1.2


def test_the_best_point_met_is_kept():
    problem = gaussian()
    start = CENTER + torch.tensor([0.5, 0.5, 0.0])
    found = draw(problem, start, generations=400)
    assert found.best_cost == problem.cost(found.best[None], 1).item()
    assert found.best_cost <= problem.cost(start[None], 1).item()
    assert found.best_cost <= problem.cost(found.u, 1).min().item()


def test_a_share_of_proposals_is_accepted_that_lets_chains_move():
    """The best share for a Gaussian of few dimensions is about a third (Roberts et al. 1997)."""
    assert 0.1 < draw(gaussian(), generations=400).accepted < 0.6


def test_the_same_seed_gives_the_same_samples():
    one, two = (draw(gaussian(), seed=3, generations=40) for _ in range(2))
    assert torch.equal(one.u, two.u)
