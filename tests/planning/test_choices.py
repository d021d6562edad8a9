"""Scenes of designs."""

import math

import numpy as np
import pytest

from gradsim.planning.choices import Choice, present_value, read_choices, with_settings
from gradsim.scene import Scene


@pytest.fixture
def scene() -> Scene:
    return Scene.library("cube")


def test_another_frame_rate_keeps_the_duration_and_the_time_step(scene):
    scene = scene.model_copy(update={"timing": scene.timing.model_copy(update={"substeps": 40})})
    old, new = scene.timing, with_settings(scene, {"timing.fps": 2 * scene.timing.fps}).timing
    assert (new.frames - 1) / new.fps == pytest.approx((old.frames - 1) / old.fps)
    assert new.substeps == 20
    assert with_settings(scene, {"timing.fps": 10.0, "timing.frames": 7.0}).timing.frames == 7


def test_a_camera_turns_about_its_target(scene):
    before = scene.view("camera")
    moved = with_settings(scene, {"camera.azimuth": 0.3, "camera.elevation": 0.4})
    camera = moved.view("camera")
    K, R, t = camera.matrices()
    target, eye = np.array(before.look_at.target), -R.T @ t
    assert np.linalg.norm(eye - target) == pytest.approx(present_value(scene, "camera.distance"))
    assert math.atan2(*(eye - target)[[1, 0]]) == pytest.approx(0.3)
    x = K @ (R @ target + t)
    np.testing.assert_allclose(x[:2] / x[2], np.array(camera.size) / 2, atol=1e-9)  # in the center


def test_settings_are_read_back(scene):
    settings = {
        "camera.position.x": 0.4,
        "camera.position.y": -3.0,
        "camera.position.z": 1.2,
        "timing.fps": 50.0,
        "camera.size": 80.0,
    }
    settings |= {"cube.position.z": 1.1, "cube.velocity.x": 0.25}
    moved = with_settings(scene, settings)
    assert {name: present_value(moved, name) for name in settings} == pytest.approx(settings)


def test_a_wider_image_shows_the_same(scene):
    """Points have the same place in shares of the image."""
    before, after = (
        scene.view("camera"),
        with_settings(scene, {"camera.size": 2.0 * scene.view("camera").size[0]}).view("camera"),
    )
    point = np.array([0.1, 0.2, 0.3])
    shares = []
    for camera in (before, after):
        K, R, t = camera.matrices()
        x = K @ (R @ point + t)
        shares.append(x[:2] / x[2] / camera.size)
    np.testing.assert_allclose(shares[0], shares[1], atol=1e-6)


def test_a_push_is_added_to_those_of_the_scene(scene):
    pushed = with_settings(scene, {"cube.push.x": 2.0})
    assert len(pushed.bodies["cube"].pushes) == len(scene.bodies["cube"].pushes) + 1
    assert pushed.bodies["cube"].pushes[-1].impulse == (2.0, 0.0, 0.0)


def test_a_vector_stands_for_its_components(scene):
    names = [c.name for c in read_choices(scene, ["cube.velocity=-1:1"])]
    assert names == [f"cube.velocity.{axis}" for axis in "xyz"]


def test_shares_and_values_of_a_choice_are_inverse():
    for choice in (Choice("a", -1.0, 3.0), Choice("a", values=(1.0, 5.0, 7.0))):
        for share in (0.1, 0.5, 0.9):
            assert choice.at(choice.share(choice.at(share))) == choice.at(share)
