"""Fisher information from wide secants, on residuals whose information is known."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from gradsim.identification.uncertainty.fisher import is_quadratic, secant_fisher

SLOPE = 1e4  # of the residuals: an error bar of 1e-4
TOOTH = 1e-6


def problem(residuals, unknowns: int, prior: float = 0.0):
    space = SimpleNamespace(unit=torch.ones(unknowns, dtype=torch.float64))
    precision = prior * torch.eye(unknowns, dtype=torch.float64)
    return SimpleNamespace(space=space, prior_precision=precision, residual_blocks=lambda u: residuals(u).split(3, 1))


def sawtooth(z: Tensor) -> Tensor:
    """A line of slope 1 cut into teeth that rise 20 times as steeply."""
    return z + 19 * (z - TOOTH * torch.round(z / TOOTH))


def stairs(x: Tensor) -> Tensor:
    """A line of slope 1 in level steps."""
    return TOOTH * torch.round(x / TOOTH)


def kinked_beside(first) -> tuple[Tensor, bool]:
    """Information about (x, y, z) where z is kinked, and `first(x, y)` is the other residual."""
    residuals = lambda u: SLOPE * torch.stack([first(u[:, 0], u[:, 1]), u[:, 1], sawtooth(u[:, 2])], 1)
    at = torch.zeros(3, dtype=torch.float64)
    tangents = torch.autograd.functional.jacobian(lambda u: residuals(u[None])[0], at)
    return secant_fisher(problem(residuals, 3), at, tangents.T @ tangents)


@pytest.mark.parametrize("variance", [1.0, 400.0, 1e-4])
def test_smooth_residuals_are_not_kinked_whatever_their_noise(variance):
    """Residuals linear in u: tangents are exact at every scale, and the noise is a factor in front of both."""
    J = torch.randn(30, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * SLOPE
    prior = 0.5
    tangents = J.T @ J / variance + prior * torch.eye(3)
    linear = problem(lambda u: u @ J.T, 3, prior)
    found, nonsmooth = secant_fisher(linear, torch.zeros(3).double(), tangents, variance=variance)
    assert not nonsmooth and torch.equal(found, tangents)


def test_kinked_likelihood_has_the_information_of_its_trend():
    found, nonsmooth = kinked_beside(lambda x, y: x)
    assert nonsmooth
    assert found[2, 2].item() == pytest.approx(SLOPE**2, rel=0.1)  # a tooth over an error bar: 1e-6 over 1e-4, ×19/2


def test_valley_that_bends_stays_open():
    """The residual y − 40 x³ says nothing about x at 0, though it is far from 0 a straight step of 0.3 away."""
    found, nonsmooth = kinked_beside(lambda x, y: y - 40 * x**3)
    assert nonsmooth
    assert found[0, 0] < 0.1**-2


def test_level_steps_along_an_open_direction_do_not_hide_a_slope():
    """All tangents by x vanish, but at every width above a stair's the residual rises with x."""
    found, nonsmooth = kinked_beside(lambda x, y: stairs(x))
    assert nonsmooth
    assert found[0, 0].item() == pytest.approx(SLOPE**2, rel=0.1)


@pytest.mark.parametrize("tangent", [2.5, 0.4])
def test_error_bar_of_teeth_is_the_scatter_of_the_estimates(tangent):
    """Teeth of 6 times or a 6th of the information of their trend, and a hundredth of an error bar in size.

    What data of noise 1 are fitted best by lies in the tooth nearest to them, so estimates scatter as the trend says, off
    by half a tooth at most. The standard deviation of n of them is known to 1/√(2n).
    """
    residual = lambda z: SLOPE * (z + (tangent - 1) * (z - TOOTH * torch.round(z / TOOTH)))
    data = torch.randn(4000, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / SLOPE
    tooth = TOOTH * torch.round(data / TOOTH)
    estimates = tooth + ((data - tooth) / tangent).clamp(-TOOTH / 2, TOOTH / 2)
    slope = torch.tensor([[tangent * SLOPE]]).double()
    found, nonsmooth = secant_fisher(problem(residual, 1), torch.zeros(1).double(), slope.square())
    assert nonsmooth
    assert found.rsqrt().item() == pytest.approx(
        estimates.std().item(), rel=4 / math.sqrt(2 * len(data)) + TOOTH * SLOPE
    )


@pytest.mark.parametrize(("height", "quadratic"), [(0.0, True), (1.0, True), (12.0, False)])
def test_valleys_within_four_standard_deviations_are_not_quadratic(height, quadratic):
    """χ² of two directions with valleys a standard deviation of one apart; shallow ones are noise, and a minimum is never exact."""
    J = torch.tensor([[3.0, 1.0], [0.5, 2.0]], dtype=torch.float64) * SLOPE
    fisher = J.T @ J

    def cost(u: Tensor, frames: int) -> Tensor:
        smooth = torch.einsum("ki,ij,kj->k", u, fisher, u) + SLOPE * u.sum(1)
        return smooth + height * (1 - torch.cos(2 * math.pi * u[:, 1] * fisher[1, 1].sqrt()))

    space = SimpleNamespace(unit=torch.ones(2).double(), low=torch.tensor(-1.0), high=torch.tensor(1.0))
    problem = SimpleNamespace(space=space, cost=cost, frames=1, prior_precision=torch.zeros(2, 2).double())
    assert is_quadratic(problem, torch.zeros(2).double(), fisher) == quadratic


@pytest.mark.parametrize(
    ("jumps", "quadratic"),
    [
        ([], True),
        (
            [(2.5, 6.0), (-2.5, -7.0)],
            False,
        ),  # χ² 4 away is 22 and 9, which is 16 in the mean, and 3 away on the low side 2
        ([(5.0, -30.0)], False),  # 6 at 6
        ([(7.0, -61.0)], False),  # 3 at 8
        ([(7.0, -40.0)], True),  # 24: the posterior has no mass there
    ],
)
def test_teeth_beside_a_valley_are_seen_whatever_the_mean_of_both_sides(jumps, quadratic):
    """χ² jumps at places in standard deviations, as where a corner no longer meets the ground."""

    def cost(u: Tensor, frames: int) -> Tensor:
        x = SLOPE * u[:, 0]
        steps = [torch.where(x * at > at * at, rise, 0.0) for at, rise in jumps]
        return x.square() + sum(steps, torch.zeros_like(x))

    space = SimpleNamespace(unit=torch.ones(1).double(), low=-torch.ones(1), high=torch.ones(1))
    problem = SimpleNamespace(space=space, cost=cost, frames=1, prior_precision=torch.zeros(1, 1).double())
    assert is_quadratic(problem, torch.zeros(1).double(), torch.tensor([[SLOPE**2]]).double()) == quadratic


@pytest.mark.parametrize(("jumps", "quadratic"), [([], True), ([(3.0, -7.0)], False)])
def test_a_valley_at_the_end_of_a_range_is_quadratic_if_the_side_within_is(jumps, quadratic):
    def cost(u: Tensor, frames: int) -> Tensor:
        x = SLOPE * u[:, 0]
        return x.square() + sum((torch.where(x > at, rise, 0.0) for at, rise in jumps), torch.zeros_like(x))

    space = SimpleNamespace(unit=torch.ones(1).double(), low=torch.zeros(1), high=torch.ones(1))
    problem = SimpleNamespace(space=space, cost=cost, frames=1, prior_precision=torch.zeros(1, 1).double())
    assert is_quadratic(problem, torch.zeros(1).double(), torch.tensor([[SLOPE**2]]).double()) == quadratic


@pytest.mark.parametrize(("share", "quadratic"), [(0.2, False), (0.8, True)])
def test_a_direction_that_priors_determine_is_no_valley_of_the_data(share, quadratic):
    """χ² of the second direction rises three times as fast as its curvature says: by the data, or by the little that they add."""
    fisher, prior = 100 * torch.eye(2).double(), 100 * share * torch.diag(torch.tensor([0.0, 1.0])).double()
    space = SimpleNamespace(unit=torch.ones(2).double(), low=torch.tensor(-1.0), high=torch.tensor(1.0))
    cost = lambda u, frames: 100 * (u[:, 0] ** 2 + 3 * u[:, 1] ** 2)
    problem = SimpleNamespace(space=space, cost=cost, frames=1, prior_precision=prior)
    assert is_quadratic(problem, torch.zeros(2).double(), fisher) == quadratic
