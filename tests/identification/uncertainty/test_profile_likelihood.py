"""Profile likelihood on problems whose profile has a closed form."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.uncertainty.profile_likelihood import LEVEL, Profile
from gradsim.identification.uncertainty.profile_likelihood import profiles as walk


class Residuals:
    """A least-squares problem from residuals r(u)."""

    frames = 1

    def __init__(self, residuals, names=("a", "b"), low=-3.0, high=3.0, logarithmic=True):
        n = len(names)
        bounds = [torch.full((n,), x, dtype=torch.float64) for x in (low, high)]
        self.residuals, self.effort = residuals, SimpleNamespace(rollouts=0)
        numbers = torch.exp if logarithmic else lambda u: u
        self.space = SimpleNamespace(names=list(names), low=bounds[0], high=bounds[1], numbers=numbers)
        self.space.logarithmic, self.space.units = [logarithmic] * n, ["kg"] * n
        self.space.unit = torch.full((n,), 1.0 if logarithmic else high - low, dtype=torch.float64)

    def cost(self, u: Tensor, frames: int, residual: str = "pixels") -> Tensor:
        self.effort.rollouts += len(u)
        return self.residuals(u).square().sum(1)

    def linearize(self, u: Tensor, frames: int, residual: str = "pixels"):
        r = self.residuals(u)
        J = torch.func.vmap(torch.func.jacrev(lambda x: self.residuals(x[None])[0]))(u)
        return r.square().sum(1), J.mT @ J, (J.mT @ r[..., None])[..., 0]


def profiles(problem: Residuals, u: Tensor, fisher: Tensor, names=()) -> list[Profile]:
    return walk(problem, u, fisher, names)  # pyright: ignore[reportArgumentType] -- a stand-in


def ends(one: Profile) -> np.ndarray:
    """Logarithms of the interval's ends."""
    return np.log(np.array(one.interval95, dtype=float))


MIX = torch.tensor([[100.0, 0.0], [80.0, 50.0], [20.0, -70.0]], dtype=torch.float64)


def information(problem: Residuals, u: Tensor) -> Tensor:
    return problem.linearize(u[None], 1)[1][0]


def test_profile_of_a_linear_problem_is_the_parabola_of_its_bound():
    """Δχ²(c) = c²/σ² with σ² = (F⁻¹)_aa, in any case of correlation."""
    problem = Residuals(lambda u: u @ MIX.T)
    u = torch.zeros(2).double()
    F = information(problem, u)
    (one,) = profiles(problem, u, F, ["a"])
    sigma = torch.linalg.inv(F)[0, 0].sqrt().item()
    assert one.parabolic and one.gain == 0
    assert np.allclose(one.delta, (np.log(one.at) / sigma) ** 2, rtol=1e-6, atol=1e-9)
    assert np.allclose(ends(one), np.array([-1, 1]) * sigma * LEVEL**0.5, rtol=1e-3)


def test_the_two_weakest_directions_are_taken_unless_told():
    weak = torch.diag(torch.tensor([1e3, 10.0, 100.0], dtype=torch.float64))
    problem = Residuals(lambda u: u @ weak.T, names=("a", "b", "c"))
    u = torch.zeros(3).double()
    assert [p.name for p in profiles(problem, u, information(problem, u))] == ["b", "c"]


def test_a_direction_of_two_unknowns_is_followed():
    """Only a + b shows: a − b is open, and along it χ² stays level to the end of the range."""
    problem = Residuals(lambda u: 100 * (u[:, :1] + u[:, 1:]))
    u = torch.zeros(2).double()
    one = profiles(problem, u, information(problem, u))[0]
    assert abs(one.combination["a"] + one.combination["b"]) < 1e-6
    assert one.interval95 == (None, None) and not one.parabolic and "open below and above" in one.words
    assert max(one.delta) < 1e-6


def test_others_follow_a_bent_valley():
    """b = a²: the profile along a is a²/σ² however the valley bends, while a straight path would climb its wall."""
    problem = Residuals(lambda u: torch.stack([10 * u[:, 0], 1e3 * (u[:, 1] - u[:, 0] ** 2)], 1))
    u = torch.zeros(2).double()
    (one,) = profiles(problem, u, information(problem, u), ["a"])
    assert one.parabolic
    assert np.allclose(one.delta, 100 * np.log(one.at) ** 2, rtol=1e-3, atol=1e-3)


def test_a_kinked_likelihood_is_no_parabola_and_its_interval_is_where_it_crosses():
    """χ² = 100 |a| to the left and (100 a)² to the right, which its curvature at 0 does not tell."""
    left = lambda a: 10 * (a.abs() + 1e-12).sqrt()
    problem = Residuals(lambda u: torch.where(u[:, :1] < 0, left(u[:, :1]), 100 * u[:, :1]), names=("a",))
    (one,) = profiles(problem, torch.zeros(1).double(), torch.tensor([[1e4]]).double(), ["a"])
    assert not one.parabolic and "not a parabola" in one.words
    low, high = ends(one)
    assert high == pytest.approx(LEVEL**0.5 / 100, rel=1e-3)
    assert low == pytest.approx(-LEVEL / 100, rel=0.1)  # between rungs, √Δχ² is taken as straight


def test_a_bound_that_is_far_too_narrow_or_wide_is_found_out():
    problem = Residuals(lambda u: 100 * u, names=("a",))
    for wrong in (1e-4, 1e4):
        (one,) = profiles(problem, torch.zeros(1).double(), torch.tensor([[1e4 * wrong]]).double(), ["a"])
        assert ends(one)[1] == pytest.approx(LEVEL**0.5 / 100, rel=0.02)
        assert not one.parabolic


def test_a_better_answer_beside_the_fit_is_told():
    """χ² = 40 + 100 (a − 0.2)²: the fit at 0 is 4 too high."""
    problem = Residuals(lambda u: torch.cat([10 * (u - 0.2), torch.full_like(u, 40**0.5)], 1), names=("a",))
    (one,) = profiles(problem, torch.zeros(1).double(), torch.tensor([[100.0]]).double(), ["a"])
    assert one.gain == pytest.approx(4, rel=0.05) and "missed the best answer" in one.words


def test_a_name_that_is_no_unknown_is_refused():
    problem = Residuals(lambda u: u)
    with pytest.raises(InputError, match="cannot profile `c`: not an unknown"):
        profiles(problem, torch.zeros(2).double(), torch.eye(2).double(), ["c"])
