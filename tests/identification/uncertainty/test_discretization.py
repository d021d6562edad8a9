"""Fits of motions that no time step made: a ball in free flight, whose closed form is known.

    x(t) = x₀ + v₀ t + g t²/2,      semi-implicit Euler: x_k = x(t_k) + g h t_k / 2

so with g = (0, 0, −G), Euler's steps of length h take the launch speed for v₀ + G h/2, and half the step moves it by −G h/4.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tolerances import ROUNDING, SOLVED, assert_near, near

import gradsim as gs
from gradsim.errors import Status
from gradsim.identification import synthetic
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.solvers.de_mcmc import Samples
from gradsim.identification.solvers.levenberg_marquardt import Population
from gradsim.identification.solvers.thresholds import cost_of_steps
from gradsim.identification.uncertainty.discretization import CHORDS_LEAVE, Discretization, at_answer, with_remainder
from gradsim.identification.unknowns import Space

FRAMES, FPS, GRAVITY = 11, 20.0, 10.0
START, LAUNCH = (0.0, 0.0, 5.0), (1.0, 0.5, 3.0)
UNKNOWNS = ["ball.velocity:-5:5"]


def scene(integrator: str, substeps: int | str = "auto", frames: int = FRAMES) -> gs.Scene:
    return gs.Scene.parse(
        {
            "gravity": GRAVITY,
            "timing": {"fps": FPS, "frames": frames, "integrator": integrator, "substeps": substeps},
            "bodies": {"ball": {"shape": {"sphere": {"radius": 0.2}}, "mass": 1, "position": START}},
        }
    )


def flight(sigma: float, noise: float = 0.0, wobble: float = 0.0, frames: int = FRAMES) -> gs.States:
    """Positions of the closed form, with white noise, and a wobble that no model has [m]."""
    t = torch.arange(frames, dtype=torch.float64)[:, None] / FPS
    x = torch.tensor(START) + torch.tensor(LAUNCH) * t + 0.5 * torch.tensor([0.0, 0.0, -GRAVITY]) * t**2
    x = x + noise * torch.tensor(np.random.default_rng(3).standard_normal(x.shape)) + wobble * torch.sin(12 * t)
    return gs.States("ball", x.double(), None, sigma, exact=not noise)


def launch(fit: gs.Fit) -> list[float]:
    return [fit.values[f"ball.velocity.{axis}"] for axis in "xyz"]


@pytest.fixture(scope="module")
def step() -> float:
    """Length of the steps that `auto` chooses for Euler [s]."""
    return model_for(scene("semi-implicit"), Space(scene("semi-implicit"), UNKNOWNS)).dt


def test_a_method_of_first_order_comes_to_the_closed_form(step):
    fit = gs.identify(scene("semi-implicit"), UNKNOWNS, observation=flight(1e-3))
    factor = fit.discretization.substeps[0] / fit.discretization.searched[0]
    assert factor >= 4
    assert launch(fit)[2] - LAUNCH[2] == pytest.approx(GRAVITY * step / 2 / factor, rel=1e-6)
    assert launch(fit)[:2] == near(LAUNCH[:2], SOLVED, scale=1.0)
    assert fit.history[-1]["stage"] == "finer steps"
    assert fit.history[-1]["values"] == near(fit.values, ROUNDING)  # the solver's coordinates are scaled


def test_default_integrator_has_no_error_in_free_flight():
    fit = gs.identify(scene("auto"), UNKNOWNS, observation=flight(1e-3), starts=2)
    assert fit.status == Status.OK
    assert launch(fit) == near(LAUNCH, SOLVED, scale=1.0)
    assert fit.discretization.converged


def test_stated_steps_are_judged_by_the_error_of_euler():
    substeps = 8
    h = 1 / (FPS * substeps)
    fit = gs.identify(scene("semi-implicit", substeps), UNKNOWNS, observation=flight(1e-3, noise=1e-3), starts=2)
    steps = fit.discretization
    assert steps.substeps == [substeps]
    assert not steps.converged
    plain = np.sqrt(fit.unknowns["ball.velocity.x"].std ** 2)  # x and z are measured alike
    assert steps.shift["ball.velocity.z"] * plain == pytest.approx(-GRAVITY * h / 4, rel=1e-3)
    assert fit.unknowns["ball.velocity.z"].std == pytest.approx(np.hypot(plain, GRAVITY * h / 4), rel=1e-3)
    assert "holds at this step" in steps.words


def test_error_bar_covers_what_steps_leave():
    fit = gs.identify(scene("semi-implicit"), UNKNOWNS, observation=flight(1e-3, noise=1e-3), starts=2)
    assert fit.discretization.substeps > fit.discretization.searched
    unknown = fit.unknowns["ball.velocity.z"]
    assert unknown.interval95[0] < LAUNCH[2] < unknown.interval95[1]
    assert fit.status == Status.OK


def test_steps_whose_half_cannot_be_simulated_are_no_ok(monkeypatch):
    """Costs of finer steps are finite, and their derivatives are not: then no descent moves the answer."""

    class Overflowing(Problem):
        def linearize(self, u, frames, residual="pixels"):
            cost, A, g = super().linearize(u, frames, residual)
            return torch.full_like(cost, torch.inf), A * torch.nan, g * torch.nan

    refined = Problem.with_finer_steps

    def overflowing(self, factor):
        problem = refined(self, factor)
        problem.__class__ = Overflowing
        return problem

    monkeypatch.setattr(Problem, "with_finer_steps", overflowing)
    fit = gs.identify(scene("auto"), UNKNOWNS, observation=flight(1e-3, noise=1e-3), starts=1)
    assert fit.status == Status.UNIDENTIFIABLE
    assert fit.discretization.diverged and not fit.discretization.converged
    assert [unknown.std for unknown in fit.unknowns.values()] == pytest.approx(
        [10.0] * 3, rel=1e-6
    )  # the range of each
    assert "leave the finite numbers" in fit.discretization.words
    assert fit.result()["discretization"]["chi2_change"] is None


def test_video_of_the_models_own_steps_keeps_them():
    coarse = scene("semi-implicit")
    model = model_for(coarse, Space(coarse, ["gravity.z:-15:-5"]))
    own = gs.States("ball", model.rollout()["ball"]["x"][0].detach(), None, 1e-3, exact=True)
    fit = gs.identify(coarse, ["gravity.z:-15:-5"], observation=own, starts=2)
    assert fit.discretization.video_follows
    assert fit.discretization.substeps == [model.substeps]
    assert fit.values["gravity.z"] == near(-GRAVITY, SOLVED, scale=1.0)
    assert fit.status == Status.OK


def test_steps_that_a_clean_video_follows_are_judged_without_derivatives_on_half_of_them(monkeypatch):
    """Those on the steps themselves lead as far: what the chord method leaves is a part of χ², and of the shift."""
    coarse, unknowns, steps, fits = scene("semi-implicit"), ["gravity.z:-15:-5"], [], []
    model = model_for(coarse, Space(coarse, unknowns))
    tangent, known = gs.Model.tangent, Problem.known_sensitivity
    monkeypatch.setattr(gs.Model, "tangent", lambda self, *more: steps.append(self.substeps) or tangent(self, *more))
    own = gs.States("ball", model.rollout()["ball"]["x"][0].detach(), None, 1e-3, exact=True)
    for sensitivity in (known, lambda self, u: None):
        steps.clear()
        monkeypatch.setattr(Problem, "known_sensitivity", sensitivity)
        fits.append(gs.identify(coarse, unknowns, observation=own, starts=2).discretization)
        assert (2 * model.substeps in steps) == (sensitivity is not known)
    short, full = fits
    assert short.video_follows and full.video_follows
    assert 0.999 * full.chi2_change < short.chi2_change < (1 + CHORDS_LEAVE) * full.chi2_change
    for name, shift in full.shift.items():
        assert short.shift[name] == pytest.approx(shift, abs=0.05 * full.largest)


def test_search_blames_the_step_only_where_a_video_may_have_others():
    """16 times the χ² that half the step changes; nothing for videos of the scene's own steps."""
    content = scene("semi-implicit", 8).model_dump(exclude_unset=True)
    content["bodies"]["ball"]["velocity"] = LAUNCH
    coarse, costs = gs.Scene.parse(content), []
    for case in (coarse, synthetic.own_steps(coarse)):
        space = Space(case, ["gravity.z:-15:-5"])
        problem = Problem(gs.Model(case), flight(1e-3), space)
        people = Population.at(space.inner(torch.tensor([[-GRAVITY]], dtype=torch.float64)))
        people.cost = problem.cost(people.u, FRAMES)
        costs.append(cost_of_steps(problem, people, FRAMES, 0.0))
    t, h = torch.arange(FRAMES) / FPS, 1 / (8 * FPS)
    assert costs[0] == pytest.approx(16 * (GRAVITY * h / 4 * t / 1e-3).square().sum().item(), rel=1e-6)
    assert costs[1] == 0


def test_residuals_that_are_not_white_are_no_ok():
    """A wobble of a third of the noise leaves χ²/N near 1, but a trend that noise does not have."""
    observation = flight(3e-3, noise=1e-4, wobble=4e-3, frames=61)
    fit = gs.identify(scene("auto", frames=61), UNKNOWNS, observation=observation, starts=2)
    assert fit.chi2_per_n < 1.2
    assert not fit.residual_diagnostics.white
    assert fit.status == Status.MISMATCH


@pytest.mark.slow
def test_only_the_part_of_a_clip_that_converges_is_used():
    """Spin about the middle axis is unstable: the error of a step grows by e in (ω √((I₂-I₁)(I₃-I₂)/(I₁I₃)))⁻¹ = 0.2 s."""
    content = scene("rk4", 400, frames=61).model_dump(exclude_unset=True)
    box = {"shape": {"box": {"size": [0.5, 0.3, 0.1]}}, "mass": 1, "angular_velocity": [0.001, 9, 0.001]}
    content |= {"gravity": 0.0, "bodies": {"ball": box}}
    states = gs.Model(gs.Scene.parse(content)).rollout()["ball"]
    noise = 1e-2 * torch.tensor(np.random.default_rng(0).standard_normal((61, 4)))
    turned = torch.nn.functional.normalize(states["q"][0].detach() + 0.5 * noise, dim=-1)
    data = gs.States("ball", states["x"][0].detach(), turned, 1e-3, 1e-2)
    content["timing"] |= {"integrator": "semi-implicit", "substeps": "auto"}
    fit = gs.identify(gs.Scene.parse(content), ["ball.angular_velocity.y:8:10"], observation=data, starts=4)
    spin = fit.unknowns["ball.angular_velocity.y"]
    assert fit.status == Status.OK and abs(spin.value - 9) < 3 * spin.std
    assert 30 < fit.discretization.frames < 61
    case = gs.Scene.parse(content)
    space = Space(case, ["ball.angular_velocity.y:8:10"])
    answer = at_answer(Problem(model_for(case, space), data, space), fit.discretization)
    assert (answer.frames, answer.model.substeps) == (fit.discretization.frames, fit.discretization.substeps[0])
    assert at_answer(answer, fit.discretization) is answer
    assert f"the first {fit.discretization.frames} are used" in fit.discretization.words


def test_remainder_adds_its_square_to_the_covariance():
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(4, 4, generator=generator, dtype=torch.float64)
    C, d = root @ root.T, torch.randn(4, generator=generator, dtype=torch.float64)
    draws = torch.randn(400_000, 4, generator=generator, dtype=torch.float64) @ root.T
    information, samples = with_remainder(torch.linalg.inv(C), Samples(draws, draws[0], 0.0, 1.0), d, seed=1)
    assert_near(torch.linalg.inv(information), C + torch.outer(d, d), SOLVED)
    error = torch.cov(samples.u.T) - C - torch.outer(d, d)
    assert error.abs().max() < 5 * C.diagonal().max() * (2 / len(draws)) ** 0.5 * 3  # sampling error of a covariance


def test_numbers_of_a_contact_law_name_it():
    content = scene("auto").model_dump(exclude_unset=True) | {"ground": {"law": "paper", "damping": 1.0, "height": -9}}
    fit = gs.identify(gs.Scene.parse(content), [*UNKNOWNS, "ground.friction:0.1:1"], observation=flight(1e-3), starts=1)
    assert "ground.friction is a number of our contact law paper" in fit.result()["contact_law"]
    assert "contact_law" not in gs.identify(scene("auto"), UNKNOWNS, observation=flight(1e-3), starts=1).result()


def test_shifts_follow_the_error_bars():
    steps = Discretization([8], [8], torch.tensor([0.1, 0.2]), {"a": 1.0, "b": 2.0}, 0.2, 0.0, False, True, 9, 9)
    wider = steps.relative_to(torch.tensor([1.0, torch.inf]))
    assert wider.shift == pytest.approx({"a": 0.1, "b": 0.0})
    assert wider.converged
    assert steps.remainder is steps.displacement
    assert replace(steps, video_follows=True).remainder is None
