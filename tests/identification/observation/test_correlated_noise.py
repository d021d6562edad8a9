"""Correlated noise of coordinates against covariance matrices by NumPy, and fits of tracks that drift."""

import numpy as np
import pytest
import torch
from tracks_cases import FRAMES, TRUTH, UNKNOWNS, scene, seen_from, table, thrown

import gradsim as gs
from gradsim.errors import InputError
from gradsim.identification.observation.correlated_noise import CorrelatedNoise, drift_modes


def test_whitened_residuals_have_the_cost_of_the_full_covariance():
    """|whiten(e)|² = eᵀ (I + B Bᵀ)⁻¹ e, of all frames and of the first ones."""
    rng = np.random.default_rng(0)
    B, e = rng.standard_normal((5, 3, 2, 7)), rng.standard_normal((2, 30))
    noise = CorrelatedNoise(torch.tensor(B))
    for frames in (5, 3):
        rows = B[:frames].reshape(-1, 7)
        expected = np.einsum(
            "wi,ij,wj->w", e[:, : len(rows)], np.linalg.inv(np.eye(len(rows)) + rows @ rows.T), e[:, : len(rows)]
        )
        whitened = noise.whiten(torch.tensor(e[:, : len(rows)]), frames)
        assert np.abs(whitened.square().sum(1).numpy() - expected).max() < 1e-10 * expected.max()


def test_modes_of_a_drift_are_those_of_a_random_walk():
    """Covariance min(V_i, V_j) of two positions of one track and coordinate, and 0 of others."""
    drift = torch.tensor([[0.0, 0.3], [0.2, 0.3], [0.2, 0.5], [0.4, 0.5]]).double()
    tracked = torch.ones(4, 2, dtype=torch.bool)
    noise = torch.tensor([[0.5, 2.0]]).double().expand(4, 2)
    B = drift_modes(drift, tracked, noise, 2).flatten(0, 2).numpy()
    C = (
        (B @ B.T).reshape(4, 2, 2, 4, 2, 2)
        * np.array([0.5, 2.0])[:, None, None, None, None]
        * np.array([0.5, 2.0])[:, None]
    )
    for j in range(2):
        V = drift[:, j].square().numpy()
        assert np.allclose(C[:, j, 0, :, j, 0], np.minimum.outer(V, V), atol=1e-12)
    assert np.abs(C[:, 0, :, :, 1]).max() == 0 and np.abs(C[:, :, 0, :, :, 1]).max() == 0


@pytest.mark.slow
def test_intervals_of_tracks_that_drift_hold_the_truth(tmp_path):
    """Random walks of 0.15 px a frame: of 8 errors the mean square in standard deviations is 1 ± 0.5; without `drift` it is a mismatch."""
    scores = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        walk = np.cumsum(0.15 * rng.standard_normal((FRAMES, 4, 2)), 0)
        pixels = seen_from(thrown()) + walk + 0.2 * rng.standard_normal((FRAMES, 4, 2))
        path = table(tmp_path / f"{seed}.csv", pixels, sd="0.2")
        lines = path.read_text().splitlines()
        drift = lambda line: f"{line},{0.15 * (int(line.split(',')[0]) + 1) ** 0.5:.5f}"
        with_drift = tmp_path / f"drift{seed}.csv"
        with_drift.write_text("\n".join([lines[0] + ",drift", *map(drift, lines[1:])]))
        for file in (with_drift, path)[: 1 + (seed == 0)]:
            observation = gs.read_tracks(scene(), file)
            fit = gs.identify(scene(), list(UNKNOWNS), observation=observation, starts=1, known_numbers=False)
            assert fit.status == ("ok" if file == with_drift else "mismatch")
            if file == with_drift:
                scores += [(fit.unknowns[name].value - x) / fit.unknowns[name].std for name, x in TRUTH.items()]
    assert 0.1 < np.mean(np.square(scores)) < 2.5


def test_first_and_sliced_frames_have_the_drift_of_their_own(tmp_path):
    pixels = torch.tensor(seen_from(thrown()))
    drift = torch.linspace(0, 1, FRAMES).double()[:, None].expand(FRAMES, 4)
    points = gs.Points(scene().markers, pixels, 0.3, gs.Silhouettes.of(scene()), drift=drift)
    part = points.slice_frames(4, 9)
    assert torch.equal(part._correlated.modes, points._correlated.modes[4:9])  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize(
    "drift", [torch.zeros(FRAMES, 3), -torch.ones(FRAMES, 4), torch.full((FRAMES, 4), float("nan"))]
)
def test_a_wrong_drift_is_refused(drift):
    with pytest.raises(InputError, match="drift has shape"):
        gs.Points(scene().markers, torch.zeros(FRAMES, 4, 3), 1.0, drift=drift)


def test_a_wrong_drift_in_a_file_is_refused_with_its_line(tmp_path):
    path = tmp_path / "tracks.csv"
    path.write_text("frame,name,u,v,sd,drift\n0,a,1,1,1,0\n1,a,1,1,1,-2\n")
    with pytest.raises(InputError, match="line 3: drift is '-2'; expected a number of at least 0"):
        gs.read_tracks(scene(), path)
