"""Frames of a video by the instants of a scene's clock, of which one is in memory at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from gradsim.video.read import frames_with_clock
from gradsim.video.timing import FrameChanges, align_times


class AlignedFrames:
    """Frames (height, width, 3) uint8 at instants 0, 1, …; an earlier one than the last is decoded again.

    Args:
        path: As for `read_with_clock`.
        fps: Frames per second of the clock.
        choice: As for `align_frames`.
        stamps: As for `align_frames`.

    Raises:
        InputError: As `align_frames` and `read_with_clock`.
    """

    def __init__(self, path: str | Path, fps: float, choice: str = "", stamps: Sequence[float] | None = None):
        self._frames, changes = frames_with_clock(path, fps), FrameChanges()
        self.size = 0, 0
        for frame in self._frames:
            self.size = frame.shape[:2]
            changes.add(frame)
        self._index = align_times(self._frames.times, changes.repeated(), fps, choice, stamps).index
        self._decoder: Iterator[np.ndarray] = iter(())
        self._next, self._frame = 0, np.empty(0, np.uint8)

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, instant: int) -> np.ndarray:
        wanted = int(self._index[instant])
        if wanted < self._next - 1 or self._next == 0:
            self._decoder, self._next = iter(self._frames), 0
        while self._next <= wanted:
            self._frame = next(self._decoder)
            self._next += 1
        return self._frame
