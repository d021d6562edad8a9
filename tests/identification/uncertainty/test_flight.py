"""χ² of a film is at least that of its flight at the best values for it: a ball that falls, and bounces once."""

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.errors import Status
from gradsim.identification import verdict
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.multistart import Outcome
from gradsim.identification.uncertainty.flight import refuting_flight
from gradsim.identification.uncertainty.residual_diagnostics import first_contact
from gradsim.identification.unknowns import Space

FRAMES, SIGMA = 30, 1e-3
LAUNCH = torch.tensor([1.0, 0.5, -1.0]).double()


@pytest.fixture(scope="module")
def bounce() -> tuple[Problem, torch.Tensor, int]:
    """The problem, positions (frames, 3) [m] and the first frame after contact."""
    ball = {"shape": {"sphere": {"radius": 0.2}}, "mass": 1, "position": (0, 0, 3)}
    timing = {"fps": 20.0, "frames": FRAMES, "substeps": 20, "tolerance": float("inf")}
    scene = gs.Scene.parse({"gravity": 10.0, "timing": timing, "bodies": {"ball": ball}, "ground": {}})
    space = Space(scene, ["ball.velocity:-5:5"])
    model = verdict.model_for(scene, space)
    trajectory = model.rollout(space.values(LAUNCH[None]))
    contact, x = first_contact(trajectory), trajectory["ball"]["x"][0].detach()
    assert contact is not None and 8 < contact < FRAMES - 5
    return Problem(model, gs.States("ball", x, None, SIGMA), space), x, contact


def observed(bounce, louder: float, late: float = 0.0) -> tuple[Problem, Outcome]:
    """The problem with noise `louder` than stated and positions that are off from the contact on [m], and a search that ended at the truth."""
    clean, x, contact = bounce
    x = x + louder * SIGMA * torch.tensor(np.random.default_rng(1).standard_normal(x.shape))
    x[contact:] += late
    problem = Problem(clean.model, gs.States("ball", x, None, SIGMA), clean.space)
    starts = clean.space.draw(np.random.default_rng(2), 8)
    cost = problem.cost(LAUNCH[None], FRAMES)
    return problem, Outcome(starts, LAUNCH.expand(8, -1), cost.expand(8), LAUNCH, cost.item(), 1, [])


def test_the_bound_is_chi2_of_the_flight_fitted_alone(bounce):
    problem, outcome = observed(bounce, louder=4.0)
    flight, n = refuting_flight(problem, outcome.best, outcome.initial, 3 * FRAMES), bounce[2] - 1
    assert flight is not None and flight.frames == n
    # the velocity of a line through a known origin, by least squares, takes three residuals
    t = torch.arange(n).double() / 20
    free = problem.observation.x[:n] - (bounce[1][:n] - t[:, None] * LAUNCH)
    left = free - t[:, None] * (t @ free / t.square().sum())
    assert flight.chi2_per_n == pytest.approx((left / SIGMA).square().sum().item() / (3 * FRAMES), rel=1e-6)


@pytest.mark.parametrize(("louder", "late"), [(1.0, 0.0), (1.2, 0.0), (1.0, 0.1)])
def test_a_flight_that_noise_explains_refutes_nothing(bounce, louder, late):
    """However far off the frames after the contact are: another valley may explain them."""
    problem, outcome = observed(bounce, louder, late)
    assert refuting_flight(problem, outcome.best, outcome.initial, 3 * FRAMES) is None


@pytest.mark.parametrize(("louder", "late", "sampled"), [(4.0, 0.0, False), (1.0, 5e-3, True)])
def test_samples_look_for_other_valleys_where_the_flight_refutes_none(bounce, monkeypatch, louder, late, sampled):
    problem, outcome = observed(bounce, louder, late)
    calls = []

    def posterior(problem, u, *rest):
        calls.append(u)
        draws = 1e-4 * torch.tensor(np.random.default_rng(3).standard_normal((100, 3)))
        return verdict.Samples(u + draws, u, problem.cost(u[None], FRAMES).item(), 0.5), 1.0

    monkeypatch.setattr(verdict, "posterior", posterior)
    monkeypatch.setattr(verdict, "is_quadratic", lambda *args: False)
    monkeypatch.setattr(verdict, "_notes", lambda problem, u: [])
    fit = verdict.make_fit(problem, outcome, None, 0, noise_known=True)
    assert fit.status == Status.MISMATCH and bool(calls) == sampled
    assert any("before the first contact alone" in note for note in fit.notes) != sampled
