"""Which frames count is decided by what the ball does, not by what the answer is."""

import numpy as np
import pytest

from gradsim_reproduction.real.pendulum_problem import find_swings

FPS, LENGTH, PIVOT, RADIUS = 10, 345.0, np.array([425.0, 50.0]), 24.5


def places(slack=lambda t: 0 * t, held=3, frames=40):
    """Centres of a ball that is held, let go at 80°, and swings with a period of 1.6 s; `slack` shortens its string."""
    t = np.maximum(np.arange(frames) - held + 1, 0) / FPS
    angle = -np.radians(80) * np.exp(-0.1 * t) * np.cos(2 * np.pi * t / 1.6)
    reach = LENGTH - slack(t)
    return PIVOT + reach[:, None] * np.stack([np.sin(angle), np.cos(angle)], 1)


def test_circle_of_a_pendulum_is_found():
    np.testing.assert_allclose(find_swings(places(), RADIUS).circle, (*PIVOT, LENGTH), atol=1e-6)


def test_frames_of_a_taut_string_all_count_from_the_release():
    swings = find_swings(places(), RADIUS)
    assert swings.released == 3
    assert swings.first == 3


def test_swings_are_cut_where_the_ball_turns():
    assert find_swings(places(), RADIUS).turns[:4] == [
        3,
        10,
        18,
        26,
    ]  # half a period is 8 frames; the damping turns it early


@pytest.mark.parametrize("until, first", [(0.7, 10), (1.5, 18)])
def test_swings_with_a_slack_string_do_not_count(until, first):
    shaking = find_swings(places(lambda t: 12 * np.sin(20 * t) * (t < until) * (t > 0)), RADIUS)
    assert shaking.first == first
    assert f"from {first}" in shaking.rule


def test_scatter_of_half_a_pixel_is_no_sign_of_a_slack_string():
    noise = 0.3 * np.random.default_rng(0).standard_normal((40, 2)) * (np.arange(40) < 20)[:, None]
    assert find_swings(places() + noise, RADIUS).first == 3
