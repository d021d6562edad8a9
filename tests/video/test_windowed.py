"""Videos of which only windows stay, against the same videos whole."""

import numpy as np
import pytest

from gradsim import video as videos
from gradsim.video.read import Frames
from gradsim.video.timing import repeated_frames
from gradsim.video.windowed import GRID, MARGIN, read_windows

HEIGHT, WIDTH, COUNT = 240, 320, 12
BODY, BACK = (20, 60, 200), (240, 240, 240)


def square(half: np.ndarray) -> np.ndarray:
    """Noisy frames of a square of these half sides, which crosses the picture."""
    random, frames = np.random.default_rng(0), np.empty((len(half), HEIGHT, WIDTH, 3), np.uint8)
    for k, (frame, side) in enumerate(zip(frames, half, strict=True)):
        frame[:] = BACK
        row, column = 60 + 9 * k, 40 + 20 * k
        frame[row - side : row + side, column - side : column + side] = BODY
        frame += random.integers(0, 3, frame.shape, np.uint8)
    return frames


def coverage(part: np.ndarray) -> np.ndarray:
    return (240.0 - part[..., 0]) / 220


@pytest.fixture(params=["steady", "growing"])
def film(request, tmp_path) -> tuple[np.ndarray, Frames]:
    half = np.full(COUNT, 12) if request.param == "steady" else np.arange(4, 4 + 4 * COUNT, 4)
    frames = square(half)
    videos.write(tmp_path / "v.mp4", frames, 30)
    return frames, Frames(tmp_path / "v.mp4")


def test_windows_are_parts_of_the_frames_and_hold_the_body(film):
    frames, stream = film
    windowed = read_windows(stream, coverage, whole_pixels=3 * HEIGHT * WIDTH)
    assert windowed.windows is not None
    assert (windowed.width, windowed.height, windowed.fps) == (WIDTH, HEIGHT, 30)
    for frame, part, (row, column) in zip(frames, windowed.parts, windowed.windows.corner, strict=True):
        height, width = part.shape[:2]
        np.testing.assert_array_equal(part, frame[row : row + height, column : column + width])
        away = np.pad(np.ones((height - 2 * MARGIN + 2 * GRID, width - 2 * MARGIN + 2 * GRID), bool), MARGIN - GRID)
        body = coverage(frame) > 0.5
        inside = body[row : row + height, column : column + width]
        assert inside.sum() == body.sum()
        at_border = row == 0 or column == 0 or row + height == HEIGHT or column + width == WIDTH
        assert at_border or not (inside & ~away).any()


def test_a_video_of_few_pixels_is_whole(film):
    frames, stream = film
    windowed = read_windows(stream, coverage, whole_pixels=COUNT * HEIGHT * WIDTH)
    assert windowed.windows is None and windowed.samples is windowed.parts
    np.testing.assert_array_equal(np.stack(windowed.parts), frames)
    np.testing.assert_array_equal(windowed.times, videos.read(stream._path).times)


def test_memory_is_that_of_windows(film):
    """Bytes of all arrays, with what they are views of: a window is a copy, or its frame would live on."""
    frames, stream = film
    windowed = read_windows(stream, coverage, whole_pixels=3 * HEIGHT * WIDTH)
    size = sum((x if x.base is None else x.base).nbytes for x in (*windowed.parts, *windowed.samples))
    side = 24 if frames[-1, 165, 260 - 30, 0] > 200 else 96
    window = (side + 2 * MARGIN + 2 * GRID) ** 2
    assert size <= 3 * COUNT * (window + HEIGHT * WIDTH / 64)


def test_copies_are_seen_as_in_a_video_that_is_read_whole(tmp_path):
    frames = square(np.full(COUNT, 12))
    frames[5] = frames[4]
    videos.write(tmp_path / "v.mp4", frames, 30)
    windowed = read_windows(Frames(tmp_path / "v.mp4"), coverage, whole_pixels=HEIGHT * WIDTH)
    np.testing.assert_array_equal(windowed.repeated, repeated_frames(frames))
    assert np.flatnonzero(windowed.repeated).tolist() == [5]
