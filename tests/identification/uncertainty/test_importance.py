"""Weights of draws from mixtures of Student's t."""

import math

import numpy as np
import pytest
import torch
from given_costs import CENTER, COVARIANCE, gaussian, parabolas, problem

from gradsim.identification.uncertainty.importance import StudentMixture, importance_sample, systematic


def test_weighted_draws_of_a_gaussian_have_its_moments_and_count():
    """Student's t of 5 degrees about the truth: three quarters of the draws count, 400 tell σ to some 5 %."""
    mixture = StudentMixture.single(CENTER, torch.linalg.cholesky(COVARIANCE))
    found = importance_sample(problem(gaussian), mixture, 2, np.random.default_rng(0))
    mean = found.weight @ found.u
    off = found.u - mean
    covariance = (off * found.weight[:, None]).T @ off
    assert found.effective_sample_fraction > 0.5
    assert ((mean - CENTER).abs() < 0.25 * COVARIANCE.diagonal().sqrt()).all()
    assert ((covariance - COVARIANCE).abs() < 0.3 * COVARIANCE.diagonal().max()).all()


@pytest.mark.parametrize("unknowns", [1, 3])
def test_intervals_of_draws_hold_95_percent_of_a_gaussian(unknowns):
    """Of 400 independent draws, one each, the least of twenty fits held 90 to 91 %, and the mean 94.4 %."""
    clip, held = problem(lambda u: u.square().sum(1), n=unknowns), []
    mixture = StudentMixture.single(torch.zeros(unknowns).double(), torch.eye(unknowns).double())
    for seed in range(20):
        rng = np.random.default_rng(seed)
        samples = importance_sample(clip, mixture, 2, rng).samples(rng)
        ends = torch.quantile(samples, torch.tensor([0.025, 0.975]).double(), dim=0)
        held += (torch.erf(ends / math.sqrt(2)) / 2).diff(dim=0)[0].tolist()
    assert min(held) > 0.925 and np.mean(held) == pytest.approx(0.95, abs=0.003)


def moved(where, n=2):
    """The Gaussian about CENTRE + where."""
    return problem(lambda u: gaussian(u - where), lambda u: gaussian(u - where) / 100, n)


FAR = torch.tensor([128.0, -64.0]).double()  # hundreds of σ; powers of 2, so that sums round little


def test_a_t_fitted_to_draws_does_not_depend_on_where_zero_is():
    """The first t is 12 times as wide and 3 σ off, so it is fitted anew; its covariance is about the mean of the draws."""
    axes, offset = torch.linalg.cholesky(COVARIANCE), 3 * COVARIANCE.diagonal().sqrt()
    near, far = (
        importance_sample(
            moved(where), StudentMixture.single(CENTER + where + offset, 12 * axes), 2, np.random.default_rng(7)
        )
        for where in (torch.zeros(2).double(), FAR)
    )
    # values of some 100 round to 1e-14, which costs some 100 σ away turn into 1e-12, and a second round multiplies
    assert torch.allclose(far.u - FAR, near.u, atol=1e-9)
    assert torch.allclose(far.weight, near.weight, rtol=1e-9)
    assert (near.u - CENTER - offset).abs().mean() < 6 * COVARIANCE.diagonal().sqrt().mean()  # no draws of the first t


def test_resampling_takes_each_draw_as_often_as_its_weight_says_to_within_one():
    weight = torch.tensor(np.random.default_rng(1).dirichlet(np.ones(30)))
    often = torch.bincount(systematic(weight, 500, np.random.default_rng(2)), minlength=30)
    assert ((often - 500 * weight).abs() <= 1).all() and often.sum() == 500


def test_the_density_of_a_mixture_is_that_of_its_draws():
    """Weights of two t with shares and scales of their own integrate to the exact evidence ∫ exp(−χ²/2) = √(2π)."""
    mixture = StudentMixture(
        torch.tensor([0.8, 0.2]).double(),
        torch.tensor([[-1.0], [3.0]]).double(),
        torch.tensor([[[2.0]], [[0.5]]]).double(),
    )
    u = mixture.draw(200_000, np.random.default_rng(3))
    line = torch.linspace(-400, 400, 400_001).double()[:, None]
    constant = mixture.log_density(line).exp().sum() * (line[1] - line[0])
    density = mixture.log_density(u).exp() / constant
    evidence = (torch.exp(-u[:, 0].square() / 2) / density).mean().item()
    assert evidence == pytest.approx(math.sqrt(2 * math.pi), rel=0.01)  # 200 000 draws tell it to 0.3 %
    assert (u[:, 0] > 2.5).double().mean().item() == pytest.approx(0.2, abs=0.1)


def test_masses_of_two_valleys_come_from_weights_whatever_the_shares():
    """Valleys of σ = 1 and 1/2, equally deep: masses 2 : 1. Shares of 1 : 9 are corrected, and fitted."""
    valleys = problem(lambda u: parabolas(u, (-6, 1, 5), (6, 0.5, 5)), n=1)
    centre, scale = torch.tensor([[-6.0], [6.0]]).double(), torch.tensor([[[1.5]], [[0.1]]]).double()
    mixture = StudentMixture(torch.tensor([0.1, 0.9]).double(), centre, scale)
    # shares that are twice off leave 0.6 of the draws counting, which would be enough otherwise
    found = importance_sample(valleys, mixture, 2, np.random.default_rng(4), enough=0.8)
    assert found.weight[found.u[:, 0] > 0].sum().item() == pytest.approx(1 / 3, abs=0.03)
    assert found.mixture.share[1].item() == pytest.approx(1 / 3, abs=0.1)
    assert found.effective_sample_fraction > 0.25
