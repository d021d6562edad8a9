"""Least squares on corners that OpenCV projects, with known noise."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from gradsim.errors import InputError
from gradsim.video.calibration.detect import grid_points
from gradsim.video.calibration.estimate import View, calibrate
from gradsim.video.calibration.lens import make_lens
from gradsim.video.calibration.shared_errors import SharedErrors
from gradsim.video.calibration.start import initial_poses

TRUTH = np.array([610.0, 605.0, 331.0, 236.0, -0.2, 0.06, 1e-3, -2e-3, 0.02])
NOISE = 0.1  # [px]
FLAT = grid_points(8, 6, 0.03).reshape(-1, 2)
POINTS = np.column_stack([FLAT, np.zeros(len(FLAT))])


def views(seed, count=6):
    """Views with noise, and their true rotation vectors and translations."""
    rng, result, poses = np.random.default_rng(seed), [], []
    K = np.array([[TRUTH[0], 0, TRUTH[2]], [0, TRUTH[1], TRUTH[3]], [0, 0, 1]])
    for k in range(count):
        turn = Rotation.from_euler("xyz", [np.pi, 0, 0] + rng.uniform(-0.5, 0.5, 3)).as_rotvec()
        shift = np.array([*rng.uniform(-0.05, 0.05, 2), rng.uniform(0.35, 0.5)])
        pixels = cv2.projectPoints(POINTS, turn, shift, K, TRUTH[4:])[0][:, 0]
        result.append(View(k, POINTS, pixels + rng.normal(0, NOISE, pixels.shape), expected_noise=NOISE))
        poses.append((turn, shift))
    return result, poses


def fit(observed, fixed=()):
    numbers = [640, 640, 320, 240, 0, 0, 0, 0, 0 if "k3" not in fixed else TRUTH[8]]
    return calibrate(*initial_poses(observed, make_lens("pinhole", numbers, fixed), 640))


def squared_error(observed, poses) -> float:
    """eᵀ C⁻¹ e of the camera and its first pose."""
    result = fit(observed)
    mean, covariance = result.camera(0)
    turn = Rotation.from_rotvec(poses[0][0]) * Rotation.from_matrix(result.R[0]).inv()
    off = mean - np.concatenate([TRUTH, turn.as_rotvec(), poses[0][1]])
    return float(off @ np.linalg.solve(covariance, off))


@pytest.mark.slow
def test_errors_have_the_stated_covariance():
    """Over 6 cameras, eᵀ C⁻¹ e of 15 numbers has the mean 15 and the sd √(30/6)."""
    squares = [squared_error(*views(seed)) for seed in range(6)]
    assert np.mean(squares) == pytest.approx(15, abs=3 * np.sqrt(30 / 6))


def shaken(seed, share=0.25):
    """Views whose corners have an error besides, correlated over a board's size, of a share of the variance; and the poses."""
    observed, poses = views(seed)
    rng = np.random.default_rng([seed, 1])
    for k, view in enumerate(observed):
        covariance = NOISE**2 * SharedErrors((share,), (1.0,)).covariance(view.pixels)
        off = rng.multivariate_normal(np.zeros(len(covariance)), covariance).reshape(-1, 2)
        observed[k] = replace(view, pixels=view.pixels + off)
    return observed, poses


def test_errors_that_corners_share_are_in_the_covariance():
    """Over 6 cameras, eᵀ C⁻¹ e of 15 numbers has the mean 15 and the sd √(30/6)."""
    squares = [squared_error(*shaken(seed)) for seed in range(6)]
    assert np.mean(squares) == pytest.approx(15, abs=3 * np.sqrt(30 / 6))


def test_independent_errors_show_hardly_anything_that_corners_share():
    """Of 6 views, 420 degrees of freedom: a tenth is between none and the quarter of other corners."""
    assert fit(views(3)[0]).shared.variance < 0.1 < fit(shaken(3)[0]).shared.variance


def test_the_noise_of_each_view_is_estimated():
    observed, _ = views(3)
    rng = np.random.default_rng(9)
    pixels = observed[2].pixels + rng.normal(0, 0.5, observed[2].pixels.shape)
    observed[2] = replace(observed[2], pixels=pixels)
    noise = fit(observed).noise
    assert noise[2] == pytest.approx(0.51, rel=0.25) and np.delete(noise, 2) == pytest.approx(NOISE, rel=0.3)


def test_wrong_corners_are_left_out_and_change_nothing():
    observed, _ = views(5)
    clean = fit(observed)
    pixels = observed[1].pixels.copy()
    pixels[[3, 17]] += [[9.0, -4.0], [-2.0, 6.0]]
    result = fit([observed[0], replace(observed[1], pixels=pixels), *observed[2:]])
    assert np.flatnonzero(~result.used[1]).tolist() == [3, 17]
    sd = np.sqrt(np.diag(clean.covariance)[:9])
    assert (np.abs(result.unknowns - clean.unknowns) < sd).all()


def test_a_view_that_is_wrong_as_a_whole_is_dropped():
    observed, _ = views(6)
    bad = replace(observed[4], pixels=observed[4].pixels + np.random.default_rng(1).normal(0, 8, (len(POINTS), 2)))
    assert fit([*observed[:4], bad, observed[5]]).dropped == [4]


@pytest.mark.slow
def test_a_prior_with_a_covariance_gives_the_estimate_of_all_views_at_once():
    """Two batches one after the other are as good as both together (Gaussian, linear to 1 %)."""
    observed, _ = views(7, 10)
    first, both = fit(observed[:6], ("k3",)), fit(observed, ("k3",))
    mean, covariance = first.camera(0)
    names = first.lens.names
    prior = (names, mean[: len(names)], covariance[: len(names), : len(names)])
    lens = make_lens("pinhole", first.numbers, ("k3",), prior)
    second = calibrate(*initial_poses(observed[6:], lens, 640))
    sd = np.sqrt(np.diag(both.covariance)[: len(names)])
    assert (np.abs(second.unknowns - both.unknowns) < 0.3 * sd).all()
    assert np.sqrt(np.diag(second.covariance)[: len(names)]) == pytest.approx(sd, rel=0.15)


def test_views_that_all_face_the_camera_do_not_determine_the_focal_length():
    observed, _ = views(8, 1)
    K = np.array([[TRUTH[0], 0, 320.0], [0, TRUTH[0], 240.0], [0, 0, 1]])
    pixels = cv2.projectPoints(POINTS, np.array([np.pi, 0, 0]), np.array([0, 0, 0.4]), K, None)[0][:, 0]
    lens = make_lens("pinhole", [640, 640, 320, 240, 0, 0, 0, 0, 0], ("square", "centre", "k1", "k2", "p1", "p2", "k3"))
    with pytest.raises(InputError, match="do not determine the camera"):
        calibrate(*initial_poses([replace(observed[0], pixels=pixels)], lens, 640))


@pytest.mark.slow
def test_a_fisheye_is_calibrated_from_corners_of_opencv():
    """150° across; the start has no coefficients and a focal length that is 20 % off."""
    truth = np.array([220.0, 221.0, 331.0, 236.0, 0.03, -0.01, 0.004, -0.001])
    K = np.array([[truth[0], 0, truth[2]], [0, truth[1], truth[3]], [0, 0, 1]])
    rng, observed = np.random.default_rng(0), []
    for k in range(10):
        turn = Rotation.from_euler("xyz", [np.pi, 0, 0] + rng.uniform(-0.6, 0.6, 3)).as_rotvec()
        shift = np.array([*rng.uniform(-0.15, 0.15, 2), rng.uniform(0.12, 0.25)])
        pixels = cv2.fisheye.projectPoints(POINTS[:, None], turn, shift, K, truth[4:])[0][:, 0]
        observed.append(View(k, POINTS, pixels + rng.normal(0, NOISE, pixels.shape), expected_noise=NOISE))
    lens = make_lens("fisheye", [265, 265, 320, 240, 0, 0, 0, 0])
    result = calibrate(*initial_poses(observed, lens, 640))
    off = result.unknowns - truth
    assert result.corner_rms < 2 * NOISE
    assert off @ np.linalg.solve(result.covariance[:8, :8], off) < 26.1  # 0.999 quantile of χ² with 8 degrees
