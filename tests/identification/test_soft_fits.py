"""Soft bodies among what is identified: vertices as data, fits of materials, arrays that are no unknowns, explanations."""

import math
import re

import pytest
import soft_cases
import torch

from gradsim.errors import InputError
from gradsim.identification import MultistartConfig, Vertices, explain_gradients, identify, least_squares, synthetic
from gradsim.identification.gradients.trace import Record
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.sensitivity.directions import of_model
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model

SIGMA = 1e-4  # [m]


def _seen(scene, truth: dict[str, float], names) -> tuple[Model, torch.Tensor]:
    """The model of a fit, and the vertices that it moves with the truth."""
    model = model_for(scene, Space(scene, names))
    return model, model.rollout(parameter_values(scene, truth))["beam"]["x"][0].detach()


def test_residuals_of_vertices_are_whitened_and_what_was_not_seen_is_left_out():
    scene = soft_cases.solid()
    model = Model(scene)
    trajectory = model.rollout()
    x = trajectory["beam"]["x"][0].detach().clone()
    x[3, 5] += torch.tensor([0.0, 2e-4, 0.0])
    x[1, 2] = math.nan
    seen = Vertices("beam", x, SIGMA)
    (r,) = seen.residuals(trajectory, 6, "pixels")
    assert r.shape == (1, 6 * 12 * 3)
    assert r.detach().nonzero().tolist() == [[0, (3 * 12 + 5) * 3 + 1]]
    assert seen.cost(trajectory, 6, "pixels").item() == pytest.approx(4.0)
    assert seen.cost(trajectory, 3, "pixels").item() == 0.0
    assert seen.noise_floor(6) == (0.0, 6 * 12 * 3 - 3, math.inf)
    chosen = Vertices("beam", x[:, [5, 7]], SIGMA, index=[5, 7])
    assert chosen.cost(trajectory, 6, "pixels").item() == pytest.approx(4.0)


def test_vertices_of_another_number_or_shape_are_refused():
    with pytest.raises(InputError, match=r"have shape \(6, 3\); expected \(frames, n, 3\)"):
        Vertices("beam", torch.zeros(6, 3), SIGMA)
    with pytest.raises(InputError, match=r"expected \(frames, 2, 3\)"):
        Vertices("beam", torch.zeros(6, 3, 3), SIGMA, index=[1, 2])
    with pytest.raises(InputError, match=r"`beam` has 12 vertices, the observation 5; give their indices: index="):
        Vertices("beam", torch.zeros(6, 5, 3), SIGMA).cost(Model(soft_cases.solid()).rollout(), 6, "pixels")


def test_the_jacobian_of_vertices_is_that_of_their_residuals():
    """Against central differences in the unknowns, relative 1e-6."""
    names = [
        "beam.young:2e3:8e3",
        "beam.regions.tip.density:300:900",
        "ground.friction_stiffness:1:5",
        "beam.velocity.x:0:1",
    ]
    scene = soft_cases.solid()
    problem = Problem(Model(scene), Vertices("beam", torch.zeros(6, 12, 3), SIGMA), Space(scene, names))
    u = 0.6 * problem.space.low[None] + 0.4 * problem.space.high[None]
    ((_, J),) = problem.jacobian(u, 6)
    for k in range(len(names)):
        step = 1e-5 * torch.eye(len(names)).double()[k]
        secant = (problem.residuals(u + step) - problem.residuals(u - step)) / 2e-5
        assert torch.allclose(J[:, :, k], secant, rtol=1e-6, atol=1e-6 * J[:, :, k].abs().max().item())
    cost, A, g = problem.linearize(u, 6)
    r = problem.residuals(u)
    assert torch.allclose(cost, r.square().sum(1)) and torch.allclose(A, J.mT @ J)
    assert torch.allclose(g, (J.mT @ r[..., None])[..., 0])


def test_stiffness_damping_and_density_come_back_from_vertices():
    """Without noise, from starts over the whole ranges, to 1e-6: a known blow sets the scale of the density."""
    scene = soft_cases.solid(regions={}, damping=3.0)
    names = ["beam.young:2000:9000", "beam.damping:1:6", "beam.density:500:1500"]
    truth = {"beam.young": 5100.0, "beam.damping": 2.2, "beam.density": 820.0}
    model, x = _seen(scene, truth, names)
    fit = least_squares(scene, Vertices("beam", x, SIGMA), names, MultistartConfig(starts=3), model=model)
    assert fit.status == "ok"
    for name, value in truth.items():
        assert fit.values[name] == pytest.approx(value, rel=1e-6)


def test_two_materials_come_back_from_silhouettes():
    names = ["beam.young:2000:9000", "beam.regions.tip.young:1000:6000"]
    scene = soft_cases.solid()
    truth = {"beam.young": 5100.0, "beam.regions.tip.young": 3300.0}
    model = model_for(scene, Space(scene, names))
    with torch.no_grad():
        masks = synthetic.float_masks(scene, model.rollout(parameter_values(scene, truth)))
    fit = least_squares(scene, masks, names, MultistartConfig(starts=4), model=model)
    for name, value in truth.items():
        assert fit.values[name] == pytest.approx(value, rel=1e-5)


def test_gravity_alone_leaves_one_scale_of_density_and_moduli_free():
    """Twice the density, stiffness and damping move alike where no known force acts: the fit says so."""
    scene = soft_cases.solid(regions={}, pushes=[], collision="none", pinned=["-x"])
    names = ["beam.young:2000:9000", "beam.damping:1:6", "beam.density:500:1500"]
    model, x = _seen(scene, {"beam.young": 5000.0, "beam.damping": 3.0, "beam.density": 900.0}, names)
    fit = least_squares(scene, Vertices("beam", x, SIGMA), names, MultistartConfig(starts=2), model=model)
    assert fit.status == "unidentifiable"
    (null,) = fit.null_directions
    assert [round(c / 3**-0.5, 6) for c in null.combination.values()] == [1, 1, 1]
    assert "one common factor" in null.explanation and "known impulse" in null.explanation


def test_arrays_of_a_soft_body_are_no_unknowns():
    scene = soft_cases.solid()
    for name in ("beam.vertex_velocity", "beam.mu_factor:0.5:2"):
        with pytest.raises(
            InputError, match=r"is an array with one row for each (vertex|tetrahedron); an unknown is a number"
        ):
            identify(scene, [name], observation=Vertices("beam", torch.zeros(6, 12, 3), SIGMA))


def test_gradients_of_a_soft_body_are_explained():
    scene = soft_cases.solid()
    found = explain_gradients(
        model=Model(scene), subject=Model(scene), unknowns=["beam.young", "beam.velocity", "post.margin"]
    )
    verdicts = {finding.name: finding.verdict for finding in found.findings}
    assert verdicts["beam.young"] == "ok"
    assert {name: v for name, v in verdicts.items() if v == "non-finite"} == {}
    assert {contact.body for contact in found.contacts} == {"beam"}
    everything = explain_gradients(Model(scene), frames=3, secants=False)
    assert not [f.name for f in everything.findings if "vertex" in f.name or "factor" in f.name]
    with pytest.raises(InputError, match="an array with one row for each vertex"):
        explain_gradients(Model(scene), unknowns=["beam.vertex_velocity"])


def test_why_a_soft_body_says_nothing_of_a_ground_is_told():
    far = soft_cases.solid(position=[0.02, -0.01, 1.0])
    (finding,) = explain_gradients(Model(far), unknowns=["ground.stiffness"]).findings
    assert finding.verdict == "zero" and "nothing touches `ground`" in finding.reason
    with pytest.raises(InputError, match="in contact with `ground`, `beam` has its own `friction`"):
        explain_gradients(Model(soft_cases.solid()), unknowns=["ground.friction"])


def test_what_pushes_a_soft_body_is_named_by_its_vertex():
    """The vertex is among those that are below the ground there."""
    model = Model(soft_cases.solid())
    values = {name: v.detach() for name, v in model.values().items()}
    record = Record(model, values, of_model(model, ["beam.velocity.z"], {}), 6)
    contact = record.contacts("beam")[-1]
    named = re.fullmatch(
        r"contact of beam vertex (\d+) with `(ground|post)` \(.*\)", record.forces_text("beam", contact.last)
    )
    assert named
    inside = record.touches["beam"].inside[contact.last, ["ground", "post"].index(named[2])].nonzero()[:, 0]
    assert int(named[1]) in model.systems[0].contact.points[inside].tolist()
    surface, point, part = record.force(0, contact)
    assert surface in ("ground", "post") and part in ("normal force", "friction")
    assert int(record.point("beam", point).removeprefix("vertex ")) in model.systems[0].contact.points.tolist()
