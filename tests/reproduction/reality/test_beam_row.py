"""The beam of the league: numbers are recovered from tracks of their law, and a rollout of the scene is that law."""

import numpy as np
import pytest

from gradsim.errors import InputError
from gradsim_reproduction.real import beam_recordings as recorded
from gradsim_reproduction.real.beam_model import FPS, Beam
from gradsim_reproduction.reality import beam_vibration as vibration
from gradsim_reproduction.reality.reality import reality

BEAM = Beam((1, 3), 0.45)
TIMES = np.arange(7, 200) / recorded.FPS
TRUTH = np.r_[np.log([0.9, 150.0, 0.09, 0.7]), -0.006, -7e-4]


@pytest.fixture(scope="module")
def own():
    return vibration.Vibration(BEAM, 0.0)


def test_numbers_are_recovered_from_a_track_of_their_law(own):
    u = vibration.fit(own, "viscous and relaxing", TIMES, own.heights(TRUTH, TIMES))
    assert np.abs(u - TRUTH).max() < 1e-6
    assert np.abs(vibration.align(own, np.r_[TRUTH[:-2], 0, 0], TIMES, own.heights(TRUTH, TIMES)) - TRUTH).max() < 1e-6


@pytest.mark.slow
def test_the_law_of_a_track_predicts_its_left_out_parts_best(own):
    heights = own.heights(TRUTH, TIMES)
    errors = {law: vibration.leave_blocks_out(own, law, TIMES, heights)[1] for law in vibration.LAWS}
    assert errors["viscous and relaxing"] < 1e-9
    assert errors["viscous"] > 1e-5


def test_branch_that_relaxes_at_once_has_no_effect(own):
    """It adds a damper of ratio times time, 1e-6 s, over the modulus: 1e-3 of the viscosity here."""
    numbers = np.log([0.9, 150.0, 0.09, 1e-5])
    both = [own.heights(np.r_[u, 0.0, 0.0], TIMES) for u in (numbers, numbers[:2])]
    assert np.abs(both[0] - both[1]).max() < 5e-3 * np.abs(both[1]).max()


def test_halves_agree_as_their_errors_say():
    """Means of blocks: the jackknife has their variance, so pairs of means have a χ² near 1."""
    rng = np.random.default_rng(0)
    values = []
    for _ in range(4000):
        pair = rng.normal(0, 1, (2, 24, 2))
        fits = (pair.sum(1, keepdims=True) - pair) / 23
        covariance = vibration.jackknife(fits[0]) + vibration.jackknife(fits[1])
        values.append(vibration.agreement(pair[0].mean(0), pair[1].mean(0), covariance))
    assert (
        np.abs(vibration.jackknife(fits[0]) - np.cov(pair[0].T) / 24).max() < 1e-15
    )  # of a mean: exactly its variance
    assert np.mean(values) == pytest.approx(46 / 43, abs=0.06)  # Hotelling: 46 degrees of freedom, 2 numbers


@pytest.mark.slow  # 60 fits
def test_errors_of_tracks_whose_noise_has_a_memory_are_those_of_repeated_fits(own):
    """Noise of 0.1 mm that lasts 0.3 s: z of E and viscosity over 60 tracks has an RMS of 1 ± 0.25."""
    rng, lag = np.random.default_rng(3), np.abs(TIMES[:, None] - TIMES)
    root = np.linalg.cholesky(np.exp(-lag / 0.3) + 1e-9 * np.eye(len(TIMES)))
    u = np.r_[TRUTH[:2], TRUTH[-2:]]
    clean, z = own.heights(u, TIMES), []
    for _ in range(60):
        heights = clean + 1e-4 * root @ rng.normal(size=len(TIMES))
        fitted = vibration.fit(own, "viscous", TIMES, heights)
        z.append((fitted - u)[:2] / vibration.discrepancy_of(own, fitted, TIMES, heights).std[:2])
    assert np.sqrt(np.mean(np.square(z))) == pytest.approx(1.0, abs=0.25)


@pytest.mark.slow  # compiles quadratic elements
def test_rollout_of_the_scene_is_the_law_of_the_modes(own):
    """They differ by large displacements: 6 mm of 100."""
    u = np.r_[TRUTH[:-2], 0.0, -7e-4]
    simulated = vibration.swing(BEAM, u, 0.0, 1.0).mean(1)
    modes = own.heights(u, np.arange(len(simulated)) / FPS)
    assert np.abs(simulated - modes).max() < 0.01 * np.abs(modes).max()
    both = [recorded.swing(y, FPS) for y in (simulated, modes)]
    assert both[0].decay == pytest.approx(both[1].decay, rel=0.02)


def test_rows_without_recordings_are_skipped_with_a_reason_or_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADSIM_REAL_DATA", str(tmp_path))
    with pytest.raises(InputError, match="rows: got bean; expected some of cables, beam, cube, hinge"):
        reality(tmp_path / "out", rows="bean")
    with pytest.raises(InputError, match=r"gravity_a.csv does not exist; set GRADSIM_REAL_DATA"):
        reality(tmp_path / "out", rows="beam")
    with pytest.raises(InputError, match=r"cable1.npz"):
        reality(tmp_path / "out")
    assert not (tmp_path / "out").exists()
