"""Instants over one another: what is opaque hides, what is faint lets through, and edges compose as drawn."""

import numpy as np

from gradsim.visualization.sheets import opacities, strip


def drawn(share: np.ndarray, colour: np.ndarray, behind: np.ndarray) -> np.ndarray:
    return share[..., None] * colour + (1 - share[..., None]) * behind


def test_a_strip_is_each_colour_drawn_over_those_before_with_its_opacity():
    rng = np.random.default_rng(0)
    still, colors, shares = rng.random((5, 6, 3)), rng.random((4, 3)), rng.random((4, 5, 6))
    shares[:, 0] = 0.0
    expected = still
    for opacity, colour, share in zip(opacities(4), colors, shares, strict=True):
        expected = drawn(opacity * share, colour, expected)
    images = [drawn(share, colour, still) for colour, share in zip(colors, shares, strict=True)]
    image = strip(images, list(shares), still)
    assert np.abs(image - expected).max() < 1e-15
    assert np.array_equal(image[0], still[0])


def test_earlier_instants_are_fainter_and_the_last_is_opaque():
    faint = opacities(5)
    assert (np.diff(faint) > 0).all() and faint[0] > 0 and faint[-1] == 1


def test_a_shadow_where_nothing_moves_stays():
    still = np.full((1, 2, 3), 0.8)
    image = still.copy()
    image[0, 1] = 0.5
    assert np.allclose(strip([image], [np.zeros((1, 2))], still), image)
