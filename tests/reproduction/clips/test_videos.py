import numpy as np
import pytest

from gradsim import video
from gradsim_reproduction.clips import videos
from gradsim_reproduction.clips.scenes import RATE, recording


def test_a_clip_is_a_compressed_video_with_its_clock_and_a_fault_of_it(tmp_path):
    one = recording("incline", 0, 0)
    path, empty = videos.write_clip(one, 0, tmp_path)
    late, _ = videos.write_clip(one, 0, tmp_path, RATE)
    right, wrong, scene = video.read(path), video.read(late), video.read(empty)
    assert right.frames.shape == (one.scene.timing.frames, 120, 160, 3)
    assert np.abs(right.frames.astype(float) - wrong.frames).mean() < 3  # the same, but the encoder looks at its clock
    assert right.fps == pytest.approx(30) and wrong.fps == pytest.approx(30.9, rel=1e-3)
    assert len(scene.frames) == videos.PLATE_FRAMES
    sharp = videos.frames(one, 0).astype(float)
    assert 0.5 < np.abs(right.frames - sharp).mean() < 6  # grey levels, by noise and the encoder


def test_the_body_is_away_from_the_background_in_color():
    one = recording("ball", 0, 0)
    alpha, images = videos.coverage_of(one, one.truth), videos.frames(one, 0) / 255
    inside, outside = images[alpha > 0.999].mean(0), images[alpha == 0].mean(0)
    assert np.linalg.norm(inside - outside) > 0.4


def test_the_empty_scene_has_the_background_of_the_video(tmp_path):
    one = recording("ball", 1, 0)
    path, empty = videos.write_clip(one, 0, tmp_path)
    plate, frames = np.median(video.read(empty).frames, 0), np.median(video.read(path).frames, 0)
    assert np.median(np.abs(plate - frames)) < 4


def test_a_box_on_an_incline_may_throw_a_shadow_on_it():
    one = recording("incline", 0, 0)
    shadow = videos._shadow(one, videos.surface(one, one.truth))
    assert 0.1 < shadow.max() <= 1 + 1e-9 and (shadow[0] > 0.05).sum() > 50


def test_chroma_of_a_camera_is_where_h264_says(tmp_path):
    """A ramp of blue that crosses green in column 31.5 of 64 is read there; encoded from RGB, up to half a pixel to the left."""
    column, images = np.arange(64), np.full((4, 32, 64, 3), 120, np.uint8)
    images[..., 2] = np.rint(120 + 2 * (column - 31.5))
    crossing = []
    for left_sited in (True, False):
        videos.encode(tmp_path / "ramp.mp4", images, 30, 1, left_sited)
        blue = video.read(tmp_path / "ramp.mp4").frames[:, 8:24, 10:54].astype(float)
        slope, at_0 = np.polyfit(column[10:54], (blue[..., 2] - blue[..., 1]).mean((0, 1)), 1)
        crossing.append(-at_0 / slope)
    assert crossing[0] == pytest.approx(31.5, abs=0.2)
    assert -0.6 < crossing[1] - crossing[0] < -0.15
