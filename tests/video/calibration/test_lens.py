"""Projection, checked against OpenCV's."""

import cv2
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from tolerances import ROUNDING, SOLVED, assert_near

from gradsim.errors import InputError
from gradsim.video.calibration.lens import make_lens, project, rotation, undistort

PINHOLE = np.array([610.0, 605.0, 331.0, 236.0, -0.2, 0.06, 1e-3, -2e-3, 0.02])
FISHEYE = np.array([310.0, 305.0, 331.0, 236.0, 0.05, -0.01, 0.004, -0.001])


@pytest.fixture
def points():
    return np.random.default_rng(0).uniform([-0.4, -0.3, 0.9], [0.4, 0.3, 1.5], (50, 3))


@pytest.mark.parametrize(("model", "numbers"), [("pinhole", PINHOLE), ("fisheye", FISHEYE)])
def test_pixels_are_those_of_opencv_plus_half_a_pixel(model, numbers, points):
    turn, t = np.array([0.2, -0.1, 0.3]), np.array([0.02, 0.01, 0.1])
    K = np.array([[numbers[0], 0, numbers[2] - 0.5], [0, numbers[1], numbers[3] - 0.5], [0, 0, 1]])
    if model == "pinhole":
        expected = cv2.projectPoints(points, turn, t, K, numbers[4:])[0]
    else:
        expected = cv2.fisheye.projectPoints(points[:, None], turn, t, K, numbers[4:])[0]
    R = Rotation.from_rotvec(turn).as_matrix()
    assert_near(project(model, numbers, R, t, points), expected.reshape(-1, 2) + 0.5, ROUNDING)


@pytest.mark.parametrize(("model", "numbers"), [("pinhole", PINHOLE), ("fisheye", FISHEYE)])
def test_undistort_is_the_inverse_of_projection(model, numbers, points):
    pixels = project(model, numbers, np.eye(3), np.zeros(3), points)
    assert_near(undistort(model, numbers, pixels), points[:, :2] / points[:, 2:], SOLVED)


def test_rotation_is_the_exponential_near_zero_and_far_from_it():
    vectors = np.array([[0.0, 0.0, 0.0], [1e-5, -2e-5, 1e-5], [0.3, 1.2, -0.7]])
    assert_near(rotation(vectors), Rotation.from_rotvec(vectors).as_matrix(), ROUNDING)


def test_unknowns_are_named_as_those_of_a_scene():
    lens = make_lens("pinhole", PINHOLE, ("square", "k3"))
    assert lens.names[:3] == ("camera.focal", "camera.centre.x", "camera.centre.y")
    assert lens.names[3:] == tuple(f"camera.distortion.{k}" for k in ("k1", "k2", "p1", "p2"))
    numbers = lens.numbers(lens.start)
    assert numbers[0] == numbers[1] == PINHOLE[:2].mean() and numbers[8] == PINHOLE[8]


def test_an_unknown_number_to_fix_lists_the_known_ones():
    with pytest.raises(InputError, match="--fix k4: a pinhole lens has no such number.*k3"):
        make_lens("pinhole", PINHOLE, ("k4",))
