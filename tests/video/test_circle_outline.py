"""Outlines of a colored ball from the mixture of light."""

import numpy as np
import pytest

from gradsim.errors import InputError
from gradsim.video import circle_outline

YELLOW, GREY = np.array([0.42, 0.51, 0.07]), np.array([0.43, 0.42, 0.42])
HEIGHT, WIDTH, RADIUS = 60, 90, 9.3


def bytes_of(light):
    """sRGB bytes of linear light."""
    return np.rint(255 * np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)).astype(
        np.uint8
    )


def light_of(color):
    return circle_outline.LINEAR[np.rint(color * 255).astype(int)]


def disc(x, y, radius=RADIUS, fine=4):
    """Coverage of each pixel by a disc."""
    rows, columns = ((np.arange(n * fine) + 0.5) / fine for n in (HEIGHT, WIDTH))
    inside = np.hypot(columns - x, rows[:, None] - y) < radius
    return inside.reshape(HEIGHT, fine, WIDTH, fine).mean((1, 3))


def render(places, blur=0.0, shading=None, behind=1.0):
    """Frames of a ball at some places that moves by `blur` [px] to the right while the shutter is open."""
    frames = []
    for x, y in places:
        alpha = np.mean([disc(x + d, y) for d in np.linspace(-blur / 2, blur / 2, 21)], 0)[..., None]
        lit = 1.0 if shading is None else shading[..., None]
        frames.append(bytes_of(alpha * lit * light_of(YELLOW) + (1 - alpha) * behind * light_of(GREY)))
    return np.stack(frames)


PLACES = [(20.3, 20.7), (40.1, 35.2), (60.6, 25.5), (70.2, 40.4), (45.0, 15.3)]


def test_fraction_of_a_mixture_of_light_is_the_covered_part():
    alpha = np.linspace(0.1, 1, 10)[None, :, None].repeat(6, 0)
    frame = bytes_of(alpha * light_of(YELLOW) + (1 - alpha) * light_of(GREY))
    behind = np.broadcast_to(bytes_of(light_of(GREY)), frame.shape)
    share = circle_outline.color_fractions(frame[None], YELLOW, behind)[0]
    # inner columns, where the mean over neighbours of a linear ramp is the ramp; bytes round to about 0.01
    np.testing.assert_allclose(share[:, 1:-1], alpha[:, 1:-1, 0], atol=0.015)


@pytest.mark.parametrize("blur", [0.0, 8.0])
def test_fraction_one_half_outlines_the_ball_at_the_middle_of_the_exposure(blur):
    masks = circle_outline.outline_masks(circle_outline.color_fractions(render(PLACES, blur), YELLOW))
    np.testing.assert_allclose(circle_outline.centroids(masks), PLACES, atol=0.25)  # hulls of whole pixels
    radius = np.sqrt(masks.sum((1, 2)) / np.pi)
    # corners of whole pixels stand out by up to half a pixel; the blur takes blur² / (32 r) off, 0.2 px
    np.testing.assert_allclose(radius, RADIUS, atol=0.4)


def test_thresholding_bytes_instead_of_light_would_lose_part_of_a_blurred_ball():
    frames = render(PLACES, blur=8.0)
    key, behind = YELLOW, GREY
    share = ((frames / 255 - behind) @ (key - behind)) / ((key - behind) @ (key - behind))
    bytewise = np.sqrt((share > 0.5).sum((1, 2)) / np.pi).mean()
    outlined = np.sqrt(
        circle_outline.outline_masks(circle_outline.color_fractions(frames, YELLOW)).sum((1, 2)) / np.pi
    ).mean()
    assert bytewise < outlined - 0.2


def test_shadow_on_the_wall_is_not_part_of_the_ball():
    shadow = np.where(disc(44.0, 31.0) > 0, 0.4, 1.0)[..., None]
    frames = render(PLACES)
    frames[1] = render(PLACES[1:2], behind=shadow)[0]
    centre = circle_outline.centroids(circle_outline.outline_masks(circle_outline.color_fractions(frames, YELLOW)))[1]
    # half a pixel of edge, not the three pixels between the middles of ball and shadow
    np.testing.assert_allclose(centre, PLACES[1], atol=0.5)


def test_string_across_the_ball_and_specks_do_not_move_it():
    frames = render(PLACES)
    frames[:, :, 12:15] = bytes_of(light_of(YELLOW))  # a yellow stripe in every frame is background
    x, y = PLACES[2]
    frames[2, round(y) - 1 : round(y) + 1, round(x) - 12 : round(x) + 12] = 8
    frames[2, 50:53, 5:8] = bytes_of(light_of(YELLOW))
    centre = circle_outline.centroids(
        circle_outline.outline_masks(circle_outline.color_fractions(frames[:, :, 16:], YELLOW))
    )[2]
    np.testing.assert_allclose(centre, (x - 16, y), atol=0.3)


def test_shrinking_keeps_the_mass_and_the_centers():
    masks = np.stack([disc(*place) for place in PLACES])
    small = circle_outline.downsample_masks(masks, 5)
    np.testing.assert_allclose(small.sum((1, 2)) * 25, masks.sum((1, 2)), rtol=1e-12)
    # within a square the mass counts as its middle: odd edge squares move the centre by parts of a pixel
    np.testing.assert_allclose(5 * circle_outline.centroids(small), PLACES, atol=0.1)


def test_frame_without_a_ball_is_named():
    frames = render([*PLACES, PLACES[0]])
    frames[3] = bytes_of(light_of(GREY))
    with pytest.raises(InputError, match=r"1 of 6 frames \(3\)"):
        circle_outline.outline_masks(circle_outline.color_fractions(frames, YELLOW))


def test_ball_of_the_background_s_hue_is_refused():
    with pytest.raises(InputError, match="hue of the background"):
        circle_outline.color_fractions(render(PLACES), 0.5 * GREY)


def test_size_that_does_not_divide_is_refused():
    with pytest.raises(InputError, match="squares of 7 px"):
        circle_outline.downsample_masks(np.ones((1, 60, 90)), 7)
