"""Cables of recordings: numbers are recovered from films of the law itself, and figures are what they say."""

import json

import numpy as np
import pytest
import torch
from checks import error

from gradsim.errors import InputError
from gradsim_reproduction.reality import cable_bands as bands
from gradsim_reproduction.reality import cable_model as cables
from gradsim_reproduction.reality.cable_recordings import ENDS, FPS, GIVEN, Recording, load
from gradsim_reproduction.reality.reality import fit_cable, reality, still, straight

TRUTH = (0.1, 0.02, 0.06, 4e-3, 1.0, -0.7)
MARKERS, FRAMES = 7, 40


def _coordinates(numbers) -> torch.Tensor:
    u = torch.tensor(numbers, dtype=torch.float64)
    return torch.cat([u[: cables.POSITIVE].log(), u[cables.POSITIVE :]])


def _film(name: str, seed: int, frames: int = FRAMES) -> Recording:
    """A cable of `TRUTH` from an arc, while its ends move askew."""
    rng = np.random.default_rng(seed)
    angle = np.linspace(-1.1, 1.1, MARKERS)
    arc = 0.3 * np.stack([np.sin(angle), 0.2 * np.cos(2 * angle), 1 - np.cos(angle)], 1)
    t = np.arange(frames)[:, None, None] / FPS
    first, last = rng.normal(0, 0.3, (2, 3))
    share = np.linspace(0, 1, MARKERS)[:, None]
    x = arc + t * ((1 - share) * first + share * last) + 0.05 * np.sin(15 * t) * share**2
    run = cables.CableRun(Recording(name, x), frames)
    x[GIVEN:, ENDS:-ENDS] = run.predict(_coordinates(TRUTH)).numpy()
    return Recording(name, x)


@pytest.fixture(scope="module")
def runs():
    return [cables.CableRun(_film(f"train_{seed}", seed), FRAMES) for seed in (1, 2)]


@pytest.mark.slow
def test_numbers_are_recovered_from_films_of_their_law(runs):
    """From the usual start, off by factors of 0.5 to 1.7 and 1/m; residuals vanish at the truth, so steps converge fast."""
    u, _ = cables.fit(runs, _coordinates(cables.START), 12)
    assert (u - _coordinates(TRUTH)).abs().max() < 1e-9


def test_sensitivities_are_those_of_central_differences(runs):
    u, step = _coordinates(TRUTH) + 0.05, 1e-4
    predicted, slopes = runs[0].sensitivity(u)
    assert error(predicted, runs[0].predict(u)) < 1e-9
    for k in range(len(u)):
        e = torch.zeros_like(u)
        e[k] = step
        assert error(slopes[k], (runs[0].predict(u + e) - runs[0].predict(u - e)) / (2 * step)) < 10 * step**2


def test_scores_of_frames_are_those_of_the_loss(runs):
    """Σ A_t^{1/2} y_t is the descent of the loss by the numbers, and Σ A_t its Gauss–Newton matrix."""
    u = _coordinates(TRUTH) + 0.02
    predicted, slopes = (y.detach() for y in runs[0].sensitivity(u))
    residual, scores = predicted - runs[0].target, bands.scores_of(predicted - runs[0].target, slopes)
    step = 1e-5
    for j, k in enumerate(bands.TOLD):
        e = torch.zeros_like(u)
        e[k] = step
        ahead, behind = (cables.loss(runs[0].predict(u + sign * e) - runs[0].target) for sign in (1, -1))
        assert scores.score[j] == pytest.approx(-(ahead - behind) / (2 * step), rel=1e-4)
    J, weight = slopes[bands.TOLD].flatten(1), 1 / (1 + (residual.flatten() / cables.OUTLIER) ** 2)
    assert error(torch.tensor(scores.information), (J * weight) @ J.T) < 1e-9


def test_bands_are_wider_by_what_numbers_may_be_off(runs):
    """Of the law itself with white noise of 2 mm in 684 coordinates: its size is known to 3 %, so 95 % ± 1.5 % are inside."""
    rng = np.random.default_rng(7)
    noisy = []
    for run in runs:
        x = run.recording.x.copy()
        x[GIVEN:, ENDS:-ENDS] += rng.normal(0, 2e-3, x[GIVEN:, ENDS:-ENDS].shape)
        noisy.append(cables.CableRun(Recording(run.recording.name, x), FRAMES))
    fitted = bands.discrepancy_of(noisy, _coordinates(TRUTH))
    predicted, slopes = (y.detach() for y in runs[0].sensitivity(_coordinates(TRUTH)))
    wide = bands.half_width(fitted, slopes)
    truth = runs[0].target.numpy() + rng.normal(0, 2e-3, (50, *predicted.shape))
    assert (wide > 1.8 * 2e-3).all()  # that of the noise or more
    assert np.mean(np.abs(predicted.numpy() - truth) <= wide) == pytest.approx(0.95, abs=0.02)


def test_vertices_between_markers_leave_markers_where_they_are():
    x = np.random.default_rng(0).normal(0, 0.02, (MARKERS, 3)) + np.arange(MARKERS)[:, None] * [0.1, 0, 0]
    points, markers = cables.subdivide(x)
    assert np.abs(points[markers] - x).max() < 1e-15
    assert np.diff(markers).tolist() == [1, *[cables.PARTS] * (MARKERS - 3), 1]  # ends have no vertex between


def test_the_loss_is_half_a_square_near_zero_and_a_logarithm_far_away():
    scale = cables.OUTLIER
    near, far = torch.tensor([1e-3 * scale]).double(), torch.tensor([1e3 * scale, float("nan")]).double()
    assert abs(cables.loss(near) / (0.5 * near.square().item()) - 1) < 1e-6
    exact = scale**2 * (np.log(1e3) + 0.5 * np.log1p((cables.FAR / scale) ** 2))
    assert abs(cables.loss(far) / exact - 1) < 1e-6


def test_trivial_predictors_are_exact_for_what_they_assume():
    shares = np.array([0.0, 0.04, 0.2, 0.5, 0.7, 0.95, 1.0])[:, None]
    first, last = np.array([0.0, 0.1, 0.2]), np.array([0.9, -0.2, 0.4])
    x = first + shares * (last - first) + np.arange(20)[:, None, None] * np.array([0.01, -0.02, 0.005])
    recording = Recording("eval_1", x)
    assert np.abs(straight(recording, 20) - recording.free).max() < 1e-15
    quiet = Recording("eval_2", np.repeat(x[:1], 20, 0))
    assert np.abs(still(quiet, 15) - quiet.free[:13]).max() == 0
    assert np.abs(still(recording, 20) - recording.free).max() > 0.1


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Recordings of three cables of one law, 25 frames each."""
    (tmp_path / "cables").mkdir()
    names = ("train_1", "train_2", "eval_3", "eval_4")
    films = {name: _film(name, seed, 25).x for seed, name in enumerate(names)}
    for cable in (1, 2, 3):
        np.savez(tmp_path / "cables" / f"cable{cable}.npz", **films)
    monkeypatch.setenv("GRADSIM_REAL_DATA", str(tmp_path))
    return tmp_path


def test_figures_are_errors_of_what_was_predicted(folder):
    record = fit_cable((1, True))
    assert record["training"] == ["train_1", "train_2"]
    assert record["error_mm"] < 0.2 * record["still_mm"]  # two steps of the fit
    off = [np.abs(p - r.free[::5]) for p, r in zip(record["predictions"], load(1)["eval"], strict=True)]
    assert [1e3 * y.mean() for y in off] == pytest.approx(list(record["run_error_mm"].values()), rel=0.2)  # every fifth
    assert np.mean(np.array(off) <= 1e-3 * record["band_mm"]) == pytest.approx(record["coverage"], abs=0.05)
    assert np.mean(list(record["run_error_mm"].values())) == pytest.approx(record["error_mm"])
    assert np.mean(record["axis_error_mm"]) == pytest.approx(record["error_mm"])


@pytest.mark.slow  # draws three plots
def test_the_league_runs_from_recordings_to_figures(folder, tmp_path):
    result = reality(tmp_path / "out", quick=True)
    figures = result["figures"]
    worst = max(figures[f"cable{k}_error_mm"]["value"] for k in (1, 2, 3))
    assert figures["cable_error_mm"]["value"] == worst == result["rows"][0]["error_mm"]  # all three are one cable
    written = json.loads((tmp_path / "out" / "result.json").read_text())
    assert written["figures"] == figures
    assert all((tmp_path / "out" / image["file"]).is_file() for image in written["images"])


def test_recordings_that_cannot_be_read_are_refused(folder):
    np.savez(folder / "cables" / "cable1.npz", train_1=np.zeros((20, 7, 2)))
    with pytest.raises(InputError, match=r"`train_1` of .*cable1.npz has shape \(20, 7, 2\)"):
        load(1)
    (folder / "cables" / "cable2.npz").unlink()
    with pytest.raises(InputError, match="cable2.npz does not exist; set GRADSIM_REAL_DATA"):
        load(2)
