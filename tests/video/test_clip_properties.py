"""Properties of clips: codec, rotation flag, stamps."""

import struct

import av
import numpy as np
import pytest

from gradsim import video
from gradsim.video.clip_properties import clip_properties
from gradsim.video.read import Video

FRAMES = np.random.default_rng(0).integers(0, 255, (8, 32, 48, 3), np.uint8)


def of(times) -> list[str]:
    """Sentences on a folder with these stamps."""
    times = np.asarray(times, float)
    clip = Video(FRAMES[: len(times)], times, (len(times) - 1) / (times[-1] - times[0]))
    return clip_properties(".", clip).words


def test_a_lossy_codec_is_named(tmp_path):
    path = tmp_path / "clip.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"crf": "20"})
        stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv420p"
        for frame in FRAMES:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    properties = clip_properties(path, video.read(path))
    assert (properties.codec, properties.lossy, properties.rotation) == ("h264", True, 0)
    assert properties.words == ["codec h264, lossy: its noise is `auto` in a fit"]


def test_a_lossless_codec_has_no_warning(tmp_path):
    video.write(tmp_path / "clip.webm", FRAMES, 60)
    properties = clip_properties(tmp_path / "clip.webm", video.read(tmp_path / "clip.webm"))
    assert properties.words == ["codec vp9"] and properties.fps == pytest.approx(60)


def test_a_rotation_flag_is_named_and_is_applied_when_read(tmp_path):
    """The matrix of the track, after 40 bytes of its header (ISO 14496-12, 8.3.2): a quarter turn."""
    path = tmp_path / "clip.mp4"
    video.write(path, FRAMES, 30)
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 44
    data[at : at + 36] = struct.pack(">9i", 0, -1 << 16, 0, 1 << 16, 0, 0, 0, 0, 1 << 30)
    path.write_bytes(data)
    clip = video.read(path)
    assert (clip.width, clip.height) == (32, 48)
    assert clip_properties(path, clip).words[1:] == ["its rotation flag of 90° is applied"]


def test_the_rate_of_a_clip_that_varies_is_named_with_the_way_out():
    t = np.arange(8) / 30
    assert of(t) == ["codec png"]
    (line,) = of(t + 0.004 * np.sin(3 * np.arange(8)))[1:]
    assert "its rate varies: stamps are off 29.86 per second" in line and "`timing.stamps`" in line


def test_missing_frames_are_counted_and_are_no_varying_rate():
    (line,) = of(np.array([0, 1, 2, 4, 5, 8]) / 30)[1:]
    assert line.startswith("3 frames are missing")
