"""States between frames, for cameras with a shutter."""

import pytest
import torch
from tolerances import ROUNDING, assert_near

import gradsim as gs
from gradsim.physics.model import DENSITY, Model


def flight(**timing):
    camera = {"size": [32, 32], "look_at": {"eye": [0, -4, 1], "target": [0, 0, 1], "fov": 0.8}, "readout": 0.02}
    ball = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1.0, "position": [0, 0, 1], "velocity": [1, 0, 2]}
    clock = {"fps": 25, "frames": 4, "substeps": 5, **timing}
    return gs.Scene.parse({"bodies": {"ball": ball}, "timing": clock, "camera": camera})


def height(t):
    return 1 + 2 * t - 0.5 * 9.81 * t**2


@pytest.mark.parametrize("timing", [{}, {"rate": 0.5}, {"offset": 0.3}])
def test_states_between_frames_are_those_of_their_times(timing):
    model = Model(flight(**timing))
    assert model.substeps == 8  # five, rounded up to a multiple of the density
    trajectory = model.rollout()
    times = trajectory.times[:, None] + trajectory.dense.offsets
    simulated = timing.get("offset", 0) + timing.get("rate", 1) * times
    assert trajectory.dense.offsets.shape == (4, DENSITY + 1)
    assert_near(trajectory.dense.states["ball"]["x"][0, ..., 2], height(simulated), ROUNDING)
    plain = timing.get("offset", 0) + timing.get("rate", 1) * trajectory.times
    assert_near(trajectory["ball"]["x"][0, :, 2], height(plain), ROUNDING)


def test_instants_are_within_half_a_frame_but_at_both_ends():
    offsets = Model(flight()).rollout().dense.offsets * 25
    middle = torch.linspace(-0.5, 0.5, DENSITY + 1, dtype=torch.float64)
    assert_near(offsets[1:3], middle.expand(2, -1), ROUNDING)
    assert_near(offsets[0], middle + 0.5, ROUNDING)
    assert_near(offsets[3], middle - 0.5, ROUNDING)


def test_one_frame_has_instants_too_and_frames_can_be_selected():
    model = Model(flight())
    one, whole = model.rollout(frames=1), model.rollout()
    assert one.dense.states["ball"]["x"].shape == (1, 1, DENSITY + 1, 3)
    part = whole.at(slice(2, 4))
    assert (part.dense.offsets == whole.dense.offsets[2:]).all()
    assert (part.samples["ball"]["x"] == whole.samples["ball"]["x"][:, 2 * DENSITY + 2 :]).all()
    assert (whole.surface.at([3]).dense.vertices == whole.surface.dense.vertices[:, 3:]).all()


def test_worlds_are_selected_with_their_instants():
    model = Model(flight())
    both = model.rollout({"ball.velocity": torch.tensor([[1.0, 0, 2], [3, 0, 1]], dtype=torch.float64)})
    second = both.of_worlds(slice(1, 2))
    assert (second.values["ball.velocity"] == torch.tensor([[3.0, 0, 1]])).all()
    assert (second["ball"]["x"] == both["ball"]["x"][1:]).all()
    assert (second.samples["ball"]["x"] == both.samples["ball"]["x"][1:]).all()


def test_a_scene_without_a_shutter_has_none():
    content = flight().model_dump(exclude_unset=True)
    del content["camera"]["readout"]
    model = Model(gs.Scene.parse(content))
    trajectory = model.rollout()
    assert model.substeps == 5 and trajectory.dense is None and trajectory.surface.dense is None
    with pytest.raises(gs.InputError, match="no instants between frames"):
        _ = trajectory.samples


def test_divergence_is_found_at_its_step_with_instants_between_frames():
    scene = flight()
    model = Model(scene)
    with pytest.raises(gs.InputError, match=r"`ball` diverges: x is not finite"):
        model.rollout({"ball.velocity": torch.tensor([[1e200, 0.0, 1.7e308]], dtype=torch.float64)})
