"""Texts of targets."""

import numpy as np
import pytest
from tolerances import ROUNDING, assert_near

from gradsim.errors import InputError
from gradsim.video.calibration.target import check_targets, parse_target


def test_a_target_turned_about_x_is_upright_and_faces_along_minus_y():
    target = parse_target("aruco:4x4_50:7:12cm@1,2,3,90,0,0")
    corners = target.in_world(np.array([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.1]]))
    assert_near(corners - [1, 2, 3], np.array([[0, 0, 0], [0.1, 0, 0], [0, 0, 0.1], [0, -0.1, 0]]), ROUNDING)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("chess:10x7:25mm", "expected one of chessboard"),
        ("chessboard:10:25mm", "expected COLUMNSxROWS"),
        ("chessboard:10x7:25kg", "25kg"),
        ("charuco:7x5:3cm:4cm:4x4_50", "not smaller than its squares"),
        ("aruco:4x4_50:seven:1cm", "expected a whole number"),
        ("a4@1,2", "expected @X,Y,Z"),
        ("sheet:30cm", "sheet:WIDTHxHEIGHT"),
    ],
)
def test_a_wrong_text_says_what_is_expected(text, words):
    with pytest.raises(InputError, match=words):
        parse_target(text)


def test_a_board_and_a_marker_cannot_be_combined():
    with pytest.raises(InputError, match="only markers can be combined"):
        check_targets([parse_target("a4"), parse_target("aruco:4x4_50:7:12cm")])
