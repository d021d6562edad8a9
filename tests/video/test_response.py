"""Coverage as a function of a camera's response, against mixtures of light that are put together here."""

import numpy as np
import pytest
import torch

from gradsim.video.response import Edges, edges_of

SIZE = 6  # pixels of a frame


def mixed(gamma: float, gain: float, clipped: bool = False) -> tuple[np.ndarray, Edges]:
    """Shares α of 12 pixels of two frames, and edges whose colors are such mixtures of light."""
    rng = np.random.default_rng(3)
    alpha, inside, behind = rng.uniform(0.1, 0.9, 12), rng.uniform(0.05, 0.4, (12, 3)), rng.uniform(0.5, 0.7, (12, 3))
    light = alpha[:, None] * inside**gamma + (1 - alpha[:, None]) * gain * behind**gamma
    return alpha, edges_of(np.arange(12), light ** (1 / gamma), behind, inside, np.diag([0.3, 0.6, 0.1]), clipped)


@pytest.mark.parametrize(("gamma", "gain"), [(1.0, 1.0), (2.2, 1.0), (1.8, 1.3)])
def test_coverage_is_the_share_of_light(gamma, gain):
    alpha, edges = mixed(gamma, gain)
    np.testing.assert_allclose(edges.coverage(gamma, gain).numpy(), alpha, atol=1e-12)
    assert np.abs(edges.coverage(gamma + 0.5, gain).numpy() - alpha).max() > 0.02


@pytest.mark.parametrize("clipped", [False, True])
def test_slopes_match_central_differences(clipped):
    _, edges = mixed(2.2, 1.2, clipped)
    by_gamma, by_gain = edges.slopes(2.1, 1.1)
    h = 1e-5  # of differences of second order in numbers of about 1: 1e-10
    for slope, step in ((by_gamma, (h, 0.0)), (by_gain, (0.0, h))):
        ends = [edges.coverage(2.1 + sign * step[0], 1.1 + sign * step[1]) for sign in (1, -1)]
        torch.testing.assert_close(slope, (ends[0] - ends[1]) / (2 * h), rtol=1e-6, atol=1e-8)
        assert slope.abs().max() > 0.01


def test_frames_are_chosen_and_put_in_order():
    _, edges = mixed(2.2, 1.0)
    swapped = edges.of_frames(np.array([1, 0, 1]), SIZE)
    assert swapped.index.tolist() == list(range(18))
    torch.testing.assert_close(swapped.image, edges.image[[*range(6, 12), *range(6), *range(6, 12)]])


def test_colors_behind_a_gain_become_those_without():
    alpha, edges = mixed(2.2, 1.5)
    brighter = edges_of(
        np.arange(12), edges.image.numpy(), 1.5 ** (1 / 2.2) * edges.behind.numpy(), edges.inside.numpy()
    )
    np.testing.assert_allclose(brighter.at_gain(2.2, 1.5).coverage(2.2, 1.5).numpy(), alpha, atol=1e-12)
