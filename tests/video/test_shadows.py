"""Cast shadows in masks: discs that cross a textured wall, drawn by NumPy."""

import numpy as np
import pytest
from scipy import ndimage

from gradsim.video.background import subtract_background
from gradsim.video.mask_faults import mask_faults
from gradsim.video.shadows import MIN_BRIGHTNESS, brightness_and_tint, shadow_shares, smoothed

HEIGHT, WIDTH, COUNT, RADIUS, NOISE = 60, 120, 12, 9, 1.5 / 255
WALL = [0.72, 0.68, 0.6]


def wall() -> np.ndarray:
    noise = np.random.default_rng(0).standard_normal((HEIGHT, WIDTH, 3))
    waves = ndimage.gaussian_filter(noise, (3, 3, 0))
    return np.array(WALL) + 0.05 * waves / waves.std()


def discs(row: float, radius: float, right: float = 0.0) -> np.ndarray:
    y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    places = np.linspace(18, WIDTH - 30, COUNT)
    return np.stack([np.clip(radius + 0.5 - np.hypot(x - right - place, y - row), 0, 1) for place in places])


def film(color, dark: float = 0.0) -> np.ndarray:
    """Discs of a color (3,), or of the wall times a number, with a soft shadow that takes a share of the light."""
    alpha = discs(24, RADIUS)[..., None]
    shadow = ndimage.gaussian_filter(discs(36, RADIUS, 8.0), (0, 2, 2))[..., None]
    image = wall() * (1 - dark * shadow)
    image = image * (1 - alpha) + alpha * (color if np.ndim(color) else color * wall())
    noisy = image + NOISE * np.random.default_rng(1).standard_normal(image.shape)
    return (255 * noisy).round().clip(0, 255).astype(np.uint8)


def kinds(frames: np.ndarray, windowed: bool = False) -> set[str]:
    result = subtract_background(frames, wall(), windowed=windowed)
    faults = mask_faults(result.masks, None, None, result.windows, result.shadows)
    return {kind for kind, where in faults.frames.items() if where}


@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("dark", [0.2, 0.4])
def test_a_mask_with_a_shadow_says_so(dark, windowed):
    assert "shadow" in kinds(film([0.8, 0.2, 0.1], dark), windowed)


@pytest.mark.parametrize(
    "color",
    [
        [0.8, 0.2, 0.1],
        [0.02, 0.02, 0.02],  # black: its soft edges alone are a darker wall
        [0.15, 0.3, 0.6],
        [0.95, 0.95, 0.95],  # brighter than the wall
        0.7,  # all of it is a darker wall: not a part
    ],
)
def test_a_body_without_a_shadow_has_none(color):
    assert "shadow" not in kinds(film(color))


def test_a_shadow_is_a_part_of_the_mask_by_its_area():
    """Of masks with the disc and the shadow, where the disc does not cover it, that holds a square of 5 × 5 px."""
    body, shadow = discs(24, RADIUS) > 0.5, discs(36, RADIUS, 8.0) > 0.5
    frames = film([0.8, 0.2, 0.1], 0.4)
    shares = shadow_shares(frames, [wall()] * COUNT, body | shadow)
    exact = (shadow & ~body).sum((1, 2)) / (body | shadow).sum((1, 2))
    assert (shares < exact).all() and (shares > 0.6 * exact).all()
    empty = np.zeros_like(body)
    assert (shadow_shares(frames, [wall()] * COUNT, empty) == 0).all()


def test_a_gray_wall_tells_no_shadow_from_a_body():
    """A ball that is lit from above is darker below, as its shadow would be, and no tint tells them apart."""
    frames = np.repeat(film([0.8, 0.2, 0.1], 0.4).mean(-1, keepdims=True).round().astype(np.uint8), 3, -1)
    behind = np.repeat(wall().mean(-1, keepdims=True), 3, -1)
    body, shadow = discs(24, RADIUS) > 0.5, discs(36, RADIUS, 8.0) > 0.5
    assert (shadow_shares(frames, [behind] * COUNT, body | shadow) == 0).all()


def test_brightness_is_the_factor_and_tint_the_rest():
    behind = smoothed(wall())
    frame = np.round(0.6 * 255 * wall()).astype(np.uint8)
    brightness, tint = brightness_and_tint(frame, behind)
    assert brightness == pytest.approx(
        np.full(brightness.shape, 0.6), abs=0.5 / 255 / 0.5
    )  # half a level of a wall of 0.5 or more
    assert tint.max() < 0.5 / 255 * 3**0.5 and MIN_BRIGHTNESS < 0.6


def test_a_shadow_is_a_hint_and_its_advice_names_the_ways_out():
    """A gray body before a gray wall may look like one: it does not take the place of other causes."""
    masks = discs(24, RADIUS)
    shares = np.where(np.arange(COUNT) % 2, 0.15, 0.0)
    faults = mask_faults(masks, shadows=shares)
    assert faults.frames["shadow"] == list(range(1, COUNT, 2)) and not faults.of_method
    assert "--background mog2" in faults.advice and "--mask color:" in faults.advice
    assert any("as a cast shadow is, in frames 1, 3" in words for words in faults.words)
    few = np.where(np.arange(COUNT) == 1, 0.15, 0.0)
    assert not mask_faults(masks, shadows=few).words
