"""Write videos: lossless for fits, lossy previews for display. Writing is atomic.

Videos to fit must be lossless: the usual yuv420p is wrong by over 100 grey levels on colored edges. Formats by suffix:

    .webm   VP9, lossless, gbrp: bit-exact, displayed correctly by browsers; its clock counts milliseconds
    .mp4    H.264 RGB with crf 0 (FFV1 where x264 is missing): bit-exact, displayed incorrectly by browsers
    .gif    bit-exact up to 256 colors per frame, an error above; its clock counts 10 ms
    none    a folder of png: bit-exact, no clock

`write_preview` writes small lossy videos that every browser plays.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_path

if TYPE_CHECKING:
    from av.video.stream import VideoStream
    from PIL.Image import Image

# suffix → (encoder, pixel format, options), the first available is used
_LOSSLESS = {
    ".webm": [("libvpx-vp9", "gbrp", {"lossless": "1", "deadline": "realtime", "cpu-used": "8"})],
    ".mp4": [("libx264rgb", "rgb24", {"crf": "0", "bf": "0"}), ("ffv1", "bgr0", {})],
}
_PREVIEW = {
    ".webm": [("libvpx-vp9", "yuv420p", {"crf": "24", "b": "0", "deadline": "realtime", "cpu-used": "6"})],
    ".mp4": [
        ("libx264", "yuv420p", {"crf": "18", "bf": "0", "movflags": "+faststart"}),
        ("mpeg4", "yuv420p", {"q": "2"}),
    ],
}
_MICROSECOND = Fraction(1, 1_000_000)
_BT709 = 1  # AVCOL_SPC_BT709, AVCOL_PRI_BT709, AVCOL_TRC_BT709
_LIMITED = 1  # AVCOL_RANGE_MPEG


def write(path: str | Path, frames: np.ndarray, fps: float | None = None, times: np.ndarray | None = None) -> None:
    """Write a lossless video; `read` returns the same frames, and times to the precision of the clock.

    Args:
        path: Path with suffix .webm, .mp4 or .gif, or without one for a folder of png. An existing file is replaced;
            an existing folder must be empty.
        frames: (T, height, width, 3) uint8 RGB, row 0 on top.
        fps: Frames per second.
        times: Instead of `fps`: times of the frames (T,) [s], at least 0 and increasing. They are rounded to the
            clock: 1 µs in .mp4, 1 ms in .webm, 10 ms in .gif.

    Raises:
        InputError: If the suffix is unknown, frames have another type or shape, not exactly one of `fps` and
            `times` is given, the clock cannot hold the times, or a frame of a gif has more than 256 colors.
    """
    path = Path(path)
    frames = _check_frames(frames)
    kind = path.suffix.lower()
    if kind not in (*_LOSSLESS, ".gif", ""):
        raise InputError(f"{path} has suffix `{path.suffix}`; use .webm, .mp4, .gif, or none for a folder of png.")
    stamps, rate = _clock(len(frames), fps, times)
    with atomic_path(path) as draft:
        if kind == ".gif":
            _write_gif(draft, [_palette_image(frame, k) for k, frame in enumerate(frames)], stamps, rate)
        elif kind in _LOSSLESS:
            _encode(draft, frames, stamps, rate, *_available(kind))
        elif times is not None:
            raise InputError(f"{path} is a folder of png, which has no clock; give fps, or write .mp4 or .webm.")
        else:
            _write_folder(draft, frames)


def write_preview(path: str | Path, frames: np.ndarray, fps: float) -> None:
    """Write a small lossy video for display, not for fits, that every browser plays.

    Args:
        path: Path with suffix .webm (VP9) or .mp4 (H.264), both yuv420p, BT.709, with an odd size padded by one
            repeated row or column; or .gif (256 colors per frame, an adaptive palette).
        frames: (T, height, width, 3) uint8 RGB, row 0 on top.
        fps: Frames per second.

    Raises:
        InputError: If the suffix is unknown, or frames have another type or shape.
    """
    path = Path(path)
    frames = _check_frames(frames)
    stamps, rate = _clock(len(frames), fps, None)
    kind = path.suffix.lower()
    if kind not in (*_PREVIEW, ".gif"):
        raise InputError(f"{path} has suffix `{path.suffix}`; previews are .webm, .mp4 or .gif.")
    with atomic_path(path) as draft:
        if kind == ".gif":
            from PIL.Image import fromarray

            _write_gif(draft, [fromarray(frame).quantize(256) for frame in frames], stamps, rate)
        else:
            _encode(draft, _padded(frames), stamps, rate, *_available(kind, _PREVIEW))


@contextmanager
def preview_writer(path: str | Path, fps: float) -> Iterator[Callable[[np.ndarray], None]]:
    """Writer of a video as by `write_preview`, in .webm or .mp4, to be called with some frames after others.

    Args:
        path: As for `write_preview`; the file appears at the end.
        fps: Frames per second.

    Raises:
        InputError: As `write_preview`.
    """
    path = Path(path)
    if path.suffix.lower() not in _PREVIEW:
        raise InputError(f"{path} has suffix `{path.suffix}`; previews in parts are .webm or .mp4.")
    _, rate = _clock(1, fps, None)
    encoders, count = [], 0
    with atomic_path(path) as draft, ExitStack() as stack:

        def write(frames: np.ndarray) -> None:
            nonlocal count
            frames = _padded(_check_frames(frames))
            if not encoders:
                choice = _available(path.suffix.lower(), _PREVIEW)
                encoders.append(stack.enter_context(_encoder(draft, frames.shape[1:3], rate, 1 / rate, *choice)))
            for image in frames:
                encoders[0](image, count / rate, (count + 1) / rate)
                count += 1

        yield write


def _padded(frames: np.ndarray) -> np.ndarray:
    """Frames with an even number of rows and columns."""
    height, width = frames.shape[1:3]
    return np.pad(frames, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)), mode="edge")


def _check_frames(frames: np.ndarray) -> np.ndarray:
    frames = np.asarray(frames)
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3 or 0 in frames.shape:
        raise InputError(
            f"frames are {frames.dtype} with shape {frames.shape}; they must be uint8 (T, height, width, 3), at least "
            "one: multiply images in [0, 1] by 255 and round."
        )
    return np.ascontiguousarray(frames)


def _clock(count: int, fps: float | None, times: np.ndarray | None) -> tuple[list[Fraction], Fraction]:
    """Exact time stamps [s] and the (mean) rate [1/s] of `count` frames."""
    if (fps is None) == (times is None):
        raise InputError("fps and times are both given or both missing; give exactly one of fps and times.")
    if fps is not None:
        if not 0.001 <= fps <= 100_000:
            raise InputError(f"fps is {fps}; it must be between 0.001 and 100 000.")
        rate = Fraction(fps).limit_denominator(100_000)  # recovers 30000/1001 and 29.97 from the float
        return [k / rate for k in range(count)], rate
    seconds = np.asarray(times, dtype=np.float64)
    if seconds.shape != (count,) or count < 2 or not np.isfinite(seconds).all() or seconds[0] < 0:
        raise InputError(f"times have shape {seconds.shape}; give one finite time ≥ 0 for each frame, of at least 2.")
    stamps = [Fraction(round(s / _MICROSECOND)) * _MICROSECOND for s in seconds.tolist()]
    _check_increasing(stamps, "1 µs")
    return stamps, ((count - 1) / (stamps[-1] - stamps[0])).limit_denominator(100_000)


def _check_increasing(stamps: list, tick: str) -> None:
    for k, (before, after) in enumerate(pairwise(stamps)):
        if after <= before:
            raise InputError(
                f"frames {k} and {k + 1} fall on the same tick of the clock ({tick}); sort the times, lower the rate, "
                "or write .mp4."
            )


def _available(kind: str, choices: dict[str, list] = _LOSSLESS) -> tuple[str, str, dict[str, str]]:
    import av

    for choice in choices[kind]:
        if choice[0] in av.codecs_available:
            return choice
    names = " or ".join(name for name, _, _ in choices[kind])
    raise InputError(f"this build of PyAV has no encoder {names} for {kind}; use another suffix.")


def _encode(
    path: Path,
    frames: np.ndarray,
    stamps: list[Fraction],
    rate: Fraction,
    encoder: str,
    pixels: str,
    options: dict[str, str],
) -> None:
    constant = all(stamp == k / rate for k, stamp in enumerate(stamps))
    tick = 1 / rate if constant else _MICROSECOND
    if path.suffix.lower() == ".webm":
        _check_increasing([round(1000 * stamp) for stamp in stamps], "1 ms in .webm")
    with _encoder(path, frames.shape[1:3], rate, tick, encoder, pixels, options) as write:
        for image, stamp, following in zip(frames, stamps, [*stamps[1:], stamps[-1] + 1 / rate], strict=True):
            write(image, stamp, following)


@contextmanager
def _encoder(
    path: Path,
    size: tuple[int, ...],
    rate: Fraction,
    tick: Fraction,
    encoder: str,
    pixels: str,
    options: dict[str, str],
) -> Iterator[Callable[[np.ndarray, Fraction, Fraction], None]]:
    """Writer of images (*size, 3), each with its time and that of the next one [s]."""
    import av
    from av.video.reformatter import ColorRange, Colorspace

    with av.open(str(path), "w") as container:
        stream = cast("VideoStream", container.add_stream(encoder, rate=rate, options=options))
        stream.height, stream.width = size
        stream.pix_fmt = pixels
        stream.codec_context.time_base = tick
        if pixels == "yuv420p":
            context = stream.codec_context
            context.colorspace = context.color_primaries = context.color_trc = _BT709
            context.color_range = _LIMITED

        def write(image: np.ndarray, stamp: Fraction, following: Fraction) -> None:
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            if pixels == "yuv420p":
                frame = frame.reformat(format=pixels, dst_colorspace=Colorspace.ITU709, dst_color_range=ColorRange.MPEG)
            else:
                frame = frame.reformat(format=pixels)
            frame.pts, frame.time_base = round(stamp / tick), tick
            frame.duration = round((following - stamp) / tick)
            container.mux(stream.encode(frame))

        yield write
        container.mux(stream.encode(None))


def _palette_image(frame: np.ndarray, k: int) -> "Image":
    """Image with the exact colors of the frame as its palette."""
    from PIL.Image import frombytes

    packed = frame.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], dtype=np.uint32)
    colors, index = np.unique(packed, return_inverse=True)
    if len(colors) > 256:
        raise InputError(f"frame {k} has {len(colors)} colours, a gif holds 256; write .webm, .mp4 or a folder of png.")
    image = frombytes("P", packed.shape[::-1], index.astype(np.uint8).tobytes())
    image.putpalette(np.stack([colors >> 16, colors >> 8 & 255, colors & 255], axis=1).astype(np.uint8).tobytes())
    return image


def _write_gif(path: Path, images: "list[Image]", stamps: list[Fraction], rate: Fraction) -> None:
    """Write block by block, since `Image.save` merges frames that are equal."""
    from PIL import GifImagePlugin

    if stamps[0] != 0:
        raise InputError(f"the first frame is at {float(stamps[0])} s; a gif starts at 0: shift the times.")
    ticks = [round(100 * stamp) for stamp in (*stamps, stamps[-1] + 1 / rate)]
    _check_increasing(ticks, "10 ms in .gif")
    width, height = images[0].size
    with path.open("wb") as file:
        size = width.to_bytes(2, "little") + height.to_bytes(2, "little")
        file.write(b"GIF89a" + size + b"\x70\0\0")  # 8 bits a channel, no global palette
        file.write(b"!\xff\x0bNETSCAPE2.0\x03\x01\0\0\0")  # repeat for ever
        for k, image in enumerate(images):
            length = 10 * (ticks[k + 1] - ticks[k])
            file.writelines(GifImagePlugin.getdata(image, duration=length, include_color_table=True))
        file.write(b";")


def _write_folder(path: Path, frames: np.ndarray) -> None:
    from PIL.Image import fromarray

    path.mkdir()
    for k, frame in enumerate(frames):
        fromarray(frame).save(path / f"{k:05d}.png")
