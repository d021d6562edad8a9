"""False colours: near is bright, every direction has its hue, what stands still is white."""

import colorsys

import numpy as np

from gradsim.visualization import false_color


def test_near_is_brighter_than_far_and_nothing_is_black():
    shown = false_color.depth(np.array([[[1.0, 2.0, np.inf, 3.0]]]))[0, 0, :, 0].tolist()
    assert shown == [255, 152, 0, 50]  # 255 − 102.5 rounds to the even number
    assert (false_color.depth(np.full((1, 2, 2), np.inf)) == 0).all()


def test_normals_along_the_axes_are_red_green_and_blue():
    n = np.eye(3)[None, :, None, :]  # pixel k looks along axis k
    assert false_color.normals(n)[0, 0].tolist() == [[255, 128, 128], [128, 255, 128], [128, 128, 255]]


def test_flow_has_the_hue_of_its_direction_and_the_strength_of_its_speed():
    angles = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    motion = np.stack([np.cos(angles), np.sin(angles)])[None, :, None, :] * np.array([2.0] * 11 + [1.0])
    shown = false_color.flow(motion)[0, 0]
    for k, colour in enumerate(shown):
        expected = colorsys.hsv_to_rgb(k / 12, 0.5 if k == 11 else 1.0, 1.0)
        assert np.abs(colour / 255 - expected).max() < 0.003  # half a level, rounded
    assert (false_color.flow(np.zeros((1, 2, 3, 3))) == 255).all()


def test_parts_differ_and_nothing_is_black():
    shown = false_color.ids(np.array([[[-1, 0, 1, 2, 3]]]))[0, 0].astype(int)
    assert (shown[0] == 0).all()
    apart = np.abs(shown[1:, None] - shown[None, 1:]).max(-1)
    assert apart[~np.eye(4, dtype=bool)].min() > 60
