"""Lossy h264 from a process of its own."""

from fractions import Fraction

import numpy as np
import pytest

from gradsim import video
from gradsim.video.h264 import write_h264

CLOCK = Fraction(1, 90000)


def frames(count=26, height=240, width=320):
    """A noisy pattern that moves; at half the size an encoder in this process writes the same bytes, too."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:height, :width]
    images = [np.sin((columns + 3 * k) / 9) * np.cos((rows + k) / 7) for k in range(count)]
    colored = np.stack(images)[..., None] * [90, 60, 30] + 120
    return (colored + 4 * rng.standard_normal(colored.shape)).clip(0, 255).astype(np.uint8)


def test_the_same_frames_are_the_same_bytes_whatever_the_process_did_before(tmp_path):
    paths = [tmp_path / f"{k}.mp4" for k in range(3)]
    for path in paths:
        size = write_h264(path, frames(), Fraction(30), {"crf": "28"})
        assert 0 < size < path.stat().st_size
        video.read(path)  # in this process, of which the memory is other from now on
    first, *others = (path.read_bytes() for path in paths)
    assert all(content == first for content in others)


def test_frames_come_back_about_as_they_were(tmp_path):
    path = tmp_path / "film.mp4"
    write_h264(path, frames(), Fraction(30), {"crf": "10"})
    back = video.read(path)
    assert back.frames.shape == frames().shape and back.fps == pytest.approx(30)
    assert np.abs(back.frames - frames().astype(float)).mean() < 4


def test_stamps_are_those_of_the_clock(tmp_path):
    path, ticks = tmp_path / "film.mp4", [0, 2700, 6300, 9000]
    write_h264(path, frames(4), Fraction(30), {"crf": "20"}, stamps=ticks, clock=CLOCK)
    assert video.read(path).times == pytest.approx([t / 90000 for t in ticks], abs=1e-9)


def test_planes_of_gray_are_gray(tmp_path):
    path = tmp_path / "film.mp4"
    planes = np.concatenate([np.full((3, 64, 64), 81), np.full((3, 32, 64), 128)], 1)
    write_h264(path, planes, Fraction(30), {"crf": "10"}, planar=True)
    assert np.abs(video.read(path).frames - (81 - 16) * 255 / 219).max() < 2


def test_an_encoder_that_fails_is_quoted(tmp_path):
    with pytest.raises(RuntimeError, match=r"libx264 wrote no .*film.mp4: (.|\n)*No such file"):
        write_h264(tmp_path / "none" / "film.mp4", frames(2), Fraction(30), {})
