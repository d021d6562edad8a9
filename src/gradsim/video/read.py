"""Read videos with exact time stamps: mp4, webm, mov and mkv by PyAV; gif and folders of png by Pillow.

Frames are 8-bit RGB as displayed (a phone's rotation applied). Times are those of the file, so a variable frame rate
stays variable. Only where a file states one rate, and its clock is too coarse for it (webm counts milliseconds), are the
times the exact multiples that the clock rounds. A truncated video is an error, never a shorter video; flipped bits are
detected only where the format allows it (png always, gif rarely).
"""

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from gradsim.errors import InputError
from gradsim.runtime.input_file import check_path, regular_file
from gradsim.runtime.progress import Reading
from gradsim.video.conversion import Conversion, exact_conversion

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream
    from PIL.Image import Image

TICK = 6e-4  # [s] rounding error of a clock: webm counts milliseconds
CONTAINERS = (".mp4", ".webm", ".mov", ".mkv")
_Clock = tuple[np.ndarray | None, float | None]  # times [s] and frames per second, where a file has them
_Decoder = Generator[np.ndarray, None, _Clock]
LOSSY_CODECS = ("h264", "hevc", "mpeg4", "mpeg2video", "mpeg1video", "h263", "mjpeg", "vp8", "av1", "wmv2", "prores")


@dataclass(frozen=True, eq=False)
class Video:
    """Frames with their time stamps.

    Attributes:
        frames: (T, height, width, 3) uint8 RGB, row 0 on top.
        times: (T,) float64 [s], increasing. The first is that of the file, which is mostly but not always 0.
        fps: Frames per second; the mean if the rate varies.
    """

    frames: np.ndarray
    times: np.ndarray
    fps: float

    @property
    def width(self) -> int:
        return self.frames.shape[2]

    @property
    def height(self) -> int:
        return self.frames.shape[1]


def open_container(path: str | Path) -> "InputContainer":
    """Open a video file to read. Metadata that are not UTF-8 do not stop it, for which PyAV has an option before version 19."""
    import av

    if int(av.__version__.partition(".")[0]) < 19:
        return av.open(str(path), metadata_errors="replace")
    return av.open(str(path))


def read(path: str | Path, fps: float | None = None) -> Video:
    """Read a video file or a folder of png images.

    Args:
        path: A .mp4, .webm, .mov, .mkv or .gif, or a folder whose .png files, in numerical order (frame 2 before
            frame 10), are the frames.
        fps: Frames per second. Required for a folder; for a file it replaces the time stamps, as for a slow-motion
            video.

    Raises:
        InputError: If the path is missing, of an unknown kind, empty, corrupt or truncated, or if it has no frames,
            frames of several sizes, transparent pixels, or no usable time stamps while `fps` is not given.
    """
    stream = Frames(path, fps)
    frames = np.stack(list(stream))
    return Video(frames, stream.times, stream.fps)


class Frames:
    """Frames (height, width, 3) uint8 of a video, decoded one after the other each time they are iterated over.

    Args:
        path: As for `read`.
        fps: As for `read`.

    Attributes:
        times: As of `Video`, after the last frame.
        fps: Likewise.
        subsampled: True if chroma has fewer pixels than luma, after the first frame, as of `is_subsampled`.

    Raises:
        InputError: As `read`, on the way.
    """

    def __init__(self, path: str | Path, fps: float | None = None):
        self._path, self._rate, self.subsampled = Path(path), fps, False
        self.times, self.fps = np.empty(0), 0.0
        self._clock: _Clock = None, None
        self._total = 0  # frames that the file states; 0 if it does not
        if fps is not None and not 0 < fps < float("inf"):
            raise InputError(f"fps is {fps}; it must be positive.")
        check_path(self._path)

    def __iter__(self) -> Iterator[np.ndarray]:
        path, shape, count, progress = self._path, (), 0, Reading(self._path.name)
        for frame in self._with_clock(self._decoded()):
            shape = shape or frame.shape
            if frame.shape != shape:
                (h, w), (height, width) = frame.shape[:2], shape[:2]
                raise InputError(
                    f"{path}: frame {count} has {w} × {h} px, frame 0 has {width} × {height}; resize all frames to one size."
                )
            yield frame
            count += 1
            progress.advance(count, self._total)
        times, rate = self._clock
        if self._rate is not None:
            times, rate = np.arange(count) / self._rate, float(self._rate)
        elif times is None or rate is None:
            raise InputError(f"{path} has no time stamps; give fps.")
        elif (np.diff(times) <= 0).any():
            k = int(np.argmax(np.diff(times) <= 0))
            raise InputError(f"{path}: frame {k + 1} is not later than frame {k} ({times[k]:.6g} s); give fps.")
        self.times, self.fps = times, rate

    def _note_header(self, count: int, subsampled: bool = False) -> None:
        """Remember how many frames a file states, and its chroma."""
        self._total, self.subsampled = count, subsampled

    def _with_clock(self, frames: "_Decoder") -> Iterator[np.ndarray]:
        self._clock = yield from frames

    def _decoded(self) -> "_Decoder":
        path = self._path
        if path.is_dir():
            return _folder_frames(path, self._rate, self._note_header)
        if not path.exists():
            raise InputError(f"{path} does not exist; give a video file or a folder of png images.")
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty (0 bytes); copy or record it again.")
        if path.suffix.lower() == ".gif":
            return _gif_frames(path, self._note_header)
        if path.suffix.lower() in CONTAINERS:
            return _container_frames(path, self._note_header)
        kinds = ", ".join((*CONTAINERS, ".gif"))
        raise InputError(f"{path} has suffix `{path.suffix}`; convert it to one of {kinds}, or a folder of png.")


def stream_frames(path: str | Path, count: int) -> Iterator[tuple[int, np.ndarray]]:
    """Index and pixels (height, width, 3) uint8 of about `count` evenly spaced frames of a video, one after the other.

    Args:
        path: A .mp4, .webm, .mov or .mkv.
        count: All frames are returned where there are no more; up to twice as many where the file does not say how many.

    Raises:
        InputError: If the file cannot be decoded or has no frames.
    """
    from av.error import FFmpegError

    exact, k = exact_conversion(), -1
    try:
        with open_container(path) as container:
            if not container.streams.video:
                raise InputError(f"{path} has no video stream, only sound or data; give a video file.")
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            total = _stated_count(container, stream)
            stride = max(1, total // count)
            for k, frame in enumerate(container.decode(stream)):
                if k % stride == 0:
                    yield k, np.rot90(frame.to_ndarray(format="rgb24", interpolation=exact), round(frame.rotation / 90))
    except FFmpegError as error:
        raise InputError(
            f"{path} cannot be decoded ({error}); it is corrupt or cut off: copy or record it again."
        ) from error
    if k < 0:
        raise InputError(f"{path} has no frames; it is empty or cut off: copy or record it again.")


def read_with_clock(path: str | Path, fps: float) -> Video:
    """Read a video of a scene: a folder of png images, which has no time stamps, has the scene's clock `fps` [1/s].

    Raises:
        InputError: As `read`.
    """
    return read(path, fps if Path(path).is_dir() else None)


def frames_with_clock(path: str | Path, fps: float) -> Frames:
    """The frames of `read_with_clock`, one after the other."""
    return Frames(path, fps if Path(path).is_dir() else None)


def is_lossy(path: str | Path) -> bool:
    """True for a file whose codec is one of cameras and phones, which is not lossless; VP9, of which files of gradsim are, may be."""
    path = Path(path)
    if not path.is_file() or path.suffix.lower() not in CONTAINERS:
        return False
    with open_container(path) as container:
        stream = container.streams.video[0].codec_context
        return stream.name in LOSSY_CODECS and "4:4:4" not in (
            stream.profile or ""
        )  # H.264 is lossless in that profile alone


def is_subsampled(path: str | Path) -> bool:
    """True for a file whose chroma has fewer pixels than its luma."""
    path = Path(path)
    if not path.is_file() or path.suffix.lower() not in CONTAINERS:
        return False
    with open_container(path) as container:
        return _has_small_chroma(container.streams.video[0])


def _has_small_chroma(stream: "VideoStream") -> bool:
    format = stream.codec_context.format
    return format is not None and len({(part.width, part.height) for part in format.components}) > 1


def read_times(path: str | Path) -> tuple[np.ndarray, float] | None:
    """Times of the frames [s] and rate [1/s] of a container, as those of `read`, without decoding; None for other files.

    A file that is damaged has none; `read` says what is wrong.
    """
    from av.error import FFmpegError

    path = Path(path)
    if not path.is_file() or path.suffix.lower() not in CONTAINERS:
        return None
    try:
        with open_container(path) as container:
            if not container.streams.video:
                return None
            stream = container.streams.video[0]
            stamps = sorted(packet.pts for packet in container.demux(stream) if packet.pts is not None)
            tick, rate = stream.time_base, stream.average_rate
    except FFmpegError:
        return None
    if len(stamps) < 2 or tick is None:
        return None
    times, fps = _times(stamps, tick, rate)
    return None if fps is None else (times, fps)


class Clocked(Protocol):
    """Size and clock of a video."""

    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def times(self) -> np.ndarray: ...
    @property
    def fps(self) -> float: ...


def check_video(
    video: Clocked,
    width: int,
    height: int,
    fps: float,
    path: str | Path,
    stamps: Sequence[float] | None = None,
) -> None:
    """Check that a video has the size and the clock of a scene; `path` names it in the error.

    Args:
        video: The video.
        width: Of the scene's camera [px].
        height: Likewise.
        fps: Frames per second of the scene.
        path: File of the video.
        stamps: Times of the frames after the first [s], where the scene has them.

    Raises:
        InputError: If the size differs, or a frame, counted from the first, is off the scene's clock by more than 2 %
            of a frame. Both are reported at once. A gap of whole frames is allowed: those are dropped frames
            (`gradsim.video.timing`).
    """
    problems = []
    if (video.width, video.height) != (width, height):
        problems.append(
            f"its frames are {video.width} × {video.height} px, the scene's `camera.size` is {width} × {height}: "
            "resize the video or change `camera.size`"
        )
    elapsed = video.times - video.times[0]
    if stamps is not None:
        count = min(len(stamps), len(elapsed))
        late = elapsed[:count] - np.asarray(stamps[:count])
        worst = int(np.argmax(np.abs(late)))
        if len(elapsed) > len(stamps) or abs(late[worst]) > max(0.02 / fps, TICK):
            problems.append(
                f"it has {len(elapsed)} frames, the scene {len(stamps)} `timing.stamps`, and frame {worst} is {late[worst]:+.4g} s off: "
                "remove `stamps`, and a fit reads them from the video"
            )
        stamps = elapsed
    usual = np.median(np.diff(elapsed)) * fps if len(elapsed) > 1 else 1.0
    instants = np.rint(elapsed * fps) if abs(usual - 1) < 0.05 else np.arange(len(elapsed))
    late = elapsed - (instants / fps if stamps is None else stamps)
    worst = int(np.argmax(np.abs(late)))
    if abs(late[worst]) > max(0.02 / fps, TICK):
        problems.append(
            f"it runs at {video.fps:.6g} fps, the scene's `timing.fps` is {fps:.6g} (frame {worst} is "
            f"{late[worst]:+.4g} s off): change `timing.fps`, or, where the rate varies, give the times of the frames as `timing.stamps`"
        )
    if problems:
        raise InputError(f"{path} does not fit the scene: {'; and '.join(problems)}.")


def _container_frames(path: Path, note_header: Callable[[int, bool], None]) -> _Decoder:
    from av.error import FFmpegError

    convert = Conversion()
    try:
        with open_container(path) as container:
            if not container.streams.video:
                raise InputError(f"{path} has no video stream, only sound or data; give a video file.")
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            stamps, length = [], 0.0
            note_header(_stated_count(container, stream), _has_small_chroma(stream))
            for frame in container.decode(stream):
                if frame.is_corrupt:
                    raise InputError(f"{path}: frame {len(stamps)} is corrupt; copy or record the video again.")
                # a frame's rotation is counter-clockwise, in degrees
                yield np.rot90(convert(frame), round(frame.rotation / 90))
                stamps.append(frame.pts)
                length = float(frame.duration * (frame.time_base or 0))
            if not stamps:
                raise InputError(f"{path} has no frames; it is empty or cut off: copy or record it again.")
            end = _stated_end(container, stream)
            tick, rate = stream.time_base, stream.average_rate
    except FFmpegError as error:
        raise InputError(
            f"{path} cannot be decoded ({error}); it is corrupt or cut off: copy or record it again."
        ) from error
    if None in stamps or tick is None:
        return None, None
    times, fps = _times(stamps, tick, rate)
    last = max(length, 1 / fps if fps else 0.0)
    if end - times[-1] > 1.75 * last:
        raise InputError(
            f"{path} is cut off: its stated length is {end:.4g} s, but its last frame is {len(stamps) - 1} at "
            f"{times[-1]:.4g} s; copy or record it again."
        )
    return times, fps


def _times(stamps: list[int], tick: Fraction, rate: Fraction | None) -> tuple[np.ndarray, float | None]:
    """Times [s] and rate [1/s] from a container's clock, without its rounding where one rate fits all stamps."""
    times = np.array([float(stamp * tick) for stamp in stamps])
    if rate:
        ideal = [stamps[0] * tick + k / rate for k in range(len(stamps))]
        # with at least 4 ticks a frame, a dropped frame is more than a tick away from every constant rate
        if tick * rate <= Fraction(1, 4) and all(abs(s * tick - t) < tick for s, t in zip(stamps, ideal, strict=True)):
            return np.array([float(t) for t in ideal]), float(rate)
    if len(times) > 1 and times[-1] > times[0]:
        return times, (len(times) - 1) / (times[-1] - times[0])
    return times, float(rate) if rate else None


def _stated_end(container: "InputContainer", stream: "VideoStream") -> float:
    """End of the last frame as stated by the file [s]; 0 if not stated."""
    if stream.duration is not None and stream.time_base is not None:
        return float(stream.duration * stream.time_base)
    tag = re.fullmatch(r"(\d+):(\d+):([\d.]+)", stream.metadata.get("DURATION", ""))  # Matroska, per stream
    if tag:
        hours, minutes, seconds = map(float, tag.groups())
        return 3600 * hours + 60 * minutes + seconds
    if container.duration is not None and len(container.streams) == 1:  # sound may last longer
        return container.duration / 1e6  # AV_TIME_BASE counts microseconds
    return 0.0


def _stated_count(container: "InputContainer", stream: "VideoStream") -> int:
    """Number of frames as stated by the file, or by its length and rate; 0 if not stated."""
    return stream.frames or int(_stated_end(container, stream) * float(stream.average_rate or 0))


@contextmanager
def _pillow_errors(path: Path) -> Iterator[None]:
    """Convert Pillow's exceptions on damaged files to errors that name the file."""
    from PIL.Image import DecompressionBombError

    try:
        yield
    except InputError:
        raise
    except (OSError, SyntaxError, EOFError, ValueError, IndexError, DecompressionBombError) as error:
        raise InputError(
            f"{path} cannot be read ({error}); it is corrupt or cut off: copy or save it again."
        ) from error


def _gif_frames(path: Path, note_header: Callable[[int], None]) -> _Decoder:
    from PIL import Image

    lengths = []  # in milliseconds
    with _pillow_errors(path), Image.open(path, formats=["GIF"]) as image:
        count = getattr(image, "n_frames", 1)
        note_header(count)
        for k in range(count):
            image.seek(k)
            yield _opaque(image, f"{path}, frame {k},")
            lengths.append(image.info.get("duration", 0))
    if not path.read_bytes().rstrip(b"\0").endswith(b";"):
        raise InputError(f"{path} is cut off: the end mark of a gif is missing; copy or save it again.")
    if 0 in lengths:
        return None, None
    times = np.concatenate([[0], np.cumsum(lengths[:-1])]) / 1000
    steps = lengths[:-1] or lengths
    return times, 1000 * len(steps) / sum(steps)


def _folder_frames(path: Path, fps: float | None, note_header: Callable[[int], None]) -> _Decoder:
    from PIL import Image

    files = sorted((f for f in path.iterdir() if f.suffix.lower() == ".png"), key=lambda f: _natural(f.name))
    if not files:
        raise InputError(f"{path} holds no .png files; give a folder with one png per frame.")
    if fps is None:
        raise InputError(f"{path} is a folder of png images, which have no time stamps; give fps.")
    _check_numbers(path, files)
    note_header(len(files))
    for file in files:
        regular_file(file, "png image")
        with _pillow_errors(file):
            data = file.read_bytes()
            with Image.open(file, formats=["PNG"]) as image:
                # Pillow silently drops the lower byte of 16-bit colors; IHDR has the depth in byte 24
                if data[24] == 16:
                    raise InputError(f"{file} has 16 bits per channel; save it with 8.")
                yield _opaque(image, str(file))
    return None, None


def _opaque(image: "Image", name: str) -> np.ndarray:
    rgba = np.asarray(image.convert("RGBA"))
    if rgba[..., 3].min() < 255:
        raise InputError(f"{name} has transparent pixels; flatten it onto the background of the scene.")
    return rgba[..., :3]


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorting key that reads digits as numbers."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def _check_numbers(path: Path, files: list[Path]) -> None:
    """Require equal steps between the numbers: a missing image would shift the times of all after it."""
    matches = [re.search(r"([0-9]+)\D*$", file.stem) for file in files]
    numbers = [int(match.group(1)) for match in matches if match]
    steps = np.diff(numbers)
    if len(numbers) == len(files) and len(steps) and (steps != steps[0]).any():
        k = int(np.argmax(steps != steps[0]))
        raise InputError(
            f"{path}: after {files[k].name} comes {files[k + 1].name}, but the first two files are {steps[0]} apart; "
            "a frame is missing or a file is misnamed: number the files in equal steps."
        )
