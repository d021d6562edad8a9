"""Discrepancy: error bars hold the truth at their rate where a linear model lacks a process with memory and numbers scatter."""

import math

import numpy as np
import pytest
import scipy

from gradsim.identification.uncertainty.discrepancy import (
    Process,
    Scores,
    between_recordings,
    combine,
    estimate_process,
)

FRAMES, STEP = 60, 0.05  # [s]
TRUTH = np.array([0.3, -0.2])
REPEATS = 60


def recording(rng, scale: float, time: float, scatter=(0.0, 0.0), fixed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """J (frames, channels, 2) and data = J (u + b) + δ + ε of one recording; `fixed`: each channel is of one number.

    δ is drawn by its covariance, not by the recursion that the filter uses.
    """
    t, channels = STEP * np.arange(FRAMES)[:, None], 2 if fixed else 5
    phase = rng.uniform(0, 2 * np.pi, (channels, 2))
    J = np.stack([np.sin(2.0 * t + phase[:, 0]), (t + 0.5) * np.cos(3.0 * t + phase[:, 1])], -1)
    J = np.abs(J) * np.eye(2) + 0.1 * np.eye(2) if fixed else J
    kernel = scale**2 * np.exp(-np.abs(t - t.T) / time) + 1e-12 * np.eye(FRAMES)
    delta = np.linalg.cholesky(kernel) @ rng.normal(size=(FRAMES, channels))
    return J, J @ (TRUTH + rng.normal(size=2) * scatter) + delta + rng.normal(size=(FRAMES, channels))


def scored(J: np.ndarray, data: np.ndarray, u: np.ndarray) -> Scores:
    """Scores at u, by symmetric roots from singular values of J."""
    roots, y = np.zeros((FRAMES, 2, 2)), np.zeros((FRAMES, 2))
    for k in range(FRAMES):
        _, sizes, axes = np.linalg.svd(J[k], full_matrices=False)
        roots[k] = axes.T @ np.diag(sizes) @ axes
        y[k] = axes.T @ np.diag(1 / sizes) @ axes @ J[k].T @ (data[k] - J[k] @ u)
    return Scores(STEP * np.arange(FRAMES), roots, y, np.arange(2), np.ones(2, bool))


def solved(parts) -> tuple[list[Scores], np.ndarray]:
    """Least squares by `numpy.linalg.lstsq`, and the scores there."""
    J, data = np.concatenate([p[0].reshape(-1, 2) for p in parts]), np.concatenate([p[1].ravel() for p in parts])
    u = np.linalg.lstsq(J, data, rcond=None)[0]
    return [scored(*part, u) for part in parts], u


def covered(count: int, **options) -> tuple[float, float]:
    """Shares of 95 % intervals that hold the truth: of the discrepancy, and of white noise (1/√A)."""
    rng, inside, white = np.random.default_rng(5), [], []
    for _ in range(REPEATS):
        parts, u = solved([recording(rng, **options) for _ in range(count)])
        answer = combine(parts, np.zeros((2, 2)), u, 1.0)
        wide = answer.std * scipy.stats.t.ppf(0.975, answer.degrees)
        inside.append(np.abs(u - TRUTH) < wide)
        white.append(
            np.abs(u - TRUTH)
            < 1.96 / np.sqrt(np.linalg.inv(np.linalg.inv(sum(p.information for p in parts))).diagonal())
        )
    return float(np.mean(inside)), float(np.mean(white))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "options"),
    [
        (1, {"scale": 3.0, "time": 0.4}),
        (4, {"scale": 3.0, "time": 0.4}),
        (6, {"scale": 2.0, "time": 0.3, "scatter": (0.5, 0.1)}),
        (3, {"scale": 0.01, "time": 0.3}),
    ],
)
def test_intervals_hold_the_truth_at_their_rate(count, options):
    """95 % of 120, ± 2 standard errors of 2 %; those of white noise hold it far less often where there is a discrepancy."""
    share, white = covered(count, **options)
    assert 0.91 <= share <= 0.99
    assert white < 0.75 or options["scale"] < 1


def test_scale_and_time_are_those_of_the_process():
    """Of 40 recordings of 60 frames: s to 10 %, τ to 25 %, the white variance to 25 %; derivatives keep their direction."""
    rng = np.random.default_rng(1)
    parts, _ = solved([recording(rng, 3.0, 0.4, fixed=True) for _ in range(40)])
    process = estimate_process(parts)
    assert process.scale == pytest.approx(3.0, rel=0.1) and process.time == pytest.approx(0.4, rel=0.25)
    assert process.white == pytest.approx(1.0, rel=0.25)


def test_the_likelihood_of_the_filter_is_that_of_the_covariance_matrix():
    """−2 ln L restricted = ln det K + ln det XᵀK⁻¹X + yᵀ K⁻¹ (y − X β̂), by dense matrices (Harville 1974)."""
    from gradsim.identification.uncertainty.discrepancy import _Filter

    rng = np.random.default_rng(2)
    (part,), _ = solved([recording(rng, 2.0, 0.3)])
    t = part.times
    dense = []
    for variance, time, white in ((4.0, 0.3, 1.0), (1.0, 0.1, 2.0), (9.0, 1.5, 0.3)):
        K = np.kron(variance * np.exp(-np.abs(t[:, None] - t) / time) + white * np.eye(FRAMES), np.eye(2))
        X, y = part.roots.reshape(-1, 2), part.y.ravel()
        normal = X.T @ np.linalg.solve(K, X)
        beta = np.linalg.solve(normal, X.T @ np.linalg.solve(K, y))
        value = np.linalg.slogdet(K)[1] + np.linalg.slogdet(normal)[1] + y @ np.linalg.solve(K, y - X @ beta)
        dense.append(value - _Filter.of([part]).deviance(variance, time, white))
    assert np.ptp(dense) < 1e-8 * abs(dense[0])  # a constant apart


def test_scatter_between_recordings_is_found_and_none_is_made_up():
    """Of 40 recordings: 0.5 of the first number to 25 %, none of the second; with none, less than the error of one recording."""
    rng = np.random.default_rng(3)
    parts, _ = solved([recording(rng, 1.0, 0.3, (0.5, 0.0)) for _ in range(40)])
    process = estimate_process(parts)
    scatter = np.sqrt(between_recordings(parts, process, 2).diagonal())
    assert scatter[0] == pytest.approx(0.5, rel=0.25) and scatter[1] < 0.03
    parts, _ = solved([recording(rng, 1.0, 0.3) for _ in range(40)])
    alone = np.sqrt(np.linalg.inv(parts[0].information).diagonal())
    assert (np.sqrt(between_recordings(parts, estimate_process(parts), 2).diagonal()) < alone).all()


def test_one_recording_shows_no_scatter():
    (part,), _ = solved([recording(np.random.default_rng(4), 1.0, 0.3)])
    assert not between_recordings([part], Process(1.0, 0.3, 1.0), 2).any()


def test_white_residuals_of_unit_size_give_the_bars_of_the_fisher_information():
    """M_k = A_k without a discrepancy, so cov = A⁻¹."""
    parts, u = solved([recording(np.random.default_rng(6), 1e-3, 0.3)])
    noise = parts[0].noise(Process(0.0, 0.3, 1.0))
    assert noise == pytest.approx(parts[0].information, rel=1e-12)
    assert math.isfinite(u.sum())


def test_numbers_that_the_data_leave_open_have_no_finite_error():
    """Two numbers of which only the sum acts: both are open, a third is not."""
    rng = np.random.default_rng(8)
    J, data = recording(rng, 1.0, 0.3)
    (part,), u = solved([(J, data)])
    mix = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) / np.array([np.sqrt(2), 1.0])[:, None]
    roots = mix.T @ part.roots @ mix  # of J @ mix, whose rows have length 1
    three = Scores(part.times, roots, part.y @ mix, np.arange(3), np.ones(3, bool))
    answer = combine([three], np.zeros((3, 3)), np.append(u, 0.0), 1.0)
    assert np.isinf(answer.std[:2]).all() and np.isfinite(answer.std[2])
