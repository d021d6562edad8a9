"""Mixtures of Gaussians as a background, on a disc with a shadow."""

import av
import numpy as np
import pytest
from disc_clip import BODY, HEIGHT, RADIUS, WIDTH, clip, disc, overlap, render, texture

from gradsim.errors import InputError
from gradsim.video.background import subtract_background
from gradsim.video.mask_faults import mask_faults
from gradsim.video.mog2 import mixture_background
from gradsim.video.read import read

pytest.importorskip("cv2")


@pytest.fixture(scope="module")
def video():
    return clip()


def test_a_shadow_is_not_a_body(video):
    frames, exact, shadow = video
    _, bodies = mixture_background(frames)
    only = (shadow == 1) & (exact == 0)
    assert only.sum() > 5000 and bodies[only].mean() < 0.01
    _, fooled = mixture_background(frames, shadows=False)
    assert fooled[only].mean() > 0.9


def test_bodies_are_where_they_are_from_the_first_frame_on(video):
    """Regions contain each pixel that the disc covers in part: 2 π r · ½ px more than its area."""
    frames, exact, _ = video
    _, bodies = mixture_background(frames)
    assert (bodies[exact > 0.5].mean() > 0.99) and overlap(bodies, exact).min() > 0.9
    excess = bodies.sum((1, 2)) / exact.sum((1, 2)) - 1
    assert (excess < 1.2 / RADIUS).all()


def test_coverage_is_as_exact_as_with_the_empty_scene_without_a_shadow(video):
    frames, exact, _ = video
    masks = subtract_background(frames, "mog2").masks
    assert overlap(masks, exact).min() > 0.97  # 0.5 by the median, which takes the shadow for the body
    assert overlap(subtract_background(frames).masks, exact).max() < 0.6
    edge = (exact > 0.01) & (exact < 0.99)
    best = subtract_background(render(exact), texture()).masks
    rms = lambda m: np.sqrt(np.mean((m - exact)[edge] ** 2))
    assert rms(masks) < 1.2 * rms(best)


def test_a_stated_color_does_not_see_the_shadow_either(video):
    frames, exact, _ = video
    assert overlap(subtract_background(frames, "mog2", BODY).masks, exact).min() > 0.97


def test_compression_takes_little_from_the_overlap(video, tmp_path):
    """h264 at crf 23: its traces around the body, and chroma that comes late into the shadow, are no body."""
    frames, exact, _ = video
    with av.open(str(tmp_path / "v.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"crf": "23"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        images = [av.VideoFrame.from_ndarray(frame, format="rgb24") for frame in frames]
        container.mux([packet for image in [*images, None] for packet in stream.encode(image)])
    compressed = read(tmp_path / "v.mp4").frames
    assert np.median(overlap(mixture_background(compressed)[1], exact)) > 0.84
    masks = subtract_background(compressed, "mog2").masks
    assert overlap(masks, exact).min() > 0.82 and np.median(overlap(masks, exact)) > 0.86


def test_a_background_of_two_colors_is_no_body():
    """A red lamp that is on for three frames, off for three: the median takes one of the two for a body, the mixture does not."""
    coverage = np.stack([disc(15 + 6.5 * k, 60) for k in range(21)])
    frames = render(coverage)
    on = np.arange(21) // 3 % 2 == 0
    frames[on, 5:25, 130:150, 0] = np.minimum(frames[on, 5:25, 130:150, 0].astype(int) + 60, 255)
    _, bodies = mixture_background(frames)
    assert not bodies[:, 5:25, 130:150].any()
    assert overlap(bodies, coverage).min() > 0.9


def test_a_flash_of_one_frame_is_not_a_body(video):
    flash = video[0].copy()
    flash[6, 95:110, 130:150] = 250
    _, bodies = mixture_background(flash)
    assert not bodies[6, 95:110, 130:150].any()


def test_a_video_in_which_nothing_moves_is_refused(video):
    _, exact, _ = video
    with pytest.raises(InputError, match="nothing moves.*--background FILE.*grabcut"):
        mixture_background(render(0 * exact))


@pytest.mark.parametrize("step", [0.6, 1.5])
def test_a_body_that_moves_little_is_refused(step):
    """It covers the middle of its path for half of the video and longer, where it is background then."""
    coverage = np.stack([disc(70 + step * k, 60) for k in range(20)])
    with pytest.raises(InputError, match="mixture of Gaussians of this video is not the background.*grabcut"):
        subtract_background(render(coverage), "mog2")


def test_a_body_that_comes_to_rest_is_refused_or_named_by_frame():
    """Where it rests for half of the video it is background: whole, so there is no body left that it goes on from."""
    coverage = np.stack([disc(20 + 7 * min(k, 11), 60) for k in range(22)])
    masks = subtract_background(render(coverage), "mog2").masks
    assert "the mask is empty in frames 11 to 21" in mask_faults(masks).words
    coverage = np.stack([disc(20 + 7 * min(k, 7), 60) for k in range(22)])
    with pytest.raises(InputError, match="mixture of Gaussians of this video is not the background"):
        subtract_background(render(coverage), "mog2")
