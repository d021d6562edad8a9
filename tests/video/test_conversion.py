"""Conversion of what changed from frame to frame, against that of whole frames."""

from fractions import Fraction

import av
import numpy as np
import pytest

from gradsim.video import conversion
from gradsim.video.conversion import Conversion, exact_conversion
from gradsim.video.read import Frames

HEIGHT, WIDTH, COUNT = 368, 640, 5


def moving(height: int, width: int, noise: int = 0) -> np.ndarray:
    """Frames of a patch of random colors that crosses a picture of others, and of a small one that blinks far from it."""
    random = np.random.default_rng(0)
    frames = np.empty((COUNT, height, width, 3), np.uint8)
    frames[:] = random.integers(100, 108, (height, width, 3), np.uint8)
    patch = random.integers(0, 256, (40, 56, 3), np.uint8)
    for k, frame in enumerate(frames):
        frame[30 + 7 * k : 70 + 7 * k, 41 + 9 * k : 97 + 9 * k] = patch
        frame[height - 20 : height - 9, width - 31 : width - 8] = 50 * k
        frame += random.integers(0, noise + 1, frame.shape, np.uint8)
    return frames


def write(path, frames: np.ndarray, codec: str, pixels: str, options: dict[str, str]) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=30, options=options)
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], pixels
        for k, image in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format=pixels)
            frame.pts, frame.time_base = k, Fraction(1, 30)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def converted(path, monkeypatch) -> list[int]:
    """Pixels that are converted of each frame, which has to have the colors of a conversion of all of it."""
    whole, sizes = conversion._whole, []

    def counted(frame):
        sizes[-1] += frame.width * frame.height
        return whole(frame)

    monkeypatch.setattr(conversion, "_whole", counted)
    convert = Conversion()
    with av.open(str(path)) as container:
        for frame in container.decode(container.streams.video[0]):
            sizes.append(0)
            expected = frame.to_ndarray(format="rgb24", interpolation=exact_conversion())
            np.testing.assert_array_equal(convert(frame), expected)
    return sizes


LOSSLESS = {"qp": "0", "preset": "ultrafast"}  # a frame that repeats another repeats all its bits


@pytest.mark.parametrize(
    "suffix, codec, pixels, options",
    [
        ("mp4", "libx264", "yuv420p", LOSSLESS),
        ("mp4", "libx264", "yuv444p", LOSSLESS),
        ("mp4", "libx264", "yuv420p", {"crf": "23", "preset": "ultrafast"}),
        ("webm", "libvpx-vp9", "gbrp", {"lossless": "1", "deadline": "realtime", "cpu-used": "8"}),
    ],
)
def test_colors_are_those_of_a_whole_conversion_and_little_is_converted(
    tmp_path, monkeypatch, suffix, codec, pixels, options
):
    path = tmp_path / f"v.{suffix}"
    write(path, moving(HEIGHT, WIDTH), codec, pixels, options)
    sizes = converted(path, monkeypatch)
    assert sizes[0] == HEIGHT * WIDTH and len(sizes) == COUNT
    if "crf" not in options:
        assert max(sizes[1:]) < 0.4 * HEIGHT * WIDTH


def test_a_film_whose_pixels_all_change_is_converted_whole(tmp_path, monkeypatch):
    write(tmp_path / "v.mp4", moving(HEIGHT, WIDTH, noise=8), "libx264", "yuv420p", LOSSLESS)
    assert converted(tmp_path / "v.mp4", monkeypatch) == [HEIGHT * WIDTH] * COUNT


def test_odd_sizes_and_frames_without_change(tmp_path, monkeypatch):
    write(tmp_path / "odd.mp4", moving(201, 319), "libx264", "yuv444p", LOSSLESS)
    assert converted(tmp_path / "odd.mp4", monkeypatch) == [201 * 319] * COUNT
    monkeypatch.undo()
    write(tmp_path / "still.mp4", np.repeat(moving(HEIGHT, WIDTH)[:1], 3, 0), "libx264", "yuv420p", LOSSLESS)
    assert converted(tmp_path / "still.mp4", monkeypatch) == [HEIGHT * WIDTH, 0, 0]


def test_a_frame_cannot_be_written_to(tmp_path):
    """The one after it is made of it."""
    write(tmp_path / "v.mp4", moving(HEIGHT, WIDTH)[:2], "libx264", "yuv420p", LOSSLESS)
    for frame in Frames(tmp_path / "v.mp4"):
        with pytest.raises(ValueError, match="read-only"):
            frame[0] = 0


@pytest.mark.parametrize("width", [64, 61])
def test_planes_of_red_green_and_blue_are_not_converted_by_swscale(width):
    image = np.random.default_rng(1).integers(0, 256, (40, width, 3), np.uint8)
    frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format="gbrp")
    frame.color_range = 1  # limited, as of luma; of RGB it says nothing
    assert np.array_equal(Conversion()(frame), image)
    assert np.array_equal(frame.to_ndarray(format="rgb24", interpolation=exact_conversion()), image)


def test_noise_in_all_of_a_frame_is_noticed_by_a_part_of_its_rows(monkeypatch):
    compared = []
    monkeypatch.setattr(conversion, "_boxes", lambda cells, cuts: compared.append(cells) or [])
    convert = Conversion()
    for image in moving(HEIGHT, WIDTH, noise=8):
        convert(av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format="yuv444p"))
    assert not compared
    for image in moving(HEIGHT, WIDTH):
        convert(av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format="yuv444p"))
    assert compared
