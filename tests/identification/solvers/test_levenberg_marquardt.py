"""Levenberg–Marquardt on a problem with a known answer."""

import itertools
from types import SimpleNamespace

import pytest
import torch
from tolerances import ROUNDING, SOLVED, assert_near
from torch import Tensor

from gradsim.identification.solvers import levenberg_marquardt
from gradsim.identification.solvers.levenberg_marquardt import Population, descend


class Curved:
    """Rosenbrock's valley as least squares: r = (1 − a, 10 (b − a²)) with a in any unit, zero at a = b = 1."""

    def __init__(self, low=(-5.0, -5.0), high=(5.0, 5.0), unit=1.0):
        self.unit = torch.tensor([unit, 1.0]).double()
        low, high = (torch.tensor(bound).double() * self.unit for bound in (low, high))
        self.space = SimpleNamespace(low=low, high=high, logarithmic=[False, False])

    def residuals(self, u: Tensor) -> Tensor:
        a, b = (u / self.unit).unbind(1)
        return torch.stack([1 - a, 10 * (b - a**2)], 1)

    def cost(self, u: Tensor, frames: int, residual: str) -> Tensor:
        return self.residuals(u).square().sum(1)

    def linearize(self, u: Tensor, frames: int, residual: str):
        a, one = u[:, 0] / self.unit[0], torch.ones_like(u[:, 0])
        J = torch.stack([torch.stack([-one, 0 * one], 1), torch.stack([-20 * a, 10 * one], 1)], 1) / self.unit
        r = self.residuals(u)
        return r.square().sum(1), J.mT @ J, (J.mT @ r[..., None])[..., 0]


STARTS = torch.tensor([[-1.2, 1.0], [3.0, -4.0], [-4.0, 4.0], [0.0, 0.0]]).double()


def solve(problem, starts=STARTS, iterations=100, tries=12, **options) -> tuple[Population, int]:
    """With so many tries that some step lowers the cost of any start that is not at a minimum."""
    return descend(problem, Population.at(starts), 1, "pixels", iterations, tries=tries, **options)


def test_every_start_finds_the_end_of_the_valley():
    people, _ = solve(Curved())
    assert torch.allclose(people.u, torch.ones(4, 2).double(), atol=1e-7)
    assert (people.cost < 1e-14).all()


def test_cost_never_rises():
    problem = Curved()
    costs = [solve(problem, iterations=n)[0].cost for n in range(12)]
    assert all((after <= before).all() for before, after in itertools.pairwise(costs))


def test_starts_do_not_see_each_other():
    together, _ = solve(Curved(), iterations=7)
    for k in range(4):
        alone, _ = solve(Curved(), STARTS[k : k + 1], 7)
        assert_near(alone.u[0], together.u[k], ROUNDING)


def test_a_bound_holds_the_answer_on_it():
    """With a ≤ 1/2 the least cost is at a = 1/2, b = 1/4."""
    people, _ = solve(Curved(high=(0.5, 5.0)), STARTS[[0, 2, 3]])
    assert torch.allclose(people.u, torch.tensor([0.5, 0.25]).double().expand(3, 2), atol=1e-6)


def test_the_given_starts_are_not_changed():
    start = Population.at(STARTS)
    descend(Curved(), start, 1, "pixels", 5)  # pyright: ignore[reportArgumentType]
    assert torch.equal(start.u, STARTS) and torch.isinf(start.cost).all()


def test_a_start_rests_at_enough():
    eager, few = solve(Curved(), target_cost=1e-3)
    _, many = solve(Curved())
    assert few < many and (eager.cost <= 1e-3).all()


def test_a_start_that_diverges_stays_where_it_is():
    problem = Curved()
    plain = problem.cost
    problem.cost = lambda u, frames, residual: torch.where(u[:, 0] == 3.0, torch.inf, plain(u, frames, residual))
    people, _ = solve(problem)
    assert torch.isinf(people.cost[1]) and torch.equal(people.u[1], STARTS[1])
    assert people.cost[[0, 2, 3]].max() < 1e-14


@pytest.mark.parametrize("unit", [2.0**-20, 2.0**20])
def test_the_unit_of_an_unknown_does_not_matter(unit):
    problem = Curved(unit=unit)
    people, _ = solve(problem, STARTS * problem.unit)
    assert_near(people.u / problem.unit, solve(Curved())[0].u, SOLVED)


def test_a_start_goes_on_after_steps_that_overshoot():
    """At (0, 0) every step with λ up to 13 overshoots the valley; the ladders reach beyond."""
    people, _ = solve(Curved(), torch.zeros(1, 2).double(), tries=3)
    assert people.cost < 1e-14


class Counting(Curved):
    """Counts linearizations and trials; a kink of a cost may be added, which tangents know nothing of."""

    def __init__(self, kink=0.0):
        super().__init__()
        self.kink, self.linearizations, self.trials = kink, 0, 0

    def linearize(self, u, frames, residual):
        self.linearizations += 1
        return self.kinked(super().linearize(u, frames, residual)[0], u), *super().linearize(u, frames, residual)[1:]

    def cost(self, u, frames, residual):
        self.trials += 1
        return self.kinked(super().cost(u, frames, residual), u)

    def kinked(self, cost, u):
        return cost + self.kink * (u[:, 0] - 1).abs()


def test_a_start_at_its_minimum_is_not_tried_further():
    """The decrement gᵀ A⁻¹ g is 0 there: one linearization, and the cost of the start."""
    problem = Counting()
    _, count = solve(problem, torch.ones(1, 2).double(), target_cost=-1.0, min_decrease=1e-6)
    assert (count, problem.linearizations, problem.trials) == (1, 1, 1)


def test_a_start_rests_after_a_step_that_its_model_foretold(monkeypatch):
    """What is left is below a tenth of the decrease that counts; without linearizations and trials that would only show it."""
    short, long = Counting(), Counting()
    ended, _ = solve(short, min_decrease=1e-6, target_cost=-1.0)
    monkeypatch.setattr(levenberg_marquardt, "remaining_decrease", lambda space, now, *more: now.cost + torch.inf)
    solve(long, min_decrease=1e-6, target_cost=-1.0)
    assert short.linearizations < long.linearizations and short.trials < long.trials
    assert (ended.cost < 1e-6 * levenberg_marquardt.NEGLIGIBLE_SHARE).all()


def test_a_start_goes_on_where_a_kink_makes_its_model_wrong():
    """The cost falls by less than the model says, by more than what counts: the model is not believed, and a better place is found."""
    start = torch.tensor([[1.3, 1.69]]).double()
    problem = Counting(kink=0.5)
    few, _ = descend(problem, Population.at(start), 1, "pixels", 1, min_decrease=1e-3)
    many, _ = descend(problem, Population.at(start), 1, "pixels", 50, min_decrease=1e-3)
    assert many.cost < few.cost - 1e-3


class Raised(Counting):
    """A valley whose end is so high."""

    def __init__(self, height: float):
        super().__init__()
        self.height = height

    def kinked(self, cost, u):
        return cost + self.height


def test_starts_rest_that_will_not_come_to_costs_that_matter():
    """The end is at 100 and costs up to 50 matter: nothing that the model promises leads there. Where the end is 0, all of it does."""
    high, plain = Raised(100.0), Raised(100.0)
    few, _ = solve(high, bound=50.0)
    solve(plain)
    assert high.trials < 0.75 * plain.trials and (few.cost > 50).all()
    assert torch.equal(solve(Raised(0.0), bound=50.0)[0].u, solve(Raised(0.0))[0].u)


def test_a_start_does_not_rest_where_its_model_has_promised_little_but_once(monkeypatch):
    """A flat place on the way: a thousandth of the decrease is promised there, and all of it after."""
    promised, true = iter([1e-3]), levenberg_marquardt.remaining_decrease

    def flat(space, now, A, g, trial):
        left = true(space, now, A, g, trial)
        return next(promised, 1.0) * left if trial is now else left

    monkeypatch.setattr(levenberg_marquardt, "remaining_decrease", flat)
    ended, _ = solve(Raised(0.0), STARTS[2:3], bound=1.0)
    assert ended.cost < 1e-14


def test_a_descent_ends_where_its_caller_says_so():
    """Called with the starts and those that do not rest: the one at the minimum does."""
    calls = []
    starts = torch.cat([STARTS[:1], torch.ones(1, 2).double()])
    _, count = solve(Curved(), starts, ends=lambda people, active: calls.append(active.tolist()) or len(calls) == 3)
    assert count == 3 and calls == 3 * [[True, False]]
