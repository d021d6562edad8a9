"""The string of a pendulum is measured from pixels: a made-up one, whose truth is known, and the real one."""

import json
import math

import numpy as np
import pytest
import torch
from tolerances import SOLVED, near

from gradsim.errors import InputError
from gradsim.physics.model import Model
from gradsim.render.camera import from_scene
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim.video.circle_outline import LINEAR
from gradsim_reproduction.real.camera_attitude import AttitudeSpace, TurnedModel
from gradsim_reproduction.real.cube_recordings import recordings
from gradsim_reproduction.real.pendulum import COLOR, real_pendulum
from gradsim_reproduction.real.pendulum_measurement import LENGTH, measure
from gradsim_reproduction.real.pendulum_problem import LENS, PendulumVideo

WIDTH, HEIGHT, FPS, FRAMES, HELD = 400, 225, 10, 24, 3
TRUTH = {LENGTH: 0.63, "bob.radius": 0.052, "bob.drag": 0.06, "camera.yaw": -0.06}


@pytest.fixture(scope="module")
def measurement():
    """Of a film of a known pendulum, with the noise of 8 bits, through a lens that is not quite the assumed one."""
    scene = Scene.parse(
        {
            "timing": {"fps": FPS, "frames": FRAMES, "substeps": 8},
            "bodies": {
                "bob": {
                    "kind": "pendulum",
                    "string_length": TRUTH[LENGTH],
                    "radius": TRUTH["bob.radius"],
                    "angle": -1.2,
                    "rate": 0.3,
                    "drag": TRUTH["bob.drag"],
                    "pivot": [0.03, 0, 0.38],
                }
            },
            "camera": {
                "size": [WIDTH, HEIGHT],
                "focal": 1.05 * LENS * WIDTH,
                "look_at": {"eye": [0, -1.6, 0], "target": [0, 0, 0]},
            },
        }
    )
    space = AttitudeSpace(scene, ("bob.angle:-1.5:1.5",), 0.1)
    model = TurnedModel(Model(scene))
    values = model.values(space.values(torch.tensor([[-1.2, 0.04, TRUTH["camera.yaw"], 0.01]], dtype=torch.float64)))
    with torch.no_grad():
        masks = (
            Silhouettes(from_scene(scene.camera))
            .masks(model.rollout_unchecked(values, FRAMES).surface)[0, :, 0]
            .numpy()
        )
    masks = np.concatenate([masks[:1].repeat(HELD - 1, 0), masks])
    ball, wall = (LINEAR[np.rint(np.array(c) * 255).astype(int)] for c in (COLOR, (0.42, 0.42, 0.42)))
    light = masks[..., None] * ball + (1 - masks[..., None]) * wall
    bytewise = 255 * (1.055 * light ** (1 / 2.4) - 0.055) + np.random.default_rng(5).standard_normal(light.shape)
    video = PendulumVideo.of(bytewise.round().clip(0, 255).astype(np.uint8), FPS, COLOR)
    return measure(video, quick=True, seed=1)


@pytest.mark.slow
def test_made_up_string_is_recovered(measurement):
    length = measurement.fit.unknowns[LENGTH]
    assert abs(length.value / TRUTH[LENGTH] - 1) < 0.02
    assert length.interval95[0] < TRUTH[LENGTH] < length.interval95[1]
    assert length.std < 0.02 * TRUTH[LENGTH]


@pytest.mark.slow
def test_other_unknowns_are_recovered_too(measurement):
    # an outline of whole pixels is about 0.2 px wider than the ball, whose radius is 12 px
    for name, accuracy in (("bob.radius", 0.03), ("bob.drag", 0.1)):
        assert abs(measurement.fit.values[name] / TRUTH[name] - 1) < accuracy
    assert abs(measurement.fit.values["camera.yaw"] - TRUTH["camera.yaw"]) < 0.02


def test_frames_count_from_the_release(measurement):
    assert measurement.video.swings.first == measurement.video.swings.released
    assert abs(measurement.video.swings.released - HELD) <= 1


def test_without_gravity_all_lengths_share_an_open_scale(measurement):
    free = measurement.free
    assert free.status == "unidentifiable"
    assert not free.unknowns[LENGTH].identifiable
    direction = free.null_directions[0].combination
    # one factor on all lengths and on gravity: logarithms move alike
    assert direction["bob.radius"] == pytest.approx(direction[LENGTH], rel=1e-3)
    assert abs(direction["bob.angle"]) + abs(direction["bob.drag"]) < 1e-3
    ratios = [s["string_length_m"] / s["gravity_m_s2"] for s in measurement.same]
    costs = [s["cost"] for s in measurement.same]
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-3)
    np.testing.assert_allclose(costs, costs[0], rtol=1e-3)
    assert "only their ratio" in measurement.identifiability


def test_error_bar_adds_up_from_its_causes(measurement):
    parts = measurement.budget.values()
    assert math.hypot(*parts) == near(measurement.fit.unknowns[LENGTH].std, SOLVED)
    assert measurement.checks["std_if_pixels_were_independent_m"] < measurement.fit.unknowns[LENGTH].std
    assert measurement.checks["std_by_bootstrap_m"] == pytest.approx(measurement.budget["scatter of the frames"], rel=1)


@pytest.mark.slow
def test_real_string_is_half_a_metre(tmp_path):
    try:
        recordings()
    except InputError as error:
        pytest.skip(str(error))
    result = real_pendulum(tmp_path, quick=True)
    figures = {name: figure["value"] for name, figure in result["figures"].items()}
    assert abs(figures["string_length_m"] / 0.5 - 1) <= 0.02
    assert figures["std_m"] <= 0.008
    assert figures["contains_truth"] == 1
    assert figures["gravity_unknown_flagged"] == 1
    assert all(figure["ok"] for figure in result["figures"].values())
    assert result["status"] == "ok"
    assert json.loads((tmp_path / "result.json").read_text())["figures"] == result["figures"]
    written = {path.name for path in tmp_path.iterdir()}
    assert written >= {"side_by_side.webm", "overlay.webm", "scene.yaml", *(p["file"] for p in result["images"])}


def test_missing_recordings_are_an_input_error(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADSIM_REAL_DATA", str(tmp_path))
    with pytest.raises(InputError, match="GRADSIM_REAL_DATA"):
        real_pendulum(tmp_path / "out", quick=True)
    assert not (tmp_path / "out").exists()
