"""Frames by instants, one at a time, against those of a video that is read whole."""

import numpy as np
import pytest

from gradsim import video as videos
from gradsim.video.aligned import AlignedFrames
from gradsim.video.timing import align_frames


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    path = tmp_path_factory.mktemp("film") / "v.mp4"
    videos.write(path, np.random.default_rng(0).integers(0, 256, (12, 32, 48, 3), np.uint8), 20)
    return path


@pytest.mark.parametrize("choice", ["", "2:9", "-3", "+4", "!5,-7"])
def test_frames_are_those_of_the_instants(film, choice):
    whole = videos.read(film)
    expected = whole.frames[align_frames(whole, 20.0, choice).index]
    frames = AlignedFrames(film, 20.0, choice)
    assert len(frames) == len(expected) and frames.size == (32, 48)
    np.testing.assert_array_equal([frames[k] for k in range(len(frames))], expected)
    for k in (7, 7, 2, 3, 0, len(expected) - 1):
        np.testing.assert_array_equal(frames[k], expected[k])
