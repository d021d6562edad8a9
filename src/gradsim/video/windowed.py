"""A video of which only windows about the bodies are kept, so that its memory is bounded by their size.

Videos of at most `WHOLE_PIXELS` pixels are kept whole. Of longer or larger ones, each frame is looked at once, in every `STEP`-th row and
column, and cut down to the pixels about what is body there. Windows have the size that the largest needs, and `MARGIN` more on each side.
Where bodies are detected in all frames together, as before a background, frames stay as they are read, and windows are of what follows.
"""

from collections.abc import Callable, Iterable, Sequence
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
class FrameWindows:
    """One window of each frame of a video, all of one size.

    Attributes:
        corner: First row and column (T, 2) of each.
        shape: Height and width of windows [px].
        size: Height and width of frames [px].
    """

    corner: np.ndarray
    shape: tuple[int, int]
    size: tuple[int, int]

    @classmethod
    def about(cls, bodies: np.ndarray) -> "FrameWindows":
        """Windows about bodies (T, height, width) bool; of a frame without one, where it was before, or else will be."""
        size = bodies.shape[1:]
        visible = [_box(body) for body in bodies]
        last = next((box for box in visible if box is not None), np.array([size, size]) // 2)
        boxes = []
        for box in visible:
            last = last if box is None else box
            boxes.append(last)
        shape = _window_shape(boxes, size)
        return cls(np.array([_corner(box, shape, size) for box in boxes]), shape, size)

    def cut(self, images: Iterable[np.ndarray]) -> list[np.ndarray]:
        """Windows of images (height, width, …), which are views of them."""
        return [_cut_out(image, corner, self.shape) for image, corner in zip(images, self.corner, strict=True)]

    def spread(self, parts: np.ndarray) -> np.ndarray:
        """Images (T, height, width) of which `parts` (T, h, w) are the windows, and that are 0 elsewhere: memory is that of the windows."""
        images = np.zeros((len(parts), *self.size), parts.dtype)
        for window, part in zip(self.cut(images), parts, strict=True):
            window[:] = part
        return images


@dataclass(frozen=True, eq=False)
class WindowedVideo:
    """Windows of a video.

    Attributes:
        parts: The window (h, w, 3) uint8 of each frame, or the whole frame; none of a video whose clock alone was read.
        samples: Every second of the rows and columns in which bodies were looked for; of a video that is kept whole, `parts`.
        windows: Where in their frames they are; None where frames are whole.
        repeated: Frames that repeat the one before, (T,) bool.
        width, height: Of frames [px].
        times: (T,) [s].
        fps: Frames per second.
        subsampled: True if chroma has fewer pixels than luma.
    """

    parts: list[np.ndarray]
    samples: list[np.ndarray]
    windows: FrameWindows | None
    repeated: np.ndarray
    width: int
    height: int
    times: np.ndarray
    fps: float
    subsampled: bool = False


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
    parts, windows = reading.trimmed()
    height, width = reading.size
    repeated = reading.changes.repeated()
    samples = parts if windows is None else reading.samples
    return WindowedVideo(parts, samples, windows, repeated, width, height, frames.times, frames.fps, frames.subsampled)


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
        box = _box(self.coverage(sample) > BODY_COVERAGE)
        if box is not None:
            self.boxes.append(box * STEP)
        else:
            self.boxes.append(self.boxes[-1] if self.boxes else np.array([self.size, self.size]) // 2)

    def _cut(self, k: int, shape: tuple[int, int]) -> None:
        """Cut a frame down to its window."""
        if len(self.boxes) == k:
            self._look(k)
        self.parts[k] = _cut_out(self.parts[k], _corner(self.boxes[k], shape, self.size), shape).copy()

    def _needed(self) -> tuple[int, int]:
        """Height and width of the window that the largest body needs."""
        return _window_shape(self.boxes, self.size)

    def spacious(self) -> tuple[int, int]:
        """The same, and more for frames to come."""
        return _on_grid(SPARE * np.array(self._needed()), self.size)

    def trimmed(self) -> tuple[list[np.ndarray], FrameWindows | None]:
        """Windows of the size that is needed, and where they are."""
        if self.shape is None:
            return self.parts, None
        shape, corners = self._needed(), []
        for k, part in enumerate(self.parts):
            corners.append(_corner(self.boxes[k], shape, self.size))
            within = corners[-1] - _corner(self.boxes[k], self.shape, self.size)
            self.parts[k] = _cut_out(part, within, shape).copy()
        return self.parts, FrameWindows(np.array(corners), shape, self.size)


def _box(body: np.ndarray) -> np.ndarray | None:
    """First row and column of a body (height, width) bool, and those after the last; None where there is none."""
    sides = [np.flatnonzero(body.any(axis)) for axis in (1, 0)]
    return np.array([[side[0], side[-1] + 1] for side in sides]).T if len(sides[0]) else None


def _window_shape(boxes: Sequence[np.ndarray], size: tuple[int, int]) -> tuple[int, int]:
    """Height and width of windows about boxes as of `_box`."""
    extent = np.max([ends[1] - ends[0] for ends in boxes], 0)
    return _on_grid(extent + 2 * MARGIN + GRID, size)


def _on_grid(sides: np.ndarray, size: tuple[int, int]) -> tuple[int, int]:
    height, width = (min(-int(-side // GRID) * GRID, most) for side, most in zip(sides, size, strict=True))
    return height, width


def _corner(box: np.ndarray, shape: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
    """First row and column of a window of a shape about a box."""
    first = (box.sum(0) - np.array(shape)) / 2
    return np.clip(np.floor(first / GRID).astype(int) * GRID, 0, np.array(size) - np.array(shape))


def _cut_out(image: np.ndarray, first: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    row, column = first
    return image[row : row + shape[0], column : column + shape[1]]
