"""A ball that bounces without friction and keeps 0.8 of its speed, in a scene whose ground has another law, and friction."""

import numpy as np
import pytest
import torch
from wavy_ball import FPS, RADIUS, masks, scene, waves

from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.uncertainty.contact_causes import contact_cause
from gradsim.identification.unknowns import Space
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene

FRAMES, SPEED, HEIGHT, RESTITUTION = 24, 1.0, 1.3, 0.8
UNKNOWNS = ("ball.velocity.x:0.5:1.5", "ball.velocity.z:-1:1", "gravity.z:-12:-8")
TRUTH = (SPEED, 0.0, -9.81)


def places() -> np.ndarray:
    """Right and up (frames, 2) [m]."""
    t = np.arange(FRAMES) / FPS
    touch = np.sqrt(2 * (HEIGHT - RADIUS) / 9.81)
    after, speed = t - touch, RESTITUTION * 9.81 * touch
    up = np.where(after < 0, HEIGHT - 9.81 * t**2 / 2, RADIUS + speed * after - 9.81 * after**2 / 2)
    return np.stack([-0.6 + SPEED * t, up], 1)


def problem(ground: dict, observed_places: np.ndarray) -> Problem:
    content = scene(FRAMES).model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    content["bodies"]["ball"] |= {"position": [-0.6, 0, HEIGHT], "velocity": [1, 0, 0]}
    bouncing = Scene.parse(content | {"ground": ground})
    observed = masks(observed_places, 0.3 + 0.2 * waves(FRAMES, 5.0, 0.5, np.random.default_rng(3)))
    observed.silhouettes = Silhouettes.of(bouncing)
    space = Space(bouncing, UNKNOWNS)
    return Problem(model_for(bouncing, space), observed, space)


@pytest.mark.slow
def test_the_contact_is_named_with_the_frames_before_it_the_direction_and_the_law_that_explains_it():
    bouncing = problem({}, places())
    far = bouncing.space.inner(torch.tensor([0.8, 0.3, -9.0]).double())
    cause = contact_cause(bouncing, far, [], 6.0, model_for)
    assert cause is not None
    assert cause.frame == int(np.ceil(np.sqrt(2 * (HEIGHT - RADIUS) / 9.81) * FPS)) and cause.alone < 0.4
    value, std = cause.values["gravity.z"]
    assert abs(value + 9.81) < 4 * std and std < 0.2
    assert abs(cause.along) > 1 and cause.shifted < cause.frame + 8
    first = cause.causes[0]
    assert first.name == "ground.law" and first.explained and first.size < 0.5
    assert "`law: constant-restitution` of `ground` (restitution 0.8" in first.words and "friction 0.0" in first.words
    text = cause.words(6.0)
    assert "along it, try friction" in text and "In place of 6 px there would be left" in text


@pytest.mark.parametrize("fault", ["flight", "no contact", "two bodies"])
def test_a_contact_is_no_cause_where_the_flight_is_not_explained_or_nothing_touches(fault):
    path = places()
    if fault == "flight":
        path[:, 0] += 0.4 * np.sin(np.arange(FRAMES) / 3)
    bouncing = problem({"height": -2.0} if fault == "no contact" else {}, path)
    if fault == "two bodies":
        bouncing.model.scene.bodies["other"] = bouncing.model.scene.bodies["ball"]
    u = bouncing.space.inner(torch.tensor(TRUTH).double())
    assert contact_cause(bouncing, u, [], 6.0, model_for) is None
