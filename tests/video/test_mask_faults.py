"""Masks that cannot be right, named by frame."""

import numpy as np
import pytest
from disc_clip import COUNT, clip, disc

from gradsim.video.mask_faults import mask_faults


@pytest.fixture(scope="module")
def exact():
    return clip()[1]


def test_good_masks_have_no_fault(exact):
    faults = mask_faults(exact)
    assert faults.words == [] and faults.every_frame == []
    noisy = exact + 0.05 * np.random.default_rng(0).standard_normal(exact.shape)
    assert mask_faults(noisy).words == []


def test_each_fault_is_named_with_its_frame(exact):
    masks = exact.copy()
    masks[4] = 0
    masks[7] = 1
    masks[10, :, 76:84] = 0  # a post in front of the disc, which is at column 80
    masks[13] = disc(15 + 6.5 * 13, 40 + 20 * np.sin(13 / 4), 14)
    faults = mask_faults(masks)
    assert faults.frames["empty"] == [4] and faults.frames["full"] == [7]
    assert faults.frames["pieces"] == [10] and faults.frames["jump"] == [10, 13]
    assert faults.every_frame == [4, 7, 10, 13] and faults.of_frame(10) == "pieces, jump"
    assert "the mask is empty in frame 4" in faults.words
    np.testing.assert_array_equal(faults.masks[13], masks[13] > 0.5)


def test_a_step_of_the_area_that_stays_is_a_jump_at_its_first_frame(exact):
    masks = np.stack([disc(60 + k, 60, 10 if k < 9 else 13) for k in range(16)])
    assert mask_faults(masks).frames["jump"] == [9]


def test_a_body_that_comes_in_and_leaves_has_no_fault():
    masks = np.stack([disc(-40 + 14 * k, 60) for k in range(18)])
    assert not masks[0].any() and not masks[-1].any()
    assert mask_faults(masks).words == []


def test_a_body_that_vanishes_in_the_middle_of_the_image_is_lost(exact):
    masks = exact.copy()
    masks[12:] = 0
    assert mask_faults(masks).words == [f"the mask is empty in frames 12 to {COUNT - 1}"]


def test_two_bodies_are_two_pieces(exact):
    masks = exact.copy()
    masks[2:6] = np.maximum(exact[2:6], exact[2:6, ::-1, ::-1])
    assert mask_faults(masks, bodies=2).frames["pieces"] == []
    assert mask_faults(masks, bodies=1).frames["pieces"] == [2, 3, 4, 5]


def test_a_second_piece_in_all_frames_is_a_fault_where_the_number_of_bodies_is_known(exact):
    masks = np.maximum(exact, exact[:, ::-1, ::-1])
    apart = [k for k in range(COUNT) if mask_faults(masks[k : k + 1]).frames["pieces"]]
    faults = mask_faults(masks, bodies=1)
    assert len(apart) > 0.8 * COUNT and faults.frames["pieces"] == apart
    assert "--background mog2" in faults.advice and "--mask grabcut:" in faults.advice
    assert mask_faults(masks, bodies=2).advice == mask_faults(masks, bodies=None).advice == ""


def test_a_fault_of_few_frames_is_cured_by_leaving_them_out(exact):
    masks = exact.copy()
    masks[4] = 0
    assert mask_faults(masks).advice == "another mask, or these frames left out (--frames '!7,!12')"


def test_frames_that_do_not_count_have_no_fault(exact):
    masks = exact.copy()
    masks[4] = 0
    assert mask_faults(masks, used=range(5, COUNT)).words == []


def test_a_thin_body_that_turns_has_no_fault():
    """Its area changes by a factor of two within a frame, and does so all the time."""
    width = 2 + 14 * np.abs(np.cos(0.9 * np.arange(16)))
    masks = np.zeros((16, 60, 60))
    for mask, w in zip(masks, width, strict=True):
        mask[20:40, 30 - round(w / 2) : 30 + round(w / 2) + 1] = 1
    assert mask_faults(masks).frames["jump"] == []
