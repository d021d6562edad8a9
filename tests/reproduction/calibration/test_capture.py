"""Images of boards by OpenCV's lens, and a camera from them."""

import cv2
import numpy as np
import pytest

from gradsim_reproduction.calibration.board_images import CameraTruth
from gradsim_reproduction.calibration.capture import calibrate_one, draw_camera, summary


def test_rays_of_samples_are_those_that_opencv_projects_back():
    camera = CameraTruth(
        (64, 48), np.array([[70.0, 0, 31.0], [0, 71.0, 24.0], [0, 0, 1]]), np.array([-0.2, 0.05, 1e-3, 0, 0])
    )
    rays = camera.rays()
    points = np.concatenate([rays, np.ones((*rays.shape[:2], 1))], -1).reshape(-1, 3)
    pixels = cv2.projectPoints(points, np.zeros(3), np.zeros(3), camera.K, camera.distortion)[0].reshape(192, 256, 2)
    expected = np.stack(np.meshgrid((np.arange(256) + 0.5) / 4 - 0.5, (np.arange(192) + 0.5) / 4 - 0.5), -1)
    assert np.abs(pixels - expected).max() < 1e-3  # of a spline with nodes 8 px apart


@pytest.mark.slow
def test_a_camera_is_within_its_error_bars():
    record = calibrate_one((0, 0))
    assert record["views"] == len(draw_camera(0, 0)[1])
    row = summary([record])
    assert row["lens_mahalanobis"] < 2 and row["pose_mahalanobis"] < 2.2 and row["corner_error_px"] < 0.05
