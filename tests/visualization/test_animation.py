"""Films in notebooks."""

import base64
import re

import pytest
import torch

from gradsim import video
from gradsim.errors import InputError
from gradsim.physics import Model
from gradsim.scene import Scene
from gradsim.visualization.animation import Animation

SCENE = Scene.library("pendulum")


def test_a_film_of_images_has_their_pixels():
    images = torch.rand(5, 3, 6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    animation = Animation(images, 10)
    assert torch.equal(torch.tensor(animation.pixels), (images * 255).round().to(torch.uint8).movedim(1, -1))
    assert repr(animation) == "Animation(5 frames of 8×6 at 10 per second)"


def test_the_film_of_a_trajectory_shows_the_body_in_front_of_the_background():
    animation = Animation.of(Model(SCENE).rollout(frames=3), SCENE, height=60)
    back = torch.tensor(SCENE.background).mul(255).round()
    differs = (torch.tensor(animation.pixels).float() - back).abs().amax(-1) > 20
    assert len(animation.pixels) == 3 and 0 < differs.float().mean() < 0.5


def test_the_film_of_another_world_shows_its_motion():
    both = Model(SCENE).rollout({"bob.angle": [0.2, 1.0]}, frames=3)
    alone = Model(SCENE).rollout({"bob.angle": 1.0}, frames=3)
    last, same = (Animation.of(t, SCENE, height=60, world=-1).pixels for t in (both, alone))
    assert (last == same).all() and (last != Animation.of(both, SCENE, height=60).pixels).any()
    with pytest.raises(InputError, match="got world 2; the trajectory has worlds 0 to 1"):
        Animation.of(both, SCENE, world=2)


def test_a_notebook_gets_a_video_that_can_be_read(tmp_path):
    animation = Animation(torch.zeros(4, 3, 16, 16), 10)
    data = re.search(r"base64,([^\"]+)", animation._repr_html_())
    assert data
    (tmp_path / "animation.webm").write_bytes(base64.b64decode(data[1]))
    assert len(video.read(tmp_path / "animation.webm").frames) == 4


@pytest.mark.parametrize("images", [torch.zeros(3, 6, 8), torch.zeros(1, 4, 3, 6, 8), torch.zeros(0, 3, 6, 8)])
def test_images_of_another_shape_are_refused(images):
    with pytest.raises(InputError, match="frames of shape"):
        Animation(images)


def test_no_rate_is_refused():
    with pytest.raises(InputError, match="above 0"):
        Animation(torch.zeros(1, 3, 6, 8), 0)
