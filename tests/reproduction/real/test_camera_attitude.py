"""Turning the world is turning the camera."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from gradsim.identification.observation.base import Masks
from gradsim.identification.problem import Problem
from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.render.camera import from_scene
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim_reproduction.real.camera_attitude import ATTITUDE, AttitudeSpace, TurnedModel

UNKNOWNS = ("bob.string_length:0.1:2", "bob.angle:-1.5:1.5", "camera.translation.z:0.5:5")
FRAMES = 5


@pytest.fixture
def scene():
    return Scene.parse(
        {
            "timing": {"fps": 10, "frames": FRAMES, "substeps": 4},
            "bodies": {"bob": {"kind": "pendulum", "string_length": 0.5, "radius": 0.05, "angle": 0.9}},
            "camera": {"size": [48, 40], "focal": 42, "look_at": {"eye": [0.2, -1.4, 0], "target": [0.1, 0, -0.2]}},
        }
    )


@pytest.fixture
def problem(scene):
    space = AttitudeSpace(scene, UNKNOWNS, 0.1)
    observation = Masks(torch.zeros(FRAMES, 40, 48), 0.3, Silhouettes(from_scene(scene.camera)))
    return Problem(TurnedModel(Model(scene)), observation, space)


ANSWER = torch.tensor([math.log(0.5), 0.9, 1.6, 0.11, -0.07, 0.05], dtype=torch.float64)


def test_turned_world_looks_as_from_a_turned_camera(scene, problem):
    model, camera = problem.model, from_scene(scene.camera)
    turned = model.rollout_unchecked(model.values(problem.space.values(ANSWER[None])), FRAMES)
    turn = rotation.to_matrix(rotation.exponential(ANSWER[3:]))
    other = Silhouettes(dataclasses.replace(camera, R=turn @ camera.R))
    place = {"camera.translation": turned.values["camera.translation"]}
    expected = other.masks(turned.trajectory.surface, place)
    assert expected.sum() > 20
    torch.testing.assert_close(problem.observation.silhouettes.masks(turned.surface, place), expected)


def test_level_camera_changes_nothing(scene, problem):
    level = torch.cat([ANSWER[:3], torch.zeros(3, dtype=torch.float64)])
    values = problem.space.values(level[None])
    plain = Model(scene).rollout_unchecked(
        Model(scene).values({k: v for k, v in values.items() if k != ATTITUDE}), FRAMES
    )
    turned = problem.model.rollout_unchecked(problem.model.values(values), FRAMES)
    torch.testing.assert_close(turned.surface.vertices, plain.surface.vertices)


def test_derivatives_match_central_differences(problem):
    ((_, J),) = problem.jacobian(ANSWER[None], FRAMES)
    h = 1e-5
    for k in range(len(ANSWER)):
        step = h * torch.eye(len(ANSWER), dtype=torch.float64)[k]
        ends = []
        for u in (ANSWER + step, ANSWER - step):
            model = problem.model
            trajectory = model.rollout_unchecked(model.values(problem.space.values(u[None])), FRAMES)
            ends.append(next(problem.observation.residuals(trajectory, FRAMES, "pixels"))[0])
        slope = (ends[0] - ends[1]) / (2 * h)
        # coverage is piecewise smooth: an edge that crosses a pixel's corner within the step is off by O(h)
        torch.testing.assert_close(J[0, :, k], slope, rtol=1e-4, atol=1e-4 * slope.abs().max().item())


def test_angles_are_drawn_and_held_within_three_spreads(scene):
    space = AttitudeSpace(scene, UNKNOWNS, 0.1)
    drawn = space.numbers(space.draw(np.random.default_rng(0), 200))[:, 3:]
    assert space.names[3:] == ["camera.pitch", "camera.yaw", "camera.roll"]
    assert drawn.abs().max() <= 0.3
    assert drawn.abs().max() > 0.25
    torch.testing.assert_close(space.high[3:], torch.full((3,), 0.3, dtype=torch.float64))
