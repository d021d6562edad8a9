"""Contact sheets: every picture stands in its place, with its words below."""

import numpy as np

from gradsim.visualization.sheets import GAP, evenly, sheet


def test_images_stand_row_by_row_and_whole():
    images = np.random.default_rng(0).integers(0, 255, (5, 20, 30, 3), np.uint8)
    page = sheet(images, 3, ["a", "b", "c", "d", ""])
    below = 15  # of letters at their least height
    assert page.shape == (GAP + 2 * (20 + below + GAP), GAP + 3 * (30 + GAP), 3)
    for k, image in enumerate(images):
        y, x = GAP + k // 3 * (20 + below + GAP), GAP + k % 3 * (30 + GAP)
        assert np.array_equal(page[y : y + 20, x : x + 30], image)
        words = page[y + 20 : y + 20 + below, x : x + 30]
        assert (words.min() < 128) == (k < 4)


def test_frames_at_equal_distances_have_both_ends():
    assert evenly(45, 5) == [0, 11, 22, 33, 44] and evenly(9, 1) == [0]
