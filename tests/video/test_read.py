"""Reading of videos: times of the file, displayed colors and orientation, and errors of damaged files."""

import struct
from fractions import Fraction

import av
import numpy as np
import pytest
from av.video.reformatter import ColorRange, Colorspace
from PIL import Image

from gradsim.errors import InputError
from gradsim.video import Video, check_video, read, write
from gradsim.video.read import is_lossy, is_subsampled, open_container

SUFFIXES = [".webm", ".mp4", ".gif"]


@pytest.fixture
def frames():
    """12 frames of 48 × 64 pixels, 200 colours, all different."""
    random = np.random.default_rng(0)
    palette = random.integers(0, 256, (200, 3), dtype=np.uint8)
    return palette[random.integers(0, 200, (12, 48, 64))]


def encode(path, frames, encoder, pixels, colors=None, full_range=False, options=None):
    """A video as other programs write it: with their defaults, at 30 frames per second."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(encoder, rate=30, options=options or {})
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = pixels
        if colors:
            stream.codec_context.colorspace = 1 if colors is Colorspace.ITU709 else 5
            stream.codec_context.color_range = 2 if full_range else 1
        for k, image in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            if colors:
                kind = ColorRange.JPEG if full_range else ColorRange.MPEG
                frame = frame.reformat(format=pixels, dst_colorspace=colors, dst_color_range=kind)
            else:
                frame = frame.reformat(format=pixels)
            frame.pts, frame.time_base = k, Fraction(1, 30)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def test_gif_times_are_the_sums_of_its_durations(tmp_path):
    images = [Image.new("RGB", (5, 4), (40 * k, 0, 200)) for k in range(4)]
    images[0].save(tmp_path / "a.gif", save_all=True, append_images=images[1:], duration=[100, 30, 250, 70])
    video = read(tmp_path / "a.gif")
    np.testing.assert_array_equal(video.times, [0, 0.1, 0.13, 0.38])
    assert video.fps == pytest.approx(3 / 0.38)
    np.testing.assert_array_equal(video.frames[:, 0, 0], [(40 * k, 0, 200) for k in range(4)])


def test_gif_frames_that_store_only_changes_are_put_together(tmp_path, frames):
    mosaic = np.repeat(frames[:1], 3, axis=0)
    mosaic[1, 10:20, 10:20] = mosaic[0, 0, 0]
    mosaic[2, 5, 7] = mosaic[0, 1, 1]
    images = [Image.fromarray(m).quantize(256) for m in mosaic]
    images[0].save(tmp_path / "a.gif", save_all=True, append_images=images[1:], duration=40, optimize=True)
    np.testing.assert_array_equal(read(tmp_path / "a.gif").frames, [p.convert("RGB") for p in images])


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv"])
def test_frames_come_in_the_order_of_their_times_also_with_bidirectional_coding(tmp_path, suffix):
    grey = np.linspace(20, 230, 24).astype(np.uint8)
    shown = np.broadcast_to(grey[:, None, None, None], (24, 32, 32, 3))
    encode(tmp_path / f"a{suffix}", shown, "libx264", "yuv420p", options={"bf": "3", "crf": "10"})
    video = read(tmp_path / f"a{suffix}")
    np.testing.assert_allclose(video.times, np.arange(24) / 30, rtol=0, atol=1e-9)
    np.testing.assert_allclose(video.frames.mean(axis=(1, 2, 3)), grey, atol=3)


@pytest.mark.parametrize("full_range", [False, True])
@pytest.mark.parametrize("colors", [Colorspace.ITU601, Colorspace.ITU709])
def test_colors_follow_the_matrix_and_range_that_the_file_states(tmp_path, colors, full_range):
    shown = np.full((2, 32, 32, 3), (217, 89, 51), np.uint8)
    encode(tmp_path / "a.mp4", shown, "libx264", "yuv420p", colors, full_range, options={"crf": "1"})
    # rounding Y, U, V: (1.164 + 2.112) / 2 and the last rounding; the wrong matrix is 10 off, the wrong range 8
    assert np.abs(read(tmp_path / "a.mp4").frames.astype(int) - shown).max() <= 2


@pytest.mark.parametrize(("degrees", "quarters"), [(0, 0), (90, 1), (180, 2), (-90, 3)])
def test_a_phone_held_upright_gives_upright_frames(tmp_path, frames, degrees, quarters):
    write(tmp_path / "a.mp4", frames, fps=30)
    data = bytearray((tmp_path / "a.mp4").read_bytes())
    at = data.index(b"tkhd") + 4 + 40  # the track's matrix, after 40 bytes of header (ISO 14496-12, 8.3.2)
    c, s = round(np.cos(np.radians(degrees))), round(np.sin(np.radians(degrees)))
    data[at : at + 36] = struct.pack(">9i", c << 16, -s << 16, 0, s << 16, c << 16, 0, 0, 0, 1 << 30)
    (tmp_path / "a.mp4").write_bytes(data)
    np.testing.assert_array_equal(read(tmp_path / "a.mp4").frames, np.rot90(frames, quarters, axes=(1, 2)))


def test_a_given_rate_replaces_the_clock_of_the_file(tmp_path, frames):
    write(tmp_path / "a.mp4", frames, fps=30)
    video = read(tmp_path / "a.mp4", fps=240)
    np.testing.assert_array_equal(video.times, np.arange(12) / 240)
    assert video.fps == 240


def test_a_dropped_frame_is_not_smoothed_away(tmp_path, frames):
    times = np.delete(np.arange(13), 4) / 30
    for suffix, tick in [(".mp4", 1e-6), (".webm", 1e-3)]:
        write(tmp_path / f"a{suffix}", frames, times=times)
        np.testing.assert_allclose(read(tmp_path / f"a{suffix}").times, times, rtol=0, atol=0.5001 * tick)


def test_images_are_sorted_by_number_and_other_files_ignored(tmp_path, frames):
    for k in (11, 2, 7, 8, 10, 9, 3, 4, 5, 6):
        Image.fromarray(frames[k]).save(tmp_path / f"take2_frame{k}.png")
    (tmp_path / "notes.txt").write_text("x")
    video = read(tmp_path, fps=50)
    np.testing.assert_array_equal(video.frames, frames[2:])
    np.testing.assert_array_equal(video.times, np.arange(10) / 50)


def test_grey_and_palette_images_are_read_as_rgb(tmp_path):
    grey = Image.fromarray(np.arange(12, dtype=np.uint8).reshape(3, 4))
    grey.save(tmp_path / "0.png")
    grey.convert("RGB").quantize(12).save(tmp_path / "1.png")
    video = read(tmp_path, fps=1)
    np.testing.assert_array_equal(video.frames, np.broadcast_to(np.asarray(grey)[..., None], (2, 3, 4, 3)))


def test_a_missing_image_is_an_error(tmp_path, frames):
    for k in (8, 9, 11, 12):
        Image.fromarray(frames[0]).save(tmp_path / f"{k}.png")
    with pytest.raises(InputError, match=r"after 9\.png comes 11\.png"):
        read(tmp_path, fps=10)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("part", [0.02, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_video_that_is_cut_off_is_an_error(tmp_path, frames, suffix, part):
    write(tmp_path / f"a{suffix}", frames, fps=20)
    data = (tmp_path / f"a{suffix}").read_bytes()
    (tmp_path / f"a{suffix}").write_bytes(data[: int(part * len(data))])
    with pytest.raises(InputError, match="cut off"):
        read(tmp_path / f"a{suffix}")


@pytest.mark.parametrize("tagged", [True, False])
def test_a_webm_without_its_last_frame_is_an_error(tmp_path, frames, tagged):
    write(tmp_path / "a.webm", frames, fps=20)
    data = (tmp_path / "a.webm").read_bytes()
    data = data if tagged else data.replace(b"DURATION", b"UNKNOWN_")  # other programs leave this tag out
    with av.open(str(tmp_path / "a.webm")) as container:
        last = [packet.pos for packet in container.demux(video=0) if packet.pos is not None][-1]
    (tmp_path / "a.webm").write_bytes(data[:last])
    with pytest.raises(InputError, match=r"cut off: its stated length is 0\.6 s, but its last frame is 10 at 0\.5 s"):
        read(tmp_path / "a.webm")


def test_an_mp4_that_starts_with_its_index_and_is_cut_off_is_an_error(tmp_path, frames):
    with av.open(str(tmp_path / "a.mp4"), "w", options={"movflags": "faststart"}) as container:
        stream = container.add_stream("libx264rgb", rate=20, options={"crf": "0"})
        stream.height, stream.width, stream.pix_fmt = 48, 64, "rgb24"
        for image in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    assert len(read(tmp_path / "a.mp4").frames) == 12
    with av.open(str(tmp_path / "a.mp4")) as container:
        ends = [packet.pos + packet.size for packet in container.demux(video=0) if packet.pos is not None]
    data = (tmp_path / "a.mp4").read_bytes()
    for end in (ends[5], ends[-2], (ends[-1] + ends[-2]) // 2):
        (tmp_path / "b.mp4").write_bytes(data[:end])
        with pytest.raises(InputError, match="cut off"):
            read(tmp_path / "b.mp4")


def test_a_frame_that_the_decoder_had_to_invent_is_an_error(tmp_path, frames):
    write(tmp_path / "a.mp4", frames, fps=20)
    with av.open(str(tmp_path / "a.mp4")) as container:
        start = next(container.demux(video=0)).pos
    assert start is not None
    data = bytearray((tmp_path / "a.mp4").read_bytes())
    # H.264 units with their lengths in front: x264's own words, then the picture, broken after its header
    image = start + 4 + int.from_bytes(data[start : start + 4], "big") + 4
    data[image + 4 : image + 6] = bytes(2)
    (tmp_path / "a.mp4").write_bytes(data)
    with pytest.raises(InputError, match="corrupt"):
        read(tmp_path / "a.mp4")


def test_damaged_remarks_do_not_matter(tmp_path, frames):
    write(tmp_path / "a.mp4", frames, fps=20)
    data = (tmp_path / "a.mp4").read_bytes()
    (tmp_path / "a.mp4").write_bytes(data.replace(b"isomiso2", b"isom\xffso2"))
    np.testing.assert_array_equal(read(tmp_path / "a.mp4").frames, frames)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "content", [b"not a video " * 40, b"\0" * 500, b"GIF89a\5\0\5\0\0\0\0;", b"GIF89a\xff\xff\xff\xff\0\0\0;"]
)
def test_other_files_are_errors(tmp_path, suffix, content):
    (tmp_path / f"a{suffix}").write_bytes(content)
    with pytest.raises(InputError, match="a" + suffix):
        read(tmp_path / f"a{suffix}")


def test_damaged_images_are_errors_that_name_the_file(tmp_path, frames):
    path = tmp_path / "0.png"
    Image.fromarray(frames[0]).save(path)
    good = path.read_bytes()
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 0xFF
    for bad in (good[:20], good[: len(good) // 2], bytes(flipped), b"", b"x" * 100):
        path.write_bytes(bad)
        with pytest.raises(InputError, match=r"0\.png"):
            read(tmp_path, fps=10)


def test_images_that_would_lose_something_are_refused(tmp_path, frames):
    path = tmp_path / "0.png"
    Image.fromarray(np.full((4, 4, 4), 128, np.uint8), mode=None).save(path)
    with pytest.raises(InputError, match="transparent"):
        read(tmp_path, fps=10)
    Image.fromarray(np.full((4, 4), 40000, np.uint16)).save(path)
    with pytest.raises(InputError, match="16 bits"):
        read(tmp_path, fps=10)
    Image.fromarray(frames[0]).save(path)
    Image.fromarray(frames[0, :-1]).save(tmp_path / "1.png")
    with pytest.raises(InputError, match="frame 1 has 64 × 47 px, frame 0 has 64 × 48"):
        read(tmp_path, fps=10)


def test_errors_name_what_is_missing(tmp_path, frames):
    with pytest.raises(InputError, match="does not exist"):
        read(tmp_path / "none.mp4")
    (tmp_path / "empty.mp4").touch()
    with pytest.raises(InputError, match="0 bytes"):
        read(tmp_path / "empty.mp4")
    (tmp_path / "video.avi").write_bytes(b"x")
    with pytest.raises(InputError, match=r"suffix `\.avi`"):
        read(tmp_path / "video.avi")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"no \.png"):
        read(tmp_path / "folder", fps=10)
    Image.fromarray(frames[0]).save(tmp_path / "folder" / "0.png")
    with pytest.raises(InputError, match="give fps"):
        read(tmp_path / "folder")
    with pytest.raises(InputError, match="fps is 0"):
        read(tmp_path / "folder", fps=0)


def test_a_gif_that_ends_after_a_whole_frame_is_an_error(tmp_path, frames):
    write(tmp_path / "a.gif", frames, fps=20)
    data = (tmp_path / "a.gif").read_bytes()
    assert data[-2:] == b"\0;"  # the end of the last frame, and of the file
    (tmp_path / "a.gif").write_bytes(data[:-1])
    with pytest.raises(InputError, match="end mark"):
        read(tmp_path / "a.gif")


def test_a_gif_without_durations_wants_a_rate(tmp_path, frames):
    images = [Image.fromarray(f).quantize(256) for f in frames[:3]]
    images[0].save(tmp_path / "a.gif", save_all=True, append_images=images[1:])
    with pytest.raises(InputError, match="give fps"):
        read(tmp_path / "a.gif")
    np.testing.assert_array_equal(read(tmp_path / "a.gif", fps=10).times, [0, 0.1, 0.2])


def silence(container, stream, seconds):
    for k in range(round(seconds * 50)):
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 960), np.int16), format="s16", layout="mono")
        frame.sample_rate, frame.pts = 48000, 960 * k
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))


@pytest.mark.parametrize("tagged", [True, False])
def test_sound_may_be_longer_than_the_video(tmp_path, frames, tagged):
    with av.open(str(tmp_path / "a.webm"), "w") as container:
        stream = container.add_stream("libvpx-vp9", rate=30)
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        sound = container.add_stream("libopus", rate=48000, layout="mono")
        for image in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
        silence(container, sound, 2)
    data = (tmp_path / "a.webm").read_bytes()
    (tmp_path / "a.webm").write_bytes(data if tagged else data.replace(b"DURATION", b"UNKNOWN_"))
    assert len(read(tmp_path / "a.webm").frames) == 12
    if tagged:
        with av.open(str(tmp_path / "a.webm")) as container:
            last = [packet.pos for packet in container.demux(video=0) if packet.pos is not None][-1]
        (tmp_path / "a.webm").write_bytes(data[:last])
        with pytest.raises(InputError, match="cut off"):
            read(tmp_path / "a.webm")


def test_sound_alone_is_refused(tmp_path):
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        silence(container, container.add_stream("aac", rate=48000, layout="mono"), 0.1)
    with pytest.raises(InputError, match="no video stream"):
        read(tmp_path / "a.mp4")


def clip(times=None, fps=25.0, height=6, width=8):
    times = np.arange(40) / 25 if times is None else times
    return Video(np.zeros((len(times), height, width, 3), np.uint8), times, fps)


def test_check_passes_the_scene_s_size_and_clock():
    check_video(clip(), 8, 6, 25, "a.mp4")
    check_video(clip(times=3 + np.arange(40) / 25), 8, 6, 25, "a.mp4")
    check_video(clip(times=np.arange(1) / 25), 8, 6, 30, "a.mp4")


def test_check_names_size_and_rate_at_once():
    with pytest.raises(InputError) as caught:
        check_video(clip(), 64, 48, 30, "a.mp4")
    for part in ("a.mp4", "8 × 6", "64 × 48", "camera.size", "25 fps", "timing.fps", "is 30"):
        assert part in str(caught.value)


def test_check_finds_small_disagreements_of_the_clock():
    with pytest.raises(InputError, match="29.97"):
        check_video(clip(times=np.arange(40) / 29.97, fps=29.97), 8, 6, 30, "a.mp4")
    late = np.arange(40) / 25
    late[7] += 0.004
    with pytest.raises(InputError, match=r"frame 7 is \+0\.004 s off"):
        check_video(clip(times=late), 8, 6, 25, "a.mp4")


@pytest.mark.parametrize(
    ("name", "encoder", "pixels", "options", "lossy"),
    [
        ("a.mp4", "libx264", "yuv420p", {"crf": "23"}, True),
        ("a.mov", "mpeg4", "yuv420p", {}, True),
        ("a.mp4", "libx264", "yuv420p", {"crf": "0"}, False),
    ],
)
def test_codecs_of_cameras_are_lossy(tmp_path, frames, name, encoder, pixels, options, lossy):
    encode(tmp_path / name, frames, encoder, pixels, options=options)
    assert is_lossy(tmp_path / name) == lossy
    assert is_subsampled(tmp_path / name)


def test_chroma_of_all_pixels_is_not_subsampled(tmp_path, frames):
    encode(tmp_path / "a.mp4", frames, "libx264", "yuv444p")
    Image.fromarray(frames[0]).save(tmp_path / "a.png")
    assert not is_subsampled(tmp_path / "a.mp4") and not is_subsampled(tmp_path / "a.png")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_of_gradsim_are_not_lossy(tmp_path, frames, suffix):
    write(tmp_path / f"a{suffix}", frames, fps=20)
    assert not is_lossy(tmp_path / f"a{suffix}")


def test_a_title_that_is_not_text_does_not_stop_a_video(tmp_path, frames):
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        container.metadata["title"] = "TITLE"
        stream = container.add_stream("mpeg4", rate=30)
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        for image in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    data = (tmp_path / "a.mp4").read_bytes()
    assert b"TITLE" in data
    (tmp_path / "a.mp4").write_bytes(data.replace(b"TITLE", b"\xff\xfe\xff\xfe\xff"))
    assert len(read(tmp_path / "a.mp4").frames) == 12
    assert is_lossy(tmp_path / "a.mp4") and is_subsampled(tmp_path / "a.mp4")


def test_pyav_19_is_not_told_how_to_read_metadata(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(av, "__version__", "19.0.2")
    monkeypatch.setattr(av, "open", lambda *words, **options: asked.append((words, options)))
    open_container(tmp_path / "a.mp4")
    assert asked == [((str(tmp_path / "a.mp4"),), {})]
