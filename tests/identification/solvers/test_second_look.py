"""A second look over the ranges, at costs that are known."""

import numpy as np
import pytest
import torch
from given_costs import parabolas, problem

from gradsim.identification.solvers.second_look import DESCENT_SHARE, SCREENING_SHARE, second_look

SPENT = 2000  # rollouts of the search before


def looked(whole, answer: list[float]) -> tuple[torch.Tensor, int]:
    """Ends of a second look at a cost within -1 … 1, and how many places it compared and descended from."""
    clip, places = problem(whole, n=len(answer)), []
    one = torch.ones(len(answer)).double()
    clip.space.low, clip.space.high, clip.space.unit = -one, one, 2 * one
    clip.effort.rollouts, measured = SPENT, clip.cost
    clip.cost = lambda u, *more: places.append(len(u)) or measured(u, *more)
    return second_look(clip, torch.tensor(answer).double(), np.random.default_rng(0)), sum(places)


@pytest.mark.parametrize("unknowns", [1, 2])
def test_a_second_minimum_is_met(unknowns):
    """Two valleys alike, which meet halfway: the second is a half, or more, of the ranges."""
    ends, _ = looked(lambda u: parabolas(u, (-0.4, 0.01, 5), (0.7, 0.01, 5)), unknowns * [0.7])
    assert len(ends) and (ends + 0.4).abs().max() < 1e-3  # a tenth of σ: they rest before that


def test_one_unknown_with_one_valley_is_compared_and_not_descended():
    ends, places = looked(lambda u: parabolas(u, (0.7, 0.01, 5)), [0.7])
    assert not len(ends) and places == 33


def test_it_takes_a_share_of_the_effort_of_the_search():
    """Teeth, which are all minima: of 100 of them, as many descend as the effort allows."""
    rugged = lambda u: parabolas(u, (0.7, 0.01, 5)) + 1e4 * torch.sin(300 * u).square().sum(1)
    _, places = looked(rugged, [0.7])
    assert places < 1.5 * (SCREENING_SHARE + DESCENT_SHARE) * SPENT
