"""Scenes whose bodies touch and hold one another: gradients, momenta, and mistakes."""

from pathlib import Path

import pytest
import torch

from gradsim.errors import InputError
from gradsim.physics.forces import neo_hookean
from gradsim.physics.model import Model
from gradsim.scene import Scene

BLOCK = {
    "kind": "solid",
    "shape": {"box": {"size": [0.2, 0.1, 0.1], "cells": [2, 1, 1]}},
    "density": 500,
    "young": 5000,
    "poisson": 0.3,
    "damping": 1.0,
}


def content(**changes) -> dict:
    """A soft block, held by a box at one end, falls onto a ball; another lies in its way; all is in the air."""
    return {
        "timing": {"fps": 50, "frames": 6, "substeps": 60},
        "bodies": {
            "block": {**BLOCK, "position": [0, 0, 0.16], "rotation_vector": [0.1, 0.2, 0.3], "velocity": [0, 0, -2]},
            "other": {**BLOCK, "position": [0.04, 0.02, 0.29], "velocity": [0.1, 0, -3.5]},
            "ball": {"shape": {"sphere": {"radius": 0.08}}, "mass": 0.7, "angular_velocity": [3, -2, 1]},
            "box": {"shape": {"box": {"size": [0.06, 0.08, 0.1]}}, "mass": 0.4, "position": [-0.15, 0, 0.16]},
        },
        "contacts": {
            "hit": {"between": ["block", "ball"], "stiffness": 800, "thickness": 0.004},
            "pile": {"between": ["other", "block"], "thickness": 0.02, "stiffness": 500},
        },
        "attachments": {"grip": {"body": "block", "to": "box", "region": "-x", "stiffness": 300, "damping": 0.5}},
    } | changes


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(Scene.parse(content()))


NAMES = (
    "contacts.hit.stiffness", "contacts.hit.dissipation", "contacts.hit.friction_stiffness", "contacts.hit.friction",
    "contacts.hit.thickness", "contacts.pile.thickness", "contacts.pile.stiffness", "contacts.pile.friction", "attachments.grip.stiffness",
    "attachments.grip.damping", "ball.mass", "ball.scale", "box.mass", "ball.angular_velocity", "block.young",
    "other.density", "block.velocity", "gravity",
)  # fmt: skip


def end(model: Model, given: dict) -> torch.Tensor:
    """A number that all bodies have a part in."""
    states = model.rollout(given).states
    parts = [y[:, -1].flatten(1) for own in states.values() for y in own.values()]
    every = torch.cat(parts, 1)
    return (every * torch.linspace(1, 2, every.shape[1]).double()).sum(1)


@pytest.mark.slow
def test_gradients_by_what_is_between_bodies_are_those_of_secants(model):
    given = {name: model.get_parameter(name).detach()[None].clone().requires_grad_() for name in NAMES}
    slopes = torch.autograd.grad(end(model, given).sum(), list(given.values()))
    assert all(slope.any() for slope in slopes)
    for name, slope in zip(NAMES, slopes, strict=True):
        direction = torch.ones_like(given[name])
        step = 3e-6 * given[name].detach().abs().max().item()
        moved = [{**given, name: (given[name] + s * step * direction).detach()} for s in (2, 1, -1, -2)]
        with torch.no_grad():
            far, near, back, away = (end(model, each).item() for each in moved)
        secant = (8 * (near - back) - (far - away)) / (12 * step)
        # rounding: 1e-14 of the sum, 118, over a step that changes it by 1e-6 to 1e-3
        assert abs(slope.sum().item() - secant) < 1e-6 * abs(secant), name


def test_bodies_give_and_take_the_same_momentum(model):
    """All that changes is by gravity: Σ m v grows by m g t; each body by itself does not."""
    states = model.rollout().states
    values, total, alone = model.values(), 0, []
    for system in model.systems:
        mass, v = system.mass(values), states[system.name]["v"]
        p = (mass[:, None, :, None] * v).sum(2) if v.ndim == 4 else mass[:, None, None] * v
        weight = mass.sum() * values["gravity"]
        change = p[0, -1] - p[0, 0] - weight[0] * 0.1
        alone.append(change.norm().item())
        total = total + change
    assert min(alone) > 0.01
    assert total.norm() < 1e-12 * max(alone)


def test_a_scene_with_contacts_is_written_and_read_again(tmp_path):
    scene = Scene.parse(content())
    scene.save(tmp_path / "scene.yaml")
    assert Scene.load(tmp_path / "scene.yaml") == scene


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"contacts": {"a": {"between": ["block", "bal"]}}}, "no body `bal`; did you mean `ball`"),
        ({"contacts": {"a": {"between": ["ball", "box"]}}}, "contacts.a.stiffness: is missing"),
        ({"contacts": {"a": {"between": ["block"]}}}, "`?thickness`?.*is missing"),
        ({"attachments": {"a": {"body": "ball", "to": "box", "region": "-x"}}}, "`ball` is not a soft body"),
        (
            {"attachments": {"a": {"body": "block", "to": "box", "region": {"vertices": [999]}}}},
            "attachments.a.region: names vertex 999",
        ),
        ({"contacts": {"a": {"between": ["block", "ball", "box"]}}}, "got 3 names"),
        ({"timing": {"integrator": "implicit"}}, "contacts: need `timing.integrator: semi-implicit`"),
        ({"timing": {"integrator": "verlet"}}, "contacts: need `timing.integrator: semi-implicit`; got 'verlet'"),
    ],
)
def test_mistakes_are_named(change, words):
    with pytest.raises(InputError, match=words):
        Scene.parse(content(**change))


def test_a_start_inside_a_rigid_body_is_refused():
    bodies = content()["bodies"]
    bodies["block"]["position"] = [0, 0, 0.05]
    with pytest.raises(InputError, match="`block` starts .* m inside `ball`"):
        Model(Scene.parse(content(bodies=bodies)))


def test_bodies_that_meet_go_on_from_a_state(model):
    frames = model.scene.timing.frames
    whole = model.rollout()
    states = {body: {y: z[:, frames // 2] for y, z in own.items()} for body, own in whole.states.items()}
    rest = model.rollout(frames=frames - frames // 2, start=states)
    for body, own in whole.states.items():
        for y, z in own.items():
            assert torch.allclose(rest[body][y][:, -1], z[:, -1], rtol=1e-11, atol=1e-13)


def test_bodies_that_do_not_meet_stay_in_rollouts_of_their_own(model):
    bodies = {**content()["bodies"], "far": {"shape": {"sphere": {"radius": 0.1}}, "mass": 1, "position": [9, 0, 0]}}
    groups = Model(Scene.parse(content(bodies=bodies))).groups
    assert [[s.name for s in g.systems] for g in groups] == [["block", "other", "ball", "box"], ["far"]]


def test_a_step_too_long_for_a_contact_is_refused():
    contacts = {"hit": {"between": ["block", "ball"], "stiffness": 1e8}}
    with pytest.raises(InputError, match="time step .* is too large .*`block` and `ball`"):
        Model(Scene.parse(content(contacts=contacts, attachments={})))


def crossings(x: torch.Tensor, faces: torch.Tensor) -> int:
    """How many edges of a surface pass through triangles that they share no vertex with."""
    edges = torch.unique(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2).sort(1).values, dim=0)
    a, b, c = (x[faces[:, k]][None] for k in range(3))
    p, q = (x[edges[:, k]][:, None] for k in range(2))
    volume = lambda *at: torch.linalg.det(torch.stack(torch.broadcast_tensors(*(y - at[0] for y in at[1:])), -1))
    sides = [volume(p, q, *edge) for edge in ((a, b), (b, c), (c, a))]
    through = (volume(a, b, c, p) * volume(a, b, c, q) < 0) & (sides[0] * sides[1] > 0) & (sides[1] * sides[2] > 0)
    apart = (edges[:, None, :, None] != faces[None, :, None, :]).all((2, 3))
    return int((through & apart).sum())


@pytest.mark.slow
def test_a_strip_that_falls_on_itself_does_not_pass_through():
    """From its edge onto the ground; without contact with itself it lies in a heap of hundreds of crossings."""
    strip = {
        "kind": "cloth", "shape": {"grid": {"size": [0.16, 0.6], "cells": [6, 22]}}, "density": 0.3, "mu": 60, "lam": 60,
        "damping": 0.05, "bending": 5e-5, "bending_damping": 5e-6, "position": [0, 0, 0.35],
        "rotation_vector": [1.5, 0, 0.05],
    }  # fmt: skip
    law = {"friction_stiffness": 0.05, "dissipation": 1}
    found = []
    for contacts in ({"fold": {"between": "strip", "thickness": 0.012, "stiffness": 100, **law}}, {}):
        timing = {"fps": 30, "frames": 25, "substeps": 600}
        ground = {"stiffness": 150, "margin": 0.008, **law}
        scene = {"timing": timing, "bodies": {"strip": strip}, "contacts": contacts, "ground": ground}
        model = Model(Scene.parse(scene))
        with torch.no_grad():
            x = model.rollout()["strip"]["x"][0, -1]
        found.append(crossings(x, model.systems[0].matter.faces))
    assert found[0] == 0
    assert found[1] > 100


def energies(model: Model, states: dict) -> torch.Tensor:
    """Kinetic energy of `soft` and `hard`, which does not turn, and elastic energy of `soft` above the start's [J]."""
    (soft, hard), values, x = model.systems, model.values(), states["soft"]["x"]
    kinetic = 0.5 * (soft.mass(values)[:, None, :, None] * states["soft"]["v"] ** 2).sum((2, 3))
    kinetic = kinetic + 0.5 * hard.mass(values) * states["hard"]["v"].square().sum(2)
    (elements,) = soft.matter.groups
    parameters = dict(zip(elements.force.parameters, soft.matter.parameters(values, x[:, 0]), strict=True))
    corners = x[0][:, elements.index]
    elastic = neo_hookean.energy(corners, **elements.rest, **{k: y[0] for k, y in parameters.items()}).sum(1)
    return kinetic[0] + elastic - elastic[0]


@pytest.mark.slow
def test_a_soft_ball_bounces_off_a_rigid_one_and_all_energy_is_accounted_for():
    """Elastic contact, no gravity: kinetic energy of both and elastic energy of the soft one are kept to O(h)."""
    ball = {
        "kind": "solid",
        "shape": {"ball": {"radius": 0.08, "cells": 4}},
        "density": 400,
        "young": 8000,
        "poisson": 0.3,
    }
    bodies = {
        "soft": {**ball, "position": [0.01, 0.02, 0.2], "velocity": [0, 0, -1]},
        "hard": {"shape": {"sphere": {"radius": 0.1}}, "mass": 4.0},
    }
    law = {"stiffness": 400, "dissipation": 0, "friction": 0, "friction_stiffness": 1e-9}
    drifts = []
    for substeps in (40, 80):
        scene = {
            "gravity": 0, "timing": {"fps": 100, "frames": 16, "substeps": substeps}, "bodies": bodies,
            "contacts": {"hit": {"between": ["soft", "hard"], **law}},
        }  # fmt: skip
        model = Model(Scene.parse(scene))
        with torch.no_grad():
            states = model.rollout().states
        energy = energies(model, states)
        assert states["soft"]["v"][0, -1].mean(0)[2] > 0.1  # it has bounced
        assert states["hard"]["v"][0, -1, 2] < -0.1
        drifts.append((energy[-1] - energy[0]).abs().item() / energy[0].item())
    assert drifts[0] < 0.02
    assert drifts[1] < 0.7 * drifts[0]


@pytest.mark.slow
def test_the_cloth_of_the_example_lies_on_the_ball_until_it_rolls_away():
    model = Model(Scene.load(Path(__file__).parents[2] / "examples" / "drape.yaml"))
    with torch.no_grad():
        states = model.rollout().states
    cloth, ball = states["sheet"]["x"][0], states["ball"]["x"][0]
    distance = (cloth - ball[:, None]).norm(dim=-1).amin(1)
    assert distance.min() > 0.148  # the radius is 0.15 m, and contact begins 8 mm outside
    assert ((distance > 0.148) & (distance < 0.158)).sum() > 10  # frames in which it lies on it
    assert cloth[-1].amax(0)[2] < 0.1
    assert ball[-1, 0] > 0.5
