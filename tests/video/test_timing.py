"""Copies, gaps and jumps of a film are found, and nothing else is."""

import numpy as np
import pytest

from gradsim import video as videos
from gradsim.errors import InputError
from gradsim.video.timing import Frames, align, centroids, repeats, suspect

FPS, COUNT = 20.0, 20


def film(columns, sigma=0.0, seed=0) -> np.ndarray:
    """A dark square whose left side is at these columns [px], with exact edges."""
    x = np.arange(48)
    cover = np.clip(x + 1 - np.asarray(columns)[:, None], 0, 1) * np.clip(np.asarray(columns)[:, None] + 9 - x, 0, 1)
    frames = np.repeat(1 - 0.8 * cover[:, None, :, None], 3, -1).repeat(16, 1)
    noise = sigma * np.random.default_rng(seed).standard_normal(frames.shape)
    return np.clip(np.rint(255 * (frames + noise)), 0, 255).astype(np.uint8)


def moving(count=COUNT, sigma=0.0) -> np.ndarray:
    return film(3 + 1.6 * np.arange(count), sigma)


def taken(frames, instants=None) -> videos.Video:
    return videos.Video(frames, (np.arange(len(frames)) if instants is None else np.array(instants)) / FPS, FPS)


@pytest.mark.parametrize("sigma", [0.0, 1 / 255, 4 / 255])
def test_held_pictures_are_copies(sigma):
    frames = moving(sigma=sigma)
    for k in (4, 9, 10):
        frames[k] = frames[k - 1]
    assert np.flatnonzero(repeats(frames)).tolist() == [4, 9, 10]


def test_copies_that_a_codec_touched_are_copies_still():
    frames = moving(sigma=2 / 255)
    frames[7] = frames[6]
    frames[7, :2, :4] += 1  # 1 % of the pixels
    assert np.flatnonzero(repeats(frames)).tolist() == [7]


@pytest.mark.parametrize("sigma", [0.0, 1 / 255])
def test_a_body_that_comes_to_rest_repeats_nothing(sigma):
    rest = 30 - 20 * np.maximum(0, 1 - np.arange(COUNT) / 8) ** 2
    assert not repeats(film(rest, sigma)).any()


def test_a_body_that_rests_and_is_pushed_again_repeats_nothing():
    path = np.concatenate([3 + 2.0 * np.arange(6), np.full(5, 13.0), 13 + 2.0 * np.arange(1, 8)])
    assert not repeats(film(path)).any()


def test_a_turning_point_between_two_frames_repeats_nothing():
    """Symmetric about the apex: both frames are the same picture, and the film has no noise."""
    t = np.arange(COUNT) - 9.5
    frames = film(30 - 0.2 * t**2)
    assert np.array_equal(frames[9], frames[10]) and not repeats(frames).any()


def test_gaps_of_the_clock_leave_instants_without_evidence():
    instants = [k for k in range(COUNT) if k not in (5, 12)]
    placed = align(taken(moving()[instants], instants), FPS)
    assert placed.dropped == [5, 12] and len(placed.counts) == COUNT and placed.counts.sum() == COUNT - 2
    assert np.array_equal(placed.picture[placed.counts], np.arange(COUNT - 2))
    assert placed.picture[5] == placed.picture[4]


def test_a_clean_film_counts_in_full():
    placed = align(taken(moving(sigma=1 / 255)), FPS)
    assert placed.counts.all() and np.array_equal(placed.picture, np.arange(COUNT))
    assert placed.notes() == {
        "frames_used": COUNT,
        "frames_dropped": [],
        "frames_repeated": [],
        "frames_excluded": [],
        "frames_suspected": [],
    }


def test_chosen_and_excluded_frames_keep_their_time():
    placed = align(taken(moving()), FPS, "2:10, !4,12:")
    assert np.flatnonzero(placed.counts).tolist() == [2, 3, 5, 6, 7, 8, 9, *range(12, COUNT)]
    assert placed.excluded == [0, 1, 4, 10, 11]


def test_a_picture_that_was_put_in_takes_no_time():
    frames = np.insert(moving(), 8, moving()[7], axis=0)
    placed = align(taken(frames), FPS, "-8")
    assert placed.counts.all() and np.array_equal(frames[placed.picture], moving())


def test_a_picture_that_is_missing_takes_time():
    frames = np.delete(moving(), 8, axis=0)
    placed = align(taken(frames), FPS, "+8")
    assert placed.dropped == [8] and np.array_equal(frames[placed.picture[placed.counts]], frames)


@pytest.mark.parametrize("choice", ["3", "x:2", "!", "!y", "1:2:3", "+-3"])
def test_words_that_are_none_are_refused_with_those_there_are(choice):
    with pytest.raises(InputError, match="A:B"):
        align(taken(moving()), FPS, choice)


@pytest.mark.parametrize("choice", ["!20", "-99", "0:21"])
def test_frames_that_the_film_lacks_are_refused(choice):
    with pytest.raises(InputError, match="frames 0 to"):
        align(taken(moving()), FPS, choice)


def test_a_film_of_one_picture_over_and_over_is_refused():
    noisy = moving(sigma=4 / 255)
    frames = np.repeat(noisy[:1], COUNT, axis=0)
    assert not repeats(frames).any()  # nothing ever changes: that is rest
    with pytest.raises(InputError, match="at least 2"):
        align(taken(noisy), FPS, "3:4")


def test_a_step_twice_as_far_is_suspected_with_the_way_out():
    masks = np.delete(1 - moving()[..., 0] / 255.0, 8, axis=0)
    (told,) = suspect(centroids(masks), all_of(masks))
    assert "before frame 8" in told and "2.0 times" in told and "+8" in told


def test_free_flight_and_a_bounce_are_not_suspected():
    t = np.arange(COUNT) / FPS
    flight = 20 + np.stack([40 * t, 60 * t - 0.5 * 300 * t**2], 1)
    bounce = np.stack([40 * t, 60 * np.abs(t - 0.42)], 1)
    for places in (flight, bounce):
        assert suspect(places, all_of(places)) == []


def test_a_copy_without_a_jump_after_it_is_suspected_to_have_been_put_in():
    frames = np.insert(moving(sigma=1 / 255), 8, moving(sigma=1 / 255)[7], axis=0)
    placed = align(taken(frames), FPS)
    assert placed.repeated == [8]
    (told,) = suspect(centroids(1 - frames[..., 0] / 255.0), placed)
    assert "frame 8" in told and "--frames=-8" in told


def all_of(pictures) -> Frames:
    return Frames(np.arange(len(pictures)), np.ones(len(pictures), bool))
