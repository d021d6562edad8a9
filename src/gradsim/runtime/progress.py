"""Progress and checkpoint protocols of long jobs; the command line displays progress, the default ignores it."""

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol

SECONDS_BEFORE_READING_SHOWS = 1.0
MAX_SECONDS_IN_WORDS = 100
MAX_MINUTES_IN_WORDS = 90


class Progress(Protocol):
    """Receiver of the progress of a long job."""

    def stage(self, text: str) -> None:
        """Called when a part of the job begins."""
        ...

    def update(self, iteration: int, loss: float, values: dict[str, tuple[float, float]]) -> None:
        """Called after an iteration with its loss, and values and standard deviations (NaN if unknown) by name."""
        ...

    def fraction(self, finished: int, total: int) -> None:
        """Called with the number of finished items of the current part and their total."""
        ...

    def frames(self, count: int, total: int, chi2_per_n: float | None) -> None:
        """Called by the search of a fit, whose clip grows: its first frames so far, all frames, and χ²/N if it is known."""
        ...

    def done(self) -> None:
        """Called when the job ends."""
        ...


class NullProgress:
    """Progress that is ignored."""

    def stage(self, text: str) -> None:
        pass

    def update(self, iteration: int, loss: float, values: dict[str, tuple[float, float]]) -> None:
        pass

    def fraction(self, finished: int, total: int) -> None:
        pass

    def frames(self, count: int, total: int, chi2_per_n: float | None) -> None:
        pass

    def done(self) -> None:
        pass


class CheckpointStore(Protocol):
    """Storage for the state of a long job, so that an interrupted one resumes with the same result."""

    def load(self, part: str) -> dict | None:
        """State saved last under this name (tensors, numbers, lists, dictionaries); None if there is none."""
        ...

    def save(self, part: str, state: dict) -> None:
        """Replace the state, atomically."""
        ...

    def clear(self) -> None:
        """Delete all states at the end of the job."""
        ...


class NoCheckpoint:
    """Checkpoint store that stores nothing."""

    def load(self, part: str) -> dict | None:
        return None

    def save(self, part: str, state: dict) -> None:
        pass

    def clear(self) -> None:
        pass


_shows_reading: ContextVar[Progress | None] = ContextVar("_shows_reading", default=None)


@contextlib.contextmanager
def show_reading(progress: Progress) -> Iterator[None]:
    """Let a progress show the reading of files that takes long, in all that is called within."""
    token = _shows_reading.set(progress)
    try:
        yield
    finally:
        _shows_reading.reset(token)


class Reading:
    """Progress of reading one file, shown by the progress of `show_reading` from the first second on.

    Args:
        name: Of the file.
    """

    def __init__(self, name: str):
        self._name, self._progress, self._begun, self._shown = name, _shows_reading.get(), time.monotonic(), False

    def advance(self, finished: int, total: int) -> None:
        """Show the number of frames so far, and of all; 0: unknown."""
        if self._progress is None or time.monotonic() - self._begun < SECONDS_BEFORE_READING_SHOWS:
            return
        if not self._shown:
            self._progress.stage(f"reading {self._name}")
            self._shown = True
        if total >= finished:
            self._progress.fraction(finished, total)


def progress_callback(progress: Progress):
    """Callback for `least_squares` that reports to `progress`."""
    nan = float("nan")

    def report(entry: dict) -> None:
        if total := entry.get("of_frames"):
            progress.frames(entry["frames"], total, entry.get("chi2_per_n"))
        progress.update(
            entry["iteration"], entry["cost"], {name: (value, nan) for name, value in entry["values"].items()}
        )

    return report


def time_left(seconds: float, share: float) -> str:
    """The time that work still takes, in words; "" if that cannot be said.

    Args:
        seconds: Time since it began.
        share: Share of the work that is done, in [0, 1].
    """
    if not 0 < share < 1:
        return ""
    left = seconds * (1 / share - 1)
    if left < MAX_SECONDS_IN_WORDS:
        return f"{max(1, round(left, None if left < 10 else -1)):.0f} s left"
    minutes = left / 60
    return f"{minutes:.0f} min left" if minutes < MAX_MINUTES_IN_WORDS else f"{minutes / 60:.1f} h left"
