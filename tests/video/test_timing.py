"""Repeated, missing and inserted frames of a video are detected, and nothing else is."""

import numpy as np
import pytest

from gradsim import video as videos
from gradsim.errors import InputError
from gradsim.video.timing import (
    NOISY_CHANGE_SHARE,
    NOISY_ROWS,
    SURELY_NOISY_SHARE,
    FrameAlignment,
    FrameChanges,
    align_frames,
    centroids,
    repeated_frames,
    suspicious_steps,
)

FPS, COUNT = 20.0, 20


def render(columns, sigma=0.0, seed=0) -> np.ndarray:
    """A dark square whose left side is at these columns [px], with exact edges."""
    x = np.arange(48)
    cover = np.clip(x + 1 - np.asarray(columns)[:, None], 0, 1) * np.clip(np.asarray(columns)[:, None] + 9 - x, 0, 1)
    frames = np.repeat(1 - 0.8 * cover[:, None, :, None], 3, -1).repeat(16, 1)
    noise = sigma * np.random.default_rng(seed).standard_normal(frames.shape)
    return np.clip(np.rint(255 * (frames + noise)), 0, 255).astype(np.uint8)


def moving(count=COUNT, sigma=0.0) -> np.ndarray:
    return render(3 + 1.6 * np.arange(count), sigma)


def taken(frames, instants=None) -> videos.Video:
    return videos.Video(frames, (np.arange(len(frames)) if instants is None else np.array(instants)) / FPS, FPS)


@pytest.mark.parametrize("sigma", [0.0, 1 / 255, 4 / 255])
def test_repeated_frames_are_copies(sigma):
    frames = moving(sigma=sigma)
    for k in (4, 9, 10):
        frames[k] = frames[k - 1]
    assert np.flatnonzero(repeated_frames(frames)).tolist() == [4, 9, 10]


def test_copies_changed_by_a_codec_are_still_copies():
    frames = moving(sigma=2 / 255)
    frames[7] = frames[6]
    frames[7, :2, :4] += 1  # 1 % of the pixels
    assert np.flatnonzero(repeated_frames(frames)).tolist() == [7]


@pytest.mark.parametrize("sigma", [0.0, 1 / 255])
def test_a_body_that_comes_to_rest_repeats_nothing(sigma):
    rest = 30 - 20 * np.maximum(0, 1 - np.arange(COUNT) / 8) ** 2
    assert not repeated_frames(render(rest, sigma)).any()


def test_a_body_that_rests_and_is_pushed_again_repeats_nothing():
    path = np.concatenate([3 + 2.0 * np.arange(6), np.full(5, 13.0), 13 + 2.0 * np.arange(1, 8)])
    assert not repeated_frames(render(path)).any()


def test_a_turning_point_between_two_frames_repeats_nothing():
    """Symmetric about the apex: both frames are the same image, and the video has no noise."""
    t = np.arange(COUNT) - 9.5
    frames = render(30 - 0.2 * t**2)
    assert np.array_equal(frames[9], frames[10]) and not repeated_frames(frames).any()


def test_gaps_of_the_clock_leave_instants_without_observations():
    instants = [k for k in range(COUNT) if k not in (5, 12)]
    alignment = align_frames(taken(moving()[instants], instants), FPS)
    assert alignment.dropped == [5, 12] and len(alignment.used) == COUNT and alignment.used.sum() == COUNT - 2
    assert np.array_equal(alignment.index[alignment.used], np.arange(COUNT - 2))
    assert alignment.index[5] == alignment.index[4]


def test_all_frames_of_a_clean_video_are_used():
    alignment = align_frames(taken(moving(sigma=1 / 255)), FPS)
    assert alignment.used.all() and np.array_equal(alignment.index, np.arange(COUNT))
    assert alignment.notes() == {
        "frames_used": COUNT,
        "frames_dropped": [],
        "frames_repeated": [],
        "frames_excluded": [],
        "frames_suspected": [],
    }


def test_chosen_and_excluded_frames_keep_their_time():
    alignment = align_frames(taken(moving()), FPS, "2:10, !4,12:")
    assert np.flatnonzero(alignment.used).tolist() == [2, 3, 5, 6, 7, 8, 9, *range(12, COUNT)]
    assert alignment.excluded == [0, 1, 4, 10, 11]


def test_a_removed_frame_takes_no_time():
    frames = np.insert(moving(), 8, moving()[7], axis=0)
    alignment = align_frames(taken(frames), FPS, "-8")
    assert alignment.used.all() and np.array_equal(frames[alignment.index], moving())


def test_a_missing_frame_takes_time():
    frames = np.delete(moving(), 8, axis=0)
    alignment = align_frames(taken(frames), FPS, "+8")
    assert alignment.dropped == [8] and np.array_equal(frames[alignment.index[alignment.used]], frames)


@pytest.mark.parametrize("choice", ["3", "x:2", "!", "!y", "1:2:3", "+-3"])
def test_unknown_words_are_refused_and_the_known_ones_are_listed(choice):
    with pytest.raises(InputError, match="A:B"):
        align_frames(taken(moving()), FPS, choice)


@pytest.mark.parametrize("choice", ["!20", "-99", "0:21"])
def test_frames_that_the_video_lacks_are_refused(choice):
    with pytest.raises(InputError, match="frames 0 to"):
        align_frames(taken(moving()), FPS, choice)


def test_a_video_of_one_repeated_frame_is_refused():
    noisy = moving(sigma=4 / 255)
    frames = np.repeat(noisy[:1], COUNT, axis=0)
    assert not repeated_frames(frames).any()  # nothing ever changes: that is rest
    with pytest.raises(InputError, match="at least 2"):
        align_frames(taken(noisy), FPS, "3:4")


def test_a_step_twice_as_far_is_suspected_with_the_option_that_corrects_it():
    masks = np.delete(1 - moving()[..., 0] / 255.0, 8, axis=0)
    (message,) = suspicious_steps(centroids(masks), all_of(masks))
    assert "before frame 8" in message and "2.0 times" in message and "+8" in message


@pytest.mark.parametrize("width", [64, 65])
@pytest.mark.parametrize("share", [0.0, 0.002, 0.2, 0.6])
def test_changes_are_those_of_all_pixels_however_few_are_looked_at(width, share):
    random = np.random.default_rng(3)
    frames = [random.integers(0, 256, (48, width, 3), np.uint8)]
    for _ in range(3):
        changed = random.random((48, width)) < share
        frames.append(np.where(changed[..., None], random.integers(0, 256, (48, width, 3), np.uint8), frames[-1]))
    changes = FrameChanges()
    for frame in frames:
        changes.add(frame)
    for k in range(1, len(frames)):
        off = frames[k].astype(int) - frames[k - 1]
        compared = off[::NOISY_ROWS] if share > SURELY_NOISY_SHARE else off
        assert changes._shares[k] == (compared != 0).any(-1).mean()
        rows = slice(None, None, NOISY_ROWS if changes._shares[k] > NOISY_CHANGE_SHARE else 1)
        assert changes._sizes[k] == np.abs(off[rows]).mean()


def test_free_flight_and_a_bounce_are_not_suspected():
    t = np.arange(COUNT) / FPS
    flight = 20 + np.stack([40 * t, 60 * t - 0.5 * 300 * t**2], 1)
    bounce = np.stack([40 * t, 60 * np.abs(t - 0.42)], 1)
    for places in (flight, bounce):
        assert suspicious_steps(places, all_of(places)) == []


def test_a_copy_without_a_jump_after_it_is_suspected_to_be_inserted():
    frames = np.insert(moving(sigma=1 / 255), 8, moving(sigma=1 / 255)[7], axis=0)
    alignment = align_frames(taken(frames), FPS)
    assert alignment.repeated == [8]
    (message,) = suspicious_steps(centroids(1 - frames[..., 0] / 255.0), alignment)
    assert "frame 8" in message and "--frames=-8" in message


def all_of(images) -> FrameAlignment:
    return FrameAlignment(np.arange(len(images)), np.ones(len(images), bool))
