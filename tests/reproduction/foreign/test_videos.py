import numpy as np
import pytest
import torch
from hidden_truths import check_hidden_truths

from gradsim.identification.scene_models import parameter_values
from gradsim.identification.synthetic import float_masks
from gradsim.physics.model import Model
from gradsim_reproduction.foreign import scenes, videos
from gradsim_reproduction.foreign.scenes import KINDS, recording

CHEAP = [("three", 1), ("linkage", 0), ("linkage", 1), ("linkage", 2)]


@pytest.mark.parametrize("kind", KINDS)
def test_truths_are_within_the_ranges_and_the_scene_does_not_depend_on_them(kind, monkeypatch):
    one = check_hidden_truths(scenes, kind, monkeypatch)
    assert all(one.number_of(name) == true for name, true in one.truth.items())


def test_there_are_ninety():
    assert [kind.count for kind in KINDS.values()] == [30, 30, 15, 15]


@pytest.mark.parametrize(("kind", "number"), CHEAP)
def test_a_video_is_the_limit_of_the_products_own(kind, number):
    """Float masks with the true values, by rk4 at twelve times the default steps: off by less than 2e-5 of a pixel."""
    one = recording(kind, number, 0)
    timing = one.scene.timing.model_copy(update={"integrator": "rk4"})
    scene = one.scene.model_copy(update={"timing": timing})
    with torch.no_grad():
        trajectory = Model(scene, substeps=12 * Model(scene).substeps).rollout(parameter_values(scene, one.truth))
    theirs = float_masks(scene, trajectory).masks.numpy()
    assert np.abs(videos.masks(one) - theirs).max() < 2e-5
    assert theirs.max() == 1 and theirs[:, 0].max() == 0  # it is in the picture


def test_noise_and_rounding_of_a_video():
    """σ² + 1/12 of a step of 8 bits, on a background that is far from 0 and 1."""
    scene = recording("three", 0, 0).scene
    frames = videos.frames(scene, np.zeros((2, 64, 64)), 2 / 255, np.random.default_rng(0))
    off = frames - 255 * np.array(scene.background)
    assert off.std() == pytest.approx(np.sqrt(4 + 1 / 12), rel=0.02)
    assert abs(off.mean()) < 0.05
