"""95 % intervals, from standard deviations and from samples."""

import math

import pytest
import torch
from tolerances import ROUNDING, near

from gradsim.identification.solvers.de_mcmc import Samples
from gradsim.identification.uncertainty.fisher import Uncertainty
from gradsim.identification.uncertainty.intervals import BLIND, Z95, estimate_in_range, estimates_with_intervals
from gradsim.identification.unknowns import Space
from gradsim.scene import Scene


@pytest.fixture(scope="module")
def space() -> Space:
    return Space(Scene.library("cube"), ["cube.mass:2:12", "cube.velocity.x:-1:1"])


def uncertainty(space: Space, *std: float) -> Uncertainty:
    inner = torch.tensor(std).double()
    return Uncertainty(inner, inner / space.unit, torch.diag(inner**2), torch.diag(inner**2), len(inner), [])


def answer(space: Space) -> torch.Tensor:
    return space.inner(torch.tensor([5.0, 0.2]).double())


def test_the_normal_distribution_has_95_percent_within_z95():
    assert math.erf(Z95 / math.sqrt(2)) == near(0.95, ROUNDING, scale=1.0)


def test_the_interval_of_a_positive_number_is_even_in_its_logarithm(space):
    mass, speed = estimates_with_intervals(space, answer(space), uncertainty(space, 0.1, 0.1)).values()
    assert mass.interval95 == pytest.approx((5 * math.exp(-Z95 * 0.1), 5 * math.exp(Z95 * 0.1)))
    assert speed.interval95 == pytest.approx((0.2 - Z95 * 0.1, 0.2 + Z95 * 0.1))
    assert (mass.std, speed.std) == pytest.approx((5 * 0.1, 0.1))


def test_an_unknown_without_information_has_a_finite_interval_if_it_is_positive(space):
    mass, speed = estimates_with_intervals(space, answer(space), uncertainty(space, math.inf, math.inf)).values()
    assert 0 < mass.interval95[0] < 1e-300 and 1e300 < mass.interval95[1] < math.inf
    assert speed.interval95 == (-math.inf, math.inf) and not mass.identifiable and not speed.identifiable


def test_intervals_from_samples_are_their_quantiles(space):
    """Of 1001 even steps, the quantiles are the 26th from each end."""
    u = torch.stack([torch.linspace(0.0, 1.0, 1001).double().log1p(), torch.linspace(-0.5, 0.5, 1001).double()], 1)
    samples = Samples(u, u[0], 0.0, 0.3)
    mass, speed = estimates_with_intervals(space, answer(space), uncertainty(space, 0.1, 0.1), samples).values()
    assert mass.interval95 == pytest.approx((1.025, 1.975)) and speed.interval95 == pytest.approx((-0.475, 0.475))
    assert speed.std == pytest.approx(1 / math.sqrt(12), rel=2e-3)  # of the uniform distribution


def test_an_interval_of_a_fit_in_windows_ends_at_its_range(space):
    u = answer(space)
    speed = estimate_in_range(space, 1, u[1].item(), uncertainty(space, 0.1, 0.9))
    assert speed.interval95 == (-1.0, 1.0) and speed.std == pytest.approx(0.9)
    unit = space.unit[1].item()
    assert estimate_in_range(space, 1, u[1].item(), uncertainty(space, 0.1, 1.1 * BLIND * unit)).std == math.inf
