"""Outlines of sheets whose sides a lens bends, by OpenCV's lens."""

import numpy as np
from target_images import look, picture

from gradsim.video.calibration.lens import project
from gradsim.video.calibration.outline import fit_outline
from gradsim.video.calibration.sheet import detect_sheet
from gradsim.video.calibration.target import parse_target

K = np.array([[250.0, 0, 160.0], [0, 250.0, 120.0], [0, 0, 1]])
CORNERS = np.array([[-0.15, 0.1, 0], [0.15, 0.1, 0], [0.15, -0.1, 0], [-0.15, -0.1, 0]])


def sheet(k1):
    distortion = np.array([k1, 0.0, 0.0, 0.0, 0.0])
    R, t = look((15, 10, 5), (0.0, 0.0, 0.3))
    image = picture(np.full((400, 600), 225, np.uint8), 0.3, 0.2, K, distortion, R, t, (320, 240))
    true = project("pinhole", np.array([250.0, 250.0, 160.0, 120.0, *distortion]), R, t, CORNERS)
    return image, true


def test_corners_between_bent_sides_are_where_the_lens_puts_them():
    image, true = sheet(-0.25)
    outline = fit_outline(image, true + [[2, 1], [-2, 2], [1, -2], [2, 2]])
    assert outline.bend.max() > 2  # [px]: straight sides would be far off
    assert np.abs(outline.corners - true).max() < 0.12


def test_straight_sides_are_fitted_as_lines():
    image, true = sheet(0.0)
    outline = fit_outline(image, true + 1.5)
    assert (outline.bend == 0).all()
    off = (outline.corners - true).ravel()
    assert np.abs(off).max() < 0.03


def test_no_outline_where_there_is_no_edge():
    image = np.random.default_rng(0).normal(128, 2, (240, 320))
    assert fit_outline(image, np.array([[50.0, 50], [250, 50], [250, 200], [50, 200]])) is None


def test_a_sheet_that_a_lens_bends_is_detected():
    image, true = sheet(-0.25)
    view = detect_sheet(image, parse_target("sheet:30cmx20cm"), 0, "")
    assert np.abs(view.pixels - true).max() < 0.12
