"""The scenes of the control tasks: the numbers of the original, stable steps, starts and goals in view."""

import math

import pytest
import torch

from gradsim.physics.model import Model
from gradsim.render.camera import from_scene, project
from gradsim.scene import Scene

GOALS = {  # where the body of the original's goals stands, and in between
    "gear": [(-4, 0, 2), (0, 0, 2), (5, 0, 2)],
    "walker": [(-6.75, 0, 1.2), (0, 0, 1.2), (6.75, 0, 1.2)],
    "sheet_throw": [(-5, 0, 2), (-5, 0, 3), (0, 0, -3), (3, 0, -3)],
    "jellyfish": [(-0.5, 0, 0.4), (0, 0, 0.8), (0.5, 0, 0.4)],
    "throw": [(1.5, 0, 0.2), (1, 0.5, 0.2)],
}
COUNTS = {  # vertices, elements, kg
    "gear": (480, 1152, 9.674),
    "walker": (74, 104, 74),
    "sheet_throw": (289, 512, 512),
    "jellyfish": (123, 191, 125.92),
}


@pytest.fixture(scope="module")
def models():
    """Built once: `Model` refuses steps that are not stable, and starts inside the ground."""
    return {name: Model(Scene.library(name)) for name in GOALS}


@pytest.mark.parametrize("name", COUNTS)
def test_a_body_has_the_numbers_of_the_original(models, name):
    (body,) = models[name].systems
    values = {key: value.detach() for key, value in models[name].values().items()}
    vertices, elements, mass = COUNTS[name]
    assert (len(body.rest), len(body.matter.groups[0].index)) == (vertices, elements)
    assert body.mass(values).sum().item() == pytest.approx(mass, rel=1e-4)


@pytest.mark.parametrize("name", GOALS)
def test_the_body_is_in_view_at_the_start_and_at_every_goal(models, name):
    scene = Scene.library(name)
    body, camera = models[name].systems[0], from_scene(scene.camera)
    start = next(iter(scene.bodies.values())).position
    places = torch.tensor([start, *GOALS[name]], dtype=torch.float64)
    values = {key: value.detach() for key, value in models[name].values().items()}
    states = [y[:, None] for y in body.inputs(values)[: len(body.states)]]
    x = body.vertices(states, values)[0, 0] - places[0] + places[:, None]
    pixels, depth = project(x, *(y.double() for y in (camera.K, camera.R, camera.t)))
    assert (depth > 1).all()
    assert (pixels > 1).all() and (pixels < torch.tensor(scene.camera.size) - 1).all()


def test_the_walker_stands_in_a_plane(models):
    x = models["walker"].rollout(frames=10)["walker"]["x"].detach()
    assert (x[..., 1] == 0).all()


def test_the_bell_of_the_jellyfish_rests_and_opens_and_closes_by_its_activation(models):
    """Its curve at rest has no force; α bends each hinge by −2 α, and above 0 that is flatter."""
    hinges = len(models["jellyfish"].systems[0].matter.hinges)

    def moved(angle: list[float]) -> torch.Tensor:
        given = {"bell.bending_activation": torch.tensor(angle, dtype=torch.float64)[:, None].expand(-1, hinges)}
        with torch.no_grad():
            return models["jellyfish"].rollout(given, frames=6)["bell"]["x"]

    still, bent = moved([0.0])[0], moved([0.1, -0.1])
    radius = torch.linalg.vector_norm(bent[:, -1, -53:, :2], dim=-1)
    assert (still - still[0]).abs().max() < 1e-13
    assert (radius[0] > 0.51).all() and (radius[1] < 0.49).all()


def test_the_jellyfish_swims_by_its_pulse_and_only_in_water():
    """Inner forces cannot move the centre of mass. In water, half its height of 0.4 m in 2 s, up or down by the pulse."""
    scene = Scene.library("jellyfish")
    model = Model(scene)
    body, frames = model.systems[0], 61
    turn = 2 * math.pi * (torch.arange(frames - 1, dtype=torch.float64) + 0.5) / scene.timing.fps
    up, down = (0.3 * (a + 0.8 * (turn.sin() + b * (2 * turn).sin())).tanh() for a, b in ((0.0, 1.0), (-0.5, -1.0)))
    pulse = torch.stack([up, down])[..., None].expand(-1, -1, len(body.matter.hinges))
    mass = body.mass({key: value.detach() for key, value in model.values().items()})[0]
    moved = {}
    for density in (0.0, 1000.0):
        given = {"bell.bending_activation": pulse, "bell.air.density": torch.tensor([density])}
        with torch.no_grad():
            x = model.rollout(given, frames)["bell"]["x"]
        moved[density] = ((x[:, -1] - x[:, 0]) * mass[:, None]).sum(1) / mass.sum()
    assert moved[0.0].abs().max() < 1e-12
    assert moved[1000.0][0, 2] > 0.15
    assert moved[1000.0][1, 2] < -0.2
