"""Films of many episodes in one mp4, frame after frame, for random access.

H.264 in RGB keeps every bit; FFmpeg, and so LeRobot's readers, decode it, but browsers show it wrong. Where this build
of PyAV lacks it, the film is H.264 in yuv420p, which puts errors of over 100 grey levels on coloured edges.
"""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

if TYPE_CHECKING:
    from av.video.stream import VideoStream

GROUP = 10  # frames from one that stands alone to the next: a reader decodes 5 more than it wants, on average
LOSSLESS = "libx264rgb", "rgb24", {"crf": "0", "preset": "veryfast"}
LOSSY = "libx264", "yuv420p", {"crf": "10", "preset": "veryfast"}


class FilmFile:
    """An mp4 that frames are added to.

    Args:
        path: Ends in .mp4.
        size: Width and height [px].
        fps: Frames per second.
    """

    def __init__(self, path: Path, size: int, fps: float):
        import av

        self._av = av
        encoder, pixels, options = LOSSLESS if LOSSLESS[0] in av.codecs_available else LOSSY
        rate = Fraction(fps).limit_denominator(100_000)
        self._container = av.open(str(path), "w", options={"movflags": "faststart"})
        options = {**options, "g": str(GROUP), "bf": "0"}
        self._stream = cast("VideoStream", self._container.add_stream(encoder, rate=rate, options=options))
        self._stream.width = self._stream.height = size
        self._stream.pix_fmt = pixels
        self._stream.codec_context.time_base = 1 / rate
        self._at, self._tick, self._pixels = 0, 1 / rate, pixels
        self.about: dict[str, Any] = {
            "video.height": size,
            "video.width": size,
            "video.codec": "h264",
            "video.pix_fmt": "gbrp" if pixels == "rgb24" else pixels,
            "video.is_depth_map": False,
            "video.fps": fps,
            "video.channels": 3,
            "has_audio": False,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure) -> None:
        if failure[0] is None:
            self._container.mux(self._stream.encode(None))
        self._container.close()

    def add(self, frames: np.ndarray) -> None:
        """Frames (T, size, size, 3) uint8."""
        for image in frames:
            frame = self._av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format=self._pixels)
            frame.pts, frame.time_base = self._at, self._tick
            self._container.mux(self._stream.encode(frame))
            self._at += 1
