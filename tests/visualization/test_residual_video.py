"""Residuals in colours."""

import numpy as np
import pytest

from gradsim.visualization.overlay_video import factor
from gradsim.visualization.residual_video import BAND, residual_video, scale


def residuals(**places) -> np.ndarray:
    r = np.zeros((2, 16, 20))
    for (k, i, j), value in places.get("at", {}).items():
        r[k, i, j] = value
    return r


def pixel(video: np.ndarray, r: np.ndarray, k: int, i: int, j: int) -> list[int]:
    times = factor(r)
    return video[k, BAND + i * times + times // 2, j * times + times // 2].tolist()


def test_too_much_is_red_too_little_blue_and_nothing_pale():
    r = residuals(at={(1, 3, 4): 5.0, (1, 8, 9): -5.0})
    video = residual_video(r, np.zeros_like(r))
    red, blue, none = (pixel(video, r, 1, *place) for place in ((3, 4), (8, 9), (12, 12)))
    assert red[0] > 2 * red[2] and blue[2] > 2 * blue[0]
    assert min(none) > 240


def test_opposite_residuals_are_equally_far_from_pale():
    r = residuals(at={(0, 3, 4): 2.5, (0, 8, 9): -2.5})
    video = residual_video(r, np.zeros_like(r))
    far = [sum(255 - c for c in pixel(video, r, 0, *place)) for place in ((3, 4), (8, 9))]
    assert far[0] == pytest.approx(far[1], rel=0.35)  # the map is of one lightness, not of one distance


@pytest.mark.parametrize(("largest", "end"), [(0.0, 5.0), (1e-9, 5.0), (4.9, 5.0), (12.0, 20.0), (300.0, 500.0)])
def test_scale_is_never_narrower_than_the_noise(largest, end):
    r = residuals(at={(0, 1, 1): largest, (1, 2, 2): -largest})
    assert scale(r) == end
