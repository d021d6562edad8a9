"""`identify_fields`: the answer, its effective rank, what it says of silent directions, and its files."""

import json

import field_cases
import numpy as np
import pytest
import soft_cases
import torch

from gradsim.errors import InputError
from gradsim.identification.fields import resolution
from gradsim.identification.fields.api import identify_fields
from gradsim.identification.fields.fields import Field, Smooth
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.vertices import Vertices
from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes


def arrays(problem, u):
    return {name: v[0].numpy() for name, v in problem.space.values(u[None]).items()}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dense", "cg", "lbfgs"])
def test_all_methods_find_the_masses(method):
    problem, truth = field_cases.tracked(field_cases.MASS, sigma=1e-5)
    fit = identify_fields(
        soft_cases.solid(), [field_cases.MASS], problem.observation, method=method, model=problem.model
    ).against(arrays(problem, truth))
    assert fit.errors.full < (1e-3 if method == "lbfgs" else 1e-6)  # L-BFGS rests where the cost falls by 1e-9 of it
    assert fit.status == "ok" and fit.rank == fit.unknowns == len(truth)
    assert fit.std["beam.vertex_mass_factor"][problem.model.systems[0].pinned].max() == 0


def test_a_scene_may_be_given_by_its_file(tmp_path):
    problem, _ = field_cases.tracked(field_cases.VELOCITY)
    soft_cases.solid().save(tmp_path / "beam.yaml")
    few = {"observation": problem.observation, "curriculum": [6], "iterations": 1}
    ours, other = (
        identify_fields(scene, [field_cases.VELOCITY], **few) for scene in (tmp_path / "beam.yaml", soft_cases.solid())
    )
    assert ours.cost == other.cost


def test_errors_are_as_large_as_their_bounds():
    problem, truth = field_cases.tracked(field_cases.MASS, field_cases.VELOCITY)
    noise = 1e-4 * torch.randn(problem.observation.x.shape, generator=torch.manual_seed(5), dtype=torch.float64)
    seen = Vertices("beam", problem.observation.x + noise, 1e-4)
    fit = identify_fields(soft_cases.solid(), [field_cases.MASS, field_cases.VELOCITY], seen, model=problem.model)
    errors = fit.against(arrays(problem, truth)).errors
    assert abs(errors.z - 1) < 4 / np.sqrt(2 * fit.rank)  # of χ with `rank` degrees of freedom
    assert abs(fit.chi2_per_n - 1) < 4 * np.sqrt(2 / fit.informative)
    assert 0 < fit.rank < fit.unknowns and fit.status == "partial"


@pytest.mark.slow
def test_directions_by_products_are_those_of_the_whole_matrix():
    problem, truth = field_cases.tracked(field_cases.MASS, field_cases.VELOCITY, sigma=1e-4)
    here = problem.at(truth, 6)
    (J,) = (J[0] for _, J in problem.jacobian(truth[None], 6))
    dense, free = resolution.of_matrix(problem, J.T @ J), resolution.of_products(problem, here)
    assert free.rank == dense.rank
    k = free.rank
    torch.testing.assert_close(free.bounds[:k], dense.bounds[:k], rtol=1e-5, atol=0)
    assert torch.linalg.matrix_norm(free.axes[:, :k].T @ dense.axes[:, :k], 2) > 1 - 1e-6  # the same subspace
    prior = Smooth(std=0.3, length=0.05)
    problem, truth = field_cases.tracked(Field("beam.vertex_mass_factor", prior=prior), sigma=1e-2)
    here = problem.at(truth, 6)
    (J,) = (J[0] for _, J in problem.jacobian(truth[None], 6))
    inverse = torch.linalg.inv(J.T @ J + torch.tensor((problem.root.T @ problem.root).toarray()))
    exact, (dense, free) = (
        inverse.diagonal().sqrt(),
        (resolution.of_matrix(problem, J.T @ J), resolution.of_products(problem, here)),
    )
    torch.testing.assert_close(dense.std, exact, rtol=1e-6, atol=0)
    ratio = free.std / exact
    assert (ratio > 1 - 1e-6).all() and ratio.max() < 1.2  # one direction of ten is left to the prior


def test_masses_that_no_force_shows_are_left_open():
    scene = soft_cases.solid(pinned=None, pushes=None, activation=0, angular_velocity=[0, 0, 0], collision="none")
    model = Model(scene)
    with torch.no_grad():
        seen = model.rollout()["beam"]["x"][0]
    fit = identify_fields(scene, ["beam.vertex_mass_factor"], Vertices("beam", seen, 1e-3), model=model)
    assert fit.status == "partial" and fit.rank == 0
    assert "one common factor of all of beam.vertex_mass_factor" in fit.null_directions[0]
    assert np.isinf(fit.std["beam.vertex_mass_factor"]).all()


def test_silhouettes_show_part_of_a_field_and_a_prior_the_rest():
    scene = soft_cases.solid()
    field = Field("beam.vertex_velocity", scale=0.5, prior=Smooth(std=0.2, length=0.3))
    problem, _ = field_cases.tracked(field)
    truth = problem.space.start() + 0.2 * torch.sin(torch.arange(30.0, dtype=torch.float64) / 30)
    with torch.no_grad():
        trajectory = problem.model.rollout(problem.space.values(truth[None]))
        silhouettes = Silhouettes.of(scene)
        masks = Masks(silhouettes.union(trajectory.surface)[0], 1 / 255, silhouettes)
    fit = identify_fields(scene, [field], masks, model=problem.model).against(arrays(problem, truth))
    assert 0 < fit.rank < fit.unknowns
    assert fit.errors.subspace < 0.01  # the prior pulls by less than the bound
    assert np.isfinite(fit.std[field.name]).all()


def test_a_fit_is_saved_whole(tmp_path):
    problem, truth = field_cases.tracked(field_cases.MASS, field_cases.VELOCITY)
    fields = [field_cases.MASS, field_cases.VELOCITY]
    fit = identify_fields(soft_cases.solid(), fields, problem.observation, model=problem.model, iterations=2)
    fit.against(arrays(problem, truth)).save(tmp_path)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["effective_rank"] == fit.rank and result["errors"]["full"] > 0
    stored = np.load(tmp_path / "fields.npz")
    assert np.array_equal(stored["beam.vertex_velocity"], fit.values["beam.vertex_velocity"])
    assert (tmp_path / "fields.png").stat().st_size > 10_000
    assert not [p for p in tmp_path.iterdir() if "part" in p.name]


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (Field("beam.mass"), "is not an array of the scene"),
        (Field("beam.vertex_velocity"), "needs a `scale`"),
        (Field("beam.vertex_velocity", scale=-1), "has to be above 0"),
        (Field("beam.vertex_mass_factor", low=2, high=1), "is none; it needs low < high"),
        (Field("beam.vertex_mass_factor", low=2), "one end of a range"),
    ],
)
def test_fields_that_cannot_be_are_refused(field, text):
    with pytest.raises(InputError, match=text):
        identify_fields(soft_cases.solid(), [field], Vertices("beam", torch.zeros(6, 12, 3), 1e-3))


def test_a_prior_has_the_deviation_and_length_that_it_states():
    x = np.stack([np.linspace(0, 1, 201), *np.zeros((2, 201))], 1)
    edges = np.stack([np.arange(200), np.arange(1, 201)], 1)
    B = Smooth(std=0.3, length=0.05).factor(x, edges, 1).toarray()
    covariance = np.linalg.inv(B.T @ B)
    assert abs(np.sqrt(covariance.diagonal().mean()) / 0.3 - 1) < 0.03  # 64 probes
    d = np.abs(x[:, 0] - x[100, 0])[80:121] / 0.05
    matern = (1 + d) * np.exp(-d)  # ν = 3/2: α = 2 on a line
    assert np.abs(covariance[100, 80:121] / covariance[100, 100] - matern).max() < 0.01
