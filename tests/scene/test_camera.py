"""Cameras of a scene: the matrices of each form, and forms that contradict themselves."""

import math

import numpy as np
import pytest
from tolerances import ULPS, assert_near

from gradsim.errors import InputError
from gradsim.scene import Scene

POSE = {"R": [[1, 0, 0], [0, 0, -1], [0, 1, 0]], "t": [0, 1, 4]}  # stands at (0, -4, 1), looks along +y
K = [[50, 0, 30], [0, 50, 20], [0, 0, 1]]
LOOK = {"eye": [0, -4, 1], "target": [0, 0, 1]}


@pytest.fixture
def camera(scene):
    return lambda content: scene({"camera": {"size": [60, 40], **content}}).camera


def test_a_camera_that_looks_at_something_has_it_in_the_middle(camera):
    """A point 1 m up and 2 m right of the target is f/4 pixels up and f/2 right of the middle, 4 m away."""
    K, R, t = camera({"look_at": {**LOOK, "fov": "90 deg"}}).matrices()
    np.testing.assert_allclose(K, [[20, 0, 30], [0, 20, 20], [0, 0, 1]], rtol=1e-15)
    seen = K @ (R @ [2, 0, 2] + t)
    assert seen / seen[2] == pytest.approx([30 + 20 / 2, 20 - 20 / 4, 1])
    assert (-R.T @ t) == pytest.approx([0, -4, 1])
    np.testing.assert_allclose(R @ R.T, np.eye(3), rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "lens",
    [
        {"K": K},
        {"focal": 50},
        {"focal": 50, "centre": [30, 20]},
        {"K": {"focal": 50}},
        {"K": {"focal": 50, "centre": [30, 20]}},
    ],
)
@pytest.mark.parametrize("pose", [POSE, {"look_at": LOOK}])
def test_lens_and_pose_come_in_several_forms(camera, lens, pose):
    for found, expected in zip(camera({**lens, **pose}).matrices(), (K, POSE["R"], POSE["t"]), strict=True):
        assert_near(found, expected, ULPS, scale=1.0)
        assert found.dtype == np.float64


def test_the_principal_point_may_be_off_the_middle(camera):
    for content in ({**POSE, "focal": 50}, {"look_at": {**LOOK, "fov": 1}}):
        assert camera({**content, "centre": [10, "12 px"]}).matrices()[0][:2, 2] == pytest.approx([10, 12])


def test_further_cameras_have_names_and_the_first_is_camera(scene):
    side = {"size": [60, 40], "focal": 50, **POSE}
    both = scene({"cameras": {"side": side}})
    assert list(both.views) == ["camera", "side"]
    assert both.view("side").matrices()[0].tolist() == K
    assert both.view() is both.camera
    with pytest.raises(InputError, match="no camera `side`; it has camera"):
        scene().view("side")
    with pytest.raises(InputError, match="no camera `camera`, nor any other; add a `camera` to the scene"):
        Scene.parse({"bodies": {"ball": {"shape": {"sphere": {"radius": 0.1}}, "mass": 1}}}).view()


def test_a_scene_without_further_cameras_is_saved_without_them(scene, tmp_path):
    scene().save(tmp_path / "scene.yaml")
    assert "cameras" not in (tmp_path / "scene.yaml").read_text()
    both = scene({"cameras": {"side": {"size": [60, 40], "focal": 50, **POSE}}})
    both.save(tmp_path / "scene.yaml")
    assert Scene.load(tmp_path / "scene.yaml") == both


@pytest.mark.parametrize(
    ("cameras", "words"),
    [
        ({"side": {"size": [60, 40], "focal": 50}}, "cameras.side: has no pose; give either"),
        (
            {"my side": {"size": [60, 40], "focal": 50, **POSE}},
            "cameras: got the name 'my side'; expected a letter or `_`",
        ),
        ({"camera": {"size": [60, 40], "focal": 50, **POSE}}, "cameras.camera: the name `camera` is reserved"),
    ],
)
def test_a_further_camera_that_is_wrong(mistake, cameras, words):
    assert mistake({"cameras": cameras}).startswith(words)


def test_a_further_camera_needs_a_first_one(mistake):
    assert mistake({"cameras": {"side": {"size": [60, 40], "focal": 50, **POSE}}, "camera": None}).startswith(
        "cameras: is given without `camera`"
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, ["camera: has no pose; give either", "camera: has no lens; give exactly one"]),
        ({"K": K}, ["camera: has no pose; give either `look_at`, or `R` and `t`,"]),
        ({"K": K, "R": POSE["R"]}, ["camera: got `R`; give either `look_at`, or `R` and `t`,"]),
        ({"K": K, **POSE, "look_at": LOOK}, ["camera: got `look_at` and `R` and `t`; give either"]),
        ({**POSE}, ["camera: has no lens; give exactly one of `look_at.fov`, `focal` and `K`."]),
        ({"look_at": {**LOOK, "fov": 1}, "focal": 50}, ["camera: got `look_at.fov` and `focal`; give exactly one"]),
        ({"K": K, "focal": 50, **POSE}, ["camera: got `focal` and `K`; give exactly one"]),
        ({"K": K, "centre": [1, 2], **POSE}, ["camera.centre: is given together with `K`"]),
        ({"K": [[1, 2], [3, 4]], **POSE}, ["camera.K: got [[1, 2], [3, 4]]; expected a list of 3 rows [a, b, c]"]),
        ({"K": [[-1, 0, 0], [0, 1, 0], [0, 0, 1]], **POSE}, ["camera.K: got ((-1.0,"]),
        ({"K": [[50, 0, 30], [0, 50, 20], [0, 0, 2]], **POSE}, ["camera.K: got ((50.0,"]),
        ({"K": {"focl": 50}, **POSE}, ["camera.K: got {'focl': 50}; expected a list of 3 rows"]),
        ({"K": K, **POSE, "R": [[1, 0, 0], [0, 1, 0], [0, 0, -1]]}, ["camera.R: is not a rotation"]),
        ({"K": K, **POSE, "R": [[2, 0, 0], [0, 2, 0], [0, 0, 2]]}, ["camera.R: is not a rotation"]),
        (
            {"look_at": {**LOOK, "target": LOOK["eye"], "fov": 1}},
            ["camera.look_at.target: got [0.0, -4.0, 1.0], which is"],
        ),
        (
            {"look_at": {**LOOK, "up": [0, 1, 0], "fov": 1}},
            ["camera.look_at.up: got [0.0, 1.0, 0.0], which is zero or"],
        ),
        (
            {"look_at": {**LOOK, "up": [0, 0, 0], "fov": 1}},
            ["camera.look_at.up: got [0.0, 0.0, 0.0], which is zero or"],
        ),
        ({"look_at": {**LOOK, "fov": math.pi}}, ["camera.look_at.fov: got 3.14159"]),
        ({"look_at": {**LOOK, "fov": 0}}, ["camera.look_at.fov: got 0; expected a number from 0.001 to 3.141 [rad]"]),
        ({"size": [0, 10], "focal": 50, **POSE}, ["camera.size.0: got 0; expected a whole number from 1 to 16384."]),
        ({"size": 64, "focal": 50, **POSE}, ["camera.size: got 64; expected a list of 2 whole numbers"]),
    ],
)
def test_cameras_that_contradict_themselves_are_refused(mistakes, content, words):
    found = mistakes({"camera": {"size": [60, 40], **content}})
    assert [line[: len(w)] for line, w in zip(found, words, strict=True)] == words


def test_printed_rotation_matrices_pass(camera):
    """Six digits are enough."""
    c, s = round(math.cos(0.3), 6), round(math.sin(0.3), 6)
    camera({"focal": 50, "R": [[c, -s, 0], [s, c, 0], [0, 0, 1]], "t": [0, 0, 4]})
