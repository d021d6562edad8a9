"""Explanations of gradients in scenes whose gradients are known to fail, and why."""

import json
import re
from typing import Any

import pytest
import soft_cases
import torch
from tolerances import ROUNDING, near

from gradsim.errors import InputError
from gradsim.identification import Fit, States
from gradsim.identification.fit import Estimate
from gradsim.identification.gradients import findings
from gradsim.identification.gradients.api import explain_gradients
from gradsim.identification.problem import Problem
from gradsim.identification.sensitivity.directions import of_model
from gradsim.identification.sensitivity.tangents import by_step
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Divergence, Model
from gradsim.scene import Scene


def box(ground: dict | None = None, frames: int = 12, pushes=(), **changes: Any) -> Model:
    """A box on a soft ground; `changes` to the body."""
    body = {"shape": {"box": {"size": [0.3, 0.24, 0.18]}}, "mass": 2.0, "position": [0, 0, 0.2], "pushes": pushes}
    soft = {"stiffness": 4000, "dissipation": 0.5, "friction_stiffness": 40, "friction": 0.3, **(ground or {})}
    timing = {"fps": 50, "frames": frames, "substeps": 20}
    return Model(Scene.parse({"timing": timing, "bodies": {"cube": {**body, **changes}}, "ground": soft}))


SLIDING: dict[str, Any] = {"velocity": [1.5, 0.3, 0], "position": [0, 0, 0.1]}


def x_at(model: Model, frame: int, given=None) -> torch.Tensor:
    return model.rollout(given)["cube"]["x"][:, frame, 0].sum()


def test_motion_without_trouble_is_ok():
    found = explain_gradients(box(**SLIDING), unknowns=["cube.velocity.x", "ground.friction"])
    assert found.ok and [f.verdict for f in found.findings] == ["ok", "ok"]
    assert all(f.holds is not None and f.holds > 0.01 for f in found.findings)


@pytest.mark.parametrize(
    ("model", "unknown", "words"),
    [
        (lambda: box(frames=5), "cube.mass", "falls freely"),
        (lambda: box(frames=5), "ground.friction", "nothing touches `ground`"),
        (lambda: box(position=[0, 0, 0.1]), "ground.friction", "nothing slides"),
        (lambda: box({"friction": 1e-4}, **SLIDING), "ground.friction_stiffness", "everything slides"),
        (lambda: box(pushes=[{"impulse": [1, 0, 0], "at": 2}]), "cube.pushes.0.impulse.x", "push begins at 2 s"),
    ],
    ids=["mass in free fall", "no contact", "no sliding", "no sticking", "late push"],
)
def test_zero_says_why(model, unknown, words):
    finding = explain_gradients(model(), unknowns=[unknown], secants=False)[unknown]
    assert finding.verdict == "zero" and finding.sensitivity == 0
    assert words in finding.reason and finding.advice


@pytest.fixture(scope="module")
def chattering():
    """The library's cube in the paper's law, whose tangents explode through its last contacts."""
    model = Model(Scene.library("cube_paper"))
    return model, explain_gradients(model, unknowns=["cube.scale", "ground.friction"])


def test_explosion_names_contact_step_and_frame(chattering):
    """The named vertex goes through the ground in the named step and in none before it of that contact."""
    model, found = chattering
    finding = found["cube.scale"]
    assert finding.verdict == "exploding"
    match = re.fullmatch(r"contact of cube vertex (\d+) with `(\w+)` \(.*\)", finding.force or "")
    assert match and finding.step and finding.frame == finding.step // model.substeps
    vertex, ground = match.groups()
    assert ground == "ground"
    with torch.no_grad():
        height = by_step(model).rollout(frames=finding.step + 60).surface.vertices[0, :, :, 2]
    lowest = height.min(1).values
    assert lowest[finding.step] < 0 <= lowest[finding.step - 1]
    assert height[finding.step :, int(vertex)].min() < 0


def test_sensitivity_is_that_of_neighbouring_motions(chattering):
    """Two motions 1e-7 apart, inside a tooth (1e-5); rounding, 1e-16, grows 1e4 times here: 1e-5 of what is between them."""
    model, found = chattering
    friction = 0.5 * torch.tensor([0, 1e-7]).double().exp()
    with torch.no_grad():
        states = model.rollout({"ground.friction": friction})["cube"]
    place = torch.cat([(states["x"][1] - states["x"][0]) / found.size, 2 * (states["q"][1] - states["q"][0])], 1)
    moved = place.norm(dim=1) / 1e-7
    assert moved.max() > 1
    assert torch.allclose(found.sensitivity[1], moved, rtol=1e-4, atol=1e-5)


def test_explosion_tells_that_the_motion_does_not(chattering):
    finding = chattering[1]["cube.scale"]
    assert finding.trend is not None and finding.trend > 10 and "less: secant" in finding.reason
    assert "law: continuous" in finding.advice and finding.growth is not None and finding.growth > 2


def test_tangent_of_one_tooth_is_kinked(chattering):
    finding = chattering[1]["ground.friction"]
    assert finding.verdict == "kinked" and finding.holds is not None and finding.holds < 1e-3
    assert "they part at frame" in finding.reason


def test_long_horizon_is_warned_of(chattering):
    (warning,) = chattering[1].growth.warnings
    assert "forgets its parameters" in warning and "e-fold" in warning and warning in str(chattering[1])


def test_divergence_is_placed_where_the_rollout_says():
    model, given = box(frames=20), {"cube.mass": torch.tensor([0.0]).double()}
    with pytest.raises(Divergence, match=r"not finite from step (\d+)") as caught:
        model.rollout(given)
    step = int(re.findall(r"from step (\d+)", str(caught.value))[0])
    finding = explain_gradients(model, overrides=given)["cube.mass"]
    assert (finding.verdict, finding.step, finding.body) == ("non-finite", step, "cube")
    assert "substeps" in finding.advice


def test_loss_that_is_not_finite_is_not_the_motions_fault():
    model = box(**SLIDING)
    loss = lambda t: (0 * t["cube"]["x"][:, 7]).norm() + (0 * t["cube"]["x"][:, 7, 0]).sum().sqrt()
    finding = explain_gradients(loss, model, unknowns=["cube.mass"])["cube.mass"]
    assert finding.verdict == "non-finite" and "by `x` of cube is not finite at frame 7" in finding.reason


def test_loss_that_reads_too_early_gives_zero():
    model = box(pushes=[{"impulse": [1, 0, 0], "at": 0.1}])
    finding = explain_gradients(x_at(model, 3), model, unknowns=["cube.pushes.0.impulse.x"])
    (only,) = finding.findings
    assert only.verdict == "zero" and only.gradient == 0
    assert "acts from frame 6 on, and the loss reads frames up to 3" in only.reason


def test_gradients_are_those_of_autograd():
    """Of the model's own parameters, and of those given for several worlds; by the logarithm of the mass."""
    model = box(**SLIDING)
    model.get_parameter("cube.mass").grad = None
    own = explain_gradients(x_at(model, 9), model, unknowns=["cube.mass"], secants=False)
    x_at(model, 9).backward()
    slope = model.get_parameter("cube.mass").grad
    assert slope is not None and own["cube.mass"].gradient == near(2.0 * slope.item(), ROUNDING)
    given = {"ground.friction": torch.tensor([0.2, 0.4]).double().requires_grad_()}
    loss = x_at(model, 9, given)
    found = explain_gradients(loss, model, given, secants=False, world=1)
    loss.backward()
    slope = given["ground.friction"].grad
    assert slope is not None
    expected = (slope * given["ground.friction"]).sum().item()
    assert found["ground.friction"].gradient == near(expected, ROUNDING)


def tracked() -> Problem:
    model = box(**SLIDING)
    with torch.no_grad():
        states = model.rollout()["cube"]
    return Problem(
        model, States("cube", states["x"][0], None, 1e-3), Space(model.scene, ["ground.friction:0.1:0.9", "cube.mass"])
    )


def test_gradients_of_a_fit_are_columns_of_its_jacobian():
    problem = tracked()
    u = problem.space.inner(torch.tensor([[0.3, 2.0]]).double())
    ((_, J),) = problem.jacobian(u, problem.frames)
    found = explain_gradients(problem, overrides={"ground.friction": 0.3, "cube.mass": 2.0}, secants=False)
    assert [f.gradient for f in found.findings] == near(J[0].norm(dim=0).tolist(), ROUNDING)
    estimates = {
        "ground.friction": Estimate(0.3, 0.01, (0.28, 0.32), "", 0.1, 0.9, True),
        "cube.mass": Estimate(2.0, 0.1, (1.8, 2.2), "kg", 0.4, 10, True),
    }
    fit = Fit("ok", estimates, 1.0, 1.0, 10, 2, [], {}, 1, 1, 0.0, 0.0, 0)
    model, observation = problem.model, problem.observation
    again = explain_gradients(fit, model, observation=observation, secants=False)
    assert [f.gradient for f in again.findings] == pytest.approx([f.gradient for f in found.findings])
    assert explain_gradients(fit, model, secants=False)["cube.mass"].gradient is None


def test_what_is_asked_about_by_default_is_the_physics():
    """Masses, sizes and contact numbers; neither the camera nor the clock."""
    names = [f.name for f in explain_gradients(box(frames=3), secants=False).findings]
    assert {"cube.mass", "ground.friction"} < set(names)
    assert not [n for n in names if n.startswith(("camera", "timing"))]


def test_pendulums_are_explained_too():
    found = explain_gradients(Model(Scene.library("pendulum")), frames=8, secants=False)
    assert found.ok and found["bob.string_length"].sensitivity > 0


def test_result_is_plain_json_and_the_table_has_a_line_for_each(chattering):
    found = chattering[1]
    content = json.loads(json.dumps(found.result()))
    assert content["gradients"]["cube.scale"]["verdict"] == "exploding"
    assert len(content["sensitivity"]["cube.scale"]) == len(content["times"]) == 24
    assert len(found.table.splitlines()) == 3 and "exploding" in found.table


def test_mistakes_are_told_before_work_starts():
    model = box(**SLIDING)
    loss = x_at(model, 5)
    with pytest.raises(InputError, match="give the Model"):
        explain_gradients(loss)
    with pytest.raises(InputError, match="give a scalar"):
        explain_gradients(model.rollout()["cube"]["x"], model)
    with pytest.raises(InputError, match="no gradient graph"):
        explain_gradients(loss.detach(), model)
    with pytest.raises(InputError, match="not come from a rollout of this model"):
        explain_gradients(loss, model, {"cube.mass": torch.tensor([3.0]).double()})
    with pytest.raises(InputError, match="no parameter `cube.mas`"):
        explain_gradients(loss, model, unknowns=["cube.mas"])
    with pytest.raises(InputError, match="no world 2"):
        explain_gradients(loss, model, world=2)
    loss.backward()
    with pytest.raises(InputError, match="before backward"):
        explain_gradients(loss, model)


def test_bodies_that_move_in_one_rollout_are_named():
    sheet = {
        "kind": "cloth",
        "shape": {"grid": {"size": [0.3, 0.2], "cells": [3, 2]}},
        "density": 0.5,
        "mu": 30,
        "lam": 40,
    }
    ball = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1.0, "position": [0, 0, -0.3]}
    law = {"thickness": 0.01, "stiffness": 50}
    for between, words in (
        ("sheet", "`sheet` touches itself"),
        (["sheet", "ball"], "`sheet` and `ball` act on one another"),
    ):
        content = {"bodies": {"sheet": sheet, "ball": ball}, "contacts": {"fold": {"between": between, **law}}}
        model = Model(Scene.parse({"timing": {"fps": 50, "frames": 4, "substeps": "auto"}, **content}))
        with pytest.raises(InputError, match=words):
            explain_gradients(torch.zeros((), requires_grad=True), model)


def test_bending_damping_of_none_is_measured_by_the_bending():
    """A hundredth of 1 N m s, the damping of a board, throws a cloth about: "exploding"."""
    model = Model(soft_cases.cloth(bending_damping=0.0))
    (direction,) = of_model(model, ["flag.bending_damping"], {})
    size = float(torch.linalg.vector_norm(model.systems[0].rest, dim=-1).max())
    g = float(torch.linalg.vector_norm(model.values()["gravity"].detach()))
    assert direction.scale == pytest.approx(2e-3 * (2 * size / g) ** 0.5)


def test_what_nothing_reads_is_not_explained():
    """By default it is left out; asked for, it is an error."""
    model = box(friction=0.3)
    names = {finding.name for finding in explain_gradients(model, secants=False).findings}
    assert "cube.friction" in names and "ground.friction" not in names
    with pytest.raises(InputError, match="`ground.friction` has no gradient, not even 0"):
        explain_gradients(model, unknowns=["ground.friction"])


def balls() -> Model:
    """Two that meet in flight between frames 3 and 9, and one that they do not meet."""
    ball = {"shape": {"sphere": {"radius": 0.15, "subdivisions": 1}}, "mass": 1.0}
    bodies = {
        "red": {**ball, "position": [-0.3, 0, 0], "velocity": [2, 0, 0]},
        "blue": {**ball, "position": [0.3, 0.05, 0]},
        "far": {**ball, "position": [0.3, 1, 0]},
    }
    contacts = {n: {"between": ["red", b], "stiffness": 3e3} for n, b in (("hit", "blue"), ("never", "far"))}
    timing = {"fps": 30, "frames": 10, "substeps": 32, "integrator": "semi-implicit"}  # touches at the ends of steps
    return Model(Scene.parse({"gravity": 9.81, "timing": timing, "bodies": bodies, "contacts": contacts}))


def test_contact_between_bodies_is_seen():
    """Centres are within 0.3 m of one another in the named steps, and only in those; friction there is viscous."""
    model = balls()
    names = ["contacts.hit.stiffness", "contacts.hit.friction", "contacts.never.stiffness", "far.mass", "red.mass"]
    found = explain_gradients(model, unknowns=names, secants=False)
    assert [found[n].verdict for n in names] == ["ok", "zero", "zero", "zero", "ok"]
    assert found["contacts.hit.friction"].reason == "no contact of `contacts.hit` depends on it"
    assert found["contacts.never.stiffness"].reason == "red and far never touch one another in these 10 frames"
    assert found["far.mass"].reason.startswith("far falls freely")
    (contact,) = found.contacts
    assert (contact.body, contact.other) == ("red", "blue")
    with torch.no_grad():
        states = by_step(model).rollout(frames=9 * 32 + 1)
    near = (states["red"]["x"] - states["blue"]["x"])[0].norm(dim=-1) < 0.3
    assert near.nonzero()[:, 0].tolist() == list(range(contact.first, contact.last + 1))


def test_an_explosion_by_bodies_that_collide_names_them(monkeypatch):
    monkeypatch.setattr(findings, "EXPLODING_SENSITIVITY", 0.1)  # by the blow, which comes in step 147
    found = explain_gradients(balls(), unknowns=["red.mass"], secants=False)["red.mass"]
    assert (found.verdict, found.step) == ("exploding", 147) and "contact of red with blue" in found.reason
    assert "substeps" in found.advice


@pytest.mark.slow  # to compile: two kinds of bodies with joints
def test_what_a_joint_holds_does_not_fall_freely():
    """A link that swings: its period does not depend on its mass."""
    link = {"shape": {"box": {"size": [0.1, 0.1, 0.6]}}, "mass": 0.8}
    hip = {
        "kind": "revolute",
        "between": ["world", "link"],
        "axis": [0, 1, 0],
        "child_point": [0, 0, 0.3],
        "angle": 0.7,
    }
    timing = {"fps": 60, "frames": 4, "integrator": "rk4", "substeps": 4}
    scene = Scene.parse({"gravity": 9.81, "timing": timing, "bodies": {"link": link}, "joints": {"hip": hip}})
    found = explain_gradients(Model(scene), unknowns=["link.mass"], secants=False)["link.mass"]
    assert found.verdict == "zero" and found.reason.startswith("nothing that moves in these 4 frames depends on it")
