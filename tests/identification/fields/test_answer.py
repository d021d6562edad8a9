"""Fields on videos that our time steps did not make: the stiffness of each element of a beam, moved by steps in NumPy."""

import json
from functools import cache

import field_cases
import numpy as np
import pytest
import torch
from tolerances import SOLVED, assert_near

import gradsim as gs
from gradsim.errors import Status
from gradsim.identification.fields import answer
from gradsim.identification.fields.answer import FieldAnswer
from gradsim.identification.fields.fields import FieldSpace
from gradsim.identification.fields.problem import FieldProblem
from gradsim.identification.fields.resolution import Spectrum
from gradsim.identification.synthetic import own_steps
from gradsim.identification.uncertainty.discretization import converge
from gradsim_reproduction.foreign.soft_trajectory import Solid, trajectory

LAM, SIGMA = 2500.0, 8e-4
FIELD = gs.Field("beam.mu", prior=gs.Smooth(0.5, 0.1, mean=1500.0))


def beam(integrator: str = "auto", substeps: int | str = "auto", frames: int = 60) -> gs.Scene:
    """A beam of 20 tetrahedra, held at one end, that swings, twists and bends."""
    body = {
        "kind": "solid",
        "shape": {"box": {"size": [0.4, 0.1, 0.1], "cells": [4, 1, 1]}},
        "density": 900,
        "mu": 1500,
        "lam": LAM,
        "damping": 1.0,
        "position": [0, 0, 0.2],
        "pinned": ["-x"],
        "angular_velocity": [3, 4, 6],
    }
    timing = {"fps": 50, "frames": frames, "integrator": integrator, "substeps": substeps}
    return gs.Scene.parse({"gravity": 9.81, "timing": timing, "bodies": {"beam": body}})


@cache
def truth() -> np.ndarray:
    """μ of each tetrahedron, a wave along the beam [Pa]."""
    (piece,) = FieldSpace(gs.Model(beam()), [FIELD]).pieces
    return 1500 * np.exp(0.4 * np.sin(2 * np.pi * piece.places[:, 0] / 0.4))


@cache
def converged() -> np.ndarray:
    """Vertices (frames, n, 3) in 32 times the steps of `auto`, which are 2 in a frame."""
    scene = beam()
    (system,) = gs.Model(scene).systems
    start = gs.Model(scene).rollout(frames=1)["beam"]
    rest, tets = system.deformable.rest.double().numpy(), system.deformable.elements_of("").numpy()
    pinned = np.flatnonzero(system.free.numpy() == 0)
    solid = Solid(rest, tets, truth(), LAM, 900.0, 1.0, pinned, pinned[:0])
    return trajectory(solid, *(start[key][0, 0].detach().numpy() for key in ("x", "v")), 50, 60, 64)


def tracked(sigma: float = SIGMA, frames: int = 60) -> gs.Vertices:
    """The converged vertices with noise."""
    x = converged()[:frames]
    return gs.Vertices("beam", torch.tensor(x + sigma * np.random.default_rng(0).standard_normal(x.shape)), sigma)


def score(fit) -> np.ndarray:
    """Errors of the logarithms over their standard deviations."""
    value = fit.values["beam.mu"]
    return np.log(value / truth()) / (fit.std["beam.mu"] / value)


def test_a_field_that_is_ok_has_errors_of_the_size_of_its_error_bars():
    """Without the check it is `ok` and up to 9.6 standard deviations off."""
    blind = gs.identify_fields(own_steps(beam()), [FIELD], tracked())
    assert blind.status == Status.OK and np.abs(score(blind)).max() > 5
    assert blind.discretization is None
    fit = gs.identify_fields(beam(), [FIELD], tracked())
    steps = fit.discretization
    assert fit.status == Status.OK and np.abs(score(fit)).max() < 3
    assert steps.substeps[0] >= 4 * steps.searched[0]
    assert abs(steps.shift["beam.mu"]) < 1
    assert fit.history[-1]["substeps"] == steps.substeps[0]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cg", "lbfgs"])
def test_all_methods_are_held_to_it(method):
    fit = gs.identify_fields(beam(), [FIELD], tracked(), method=method)
    assert fit.status == Status.OK and np.abs(score(fit)).max() < 3
    assert fit.discretization.substeps[0] >= 4 * fit.discretization.searched[0]


@pytest.mark.slow
def test_without_its_matrix_a_field_of_many_unknowns_is_judged_alike(monkeypatch):
    dense = gs.identify_fields(beam(substeps=2), [FIELD], tracked())
    monkeypatch.setattr(answer, "MAX_DENSE_UNKNOWNS", 0)
    free = gs.identify_fields(beam(substeps=2), [FIELD], tracked(), method="cg")
    assert free.discretization.shift == pytest.approx(dense.discretization.shift, rel=0.1)  # as their error bars


def test_stated_steps_stay_and_are_part_of_the_error_bars():
    fit = gs.identify_fields(beam(substeps=2), [FIELD], tracked())
    steps = fit.discretization
    assert steps.substeps == steps.searched == [2]
    assert abs(steps.shift["beam.mu"]) > 3
    assert np.abs(score(fit)).max() < 3
    assert "holds at this step" in steps.words and steps.words in fit.table


@pytest.mark.slow
def test_errors_of_first_order_count_where_the_effort_is_spent():
    fit = gs.identify_fields(beam("semi-implicit"), [FIELD], tracked(1e-3, 30))
    assert not fit.discretization.converged
    assert np.abs(score(fit)).max() < 3


@pytest.mark.parametrize("dense", [1000, 0])
def test_the_estimate_of_the_shift_is_that_of_the_minimum_on_half_the_step(monkeypatch, dense):
    """To first order: its square is left out. By the matrix, and by conjugate gradients."""
    monkeypatch.setattr(answer, "MAX_DENSE_UNKNOWNS", dense)
    model = gs.Model(beam(substeps=16))
    problem = FieldProblem(model, tracked(), FieldSpace(model, [FIELD]))
    here = FieldAnswer(problem, problem.space.inner({"beam.mu": torch.tensor(truth())[None]})[0], "dense").descend()
    same, steps = converge(here)
    moved = here.doubled().descend().u - here.u
    assert same is here and 0.01 < steps.largest < 0.2  # an estimate, since it does not count
    assert (steps.displacement - moved).norm() < 0.05 * moved.norm()


def test_video_of_the_models_own_steps_keeps_them():
    model = gs.Model(beam())
    with torch.no_grad():
        own = model.rollout({"beam.mu": torch.tensor(truth())[None]})["beam"]["x"][0]
    fit = gs.identify_fields(beam(), [gs.Field("beam.mu")], gs.Vertices("beam", own, 1e-5))
    assert fit.discretization.video_follows
    assert fit.discretization.substeps == [model.substeps]
    assert np.abs(fit.values["beam.mu"] / truth() - 1).max() < 1e-6


def test_steps_whose_half_cannot_be_simulated_leave_nothing_known(monkeypatch):
    monkeypatch.setattr(FieldAnswer, "gradient", property(lambda self: self.u * (torch.nan if self.factor > 1 else 0)))
    fit = gs.identify_fields(beam(), [FIELD], tracked(frames=12))
    assert fit.status == Status.PARTIAL and fit.rank == 0
    assert np.isinf(fit.std["beam.mu"]).all()
    assert "leave the finite numbers" in fit.table


def test_the_check_is_saved(tmp_path):
    gs.identify_fields(beam(substeps=2), [FIELD], tracked(frames=12)).save(tmp_path)
    steps = json.loads((tmp_path / "result.json").read_text())["discretization"]
    assert steps["substeps"] == [2] and list(steps["shift"]) == ["beam.mu"] and steps["words"]


def test_shift_of_what_is_not_known_is_that_of_its_known_part():
    """Of two unknowns only the sum is known, to 0.001."""
    root = 0.5**0.5
    axes = torch.tensor([[root, root], [root, -root]]).double()
    spectrum = Spectrum(torch.tensor([1e-3, torch.inf]).double(), axes, torch.full((2,), torch.inf).double(), [])
    assert spectrum.in_units(torch.tensor([5e-3, -5e-3]).double()).abs().max() < 1e-9
    assert spectrum.in_units(torch.tensor([2e-3 * root, 2e-3 * root]).double()).tolist() == pytest.approx([2.0, 2.0])


def test_a_widened_spectrum_is_that_of_the_wider_covariance():
    problem, u = field_cases.tracked(field_cases.MASS, sigma=1e-4)
    spectrum = FieldAnswer(problem, u, "dense").evidence.spectrum
    d = 1e-2 * torch.randn(len(u), generator=torch.manual_seed(0), dtype=torch.float64)
    wide = spectrum.widened(d)
    C = (spectrum.axes * spectrum.bounds**2) @ spectrum.axes.T + torch.outer(d, d)
    assert_near(wide.std, C.diagonal().sqrt(), SOLVED)
    assert_near(wide.bounds, (wide.axes.T @ C @ wide.axes).diagonal().sqrt(), SOLVED)
    assert (wide.bounds.diff() >= 0).all()
