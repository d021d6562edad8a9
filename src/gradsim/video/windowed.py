"""A video of which only windows about the bodies are kept, so that its memory is bounded by their size.

Videos of at most `WHOLE_PIXELS` pixels are kept whole. Of longer or larger ones, each frame is looked at once, in every `STEP`-th row and
column, and cut down to the pixels about what is body there. Windows have the size that the largest needs, and `MARGIN` more on each side.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradsim.video.read import Frames
from gradsim.video.timing import FrameChanges

WHOLE_PIXELS = 2**24  # of all frames together
STEP = 4  # [px] between the rows and columns in which bodies are looked for
MARGIN = 32  # [px] about a body
GRID = 16  # [px] of which sizes of windows and their corners are multiples, so that pixels can be binned
SPARE = 1.25  # of the size of windows, for bodies that turn or come closer
BODY_COVERAGE = 0.25  # coverage from which a pixel that is looked at is body


@dataclass(frozen=True, eq=False)
class WindowedVideo:
    """Windows of a video.

    Attributes:
        parts: The window (h, w, 3) uint8 of each frame, or the whole frame; none of a video whose clock alone was read.
        samples: Every second of the rows and columns in which bodies were looked for; of a video that is kept whole, `parts`.
        corner: First row and column (T, 2) of each window in its frame; None where frames are whole.
        repeated: Frames that repeat the one before, (T,) bool.
        width, height: Of frames [px].
        times: (T,) [s].
        fps: Frames per second.
    """

    parts: list[np.ndarray]
    samples: list[np.ndarray]
    corner: np.ndarray | None
    repeated: np.ndarray
    width: int
    height: int
    times: np.ndarray
    fps: float

    @property
    def windows(self) -> tuple[np.ndarray, tuple[int, int]] | None:
        """Corners of windows, and the height and width of frames; None where frames are whole."""
        return None if self.corner is None else (self.corner, (self.height, self.width))


def read_windows(
    frames: Frames, coverage: Callable[[np.ndarray], np.ndarray], whole_pixels: int = WHOLE_PIXELS
) -> WindowedVideo:
    """Read a video and keep windows of it. It is read again where bodies outgrow the windows that the first frames needed.

    Args:
        frames: The video.
        coverage: Coverage (height, width) by bodies of a frame (height, width, 3), or of a part of it.
        whole_pixels: Pixels of a video up to which it is kept whole.

    Raises:
        InputError: As `Frames`.
    """
    reading = _Reading(coverage, whole_pixels)
    while not reading.fits(frames):
        reading = _Reading(coverage, whole_pixels, reading.spacious())
    parts, corner = reading.trimmed()
    height, width = reading.size
    repeated = reading.changes.repeated()
    samples = parts if corner is None else reading.samples
    return WindowedVideo(parts, samples, corner, repeated, width, height, frames.times, frames.fps)


def read_clock(frames: Frames) -> WindowedVideo:
    """Read a video and keep none of its pixels: its size, clock and repeated frames.

    Raises:
        InputError: As `Frames`.
    """
    changes, height, width = FrameChanges(), 0, 0
    for frame in frames:
        height, width = frame.shape[:2]
        changes.add(frame)
    return WindowedVideo([], [], None, changes.repeated(), width, height, frames.times, frames.fps)


class _Reading:
    """One pass through a video, into windows of a shape; None as long as frames are whole."""

    def __init__(
        self,
        coverage: Callable[[np.ndarray], np.ndarray],
        whole_pixels: int,
        shape: tuple[int, int] | None = None,
    ):
        self.coverage, self.whole_pixels, self.shape = coverage, whole_pixels, shape
        self.parts: list[np.ndarray] = []
        self.samples: list[np.ndarray] = []
        self.boxes: list[np.ndarray] = []  # first row and column of the body in a frame, and those after the last
        self.changes, self.size = FrameChanges(), (0, 0)

    def fits(self, frames: Frames) -> bool:
        """Read all frames; False where a body does not fit into the windows."""
        for frame in frames:
            self.size = height, width = frame.shape[:2]
            self.changes.add(frame)
            self.parts.append(frame)
            self.samples.append(frame)
            if self.shape is not None:
                self._cut(len(self.parts) - 1, self.shape)
                if any(n > room for n, room in zip(self._needed(), self.shape, strict=True)):
                    return False
            elif len(self.parts) * height * width > self.whole_pixels:
                for k in range(len(self.parts)):
                    self._look(k)
                self.shape = self.spacious()
                for k in range(len(self.parts)):
                    self._cut(k, self.shape)
        return True

    def _look(self, k: int) -> None:
        """Find the box of the body in a frame; where there is none, it is the one before."""
        sample = self.parts[k][::STEP, ::STEP]
        self.samples[k] = sample[::2, ::2].copy()
        body = self.coverage(sample) > BODY_COVERAGE
        sides = [np.flatnonzero(body.any(axis)) for axis in (1, 0)]
        if len(sides[0]):
            ends = np.array([[side[0], side[-1] + 1] for side in sides]).T * STEP
        else:
            ends = self.boxes[-1] if self.boxes else np.array([self.size, self.size]) // 2
        self.boxes.append(ends)

    def _cut(self, k: int, shape: tuple[int, int]) -> None:
        """Cut a frame down to its window."""
        if len(self.boxes) == k:
            self._look(k)
        self.parts[k] = self._window(self.parts[k], self._corner(k, shape), shape)

    def _needed(self) -> tuple[int, int]:
        """Height and width of the window that the largest body needs."""
        extent = np.max([ends[1] - ends[0] for ends in self.boxes], 0)
        return self._on_grid(extent + 2 * MARGIN + GRID)

    def spacious(self) -> tuple[int, int]:
        """The same, and more for frames to come."""
        return self._on_grid(SPARE * np.array(self._needed()))

    def _on_grid(self, sides: np.ndarray) -> tuple[int, int]:
        height, width = (min(-int(-side // GRID) * GRID, most) for side, most in zip(sides, self.size, strict=True))
        return height, width

    def _corner(self, k: int, shape: tuple[int, int]) -> np.ndarray:
        """First row and column of a window of a frame about its body."""
        first = (self.boxes[k].sum(0) - np.array(shape)) / 2
        return np.clip(np.floor(first / GRID).astype(int) * GRID, 0, np.array(self.size) - np.array(shape))

    def _window(self, part: np.ndarray, first: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        row, column = first
        return part[row : row + shape[0], column : column + shape[1]].copy()

    def trimmed(self) -> tuple[list[np.ndarray], np.ndarray | None]:
        """Windows of the size that is needed, and their corners."""
        if self.shape is None:
            return self.parts, None
        shape, corners = self._needed(), []
        for k, part in enumerate(self.parts):
            corners.append(self._corner(k, shape))
            self.parts[k] = self._window(part, corners[-1] - self._corner(k, self.shape), shape)
        return self.parts, np.array(corners)
