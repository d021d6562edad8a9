"""Coverage at edges from the colors on both sides."""

import numpy as np
from disc_clip import BODY, clip, render

from gradsim.video.soft_edges import soft_edges


def test_edges_are_three_times_closer_to_the_coverage_than_those_of_a_hard_mask():
    frames, exact, _ = clip(6)
    edge, hard = (exact > 0.01) & (exact < 0.99), exact > 0.5
    rms = lambda masks: np.sqrt(np.mean((masks - exact)[edge] ** 2))
    soft = soft_edges(frames, hard)
    assert rms(soft) < rms(hard) / 2.5 and rms(soft) < 0.11
    assert ((soft >= 0) & (soft <= 1)).all()


def test_a_mask_that_is_half_a_pixel_wide_comes_to_a_quarter_of_its_error():
    frames, exact, _ = clip(6)
    wide = exact > 0.02
    area = lambda masks: masks.sum() / exact.sum() - 1
    assert area(wide) > 0.08 and abs(area(soft_edges(frames, wide))) < area(wide) / 4


def test_masks_stay_where_colors_do_not_tell():
    _, exact, _ = clip(3)
    alike = render(exact, behind=np.broadcast_to(BODY + 0.02, (*exact.shape[1:], 3)))
    np.testing.assert_array_equal(soft_edges(alike, exact > 0.5), exact > 0.5)
    np.testing.assert_array_equal(soft_edges(alike, exact > 2), 0 * exact)


def test_edges_of_a_camera_with_a_response_are_shares_of_light():
    """Of a disc of value 0.2 in front of 0.8: the area by values is off by a fifth of the outline's pixels, as their means are."""
    _, exact, _ = clip(3)
    light = exact[..., None] * 0.2**2.2 + (1 - exact[..., None]) * 0.8**2.2
    frames = np.rint(255 * light ** (1 / 2.2)).astype(np.uint8).repeat(3, -1)
    edge = (exact > 0.01) & (exact < 0.99)
    mean = lambda gamma: (soft_edges(frames, exact > 0.5, gamma) - exact)[edge].mean()
    assert mean(1.0) < -0.08 and abs(mean(2.2)) < 0.01
