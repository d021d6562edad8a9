"""Estimators by name: one function, one registration; error bars and verdict are those of every fit."""

import pytest
import torch
from fit_cases import SWING, SWING_TRUTH, recorded, swing, thrown

from gradsim.errors import InputError
from gradsim.identification import Unknown, identify, identify_many, synthetic
from gradsim.identification.api import solve
from gradsim.identification.estimators import ESTIMATORS, estimator_named, register_estimator
from gradsim.identification.long_clip import MultipleShooting
from gradsim.identification.solvers import gradient_descent
from gradsim.identification.solvers.multistart import MultistartConfig, Outcome


def random_search(problem, plan, rng, report, checkpoint):
    """Draws from a box around the best that shrinks by a third each time."""
    space, frames = problem.space, problem.frames
    initial = space.draw(rng, plan.starts)
    best, size = initial[problem.cost(initial, frames).argmin()], (space.high - space.low) / 2
    for _ in range(32):
        u = best + size * torch.tensor(rng.uniform(-1, 1, (15, len(space))))
        u = torch.cat([best[None], u.clamp(space.low, space.high)])
        best, size = u[problem.cost(u, frames).argmin()], 0.65 * size
    return Outcome.of(problem, initial, best.expand_as(initial), 32)


@pytest.fixture
def registered():
    register_estimator("random-search", random_search)
    yield "random-search"
    del ESTIMATORS["random-search"]


def shorten(monkeypatch, divisor: int):
    stages = [(residual, rate, iterations // divisor) for residual, rate, iterations in gradient_descent.STAGES]
    monkeypatch.setattr(gradient_descent, "STAGES", tuple(stages))


@pytest.fixture
def brief(monkeypatch):
    """A third of the iterations of gradient descent."""
    shorten(monkeypatch, 3)


@pytest.fixture
def unfinished(monkeypatch):
    """Five iterations of each stage of gradient descent."""
    shorten(monkeypatch, 12)


@pytest.fixture(scope="module")
def video():
    return recorded(swing(), SWING, SWING_TRUTH).observation


def test_a_registered_estimator_fits_by_its_name(registered, video):
    """Its box ends at 0.65³² = 1.0e-6 of the ranges, 0.25 m and 0.7 rad."""
    reports = []
    fit = identify(swing(), SWING, observation=video, starts=8, estimator=registered, report=reports.append)
    assert fit.status == "ok" and fit.estimator == fit.result()["estimator"] == "random-search"
    assert synthetic.worst_relative_error(fit.against(SWING_TRUTH)) < 1e-5
    assert fit.iterations == 32 and fit.starts["count"] == 8 and fit.history[-1]["stage"] == "end"


def test_an_estimator_may_be_given_itself(video):
    def best_of_two(problem, plan, rng, report, checkpoint):
        truth = torch.tensor([list(SWING_TRUTH.values())], dtype=torch.float64)
        initial = problem.space.inner(torch.cat([1.1 * truth, truth]))
        return Outcome.of(problem, initial, initial, 1)

    fit = identify(swing(), SWING, observation=video, starts=8, estimator=best_of_two)
    assert fit.estimator == "best_of_two"
    assert synthetic.worst_relative_error(fit.against(SWING_TRUTH)) < 1e-12


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_finds_length_and_angle_of_a_pendulum(name, video, brief):
    """Adam ends near a thousandth of its rate (0.0003 of a range)."""
    fit = identify(swing(), SWING, observation=video, starts=4, estimator=name)
    assert fit.estimator == name and fit.starts["count"] == 4
    assert synthetic.worst_relative_error(fit.against(SWING_TRUTH)) < (1e-6 if name == "least-squares" else 1e-3)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_counts_its_effort_and_depends_on_the_seed_alone(name, unfinished):
    one, two = (solve(thrown(), MultistartConfig(starts=2), seed=3, estimator=name) for _ in range(2))
    assert one.values == two.values and one.rollouts == two.rollouts > 0
    assert [entry["stage"] for entry in one.history] and all("values" in entry for entry in one.history)


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_fits_two_clips_that_share_an_unknown(name, video, brief):
    fit = identify_many([swing(), swing()], SWING, observations=[video, video], starts=2, estimator=name)
    assert synthetic.worst_relative_error(fit.against(SWING_TRUTH)) < 2e-3


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_weighs_a_prior(name, video, brief):
    """The length from the video is 0.47 m ± far less than a millimetre; a prior of 0.40 m ± 1 nm outweighs it."""
    unknowns = [Unknown("bob.string_length", 0.35, 0.6, prior=(torch.tensor(0.40).log().item(), 2.5e-9))]
    scene = swing()
    fit = identify(scene, unknowns, observation=video, starts=2, estimator=name)
    assert fit.values["bob.string_length"] == pytest.approx(0.40, rel=1e-3)


def test_the_sum_of_squares_is_the_cost_and_its_gradient_that_of_the_sensitivities():
    """∂Σr²/∂u = 2 Jᵀr."""
    problem = thrown()
    u = problem.space.inner(torch.tensor([[3.3, 0.7], [2.9, 1.0]], dtype=torch.float64)).requires_grad_()
    total, count = problem.sum_of_squares(u)
    (gradient,) = torch.autograd.grad(total.sum(), u)
    cost, _, g = problem.linearize(u.detach(), problem.frames)
    assert count == problem.residuals(u.detach()).shape[1]
    assert torch.allclose(total, cost, rtol=1e-10) and torch.allclose(gradient, 2 * g, rtol=1e-8)


def test_an_estimator_that_stops_short_of_the_minimum_is_named_in_the_notes(video):
    """One start a hundredth off the truth: χ² still falls by far more than 1, as far as the error bar goes."""

    def lazy(problem, plan, rng, report, checkpoint):
        u = problem.space.inner(torch.tensor([[1.01 * v for v in SWING_TRUTH.values()]], dtype=torch.float64))
        return Outcome.of(problem, u, u, 0)

    notes = identify(swing(), SWING, observation=video, estimator=lazy).notes
    assert any("stopped short of the minimum" in note for note in notes)
    assert not identify(swing(), SWING, observation=video, starts=2).notes


def test_an_unknown_estimator_is_refused_with_the_names_that_there_are(video):
    with pytest.raises(InputError, match=r"did you mean 'least-squares'\? There are least-squares, gradient-descent"):
        identify(swing(), SWING, observation=video, estimator="least_squares")
    with pytest.raises(InputError, match="no estimator 'magic'; there are least-squares"):
        estimator_named("magic")


def test_a_name_that_is_taken_is_refused(registered):
    register_estimator("random-search", random_search)  # again, as when a notebook's cell runs twice
    with pytest.raises(InputError, match="already"):
        register_estimator("least-squares", random_search)


def test_multiple_shooting_takes_no_other_estimator():
    with pytest.raises(InputError, match="multiple shooting"):
        solve(thrown(), shooting=MultipleShooting(), estimator="gradient-descent")
