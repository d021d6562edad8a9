"""Progress and checkpoint protocols of long jobs; the command line displays progress, the default ignores it."""

from typing import Protocol


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


def progress_callback(progress: Progress):
    """Callback for `least_squares` that reports to `progress`."""
    nan = float("nan")
    return lambda entry: progress.update(
        entry["iteration"], entry["cost"], {name: (value, nan) for name, value in entry["values"].items()}
    )
