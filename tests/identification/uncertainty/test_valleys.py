"""Lists of the valleys of likelihoods that are known."""

import numpy as np
import pytest
import torch
from given_costs import CENTER, PRECISION, gaussian, parabolas, problem

from gradsim.identification.uncertainty.valleys import APART, MAX_CHI2_GAP, find_valleys


def starts(count, seed=0):
    return torch.tensor(np.random.default_rng(seed).uniform(-1, 1, (count, 1)))


def test_each_minimum_is_listed_once_with_its_mass_and_visits():
    """σ of 0.1 and 0.05, heights 6 and 5, so masses 1 : √e/2. They meet at u = 0.2."""
    clip = problem(lambda u: parabolas(u, (-0.6, 0.1, 6), (0.6, 0.05, 5)), n=1)
    found = find_valleys(clip, starts(64))
    assert found.u[:, 0].tolist() == pytest.approx([0.6, -0.6]) and found.cost.tolist() == pytest.approx([5, 6])
    assert found.visits.tolist() == [(starts(64) > 0.2).sum().item(), (starts(64) < 0.2).sum().item()]
    mass = found.mixture().share
    assert (mass[0] / mass[1]).item() == pytest.approx(0.5 * np.exp(0.5))


def test_a_valley_too_shallow_to_count_is_left_out():
    clip = problem(lambda u: parabolas(u, (-0.6, 0.1, MAX_CHI2_GAP + 6), (0.6, 0.05, 5)), n=1)
    found = find_valleys(clip, starts(32))
    assert found.u[:, 0].tolist() == pytest.approx([0.6]) and found.visits.sum() < 32


@pytest.mark.parametrize("distance, count", [(0.9 * APART, 1), (1.1 * APART, 2)])
def test_two_minima_within_three_standard_deviations_are_one_valley(distance, count):
    clip = problem(lambda u: parabolas(u, (0, 0.1, 5), (0.1 * distance, 0.1, 5)), n=1)
    assert len(find_valleys(clip, starts(32)).u) == count


def test_the_scale_of_a_valley_is_that_of_its_information():
    """The Gaussian at a tenth of its size: scales are at most a relative 0.3."""
    found = find_valleys(problem(lambda u: gaussian(CENTER + 10 * (u - CENTER))), CENTER + torch.ones(3, 2).double())
    scale = found.mixture().scale[0]
    assert torch.allclose(scale @ scale.T, torch.linalg.inv(PRECISION) / 100)
