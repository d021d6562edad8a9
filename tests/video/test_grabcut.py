"""A disc cut out of a texture from a rectangle in one frame on."""

import numpy as np
import pytest
from disc_clip import RECTANGLE, clip, disc, overlap, render

from gradsim.errors import InputError
from gradsim.video.color_model import Rectangle
from gradsim.video.grabcut import grabcut_masks

pytest.importorskip("cv2")


@pytest.fixture(scope="module")
def video():
    return clip()


def test_the_body_is_carried_before_and_after_the_frame_of_the_rectangle(video):
    frames, exact, _ = video
    masks = grabcut_masks(frames, Rectangle.parse(RECTANGLE))
    best = overlap(exact > 0.5, exact)  # of any mask of 0 and 1
    assert (overlap(masks, exact) > best - 0.02).all()


def test_a_body_that_stays_and_one_before_a_moving_camera_are_cut_out(video):
    """The background that the other methods need is not needed."""
    exact = np.repeat(disc(80, 60)[None], 8, 0)
    frames = render(exact)
    frames = np.where(
        exact[..., None] > 0, frames, np.stack([np.roll(f, 3 * k, 1) for k, f in enumerate(render(0 * exact))])
    )
    masks = grabcut_masks(frames, Rectangle.parse("62,42,36,36"))
    assert overlap(masks, exact).min() > 0.93


def test_a_step_of_more_than_a_diameter_is_followed_if_the_last_led_there():
    """12 px a frame more in each frame: from 12 to 60 px, 5 radii, at the end."""
    exact = np.stack([disc(10 + x, 60, 8) for x in np.cumsum([0, 12, 18, 24, 30, 36])])
    masks = grabcut_masks(render(exact), Rectangle.parse("1,50,20,21"))
    assert overlap(masks, exact).min() > 0.9


def test_masks_are_empty_once_the_body_has_left(video):
    exact = np.stack([disc(100 + 14 * k, 60) for k in range(9)])
    masks = grabcut_masks(render(exact), Rectangle.parse("85,45,30,30"))
    gone = ~(exact > 0).any((1, 2))
    assert gone.sum() >= 2 and not masks[gone].any() and masks[:4].any((1, 2)).all()


@pytest.mark.parametrize("text", ["1,2,3", "a,b,c,d", "1,2,0,4", "1,2,3,4@x", "1,2,3,4@-1"])
def test_a_rectangle_of_another_form_is_refused(text):
    with pytest.raises(InputError, match="X,Y,WIDTH,HEIGHT"):
        Rectangle.parse(text)


def test_a_rectangle_out_of_the_video_is_refused(video):
    frames = video[0]
    with pytest.raises(InputError, match="not within the image of 160 × 120"):
        grabcut_masks(frames, Rectangle.parse("150,10,20,20"))
    with pytest.raises(InputError, match="not within the image of 160 × 120 px, with surroundings"):
        grabcut_masks(frames, Rectangle.parse("0,0,160,120"))
    with pytest.raises(InputError, match="frame 30, the video has frames 0 to 19"):
        grabcut_masks(frames, Rectangle.parse("10,10,20,20@30"))
