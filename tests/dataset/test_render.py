"""Films are held to whole pictures by the renderers, of the scene as it is kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gradsim.dataset import sample
from gradsim.dataset.render import check_sizes, render_sample, visible_scene
from gradsim.errors import InputError
from gradsim.physics.model import Model
from gradsim.render.renderer import Renderer
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene

SOME = range(0, 60, 12)
GROUND = {"law": "paper", "stiffness": 1e5, "damping": 50, "friction_stiffness": 50, "friction": 0.5}


def at_the_edge():
    """A sample whose body leaves the image to the right."""
    drawn = sample("rigid", 3)
    body = drawn.scene.bodies["body"]
    moved = body.model_copy(update={"position": (0.9, *body.position[1:])})
    return replace(drawn, scene=drawn.scene.model_copy(update={"bodies": {"body": moved}}))


def behind_a_ball():
    """A sample whose body passes behind a ball that stands still."""
    drawn = sample("rigid", 3)
    ball = {**GROUND, "radius": 0.35, "position": [0.1, -1.2, 0.35]}
    content = drawn.scene.model_dump(by_alias=True, exclude_none=True) | {"obstacles": {"ball": ball}}
    return replace(drawn, scene=Scene.parse(content))


@pytest.fixture(
    scope="module", params=[lambda: sample("rigid", 2), at_the_edge, behind_a_ball], ids=["inside", "edge", "behind"]
)
def shot(request):
    drawn = request.param()
    with torch.no_grad():
        trajectory = Model(visible_scene(drawn.true_scene(), 256)).rollout()
    return drawn, render_sample(drawn, (64, 256)), trajectory


def test_windows_show_what_whole_images_show(shot):
    """To rounding, but where the body sinks into the ground by millimetres: there the ground hides it in a picture."""
    drawn, made, trajectory = shot
    with torch.no_grad():
        whole = Renderer.of(visible_scene(drawn.scene, 256))(trajectory.at(SOME).scene_surface)[0]
    off = np.abs((whole * 255).permute(0, 2, 3, 1).numpy() - made.frames[256][list(SOME)]).max(-1)
    assert (off > 1).mean() < 1e-3
    assert (off > 1).sum() < 0.05 * (made.masks[256][list(SOME)] > 0).sum()


def test_masks_are_exact_coverages_in_every_size(shot):
    """A mean of 4 × 4 coverages is the coverage of the large pixel; the 8-bit rounding is half a level."""
    drawn, made, trajectory = shot
    for size in (64, 256):
        with torch.no_grad():
            exact = Silhouettes.of(visible_scene(drawn.scene, size)).union(trajectory.surface)[0] * 255
        assert np.abs(exact.numpy() - made.masks[size]).max() < 0.5 + 1e-6


def test_small_frames_are_means_of_large_ones(shot):
    made = shot[1]
    large = made.frames[256].astype(float).reshape(60, 64, 4, 64, 4, 3).mean((2, 4))
    assert np.abs(large - made.frames[64]).max() <= 1.0  # half a level of each rounding


def test_a_body_that_is_never_seen_leaves_the_still_image():
    drawn = sample("rigid", 0)
    body = drawn.scene.bodies["body"]
    away = body.model_copy(update={"position": (40.0, *body.position[1:])})
    made = render_sample(replace(drawn, scene=drawn.scene.model_copy(update={"bodies": {"body": away}})), (32,))
    assert not made.masks[32].any()
    assert (made.frames[32] == made.frames[32][:1]).all()


def test_the_same_video_whatever_other_sizes_are_made():
    one, two = render_sample(sample("rigid", 1), (32,)), render_sample(sample("rigid", 1), (64, 32))
    np.testing.assert_array_equal(one.frames[32], two.frames[32])
    np.testing.assert_array_equal(one.masks[32], two.masks[32])


@pytest.mark.parametrize("sizes", [(), (48,), (64, 64)])
def test_other_sizes_are_refused(sizes):
    with pytest.raises(InputError, match="32, 64, 128, 256"):
        check_sizes(sizes)
