"""Corners of targets, from images that OpenCV draws, against its projection."""

import re

import cv2
import numpy as np
import pytest
from target_images import charuco, chessboard, look, marker, picture

from gradsim.video.calibration.detect import detect, explain_absence
from gradsim.video.calibration.lens import project
from gradsim.video.calibration.target import parse_target

K = np.array([[330.0, 0, 163.0], [0, 332.0, 118.0], [0, 0, 1]])
DISTORTION = np.array([-0.2, 0.05, 1e-3, -5e-4, 0.0])
SIZE = (320, 240)
NUMBERS = np.array([K[0, 0], K[1, 1], K[0, 2], K[1, 2], *DISTORTION])
SCENES = {  # texture, width and height [m], distance [m]
    "chessboard:8x5:20mm": (chessboard(8, 5), 0.2, 0.14, 0.26),
    "charuco:6x4:30mm:22.5mm:4x4_50": (charuco(6, 4), 0.24, 0.18, 0.28),
    "aruco:4x4_50:7:100mm": (marker(cv2.aruco.DICT_4X4_50, 7), 0.15, 0.15, 0.3),
    "apriltag:36h11:3:100mm": (marker(cv2.aruco.DICT_APRILTAG_36h11, 3), 0.15, 0.15, 0.3),
    "a4": (np.full((420, 594), 230, np.uint8), 0.297, 0.21, 0.5),
}


def image(text, turn=(25, -20, 10), seed=0):
    texture, width, height, distance = SCENES[text]
    R, t = look(turn, (0.01, -0.01, distance))
    return picture(texture, width, height, K, DISTORTION, R, t, SIZE, seed), R, t


@pytest.mark.parametrize("text", SCENES)
def test_corners_are_within_a_twentieth_of_a_pixel(text):
    gray, R, t = image(text)
    view = detect(gray, [parse_target(text)])
    expected = project("pinhole", NUMBERS, R, t, view.points)
    off = view.pixels - expected
    assert np.abs(off).max() < 0.05
    assert off.ravel() @ np.linalg.solve(view.covariance, off.ravel()) / off.size < 2.5  # the stated noise, squared


@pytest.mark.parametrize("roll", [0, 100, 180, -75])
def test_a_board_of_odd_and_even_sides_shows_which_side_is_up(roll):
    gray, R, t = image("chessboard:8x5:20mm", (10, 10, roll))
    view = detect(gray, [parse_target("chessboard:8x5:20mm")])
    assert np.abs(view.pixels - project("pinhole", NUMBERS, R, t, view.points)).max() < 0.1


def test_corners_are_several_times_better_than_those_of_opencv():
    gray, R, t = image("chessboard:8x5:20mm")
    view = detect(gray, [parse_target("chessboard:8x5:20mm")])
    expected = project("pinhole", NUMBERS, R, t, view.points)
    start = np.ascontiguousarray((expected - 0.5)[:, None], np.float32)
    theirs = cv2.cornerSubPix(gray, start, (4, 4), (-1, -1), (3, 100, 1e-6))[:, 0] + 0.5
    rms = lambda pixels: np.sqrt(np.mean((pixels - expected) ** 2))
    assert rms(view.pixels) < 0.5 * rms(theirs)


def test_a_board_with_other_squares_is_named():
    gray, _, _ = image("chessboard:8x5:20mm")
    assert "a chessboard of 8x5 squares is in view" in explain_absence(gray, [parse_target("chessboard:9x6:20mm")])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("charuco:3x3:30mm:22.5mm:4x4_50", "has 4 only"),
        ("aruco:4x4_50:40:3cm", "markers 0, 1.* are in view"),
        ("aruco:6x6_50:1:3cm", "of the dictionary 4x4_1000 are in view"),
    ],
)
def test_other_markers_are_named(text, words):
    gray, _, _ = image("charuco:6x4:30mm:22.5mm:4x4_50")
    assert re.search(words, explain_absence(gray, [parse_target(text)]))


def test_an_empty_image_has_no_target():
    empty = np.full((240, 320), 128, np.uint8)
    assert all(detect(empty, [parse_target(text)]) is None for text in SCENES)
