"""Unknowns that are whole arrays: products with their derivative, and what Gauss–Newton finds."""

import dataclasses

import field_cases
import numpy as np
import pytest
import soft_cases
import torch
from tolerances import SOLVED, ULPS, assert_near

from gradsim.identification.fields import gauss_newton_cg
from gradsim.identification.fields.api import identify_fields
from gradsim.identification.fields.fields import Field, FieldSpace, Smooth
from gradsim.identification.observation.vertices import Vertices
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.physics.model import Model

SEEN = 1e-6  # of 1: relative error of what is identifiable, noise-free


@pytest.mark.parametrize("name", field_cases.NAMES)
def test_products_are_those_of_the_whole_matrix(name):
    problem, _ = field_cases.tracked(field_cases.NAMES[name])
    u = problem.space.start()
    here = problem.at(u, 6)
    (J,) = (J[0] for _, J in problem.jacobian(u[None], 6))
    v, w = torch.randn(J.shape[1], dtype=torch.float64), torch.randn(J.shape[0], dtype=torch.float64)
    near = {"rtol": 0, "atol": 1e-12 * J.norm().item() * max(v.norm(), w.norm()).item()}
    torch.testing.assert_close(here.jvp(v), J @ v, **near)
    torch.testing.assert_close(here.vjp(w), J.T @ w, **near)


@pytest.mark.slow
@pytest.mark.parametrize("name", field_cases.NAMES)
def test_a_field_is_found_from_positions_with_and_without_its_matrix(name):
    problem, truth = field_cases.tracked(field_cases.NAMES[name])
    start = problem.space.start()
    dense, _ = descend(problem, Population.at(start[None]), 6, "pixels", 30)
    free, _, _ = gauss_newton_cg.descend(problem, start, 6, target_cost=1e-14)  # (error · effect/σ)², effect/σ about 10
    for found in (dense.u[0], free):
        assert (found - truth).abs().max() < SEEN


def test_a_column_of_the_matrix_is_the_secant_of_the_residuals():
    problem, _ = field_cases.tracked(field_cases.MASS, field_cases.VELOCITY)
    u, h = problem.space.start(), 1e-5
    (J,) = (J[0] for _, J in problem.jacobian(u[None], 6))
    k = torch.arange(0, len(u), 7)
    step = h * torch.eye(len(u), dtype=torch.float64)[k]
    plus, minus = problem.residuals(u + step), problem.residuals(u - step)
    error = (plus - minus).T / (2 * h) - J[:, k]
    assert error.norm() < 1e-7 * J[:, k].norm()  # h² and rounding / h, both near 1e-10


def test_a_prior_matters_only_where_data_are_silent():
    prior = Smooth(std=0.5, length=0.1)
    fields = [dataclasses.replace(field_cases.MASS, prior=prior), field_cases.VELOCITY]
    problem, truth = field_cases.tracked(*fields, sigma=1e-8)
    found, _ = descend(problem, Population.at(problem.space.start()[None]), 6, "pixels", 30)
    assert (found.u[0] - truth).abs().max() < SEEN  # (σ/effect)² of the prior's pull
    one, _ = field_cases.tracked(dataclasses.replace(field_cases.MASS, prior=prior), frames=2, sigma=1e3)
    silent, _ = descend(one, Population.at(one.space.start()[None] + 0.4), 1, "pixels", 30)
    assert_near(silent.u[0], one.mean, SOLVED, scale=1.0)  # frame 0 tells nothing of masses


def test_pinned_vertices_are_no_unknowns():
    problem, truth = field_cases.tracked(field_cases.MASS)
    (system,) = problem.model.systems
    (piece,) = problem.space.pieces
    assert set(piece.entries.tolist()) == set(system.free.nonzero()[:, 0].tolist())
    values = problem.space.values(truth[None])[field_cases.MASS.name]
    assert (values[0, system.pinned] == 1).all() and (values[0, piece.entries].log() - truth).abs().max() < 1e-14


@pytest.mark.parametrize(
    ("name", "elements", "dimension"),
    [("vertex_velocity", "vertices", 2), ("mu_factor", "faces", 2), ("bending", "hinges", 2), ("air.drag", "faces", 2)],
)
def test_fields_of_a_sheet_lie_on_its_vertices_triangles_and_folds(name, elements, dimension):
    model = Model(soft_cases.cloth())
    (body,) = model.scene.bodies.values()
    (sheet,) = model.scene.bodies
    (piece,) = FieldSpace(model, [Field(f"{sheet}.{name}", scale=1.0)]).pieces
    index = {"hinges": body.hinges, "faces": body.rest.faces, "vertices": np.arange(len(body.rest.vertices))[:, None]}
    assert np.array_equal(piece.elements, index[elements]) and piece.dimension == dimension
    assert np.allclose(piece.places, body.rest.vertices[index[elements]].mean(1))
    assert len(piece.edges) >= len(piece.places) - 1  # in one piece


@pytest.mark.slow
def test_the_velocity_of_every_vertex_of_a_sheet_is_found():
    model = Model(soft_cases.cloth(scale=1.0))
    (sheet,) = model.scene.bodies
    space = FieldSpace(model, [Field(f"{sheet}.vertex_velocity", scale=0.5)])
    truth = space.start() + 0.3 * torch.randn(len(space), generator=torch.manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        seen = model.rollout(space.values(truth[None]))[sheet]["x"][0]
    field = Field(f"{sheet}.vertex_velocity", scale=0.5)
    fit = identify_fields(model.scene, [field], Vertices(sheet, seen, 1e-4), model=model)
    off = fit.u - truth
    assert 0 < fit.rank < len(truth)  # what stretches it fades within a frame
    assert fit.spectrum.sharp(off).norm() < SEEN * len(truth) ** 0.5 and off.abs().max() < 1e-4


def test_unknowns_are_logarithms_or_shares_of_the_scale():
    problem, u = field_cases.tracked(field_cases.MASS, field_cases.VELOCITY)
    values = problem.space.values(u[None])
    free = problem.model.systems[0].free > 0
    mass, velocity = (values[f.name][0, free] for f in (field_cases.MASS, field_cases.VELOCITY))
    assert_near(u, torch.cat([mass.log(), velocity.flatten() / 0.5]), ULPS, scale=1.0)
    assert_near(problem.space.inner(values)[0], u, ULPS, scale=1.0)


def test_elements_have_fields_too():
    problem, truth = field_cases.tracked(Field("beam.activation", scale=0.2), frames=4)
    found, _ = descend(problem, Population.at(problem.space.start()[None]), 4, "pixels", 30)
    assert len(truth) == 12 - 2 and (found.u[0] - truth).abs().max() < 1e-3
