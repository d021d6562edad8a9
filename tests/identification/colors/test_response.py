"""Colors in light, and their derivatives by γ."""

import numpy as np
import pytest

from gradsim.identification.colors.response import (
    channels_of,
    light_of,
    log_of_root_weight,
    mean_of_blocks,
    slope_of_light,
    values_of,
    weight_of,
)
from gradsim.video.front_coverage import COLOR_WEIGHTS

VALUES = np.random.default_rng(5).uniform(0.1, 0.95, (40, 3))
GRAY = np.repeat(VALUES[:, :1], 3, 1)


@pytest.mark.parametrize("gamma", [1.0, 1.8, 2.2])
def test_values_come_back_from_light(gamma):
    np.testing.assert_allclose(values_of(light_of(VALUES, gamma), gamma), VALUES, rtol=1e-12)


def test_light_and_weight_have_the_derivatives_that_they_state():
    h = 1e-5  # central differences of second order of smooth functions: 1e-10
    by_gamma = (light_of(VALUES, 2.2 + h) - light_of(VALUES, 2.2 - h)) / (2 * h)
    np.testing.assert_allclose(slope_of_light(VALUES, 2.2), by_gamma, rtol=1e-6, atol=1e-9)
    roots = [np.log(weight_of(VALUES, 2.2 + sign * h)) / 2 for sign in (1, -1)]
    np.testing.assert_allclose(log_of_root_weight(VALUES), (roots[0] - roots[1]) / (2 * h), rtol=1e-6)


def test_noise_of_weighted_light_is_that_of_values():
    """√w dy/dv = 1 for gray."""
    h = 1e-6
    slope = (light_of(GRAY + h, 2.2) - light_of(GRAY - h, 2.2)) / (2 * h)
    np.testing.assert_allclose(np.sqrt(weight_of(GRAY, 2.2))[:, None] * slope, 1.0, rtol=1e-6)


def test_a_block_of_pixels_has_the_mean_of_their_light():
    image = np.random.default_rng(6).uniform(size=(1, 4, 6, 3))
    np.testing.assert_allclose(mean_of_blocks(image, 2, 1.0)[0, 0, 0], image[0, :2, :2].mean((0, 1)))
    light = (image[0, :2, :2] ** 2.2).mean((0, 1))
    np.testing.assert_allclose(mean_of_blocks(image, 2, 2.2)[0, 0, 0], light ** (1 / 2.2))


def test_channels_have_the_metric_of_their_weights_and_gray_noise_its_size():
    channels = channels_of(COLOR_WEIGHTS)
    metric = channels.T @ channels
    np.testing.assert_allclose(metric / metric.trace(), COLOR_WEIGHTS / COLOR_WEIGHTS.trace(), atol=1e-12)
    assert metric.trace() == pytest.approx(3)
    np.testing.assert_allclose(channels[0] / channels[0].sum(), [0.299, 0.587, 0.114], atol=1e-3)  # luma of BT.601
    np.testing.assert_allclose(channels_of(np.eye(3)).T @ channels_of(np.eye(3)), np.eye(3), atol=1e-12)
