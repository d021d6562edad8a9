"""Polyak's step against its closed forms."""

import math

import pytest
import torch
from tolerances import ROUNDING, SINGLE, ULPS, assert_near, near
from torch import Tensor, nn

from gradsim.control.training.polyak import Polyak
from gradsim.errors import InputError


def start() -> nn.Parameter:
    return nn.Parameter(torch.tensor([0.7, -1.3, 0.4], dtype=torch.float64))


def descend(theta: nn.Parameter, loss, steps: int, **settings) -> list[float]:
    optimiser = Polyak([theta], **settings)

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss(theta)
        value.backward()
        return value

    return [optimiser.step(closure) for _ in range(steps)]


def test_rate_two_is_the_gauss_newton_step_of_one_residual():
    """L = r², so the step is - r ∇r/|∇r|²."""
    theta, a = start(), torch.tensor([0.3, 2.0, -1.0], dtype=torch.float64)
    residual = lambda x: torch.sin(x @ a) + 0.2 * x[0] ** 2 - 0.4
    r = residual(theta)
    (slope,) = torch.autograd.grad(r, theta)
    expected = (theta - r * slope / slope.square().sum()).detach()
    descend(theta, lambda x: residual(x).square(), 1, lr=2.0, bound=10.0)
    assert_near(theta, expected, ULPS)


def test_a_norm_is_solved_in_one_step_and_a_linear_residual_by_gauss_newton():
    """L = |x| has L/|∇L|² ∇L = x; a linear r is 0 after a Gauss-Newton step. Both to rounding."""
    theta = start()
    descend(theta, lambda x: x.norm(), 1, bound=10.0)
    assert theta.abs().max() < 1e-15
    theta = start()
    descend(theta, lambda x: (x.sum() - 3).square(), 1, lr=2.0, bound=10.0)
    assert abs(theta.sum().item() - 3) < 1e-14


def test_every_step_comes_nearer_to_the_minimiser_of_a_convex_loss_whose_floor_is_known():
    """|θ' - θ*|² <= |θ - θ*|² - rate (2 - rate) (L - L*)²/|∇L|²."""
    A = torch.randn(3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    home = torch.tensor([0.2, 0.5, -0.9], dtype=torch.float64)
    loss = lambda x: (A @ (x - home)).abs().sum() + 2 * (x - home).square().sum() + 0.7
    theta = start()
    for _ in range(12):
        before = theta.detach().clone()
        value = loss(theta)
        (slope,) = torch.autograd.grad(value, theta)
        descend(theta, loss, 1, lr=1.2, floor=0.7, bound=10.0)
        gain = 1.2 * 0.8 * (value.item() - 0.7) ** 2 / slope.square().sum()
        assert (theta - home).square().sum() <= (before - home).square().sum() - gain + 1e-12
    assert (theta - home).norm() < 0.2 * (start() - home).norm()


def test_no_step_is_longer_than_its_bound():
    """Root mean square of the step: bound times the larger of 1 and that of the parameters."""
    for size in (1.0, 30.0):
        theta = nn.Parameter(size * start().detach())
        before = theta.detach().clone()
        descend(theta, lambda x: 1e-3 * x.sum() + 1e3, 1, bound=0.1)
        scale = max(1.0, before.square().mean().sqrt().item())
        assert (theta - before).square().mean().sqrt().item() == near(0.1 * scale, ROUNDING)


def valley(x: Tensor) -> Tensor:
    """Two squares, one a thousandth of the other."""
    return x[0].square() + 1e-3 * (x[1] + 0.4 * x[2]).square()


def test_deflected_directions_go_along_a_valley_that_the_gradient_alone_crosses_to_and_fro():
    alone, deflected = (descend(start(), valley, 40, deflect=one, lr=1.5, bound=1.0) for one in (False, True))
    assert min(deflected) < 0.1 * min(alone)


@pytest.mark.parametrize("turn, anew", [(-0.5, False), (0.5, None), (-0.99, True)])
def test_a_deflected_step_is_square_to_the_one_before_where_the_gradient_turns_back(turn, anew):
    """Gradients with a cosine of `turn` between them; of one nearly opposite too little is left."""
    theta = start()
    optimiser = Polyak([theta], bound=10.0)
    first = torch.tensor([0.6, 0.8, 0.0], dtype=torch.float64)
    second = turn * first + math.sqrt(1 - turn**2) * torch.tensor([0.8, -0.6, 0.0], dtype=torch.float64)
    places = []
    for slope in (first, 3 * second):
        places.append(theta.detach().clone())

        def closure(slope=slope) -> float:
            theta.grad = slope.clone()
            return 0.4

        optimiser.step(closure)
    step = theta.detach() - places[1]
    expected = 3 * second if anew is not False else 3 * (second - turn * first)
    assert_near(step, -0.4 * expected / expected.square().sum(), SINGLE)  # a loss that is no tensor becomes float32


def test_retreat_lets_a_loss_fall_that_cannot_reach_its_floor():
    """Least value 1, floor 0: near the minimum Polyak's steps grow without end; retreats make them die out."""
    loss = lambda x: x.square().sum() + 1
    leaping = descend(start(), loss, 40, bound=0.5)
    falling = descend(start(), loss, 40, bound=0.5, retreat=True)
    assert min(leaping[-10:]) > 1.01
    assert falling[-1] < 1 + 1e-3
    accepted = [value for k, value in enumerate(falling) if value <= min(falling[: k + 1])]
    assert accepted == sorted(accepted, reverse=True)


def test_a_gradient_that_vanishes_makes_no_step():
    theta = start()
    descend(theta, lambda x: 0 * x.sum() + 2, 1)
    assert torch.equal(theta, start())


def test_it_goes_on_from_its_state_to_the_same_bits():
    whole, halves = start(), start()
    settings = {"retreat": True, "bound": 0.3, "lr": 1.5}
    descend(whole, valley, 11, **settings)
    first, second = Polyak([halves], **settings), None

    def closure() -> Tensor:
        halves.grad = None
        value = valley(halves)
        value.backward()
        return value

    for _ in range(5):
        first.step(closure)
    second = Polyak([halves], **settings)
    second.load_state_dict(first.state_dict())
    for _ in range(6):
        second.step(closure)
    assert torch.equal(whole, halves)


@pytest.mark.parametrize("settings", [{"lr": 0.0}, {"floor": math.nan}, {"bound": 0.0}], ids=lambda s: next(iter(s)))
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(InputError, match=f"polyak: got {'rate' if 'lr' in settings else next(iter(settings))}"):
        Polyak([start()], **settings)
