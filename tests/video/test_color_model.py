"""A disc by its colors, learnt from a rectangle in one frame."""

import numpy as np
import pytest
from disc_clip import RECTANGLE, clip, disc, overlap, render, texture

from gradsim.errors import InputError
from gradsim.video.color_model import Rectangle, color_masks


@pytest.fixture(scope="module")
def video():
    return clip()


def test_masks_are_of_the_body_and_not_of_its_shadow(video):
    frames, exact, shadow = video
    masks = color_masks(frames, Rectangle.parse(RECTANGLE))
    assert overlap(masks, exact).min() > 0.92
    assert masks[(shadow == 1) & (exact == 0)].mean() < 0.01


def test_the_camera_may_move_and_the_body_may_jump():
    exact = np.stack([disc(x, 60) for x in (30, 95, 40, 100, 130)])
    frames = np.concatenate([render(e[None], behind=np.roll(texture(), 9 * k, 1)) for k, e in enumerate(exact)])
    masks = color_masks(frames, Rectangle.parse("14,44,32,32"))
    assert overlap(masks, exact).min() > 0.92


def test_the_rectangle_may_be_three_times_as_large_as_the_body(video):
    frames, exact, _ = video
    x, y = 15 + 6.5 * 8, 40 + 20 * np.sin(2)
    wide = color_masks(frames, Rectangle(round(x) - 20, round(y) - 20, 40, 40, 8))
    assert overlap(wide, exact).min() > 0.9


def test_a_body_with_the_colors_of_its_surroundings_is_refused(video):
    with pytest.raises(InputError, match="has the colors of what is around it"):
        color_masks(render(0 * video[1]), Rectangle.parse(RECTANGLE))
