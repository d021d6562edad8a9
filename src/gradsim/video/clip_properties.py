"""Properties of a video file that decide how it can be fitted: codec, rotation flag and time stamps."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradsim.video.read import CONTAINERS, TICK, Video, is_lossy, open_container

MAX_STAMP_ERROR = 0.02  # of a frame, by which stamps may be off one rate: as much as `check_video` allows


@dataclass(frozen=True)
class ClipProperties:
    """Properties of a clip.

    Args:
        codec: Name of the codec, such as "h264"; "gif" and "png" for images.
        lossy: True for a codec of cameras and phones.
        rotation: Counter-clockwise turn by the file's rotation flag, which is applied when read [deg].
        fps: Constant rate that is nearest to the stamps [1/s].
        uneven: Largest distance of a time stamp from it, whole frames that are missing left out [s].
        missing: Its instants without a frame.
    """

    codec: str
    lossy: bool
    rotation: int
    fps: float
    uneven: float
    missing: int

    @property
    def words(self) -> list[str]:
        """Sentences for a user: codec, and what needs attention."""
        words = [f"codec {self.codec}" + (", lossy: its noise is `auto` in a fit" if self.lossy else "")]
        if self.rotation:
            words.append(f"its rotation flag of {self.rotation}° is applied")
        if self.missing:
            words.append(f"{self.missing} frames are missing by its time stamps, which a fit leaves out")
        if self.varies:
            words.append(
                f"its rate varies: stamps are off {self.fps:.4g} per second by up to {1e3 * self.uneven:.3g} ms, so a fit takes the "
                "time of each frame from the file (`timing.stamps`)"
            )
        return words

    @property
    def varies(self) -> bool:
        """True if the rate varies by more than a constant rate allows."""
        return self.uneven > max(MAX_STAMP_ERROR / self.fps, TICK)


def clip_properties(path: str | Path, video: Video) -> ClipProperties:
    """Properties of a clip.

    Args:
        path: Its file or folder.
        video: What `read` made of it.
    """
    path = Path(path)
    codec, rotation = ("png" if path.is_dir() else path.suffix[1:].lower()), 0
    if path.is_file() and path.suffix.lower() in CONTAINERS:
        with open_container(path) as container:
            stream = container.streams.video[0]
            codec, rotation = stream.codec_context.name, next(container.decode(stream)).rotation
    fps, uneven, missing = _clock(video.times, video.fps)
    return ClipProperties(codec, is_lossy(path), int(rotation), fps, uneven, missing)


def variable_stamps(times: np.ndarray, fps: float) -> np.ndarray | None:
    """Times of frames after the first [s] where they are off every constant rate by more than 2 % of a frame and 0.6 ms, else None.

    Gaps of whole frames at a constant rate are dropped frames.

    Args:
        times: As of `read` (frames,) [s].
        fps: Likewise [1/s].
    """
    rate, uneven, _ = _clock(times, fps)
    return times - times[0] if uneven > max(MAX_STAMP_ERROR / rate, TICK) else None


def _clock(times: np.ndarray, fps: float) -> tuple[float, float, int]:
    """Constant rate [1/s], largest distance from it [s], and number of its instants without a frame.

    The rate is the line through the stamps, where gaps count as whole numbers of the usual step.
    """
    if len(times) < 3:
        return fps, 0.0, 0
    steps = np.diff(times)
    instants = np.concatenate([[0.0], np.cumsum(np.rint(steps / np.median(steps)).clip(1))])
    slope, start = np.polyfit(instants, times, 1)
    off = np.abs(times - (start + slope * instants))
    return float(1 / slope), float(off.max()), int(instants[-1]) + 1 - len(times)
