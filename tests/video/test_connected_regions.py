"""Regions that stay, and those of one frame alone."""

import numpy as np

from gradsim.video.connected_regions import label_regions, remove_flashes


def bodies(*boxes: tuple[int, int, int, int], size=(40, 80)) -> np.ndarray:
    """A mask of boxes (row, column, height, width)."""
    mask = np.zeros(size, bool)
    for row, column, height, width in boxes:
        mask[row : row + height, column : column + width] = True
    return mask


def test_what_appears_for_one_frame_is_removed_and_what_moves_stays():
    moving = [(10, 5 + 12 * k, 6, 6) for k in range(6)]  # two widths a frame: boxes never overlap
    clean = np.stack([bodies(box) for box in moving])
    flashes = clean.copy()
    flashes[2] |= bodies((30, 60, 8, 8))
    flashes[0] |= bodies((0, 70, 5, 5))
    np.testing.assert_array_equal(remove_flashes(flashes), clean)


def test_a_flash_next_to_the_body_is_removed_since_the_body_pairs_with_itself():
    clean = np.stack([bodies((10, 20 + k, 10, 10)) for k in range(4)])
    flashes = clean.copy()
    flashes[1] |= bodies((10, 33, 3, 3))
    np.testing.assert_array_equal(remove_flashes(flashes), clean)


def test_the_nearest_pairs_although_another_is_more_alike():
    """A body that grows, and a flash that is as large as the body in the next frame."""
    clean = np.stack([bodies((5, 20, 6 + k, 6 + k)) for k in range(5)])
    flashes = clean.copy()
    flashes[2] |= bodies((25, 40, 9, 9))
    np.testing.assert_array_equal(remove_flashes(flashes), clean)


def test_what_stays_for_two_frames_and_what_is_in_one_frame_of_one_stay():
    masks = np.stack([bodies(), bodies((5, 5, 4, 4)), bodies((5, 6, 4, 4)), bodies()])
    np.testing.assert_array_equal(remove_flashes(masks), masks)
    np.testing.assert_array_equal(remove_flashes(masks[1:2]), masks[1:2])


def test_two_bodies_that_pass_each_other_stay():
    masks = np.stack([bodies((5, 10 + 6 * k, 6, 6), (20, 60 - 6 * k, 9, 9)) for k in range(8)])
    np.testing.assert_array_equal(remove_flashes(masks), masks)


def test_regions_are_sorted_by_area():
    labels, regions = label_regions(bodies((0, 0, 2, 3), (10, 10, 5, 5)))
    assert [r.area for r in regions] == [25, 6] and (labels == regions[0].label).sum() == 25
