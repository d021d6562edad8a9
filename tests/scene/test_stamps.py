"""Times of the frames of a video of variable rate, in a scene."""

import pytest
import torch
from tolerances import ROUNDING, assert_near

import gradsim as gs
from gradsim.physics.model import Model

STAMPS = [0.0, 0.02, 0.055, 0.1, 0.14]


def flight(**timing):
    ball = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1.0, "position": [0, 0, 1], "velocity": [1, 0, 2]}
    return gs.Scene.parse({"bodies": {"ball": ball}, "timing": timing})


def test_frames_and_mean_rate_are_those_of_the_stamps():
    timing = flight(stamps=STAMPS).timing
    assert timing.frames == 5 and timing.fps == pytest.approx(4 / 0.14)
    assert [timing.time(k) for k in (0, 2, 4, 5)] == pytest.approx([0, 0.055, 0.14, 0.175])
    assert flight(stamps=STAMPS, frames=3).timing.frames == 3
    assert flight().timing.intervals is None


def test_a_scene_with_stamps_is_saved_and_loaded_and_one_without_does_not_name_them(tmp_path):
    scene = flight(stamps=STAMPS)
    scene.save(tmp_path / "scene.yaml")
    assert gs.Scene.load(tmp_path / "scene.yaml") == scene
    flight().save(tmp_path / "plain.yaml")
    assert "stamps" not in (tmp_path / "plain.yaml").read_text()


@pytest.mark.parametrize("timing", [{}, {"rate": 0.5}, {"offset": 0.2}])
def test_states_are_those_of_the_stamps(timing):
    model = Model(flight(stamps=STAMPS, **timing))
    trajectory = model.rollout()
    t = timing.get("offset", 0) + timing.get("rate", 1) * torch.tensor(STAMPS, dtype=torch.float64)
    assert_near(trajectory.times, STAMPS, ROUNDING)
    assert_near(trajectory["ball"]["x"][0, :, 2], 1 + 2 * t - 0.5 * 9.81 * t**2, ROUNDING)
    assert_near(model.rollout(frames=2)["ball"]["x"], trajectory["ball"]["x"][:, :2], ROUNDING)


def test_derivative_by_the_rate_of_the_clock_is_the_velocity_times_the_stamp():
    model = Model(flight(stamps=STAMPS))
    one = torch.ones(1, dtype=torch.float64)
    trajectory, tangent = model.tangent(model.values(), {"timing.rate": one}, 5)
    expected = torch.tensor(STAMPS, dtype=torch.float64)[:, None] * trajectory["ball"]["v"][0]
    assert_near(tangent["ball"]["x"][0], expected, ROUNDING)


@pytest.mark.parametrize(
    ("timing", "words"),
    [
        ({"stamps": [0.1, 0.2]}, "begins with 0.1; expected 0"),
        ({"stamps": [0, 0.2, 0.2]}, "entry 2 is 0.2, not above the one before, 0.2"),
        ({"stamps": 5}, "expected a list of two or more increasing numbers"),
        ({"stamps": STAMPS, "frames": 9}, "got 9, and 5 `stamps`"),
    ],
)
def test_stamps_that_cannot_be_are_refused(timing, words):
    with pytest.raises(gs.InputError, match=words):
        flight(**timing)


def test_a_rollout_from_a_state_has_no_stamps():
    model = Model(flight(stamps=STAMPS))
    states = {name: {k: y[:, 1] for k, y in state.items()} for name, state in model.rollout().states.items()}
    with pytest.raises(gs.InputError, match="`timing.stamps`, which count from its start"):
        model.rollout(start=states)
