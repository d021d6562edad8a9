import numpy as np
import pytest
import torch
from tolerances import ROUNDING, assert_near

from gradsim_reproduction.baselines.reinforce import LEAST, Plan, negative_log_likelihood, normalized, reinforce


def test_the_search_climbs_a_smooth_reward_within_its_noise():
    # near the top the normalised rewards are noise: the mean ends within some σ = 0.05 of the answer
    means = reinforce(lambda s: -((s - 2.0) ** 2), 1.2, Plan(), np.random.default_rng(0))
    assert len(means) == 126 and abs(means[-1] - 2.0) < 0.1 < abs(means[0] - 2.0)


def test_decay_keeps_a_far_start_from_arriving():
    # with rewards that only point up, what Adam walks is a number of rates that does not grow with the steps
    walks = [
        reinforce(lambda s: s, 1.0, Plan(rate=rate, steps=steps), np.random.default_rng(1))[-1] - 1.0
        for rate, steps in ((0.1, 125), (0.2, 125), (0.1, 250))
    ]
    assert walks[0] > 0.3
    assert walks[1] == pytest.approx(2 * walks[0], rel=0.2)
    assert walks[2] == pytest.approx(walks[0], rel=0.05)


def test_a_reward_that_says_nothing_moves_nothing():
    assert set(reinforce(lambda s: 1.0, 3.0, Plan(steps=5), np.random.default_rng(0))) == {3.0}
    assert normalized(np.ones(4)).tolist() == [0, 0, 0, 0]


def test_masses_stay_positive():
    asked = []
    means = reinforce(lambda s: asked.append(s) or -s, 0.05, Plan(steps=20), np.random.default_rng(0))
    assert min(asked) == LEAST == min(means)


def test_the_likelihood_is_that_of_the_normal_distribution():
    mean, std = torch.tensor([2.0, 0.05], dtype=torch.float64)
    normal = torch.distributions.Normal(mean, std)
    x = torch.linspace(1, 3, 7).double()
    assert_near(negative_log_likelihood(x, 2.0, 0.05), -normal.log_prob(x), ROUNDING)
