"""Written videos are read back bit for bit, at their times, and never in part."""

import av
import numpy as np
import pytest
from PIL import Image

from gradsim.errors import InputError
from gradsim.video import read, write, write_preview
from gradsim.video.write import preview_writer

LOSSLESS = [".webm", ".mp4", ""]
SIZES = [(48, 64), (33, 47), (1, 1), (2, 7)]  # height, width


def noise(count, height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def flat(count, height, width):
    """Frames of at most 256 colours, the second equal to the first."""
    frames = np.full((count, height, width, 3), (217, 89, 51), np.uint8)
    frames[2:, : height // 2 + 1] = noise(1, 1, 50)[0, 0, np.arange(width) % 50]
    return frames


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("suffix", LOSSLESS)
def test_lossless_kinds_return_every_bit_of_noise(tmp_path, suffix, size):
    frames = noise(5, *size)
    write(tmp_path / f"clip{suffix}", frames, fps=30)
    video = read(tmp_path / f"clip{suffix}", fps=None if suffix else 30)
    np.testing.assert_array_equal(video.frames, frames)
    np.testing.assert_allclose(video.times, np.arange(5) / 30, rtol=0, atol=1e-15)
    assert video.fps == 30


@pytest.mark.parametrize("size", SIZES)
def test_gif_returns_every_bit_of_few_colors_and_keeps_equal_frames_apart(tmp_path, size):
    frames = flat(5, *size)
    write(tmp_path / "clip.gif", frames, fps=25)
    video = read(tmp_path / "clip.gif")
    np.testing.assert_array_equal(video.frames, frames)
    np.testing.assert_array_equal(video.times, np.arange(5) / 25)
    assert video.fps == 25


def test_gif_holds_256_colors_but_refuses_257(tmp_path):
    frames = np.zeros((2, 1, 257, 3), np.uint8)
    frames[..., 0] = np.minimum(np.arange(257), 255)
    frames[1] = frames[1, :, ::-1]
    write(tmp_path / "clip.gif", frames, fps=10)
    np.testing.assert_array_equal(read(tmp_path / "clip.gif").frames, frames)
    frames[1, 0, 0] = (0, 1, 0)  # 255 stands there twice
    with pytest.raises(InputError, match="frame 1 has 257 colours"):
        write(tmp_path / "other.gif", frames, fps=10)


def test_mp4_is_lossless_without_x264(tmp_path, monkeypatch):
    monkeypatch.setattr(av, "codecs_available", av.codecs_available - {"libx264rgb"})
    frames = noise(4, 33, 47)
    write(tmp_path / "clip.mp4", frames, fps=24)
    with av.open(str(tmp_path / "clip.mp4")) as container:
        assert container.streams.video[0].codec_context.name == "ffv1"
    video = read(tmp_path / "clip.mp4")
    np.testing.assert_array_equal(video.frames, frames)
    np.testing.assert_allclose(video.times, np.arange(4) / 24, rtol=0, atol=1e-15)


@pytest.mark.parametrize("suffix", [".webm", ".mp4"])
@pytest.mark.parametrize("fps", [7.3, 24000 / 1001, 25, 30, 30000 / 1001, 29.97, 59.94, 148, 240])
def test_constant_rates_come_back_exactly_although_webm_counts_milliseconds(tmp_path, suffix, fps):
    write(tmp_path / f"clip{suffix}", np.zeros((100, 8, 8, 3), np.uint8), fps)
    video = read(tmp_path / f"clip{suffix}")
    # webm states the length of a frame in whole nanoseconds: half of one, over 100 frames
    np.testing.assert_allclose(video.times, np.arange(100) / fps, rtol=0, atol=0.5e-7)
    assert video.fps == pytest.approx(fps, rel=1e-6)


@pytest.mark.parametrize(("suffix", "tick"), [(".mp4", 1e-6), (".webm", 1e-3), (".gif", 1e-2)])
def test_variable_rates_come_back_to_half_a_tick_of_the_clock(tmp_path, suffix, tick):
    times = np.array([0, 0.0412345, 0.0634, 0.2, 0.2151, 1 / 3, 0.9])
    write(tmp_path / f"clip{suffix}", flat(7, 8, 8), times=times)
    video = read(tmp_path / f"clip{suffix}")
    np.testing.assert_allclose(video.times, times, rtol=0, atol=0.5001 * tick)
    assert video.fps == pytest.approx(6 / 0.9, rel=0.01)


@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
def test_a_clip_may_start_later_than_zero(tmp_path, suffix):
    times = np.array([0.5, 0.55, 0.7])
    write(tmp_path / f"clip{suffix}", noise(3, 8, 8), times=times)
    video = read(tmp_path / f"clip{suffix}")
    assert len(video.frames) == 3
    np.testing.assert_allclose(video.times, times, rtol=0, atol=1e-12)


@pytest.mark.parametrize("suffix", [".mp4", ".webm", ".gif", ""])
def test_one_frame_is_a_video(tmp_path, suffix):
    write(tmp_path / f"clip{suffix}", flat(1, 8, 8), fps=20)
    video = read(tmp_path / f"clip{suffix}", fps=None if suffix else 20)
    assert len(video.frames) == 1 and video.fps == 20 and video.times.tolist() == [0]


@pytest.mark.parametrize("size", [(48, 64), (33, 47)])
def test_preview_plays_in_browsers_and_keeps_flat_colors(tmp_path, size):
    frames = np.full((6, *size, 3), (217, 89, 51), np.uint8)
    write_preview(tmp_path / "video.webm", frames, fps=30)
    with av.open(str(tmp_path / "video.webm")) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("vp9", "yuv420p")
        assert next(container.decode(stream)).colorspace == 1  # BT.709
    video = read(tmp_path / "video.webm")
    assert video.frames.shape[1:3] == (size[0] + size[0] % 2, size[1] + size[1] % 2)
    # rounding Y, U, V: (1.164 + 2.112) / 2 and the last rounding; a wrong colour matrix is 10 levels off
    assert np.abs(video.frames.astype(int) - frames[0, 0, 0]).max() <= 2


def test_a_preview_in_parts_is_that_of_all_frames(tmp_path):
    frames = noise(7, 31, 45)
    write_preview(tmp_path / "whole.webm", frames, fps=12)
    with preview_writer(tmp_path / "parts.webm", 12) as write_part:
        write_part(frames[:3])
        write_part(frames[3:])
        assert not (tmp_path / "parts.webm").exists()  # it appears whole
    whole, parts = (read(tmp_path / f"{name}.webm") for name in ("whole", "parts"))
    np.testing.assert_array_equal(parts.frames, whole.frames)
    np.testing.assert_array_equal(parts.times, whole.times)


def test_gif_preview_takes_any_number_of_colors(tmp_path):
    write_preview(tmp_path / "video.gif", noise(3, 32, 32), fps=10)
    assert read(tmp_path / "video.gif").frames.shape == (3, 32, 32, 3)


@pytest.mark.parametrize("suffix", [".webm", ".mp4", ".gif", ""])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"clip{suffix}"
    if suffix:
        write(path, flat(3, 8, 8), fps=10)
    before = path.read_bytes() if suffix else None

    def fail(*args, **kwargs):
        raise RuntimeError("disk")

    monkeypatch.setattr(av.VideoFrame, "from_ndarray", fail, raising=False)
    monkeypatch.setattr("PIL.GifImagePlugin.getdata", fail)
    monkeypatch.setattr(Image.Image, "save", fail)
    with pytest.raises(RuntimeError):
        write(path, flat(4, 8, 8), fps=10)
    assert [p.name for p in tmp_path.iterdir()] == (["clip" + suffix] if suffix else [])
    assert before is None or path.read_bytes() == before


def test_written_files_have_the_permissions_of_the_user(tmp_path):
    (tmp_path / "plain").write_text("")
    write(tmp_path / "clip.mp4", noise(1, 8, 8), fps=10)
    write(tmp_path / "frames", noise(1, 8, 8), fps=10)
    (tmp_path / "folder").mkdir()
    assert (tmp_path / "clip.mp4").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "frames").stat().st_mode == (tmp_path / "folder").stat().st_mode


def test_a_folder_with_files_is_never_replaced(tmp_path):
    (tmp_path / "frames").mkdir()
    write(tmp_path / "frames", noise(2, 8, 8), fps=10)
    with pytest.raises(InputError, match="folder with files"):
        write(tmp_path / "frames", noise(2, 8, 8), fps=10)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        write(tmp_path / "file" / "clip.mp4", noise(2, 8, 8), fps=10)
    with pytest.raises(InputError, match="is a file"):
        write(tmp_path / "file", noise(2, 8, 8), fps=10)


@pytest.mark.parametrize(
    ("name", "frames", "clock", "message"),
    [
        ("clip.avi", noise(2, 4, 4), {"fps": 10}, r"suffix `\.avi`"),
        ("clip.mp4", noise(2, 4, 4) / 255, {"fps": 10}, "float64 .* by 255"),
        ("clip.mp4", noise(2, 4, 4)[..., 0], {"fps": 10}, r"shape \(2, 4, 4\)"),
        ("clip.mp4", noise(2, 4, 4)[:0], {"fps": 10}, "at least one"),
        ("clip.mp4", noise(2, 4, 4), {}, "exactly one"),
        ("clip.mp4", noise(2, 4, 4), {"fps": 10, "times": np.arange(2)}, "exactly one"),
        ("clip.mp4", noise(2, 4, 4), {"fps": 0}, "fps is 0"),
        ("clip.mp4", noise(2, 4, 4), {"fps": float("nan")}, "fps is nan"),
        ("clip.mp4", noise(2, 4, 4), {"times": np.array([0, 1, 2])}, r"shape \(3,\)"),
        ("clip.mp4", noise(2, 4, 4), {"times": np.array([0, np.nan])}, "finite"),
        ("clip.mp4", noise(3, 4, 4), {"times": np.array([0, 0.2, 0.1])}, "frames 1 and 2"),
        ("clip.webm", noise(3, 4, 4), {"times": np.array([0, 0.2, 0.2001])}, "1 ms"),
        ("clip.gif", flat(3, 4, 4), {"fps": 300}, "10 ms"),
        ("clip.gif", flat(3, 4, 4), {"times": np.array([1, 2, 3])}, "starts at 0"),
        ("frames", noise(2, 4, 4), {"times": np.array([0, 1])}, "no clock"),
    ],
)
def test_what_cannot_be_written_is_refused_before_a_file_appears(tmp_path, name, frames, clock, message):
    with pytest.raises(InputError, match=message):
        write(tmp_path / name, frames, **clock)
    assert not list(tmp_path.iterdir())


def test_a_preview_needs_a_suffix_that_browsers_show(tmp_path):
    with pytest.raises(InputError, match=r"\.webm, \.mp4 or \.gif"):
        write_preview(tmp_path / "video.avi", noise(2, 4, 4), fps=10)
