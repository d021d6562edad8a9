"""Policies: what they say at a time, where they start, and what is refused before a rollout."""

import math

import pytest
import torch
from control_cases import Line
from torch import nn

from gradsim.control.plant import check_policy
from gradsim.control.policies import START, Feedback, PhaseClock, PiecewiseConstant, Sinusoids, Spline
from gradsim.errors import InputError

TIMES = torch.tensor([0.0, 0.13, 0.4, 0.71, 1.9], dtype=torch.float64)
MAKERS = {
    "sinusoids": lambda seed: Sinusoids(3, seed=seed),
    "sinusoids of two frequencies": lambda seed: Sinusoids(3, 4, (1.0, 3.0), True, seed),
    "spline": lambda seed: Spline(3, 7, 2.0, seed),
    "feedback": lambda seed: Feedback(5, 3, (8, 6), 4, seed=seed),
}


def seen(worlds: int = 4) -> torch.Tensor:
    return torch.randn(worlds, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_policy_comes_back_from_its_state_and_from_its_seed(kind):
    one, same, other = (MAKERS[kind](seed) for seed in (4, 4, 5))
    u = one(TIMES, seen())
    assert u.dtype == torch.float64 and u.shape[1:] == (5, 3) and (u.abs() < 1).all()
    assert torch.equal(same(TIMES, seen()), u) and not torch.allclose(other(TIMES, seen()), u)
    other.load_state_dict(one.state_dict())
    assert torch.equal(other(TIMES, seen()), u)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_policy_starts_near_rest(kind):
    """Root mean square of u before training, over 40 seeds: START, to 30 %; feedback sees numbers of order 1."""
    times = torch.linspace(0, 10, 50, dtype=torch.float64)
    size = torch.stack([MAKERS[kind](seed)(times, seen()).square().mean() for seed in range(40)]).mean().sqrt()
    # four shares of a spline with squares of 0.3 to 0.5 in sum, and hidden numbers below 1, make it less
    assert 0.2 * START < size < 1.3 * START


def test_sinusoids_are_those_of_the_paper():
    """tanh(W sin(2.5 (t + p π/4))), without bias."""
    policy = Sinusoids(2, seed=3)
    signals = torch.tensor([[math.sin(2.5 * (t + p * math.pi / 4)) for p in range(8)] for t in TIMES.tolist()])
    expected = torch.tanh(signals.double() @ policy.weight.T)
    assert policy.bias is None and torch.allclose(policy(TIMES)[0], expected, atol=1e-15)


def test_phases_of_one_frequency_span_two_dimensions():
    times = torch.linspace(0, 7, 40, dtype=torch.float64)
    assert torch.linalg.matrix_rank(PhaseClock(8, 2.5)(times), rtol=1e-12) == 2
    assert torch.linalg.matrix_rank(PhaseClock(8, (2.5, 4.0))(times), rtol=1e-12) == 4


def test_a_spline_is_smooth_twice_and_has_the_basis_of_de_boor():
    """Cubic B-splines reproduce straight lines: numbers j at the knots make t, up to the tanh."""
    policy = Spline(1, 9, 3.0)
    with torch.no_grad():
        policy.coefficients.copy_(0.02 * torch.arange(9)[:, None])
    t = torch.linspace(0, 3, 31, dtype=torch.float64)
    assert torch.allclose(torch.atanh(policy(t)[0, :, 0]), 0.02 * (1 + t * 6 / 3), atol=1e-15)
    policy = Spline(1, 6, 3.0, seed=2)
    curve = lambda t: torch.atanh(policy(t)[0, :, 0])
    border, h = torch.tensor([1.0, 2.0]).double(), 1e-4
    second = lambda t: (curve(t + h) - 2 * curve(t) + curve(t - h)) / h**2
    jump = (second(border + 2 * h) - second(border - 2 * h)).abs()
    assert (jump < 20 * START * 4 * h + 1e-6).all()  # the third derivative is at most a few START, over 4 h


def test_free_numbers_hold_for_their_interval_and_the_last_one_beyond():
    policy = PiecewiseConstant(1, 4, 0.8, torch.tensor([[1.0], [2.0], [3.0], [4.0]]))
    times = torch.tensor([0.0, 0.19, 0.2, 0.2 * 3, 0.79, 5.0], dtype=torch.float64)
    assert policy(times)[0, :, 0].tolist() == [1, 1, 2, 4, 4, 4]
    hundred = PiecewiseConstant(1, 100, 1.0, torch.arange(100.0)[:, None])
    assert hundred(torch.tensor([0.29]).double())[0, 0, 0] == 29  # 0.29 * 100 is less than 29 to a computer
    assert PiecewiseConstant(2)(times).shape == (1, 6, 2)


def test_feedback_answers_each_world_by_what_it_sees():
    policy = Feedback(5, 3, (8,), seed=2)
    whole = policy(TIMES[:1], seen(4))
    assert whole.shape == (4, 1, 3)
    assert torch.allclose(policy(TIMES[:1], seen(4)[2:3]), whole[2:3], atol=1e-15)
    assert torch.equal(policy(TIMES[:1], seen(4)), policy(TIMES[3:4], seen(4)))  # it knows no clock
    timed = Feedback(5, 3, (8,), phases=2, seed=2)
    assert not torch.allclose(timed(TIMES[:1], seen(4)), timed(TIMES[3:4], seen(4)))


class Shapeless(nn.Module):
    feedback = False

    def forward(self, times, observation=None):
        return torch.zeros(2)


@pytest.mark.parametrize(
    "policy, observation, words",
    [
        (
            Sinusoids(5),
            False,
            "gives 5 numbers .* need 2: 1 of `left.force`, 1 of `right.force`; make it with outputs=2",
        ),
        (Feedback(2, 2), False, "and the plant has none; give it one"),
        (Feedback(3, 2), True, "reads 3 numbers, and the plant's observation has 2; make it with inputs=2"),
        (Feedback(2, 1), True, "gives 1 numbers"),
        (nn.Linear(2, 2), False, "no attribute `feedback`"),
        (Shapeless(), False, r"gives a tensor \(2,\) for 4 times; expected a tensor \(worlds or 1, 4, 2\)"),
        (PiecewiseConstant(2, start=math.nan), False, "not finite"),
    ],
)
def test_a_policy_that_does_not_fit_is_refused_before_a_rollout(policy, observation, words):
    plant = Line(observation=observation)
    with pytest.raises(InputError, match=words):
        check_policy(plant, policy)
    assert not plant.calls


def test_policies_that_fit_are_not_refused():
    check_policy(Line(), Sinusoids(2))
    check_policy(Line(observation=True), Feedback(2, 2))


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Sinusoids(0), "outputs: got 0"),
        (lambda: Sinusoids(2, 0), "phases: got 0"),
        (lambda: Sinusoids(2, frequency=-1.0), "frequency: got"),
        (lambda: Spline(2, 3, 1.0), "knots: got 3; expected a whole number of at least 4"),
        (lambda: Spline(2, 4, 0.0), "duration: got 0.0"),
        (lambda: Feedback(0, 2), "inputs: got 0"),
        (lambda: PiecewiseConstant(2, 0), "intervals: got 0"),
    ],
)
def test_sizes_that_are_none_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()
