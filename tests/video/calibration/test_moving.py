"""Poses of a camera that moves: corners projected by OpenCV, with noise."""

import cv2
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from gradsim.video.calibration.estimate import View
from gradsim.video.calibration.lens import COEFFICIENTS, make_lens
from gradsim.video.calibration.moving import pose_of, smooth_enough

K = np.array([[700.0, 0, 320], [0, 700, 240], [0, 0, 1]])
LENS = make_lens("pinhole", [700, 700, 320, 240, 0, 0, 0, 0, 0], ("focal", "centre", *COEFFICIENTS["pinhole"]))
BOARD = np.array([[x, y, 0] for y in np.linspace(-0.3, 0.3, 5) for x in np.linspace(-0.45, 0.45, 7)])
NOISE = 0.1


def corners(R, t, rng):
    pixels = cv2.projectPoints(BOARD, cv2.Rodrigues(R)[0], t, K, None)[0].reshape(-1, 2)
    return View(0, BOARD, pixels + NOISE * rng.standard_normal(pixels.shape), NOISE**2 * np.eye(2 * len(BOARD)), NOISE)


@pytest.mark.slow
def test_poses_have_their_stated_covariance():
    """eᵀ C⁻¹ e/6 of 40 poses is 1 ± 0.09."""
    rng, distances = np.random.default_rng(0), []
    before = None
    for k in range(40):
        R = Rotation.from_euler("xyz", [0.4 + 0.01 * k, 0.3, 0.01 * k]).as_matrix()
        t = np.array([0.1, -0.05, 2.0 + 0.01 * k])
        pose = pose_of(corners(R, t, rng), LENS, 640, before)
        before = pose.R[0], pose.t[0]
        error = np.concatenate([Rotation.from_matrix(R @ pose.R[0].T).as_rotvec(), t - pose.t[0]])
        distances.append(error @ np.linalg.solve(pose.covariance, error) / 6)
    assert 0.7 < np.mean(distances) < 1.4


def test_of_two_poses_that_explain_a_small_board_alike_the_one_that_continues_is_taken():
    """A board of 4 cm, 3 m away, tilted by 20 degrees: its mirrored tilt is off by a hundredth of a pixel."""
    rng, flips = np.random.default_rng(1), []
    small = 0.05 * BOARD
    R, t = Rotation.from_euler("xyz", [0.35, 0.0, 0.0]).as_matrix(), np.array([0.0, 0.0, 3.0])
    for _ in range(12):
        pixels = cv2.projectPoints(small, cv2.Rodrigues(R)[0], t, K, None)[0].reshape(-1, 2)
        view = View(0, small, pixels + NOISE * rng.standard_normal(pixels.shape), NOISE**2 * np.eye(70), NOISE)
        pose = pose_of(view, LENS, 640, (R, t))
        flips.append((R @ pose.R[0].T)[2, 2] < 0.9)
    assert not any(flips)


def test_the_noise_of_corners_is_at_least_what_boards_are_not_flat():
    """Corners without any noise: the pose is as good as with 0.03 px."""
    R, t = Rotation.from_euler("xyz", [0.4, 0.3, 0.1]).as_matrix(), np.array([0.1, -0.05, 2.0])
    pixels = cv2.projectPoints(BOARD, cv2.Rodrigues(R)[0], t, K, None)[0].reshape(-1, 2)
    exact = pose_of(View(0, BOARD, pixels, None, 1e-3), LENS, 640, None)
    noisy = pose_of(corners(R, t, np.random.default_rng(0)), LENS, 640, None)
    ratio = np.sqrt(np.diag(noisy.covariance) / np.diag(exact.covariance))
    assert np.abs(ratio / (noisy.noise[0] / 0.03) - 1).max() < 0.1


@pytest.mark.parametrize("wrong", [None, 3])
def test_a_pose_that_turns_away_from_both_neighbours_is_left_out(wrong):
    R = [Rotation.from_euler("x", 0.01 * k + (0.6 if k == wrong else 0)).as_matrix() for k in range(8)]
    assert np.flatnonzero(~smooth_enough(R, list(range(8)))).tolist() == ([] if wrong is None else [wrong])
