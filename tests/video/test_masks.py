"""Masks against the equation of compositing, without bias."""

import numpy as np
import pytest

from gradsim.errors import InputError
from gradsim.video import masks

BODY, BACK = np.array([0.85, 0.35, 0.2]), np.array([1.0, 0.9, 0.95])


@pytest.fixture
def coverage():
    """How much of each pixel a moving square covers, with grey edges, (5, 12, 16)."""
    alpha = np.zeros((5, 12, 16))
    for k in range(5):
        alpha[k, 3:8, 2 * k : 2 * k + 5] = 1
        alpha[k, 3:8, 2 * k + 5] = 0.37
    return alpha


def composite(alpha, background=BACK):
    return alpha[..., None] * BODY + (1 - alpha[..., None]) * background


def bytes_of(images):
    return np.rint(255 * images).astype(np.uint8)


def test_mask_video_is_thresholded_in_its_brightest_channel(coverage):
    for channel in range(3):
        frames = np.zeros((*coverage.shape, 3), np.uint8)
        frames[..., channel] = bytes_of(coverage)
        np.testing.assert_array_equal(masks.from_mask_video(frames), coverage > 0.5)
        np.testing.assert_array_equal(masks.from_mask_video(frames, threshold=0.3), coverage > 0)


def test_grey_mask_video_keeps_covered_parts(coverage):
    frames = np.repeat(bytes_of(coverage)[..., None], 3, axis=-1)
    np.testing.assert_allclose(masks.from_mask_video(frames, grey=True), coverage, atol=0.5 / 255)


def test_hard_colour_key_takes_what_is_within_the_tolerance(coverage):
    frames = bytes_of(composite(coverage))
    contrast = float(np.linalg.norm(BODY - BACK))
    np.testing.assert_array_equal(masks.color_key(frames, BODY, 0.01), coverage == 1)
    np.testing.assert_array_equal(masks.color_key(frames, BODY, 0.7 * contrast), coverage > 0)
    np.testing.assert_array_equal(masks.color_key(frames, bytes_of(BODY), 0.01), coverage == 1)


def test_soft_colour_key_falls_linearly_with_the_distance(coverage):
    contrast = float(np.linalg.norm(BODY - BACK))
    mask = masks.color_key(bytes_of(composite(coverage)), BODY, 0.2 * contrast, softness=0.8 * contrast)
    # distance = (1 − α) contrast, so mask = α / 0.8; each channel is rounded by half a grey level
    np.testing.assert_allclose(mask, np.minimum(coverage / 0.8, 1), atol=0.5 * 3**0.5 / 255 / (0.8 * contrast))


@pytest.mark.parametrize("textured", [False, True])
def test_alpha_inverts_flat_compositing(coverage, textured):
    back = np.random.default_rng(0).uniform(0.4, 1, (12, 16, 3)) if textured else BACK
    alpha = masks.alpha_from_flat_colors(bytes_of(composite(coverage, back)), BODY, back)
    smallest = np.sqrt(((BODY - back) ** 2).sum(axis=-1)).min()
    # half a grey level in each channel is at most √3/2 along the colour difference
    np.testing.assert_allclose(alpha, coverage, atol=0.5 * 3**0.5 / 255 / smallest)


def test_alpha_of_bytes_by_tables_is_that_of_the_equation_bit_for_bit():
    frames = np.random.default_rng(2).integers(0, 256, (3, 12, 16, 3), dtype=np.uint8)
    metric = masks.luma_metric(BODY, BACK)
    along = (BODY - BACK) @ metric
    expected = ((frames / 255 - BACK) * (along / (along * (BODY - BACK)).sum())).sum(-1)
    np.testing.assert_array_equal(masks.alpha_from_flat_colors(frames, BODY, BACK, metric=metric), expected)


def test_distance_from_the_line_of_colors_and_share_off_a_color_are_those_of_whole_images():
    random = np.random.default_rng(3)
    frames = random.integers(0, 256, (3, 12, 16, 3), dtype=np.uint8)
    alpha = random.normal(size=frames.shape[:3])
    off = frames / 255 - (BACK + alpha[..., None] * (BODY - BACK))
    assert masks.distance_from_line(frames, alpha, BODY, BACK) == pytest.approx(np.sqrt(np.mean(off**2)), rel=1e-13)
    share = (np.abs(frames / 255 - BACK).max(-1) > 0.5).mean()
    assert 0.1 < share < 0.9 and masks.share_off_color(frames, BACK, 0.5) == share


def test_alpha_has_unbiased_noise_of_the_stated_size_and_clipping_biases_it():
    body, back, sigma = np.array([0.3, 0.5, 0.6]), np.array([0.7, 0.6, 0.4]), 0.04
    clean = np.broadcast_to(back, (20, 50, 50, 3))
    frames = bytes_of(clean + np.random.default_rng(1).normal(0, sigma, clean.shape))
    alpha = masks.alpha_from_flat_colors(frames, body, back)
    expected = sigma / np.linalg.norm(body - back)
    deviation = expected / np.sqrt(alpha.size)
    assert abs(alpha.mean()) < 4 * deviation
    assert alpha.std() == pytest.approx(expected, rel=4 / np.sqrt(2 * alpha.size))
    clipped = masks.alpha_from_flat_colors(frames, body, back, clip=True)
    # the mean of the positive half of a Gaussian
    assert clipped.mean() == pytest.approx(expected / np.sqrt(2 * np.pi), abs=4 * deviation)
    assert clipped.min() == 0


def test_a_background_seen_most_of_the_time_is_recovered(coverage):
    back = np.random.default_rng(2).integers(0, 100, (12, 16, 3)).astype(np.uint8)
    moving = np.concatenate([coverage, np.zeros((6, 12, 16))])
    frames = bytes_of(moving[..., None] * np.array([0.9, 0.9, 0.9]) + (1 - moving[..., None]) * (back / 255))
    np.testing.assert_array_equal(masks.median_background(frames), back / 255)


def test_a_mask_without_pixels_is_an_error():
    black = np.zeros((3, 4, 5, 3), np.uint8)
    with pytest.raises(InputError, match="no mask pixel: its brightest channel is 0"):
        masks.from_mask_video(black)
    with pytest.raises(InputError, match="no mask pixel in any frame: the nearest is 1 away"):
        masks.color_key(black, (1, 0, 0), 0.5)
    with pytest.raises(InputError, match="no mask pixel in any frame"):
        masks.color_key(black, (1, 0, 0), 0.5, softness=0.5)


def test_images_of_labels_are_no_coverage(coverage):
    """As the palette (128, 0, 0) of the first object in DAVIS, which would be coverage of a half."""
    frames = np.zeros((*coverage.shape, 3), np.uint8)
    frames[..., 0] = 128 * (coverage == 1)
    with pytest.raises(InputError, match="levels 0 and 128 alone.*multiplied by 1.992"):
        masks.from_mask_video(frames, grey=True)
    np.testing.assert_array_equal(masks.from_mask_video(frames), coverage == 1)


def test_check_names_the_frames_without_mask(coverage):
    masks.require_masks(coverage, "mask.webm")
    coverage[[1, 3]] = 0
    with pytest.raises(InputError, match=r"mask\.webm has no mask pixel in 2 of 5 frames \(1, 3\)"):
        masks.require_masks(coverage, "mask.webm")
    with pytest.raises(InputError, match=r"30 of 30 frames \(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …\)"):
        masks.require_masks(np.zeros((30, 4, 4)), "mask.webm")


def test_colors_that_cannot_work_are_refused():
    frames = np.zeros((2, 4, 5, 3), np.uint8)
    with pytest.raises(InputError, match="are the same"):
        masks.alpha_from_flat_colors(frames, BODY, BODY)
    back = np.broadcast_to(BACK, (4, 5, 3)).copy()
    back[1, 2] = BODY
    with pytest.raises(InputError, match="in 1 of 20 pixels"):
        masks.alpha_from_flat_colors(frames, BODY, back)
    with pytest.raises(InputError, match=r"background has shape \(5, 4, 3\)"):
        masks.alpha_from_flat_colors(frames, BODY, np.swapaxes(back, 0, 1))
    with pytest.raises(InputError, match=r"red, green, blue in \[0, 1\]"):
        masks.color_key(frames, (217, 89, 51), 0.1)
    with pytest.raises(InputError, match="red, green, blue"):
        masks.color_key(frames, (0.5, 0.5), 0.1)
