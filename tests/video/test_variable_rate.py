"""Videos whose rate varies: their times, and what a fit makes of them."""

from fractions import Fraction

import av
import numpy as np
import pytest

import gradsim as gs
from gradsim import video
from gradsim.identification.observation.from_video import from_video, with_stamps
from gradsim.video.clip_properties import variable_stamps
from gradsim.video.read import check_video, read_times
from gradsim.video.timing import align_frames

STAMPS = np.array([0.0, 0.02, 0.055, 0.1, 0.14, 0.17])


@pytest.fixture
def path(tmp_path):
    """A black square on white that moves, with frames at `STAMPS`."""
    frames = np.full((6, 48, 64, 3), 255, np.uint8)
    for k in range(6):
        frames[k, 20:30, 10 + 5 * k : 20 + 5 * k] = 0
    return write(tmp_path / "varying.mp4", frames, STAMPS)


def write(path, frames, stamps):
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264rgb", rate=30, options={"qp": "0"})
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], "rgb24"
        stream.codec_context.time_base = stream.time_base = Fraction(1, 90000)
        for image, t in zip(frames, stamps, strict=True):
            frame = av.VideoFrame.from_ndarray(image, "rgb24")
            frame.pts, frame.time_base = round(t * 90000), Fraction(1, 90000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def scene(**timing):
    box = {"shape": {"box": {"size": [0.2, 0.2, 0.2]}}, "mass": 1.0, "colour": [0, 0, 0]}
    camera = {"size": [64, 48], "look_at": {"eye": [0, -2, 0], "target": [0, 0, 0], "fov": 0.8}}
    return gs.Scene.parse({"bodies": {"box": box}, "camera": camera, "background": [1, 1, 1], "timing": timing})


def test_times_are_read_without_decoding(path):
    clip = video.read(path)
    times, fps = read_times(path)
    assert times.tolist() == clip.times.tolist() and fps == clip.fps
    assert clip.times - clip.times[0] == pytest.approx(STAMPS, abs=1e-4)
    assert read_times(path.with_name("nothing.mp4")) is None


def test_a_scene_takes_the_stamps_of_a_video_whose_rate_varies(path, tmp_path):
    stamped = with_stamps(scene(fps=29), path)
    assert stamped.timing.stamps == pytest.approx(STAMPS, abs=1e-4)
    assert stamped.timing.frames == 6 and stamped.timing.fps == pytest.approx(5 / 0.17, rel=1e-3)
    assert with_stamps(stamped, path) is stamped
    even = write(tmp_path / "even.mp4", video.read(path).frames, np.arange(6) / 30)
    plain = scene(fps=30)
    assert with_stamps(plain, even) is plain
    masks = from_video(stamped, path)
    assert masks.frames == 6 and masks.notes["frames_dropped"] == []


def test_another_clock_is_refused_with_the_way_out(path):
    with pytest.raises(gs.InputError, match=r"variable rate, 29.4\d+ frames per second in the mean, and the scene's"):
        with_stamps(scene(fps=60), path)
    with pytest.raises(gs.InputError, match="give the times of the frames as `timing.stamps`"):
        from_video(scene(fps=29.4), path)
    clip = video.read(path)
    with pytest.raises(gs.InputError, match=r"frame 2 is \+0.005 s off: remove `stamps`"):
        check_video(clip, 64, 48, 29.4, path, [0, 0.02, 0.05, 0.1, 0.14, 0.17])
    check_video(clip, 64, 48, 29.4, path, STAMPS)


def test_jitter_below_two_percent_of_a_frame_and_missing_frames_are_a_constant_rate():
    t = np.arange(30) / 30
    assert variable_stamps(t + 3e-4 * np.sin(np.arange(30)), 30) is None
    assert variable_stamps(np.delete(t, [4, 5, 11]), 30) is None
    assert variable_stamps(t + 3e-3 * np.sin(np.arange(30)), 30) is not None


def test_every_frame_is_an_instant_and_none_can_be_moved(path):
    clip = video.read(path)
    aligned = align_frames(clip, 29.4, "!2", STAMPS)
    assert aligned.index.tolist() == list(range(6)) and aligned.used.tolist() == [True, True, False, True, True, True]
    for word in ("-2", "+2"):
        with pytest.raises(gs.InputError, match="shifts later frames, whose times are `timing.stamps`; use !2"):
            align_frames(clip, 29.4, word, STAMPS)
