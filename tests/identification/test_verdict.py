"""Error bars and verdicts of hundreds of seeded fits, against what their noise implies.

A ball in free flight whose positions are observed with noise σ at the times t: its launch velocity is linear, and its
three components are independent of each other, so least squares scatter by exactly

    s = σ/√Σ t²                                         (a line through a known origin)

around the truth, whatever that is. Answers are one Gauss–Newton step from the truth, which is exact in a linear problem.
"""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

import gradsim as gs
from gradsim.errors import Status
from gradsim.identification import verdict
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.de_mcmc import Samples
from gradsim.identification.solvers.multistart import Outcome
from gradsim.identification.uncertainty.discretization import Discretization
from gradsim.identification.unknowns import Space

FPS, SHORT = 20.0, 11
LAUNCH = torch.tensor([1.0, 0.5, 3.0]).double()


@pytest.fixture(autouse=True)
def without_notes(monkeypatch):
    """Notes on the growth of errors take four fifths of the time of a verdict, and are not a part of it."""
    monkeypatch.setattr(verdict, "_notes", lambda problem, u: [])


@functools.cache
def flight(frames: int, ground: bool = False, reach: float = 5.0) -> tuple[Problem, Tensor]:
    """A ball in free flight without noise, observed where it is, and its positions (frames, 3) [m]."""
    scene = {
        "gravity": 10.0,
        "timing": {"fps": FPS, "frames": frames, "substeps": 20 if ground else 1},  # which a contact would need
        "bodies": {"ball": {"shape": {"sphere": {"radius": 0.2}}, "mass": 1, "position": (0, 0, 5)}},
    }
    scene = gs.Scene.parse(scene | ({"ground": {}} if ground else {}))
    space = Space(scene, [f"ball.velocity:{-reach}:{reach}"])
    model = verdict.model_for(scene, space)
    x = model.rollout(space.values(LAUNCH[None]))["ball"]["x"][0].detach()
    return Problem(model, gs.States("ball", x, None, 1.0), space), x


def root_of_times(frames: int) -> float:
    """√Σ t²."""
    return math.sqrt(sum((k / FPS) ** 2 for k in range(frames)))


def fitted(seed: int, stated: float, loudness: float = 1.0, frames: int = SHORT, **kind) -> gs.Fit:
    """Fit to positions whose noise is `loudness` times the stated one."""
    clean, x = flight(frames, **kind)
    noise = loudness * stated * torch.tensor(np.random.default_rng(seed).standard_normal(x.shape))
    problem = Problem(clean.model, gs.States("ball", x + noise, None, stated), clean.space)
    _, A, g = problem.linearize(LAUNCH[None], frames)
    answer = LAUNCH - torch.linalg.solve(A[0], g[0])
    outcome = Outcome.of(problem, LAUNCH[None], answer[None], 1)
    return verdict.make_fit(problem, outcome, None, seed, noise_known=True)


def test_intervals_of_the_curvature_are_those_of_a_line_through_a_known_origin():
    """Linear, so exact to rounding: two-sided 95 % quantiles of a normal distribution of standard deviation s."""
    for fit in (fitted(seed, stated=1e-3) for seed in range(3)):
        for e in fit.unknowns.values():
            assert e.std == pytest.approx(1e-3 / root_of_times(SHORT), rel=1e-9)
            below, above = e.value - e.interval95[0], e.interval95[1] - e.value
            assert below == pytest.approx(above, rel=1e-9)
            assert math.erf(above / e.std / math.sqrt(2)) == pytest.approx(0.95, abs=1e-5)


@pytest.mark.slow  # 8 s; the test above holds each interval to its closed form
def test_intervals_of_the_curvature_hold_the_truth_in_95_of_100_fits():
    """Hits are binomial. Three standard deviations of 900 trials are 2.2 %, and intervals of 90 % miss that by 2.8 %."""
    fits = [fitted(seed, stated=1e-3) for seed in range(300)]
    hits = [
        e.interval95[0] < v < e.interval95[1]
        for fit in fits
        for e, v in zip(fit.unknowns.values(), LAUNCH, strict=True)
    ]
    assert abs(np.mean(hits) - 0.95) < 3 * math.sqrt(0.95 * 0.05 / len(hits))


@pytest.fixture
def gaussian_posterior(monkeypatch):
    """The posterior of a flight, drawn exactly, in place of the Markov chains; draws by standard deviation."""
    drawn = {}

    def posterior(problem, u, fisher, rng, coarse=None):
        s = problem.observation.sigma_x / root_of_times(problem.frames)
        drawn[s] = u + s * torch.tensor(rng.standard_normal((20_000, len(u))))
        return Samples(drawn[s], u, math.inf, 1.0), 1.0

    monkeypatch.setattr(verdict, "posterior", posterior)
    return drawn


def test_intervals_of_samples_hold_95_percent_of_the_posterior(gaussian_posterior):
    """Mass of the exact Gaussian between two quantiles of n draws: its variance is 0.95 · 0.05/n (Beta distribution)."""
    fit = fitted(seed=0, stated=1e-3, ground=True)
    ((s, draws),) = gaussian_posterior.items()
    mass = lambda z: 0.5 * (1 + math.erf(z / math.sqrt(2)))
    for e in fit.unknowns.values():
        low, high = ((end - e.value) / s for end in e.interval95)
        assert abs(mass(high) - mass(low) - 0.95) < 4 * math.sqrt(0.95 * 0.05 / len(draws))
        assert abs(mass(low) - 0.025) < 4 * math.sqrt(0.025 * 0.975 / len(draws))  # the same in each tail


def test_error_bars_of_samples_are_about_their_mean(gaussian_posterior):
    """Speeds of up to 3 m/s to a millimeter per second: second moments about 0 would be a third of the range wide."""
    fit = fitted(seed=1, stated=1e-3, ground=True)
    ((s, draws),) = gaussian_posterior.items()
    assert fit.status == Status.OK and fit.rank == 3
    for e in fit.unknowns.values():
        assert e.identifiable
        assert e.std == pytest.approx(s, rel=4 / math.sqrt(2 * len(draws)))


@pytest.mark.parametrize("loudness, status", [(1.04, Status.OK), (1.2, Status.MISMATCH)])
def test_noise_a_fifth_above_the_stated_is_a_mismatch_and_a_25th_is_not(loudness, status):
    """χ²/N of N = 2097 residuals scatters by √(2/N) = 3 % around 1.08 and 1.44."""
    fits = [fitted(seed, stated=1e-3, loudness=loudness, frames=700) for seed in range(8)]
    chi2 = np.array([fit.chi2_per_n for fit in fits])
    spread = loudness**2 * math.sqrt(2 / (3 * 700 - 3))
    assert (abs(chi2 - loudness**2) < 4 * spread).all()
    assert {fit.status for fit in fits} == {status}


@pytest.mark.parametrize("share, status", [(0.07, Status.OK), (0.14, Status.UNIDENTIFIABLE)])
def test_an_answer_that_scatters_by_a_seventh_of_its_range_is_not_identifiable(share, status):
    """The scatter of 120 answers tells their standard deviation to 1/√240."""
    reach = 50.0
    fits = [fitted(seed, stated=share * 2 * reach * root_of_times(SHORT), reach=reach) for seed in range(40)]
    errors = np.array([list(fit.values.values()) for fit in fits]) - LAUNCH.numpy()
    scatter = math.sqrt((errors**2).mean()) / (2 * reach)
    assert scatter == pytest.approx(share, rel=4 / math.sqrt(2 * errors.size))
    assert {fit.status for fit in fits} == {status}
    assert {e.identifiable for fit in fits for e in fit.unknowns.values()} == {status == Status.OK}
    assert {fit.rank for fit in fits} == {3 if status == Status.OK else 0}


@pytest.mark.parametrize("supporting", [0, 1])
def test_a_note_tells_where_no_start_came_to_a_kinked_minimum(gaussian_posterior, monkeypatch, supporting):
    bars = verdict.secant_fisher
    monkeypatch.setattr(verdict, "secant_fisher", lambda *args, **options: (bars(*args, **options)[0], True))
    clean, x = flight(SHORT, ground=True)
    noise = 1e-3 * torch.tensor(np.random.default_rng(2).standard_normal(x.shape))
    problem = Problem(clean.model, gs.States("ball", x + noise, None, 1e-3), clean.space)
    best = Outcome.of(problem, LAUNCH[None], LAUNCH[None], 1)
    ends = best.best_cost + 50 * torch.arange(1 - supporting, verdict.SUPPORTING + 1 - supporting).double()
    starts = LAUNCH.expand(verdict.SUPPORTING, -1)
    outcome = Outcome(starts, starts, ends, best.best, best.best_cost, 1, [])
    notes = verdict.make_fit(problem, outcome, None, 2, noise_known=True).notes
    assert any("None of the 8 starts" in note for note in notes) == (not supporting)


@pytest.mark.parametrize(
    ("kinked", "quadratic", "lonely", "weights"),
    [(False, True, 0, 1), (True, True, 0, 0), (False, False, 0, 0), (False, True, 1, 0)],
    ids=["one smooth valley", "kinked", "not quadratic", "a start elsewhere"],
)
def test_weights_take_the_place_of_a_cloud_in_one_smooth_valley_alone(
    gaussian_posterior, monkeypatch, kinked, quadratic, lonely, weights
):
    calls, bars, confirmed = [], verdict.secant_fisher, verdict.confirmed_posterior
    monkeypatch.setattr(verdict, "secant_fisher", lambda *args, **options: (bars(*args, **options)[0], kinked))
    monkeypatch.setattr(verdict, "is_quadratic", lambda *args: quadratic)
    monkeypatch.setattr(verdict, "confirmed_posterior", lambda *args: calls.append(args) or confirmed(*args))
    clean, x = flight(SHORT, ground=True)
    noise = 1e-3 * torch.tensor(np.random.default_rng(2).standard_normal(x.shape))
    problem = Problem(clean.model, gs.States("ball", x + noise, None, 1e-3), clean.space)
    best = Outcome.of(problem, LAUNCH[None], LAUNCH[None], 1)
    starts, cost = LAUNCH.expand(verdict.SUPPORTING, -1), best.best_cost + torch.zeros(verdict.SUPPORTING).double()
    cost[:lonely] += 50
    verdict.make_fit(
        problem, Outcome(starts, starts, cost, best.best, best.best_cost, 1, []), None, 2, noise_known=True
    )
    assert len(calls) == weights and len(gaussian_posterior) == 1 - weights


@pytest.mark.parametrize(("ground", "followed"), [(False, True), (False, False), (True, True)])
def test_a_lower_minimum_where_a_start_ended_is_the_answer(gaussian_posterior, ground, followed):
    """The answer that is given is 40 standard deviations off, and one start of two ended near the minimum; where it was drawn later, none of them.

    The verdict on the time step is that of the new answer: half of it moves no straight flight.
    """
    clean, x = flight(SHORT, ground=ground)
    noise = 1e-3 * torch.tensor(np.random.default_rng(2).standard_normal(x.shape))
    problem = Problem(clean.model, gs.States("ball", x + noise, None, 1e-3), clean.space)
    _, A, g = problem.linearize(LAUNCH[None], SHORT)
    minimum = LAUNCH - torch.linalg.solve(A[0], g[0])
    bar = 1e-3 / root_of_times(SHORT)
    off = minimum + 40 * bar
    outcome = Outcome.of(problem, LAUNCH[None], off[None], 1)
    ended = torch.stack([off, minimum + 2 * bar]) if followed else off[None]
    outcome = replace(outcome, initial=LAUNCH.expand(len(ended), -1), final=ended, cost=problem.cost(ended, SHORT))
    steps = [problem.model.substeps]
    wrong = Discretization(steps, steps, off, {"ball.velocity.x": 9.0}, 0.5, 8.0, True, False, SHORT, SHORT)
    resampled = None if followed else minimum[None]
    fit = verdict.make_fit(problem, replace(outcome, resampled=resampled), wrong, 2, noise_known=True)
    assert fit.starts == {"count": len(ended), "converged": int(followed)}
    assert fit.discretization is not None and not fit.discretization.video_follows
    assert len(fit.discretization.shift) == 3 and fit.discretization.largest < 1e-6
    assert list(fit.values.values()) == pytest.approx(
        minimum.tolist(), abs=4e-3
    )  # four standard deviations of a sample
