import numpy as np
import pytest

from gradsim_reproduction.clips.oracle import HARMONICS, binned, displacements, information


def disc(x: float, y: float, radius: float, size: int = 48) -> np.ndarray:
    """Coverage of a disc by 8 × 8 samples a pixel."""
    at = (np.arange(size * 8) + 0.5) / 8
    inside = np.hypot(at - x, at[:, None] - y) < radius
    return inside.reshape(size, 8, size, 8).mean((1, 3))


def test_displacements_are_those_of_a_disc_that_is_wide_and_shifted():
    exact = np.array([disc(24, 24, 12)] * 3)
    masks = np.array([disc(24.2, 23.9, 12.3)] * 3)
    shift, _ = displacements(exact, [masks - exact])
    assert shift[0, 0] == pytest.approx(0.3, abs=0.03)
    assert shift[0, 1] == pytest.approx(0.2, abs=0.03) and shift[0, 1 + HARMONICS] == pytest.approx(-0.1, abs=0.03)
    assert np.abs(shift[0, 2 : 1 + HARMONICS]).max() < 0.05


def test_an_oracle_of_independent_shifts_knows_a_velocity_as_a_line_through_points():
    """Var(v) = σ² / Σ t²; the offset is of another harmonic and tells nothing."""
    rng, t = np.random.default_rng(0), np.arange(40) / 30
    shift = 0.2 * rng.standard_normal((40, 2 * HARMONICS + 1))
    shift[1::2] *= np.where(np.sum(shift[1:] * shift[:-1], 0) > 0, -1, 1)  # correlations below 0 count as none
    by_unknown = np.zeros((40, 2 * HARMONICS + 1, 1))
    by_unknown[:, 1, 0] = 48 * t
    sigma = np.sqrt((shift[:, [1, 1 + HARMONICS]] ** 2).mean())
    std = np.sqrt(np.linalg.inv(information(shift, by_unknown)).diagonal())
    assert std[0] == pytest.approx(sigma / (48 * np.sqrt((t**2).sum())), rel=0.2)


def test_two_bodies_have_no_harmonics_about_a_common_centre():
    """Each covers a few degrees there, in which all harmonics are alike: nothing is claimed."""
    exact = np.array([disc(12, 24, 5) + disc(36, 20, 5)] * 3)
    shift, _ = displacements(exact, [0.1 * exact])
    assert len(shift) == 0


def test_large_pixels_are_means_of_squares():
    images = np.random.default_rng(3).random((2, 4, 6))
    assert binned(images, 2)[1, 0, 2] == pytest.approx(images[1, :2, 4:].mean())
    assert np.array_equal(binned(images, 1), images)
