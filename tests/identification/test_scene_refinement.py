"""Refinement of a roughly placed scene on the outlines of first frames: it finds the scene that drew them."""

import numpy as np
import pytest
import torch

from gradsim.errors import InputError
from gradsim.identification.camera_calibration import posed
from gradsim.identification.first_scene import regions
from gradsim.identification.scene_refinement import refine_scene
from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene

FRAMES = 10
BOX = {
    "timing": {"fps": 30, "frames": FRAMES},
    "bodies": {
        "box": {
            "shape": {"box": {"size": [0.3, 0.2, 0.25]}},
            "mass": 2.0,
            "position": [-0.6, 0, 1.0],
            "rotation_vector": [0.2, 0.4, 0.1],
            "velocity": [2.0, 0, 1.5],
            "angular_velocity": [0.5, 1.0, 0.3],
        }
    },
    "camera": {"size": [160, 120], "focal": 150, "look_at": {"eye": [0.1, -3.0, 1.2], "target": [0, 0, 1.0]}},
}
PENDULUM = {
    "timing": {"fps": 20, "frames": 16},
    "bodies": {
        "bob": {
            "kind": "pendulum", "pivot": [0.1, 0, 1.1], "string_length": 0.5, "radius": 0.06, "angle": -0.9, "rate": 0.3, "drag": 0.05
        }
    },
    "camera": {"size": [160, 120], "focal": 150, "look_at": {"eye": [0, -1.4, 0.8], "target": [0, 0, 0.8]}},
}  # fmt: skip


def drawn(content) -> np.ndarray:
    """Coverage (frames, height, width) by the body of a scene."""
    scene = Scene.parse(content)
    model = Model(scene)
    with torch.no_grad():
        trajectory = model.rollout_unchecked(model.values({}), scene.timing.frames)
        return Silhouettes.of(scene).union(trajectory.surface, trajectory.values)[0].numpy()


@pytest.fixture(scope="module")
def masks():
    return drawn(BOX)


def changed(content, name: str, **keys) -> Scene:
    body = {**content["bodies"][name], **keys}
    return Scene.parse({**content, "bodies": {name: body}})


def test_a_body_that_was_put_beside_its_outline_is_where_it_was(masks):
    """15 px and 12 px off, and a third too fast: exact masks give it back to rounding of the file (1e-6)."""
    rough = changed(BOX, "box", position=[-0.3, 0, 0.76], velocity=[2.6, 0, 1.0])
    result = refine_scene(rough, masks, regions(masks), ("place", "motion"))
    body = result.scene.bodies["box"]
    assert body.position == pytest.approx((-0.6, 0, 1.0), abs=2e-5)
    assert body.velocity == pytest.approx((2.0, 0, 1.5), abs=1e-4)
    assert result.before > 3 and result.error < 1e-3 and len(result.frames) == 8
    assert result.changes["box.position.x"] == (-0.3, pytest.approx(-0.6, abs=2e-5))


def test_a_distance_that_is_a_fifth_off_is_corrected_along_the_axis(masks):
    content = {**BOX, "camera": {**BOX["camera"], "look_at": {"eye": [0.12, -3.6, 1.24], "target": [0, 0, 1.0]}}}
    result = refine_scene(Scene.parse(content), masks, regions(masks), ("place", "motion", "distance"))
    truth = Scene.parse(BOX).camera
    assert result.scene.camera.look_at.eye == pytest.approx(truth.look_at.eye, abs=1e-3)
    assert result.scene.bodies["box"].velocity == pytest.approx((2.0, 0, 1.5), abs=2e-3)


def test_a_camera_that_was_turned_looks_where_it_did(masks):
    """By 2° about a skew axis, with the body where it is."""
    scene = Scene.parse(BOX)
    _, R, t = scene.camera.matrices()
    turn = rotation.to_matrix(rotation.exponential(torch.tensor([0.02, -0.025, 0.015], dtype=torch.float64))).numpy()
    rough = scene.model_copy(update={"camera": posed(scene.camera, turn @ R, turn @ t)})
    result = refine_scene(rough, masks, regions(masks), ("turn",))
    assert np.abs(result.scene.camera.matrices()[1] - R).max() < 1e-5
    assert np.abs(result.scene.camera.matrices()[2] - t).max() < 1e-4
    assert np.abs(rough.camera.matrices()[1] - R).max() > 0.02


def test_a_coded_mask_is_matched_to_a_tenth_of_a_pixel(masks):
    """Masks of 0 and 1 are off by up to half a pixel each, and by far less on average: 1/sqrt(12 · 8 · 50) px."""
    rough = changed(BOX, "box", position=[-0.5, 0, 0.9])
    result = refine_scene(rough, (masks > 0.5).astype(float), regions(masks), ("place", "motion", "distance"))
    pixel = 3.0 / 150
    assert result.scene.bodies["box"].position == pytest.approx((-0.6, 0, 1.0), abs=0.1 * pixel)
    assert result.error < 0.4


@pytest.mark.slow
def test_a_wide_swing_tells_the_tilt_of_the_camera_from_the_place_of_the_pivot():
    """A tilt makes one side of the image larger than the other: by 1 px of 60 here, and without it the string is 3 % off."""
    bob = {**PENDULUM["bodies"]["bob"], "angle": -1.4, "pivot": [0.1, 0, 1.2]}
    content = {"timing": {"fps": 20, "frames": 40}, "bodies": {"bob": bob}}
    look = {"eye": [0, -1.4, 0.98], "target": [0, 0, 0.78]}
    large = {"size": [480, 360], "focal": 430}
    tilted = {**content, "camera": {**large, "look_at": look}}
    masks = drawn(tilted)
    level = {**content, "camera": {**large, "look_at": {"eye": [0, -1.4, 0.8], "target": [0, 0, 0.8]}}}
    result = refine_scene(Scene.parse(level), masks, regions(masks), ("place", "motion", "string", "turn"), frames=40)
    rows = result.scene.camera.matrices()[1]
    assert rows[2] == pytest.approx(np.array([0, 1.4, -0.2]) / np.hypot(1.4, 0.2), abs=2e-3)
    assert result.scene.bodies["bob"].string_length == pytest.approx(0.5, abs=2e-3)
    untilted = refine_scene(Scene.parse(level), masks, regions(masks), ("place", "motion", "string"), frames=40)
    assert untilted.error > 5 * result.error


def test_a_pendulum_and_its_string_are_refined():
    masks = drawn(PENDULUM)
    rough = changed(PENDULUM, "bob", pivot=[0.06, 0, 1.05], string_length=0.46, angle=-0.8, rate=0.0)
    result = refine_scene(rough, masks, regions(masks), frames=16)
    body = result.scene.bodies["bob"]
    assert (body.string_length, body.angle, body.rate) == pytest.approx((0.5, -0.9, 0.3), abs=1e-3)
    assert body.pivot == pytest.approx((0.1, 0, 1.1), abs=1e-3) and result.error < 0.01


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (("distance", "focal", "size"), "do not tell .*camera"),
        (("place", "turn"), "do not tell"),
        (("lens",), "choose from place, motion"),
        ((), "are none; choose from"),
    ],
)
def test_what_outlines_do_not_tell_is_named(masks, parts, words):
    with pytest.raises(InputError, match=words):
        refine_scene(Scene.parse(BOX), masks, regions(masks), parts, frames=3)


def test_a_body_behind_the_camera_is_an_error_in_words(masks):
    rough = changed(BOX, "box", position=[0, -4, 1.0])
    with pytest.raises(InputError, match="behind the camera"):
        refine_scene(rough, masks, regions(masks))


def test_a_scene_of_two_bodies_is_refused(masks):
    two = Scene.parse({**BOX, "bodies": {"a": BOX["bodies"]["box"], "b": BOX["bodies"]["box"]}})
    with pytest.raises(InputError, match="one rigid body or one pendulum"):
        refine_scene(two, masks, regions(masks))
