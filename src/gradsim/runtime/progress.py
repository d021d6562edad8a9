"""How long jobs tell what they do. The command line shows it; the default is silence."""

from typing import Protocol


class Progress(Protocol):
    """Receives what a long job does."""

    def stage(self, text: str) -> None:
        """A new part of the job begins."""
        ...

    def update(self, iteration: int, loss: float, values: dict[str, tuple[float, float]]) -> None:
        """An iteration is done: its loss, and values ± standard deviations (NaN where not known yet) by name."""
        ...

    def fraction(self, finished: int, total: int) -> None:
        """So many pieces of this part of the job are finished."""
        ...

    def done(self) -> None:
        """The job is over."""
        ...


class NullProgress:
    """Says nothing."""

    def stage(self, text: str) -> None:
        pass

    def update(self, iteration: int, loss: float, values: dict[str, tuple[float, float]]) -> None:
        pass

    def fraction(self, finished: int, total: int) -> None:
        pass

    def done(self) -> None:
        pass


class CheckpointStore(Protocol):
    """Remembers how far a long job came, so that an interrupted one goes on and ends in the same answer."""

    def load(self, part: str) -> dict | None:
        """What was saved last under this name: tensors, numbers, lists, dictionaries; None if nothing was."""
        ...

    def save(self, part: str, state: dict) -> None:
        """Replace it; it is there whole or not at all, whatever happens meanwhile."""
        ...

    def clear(self) -> None:
        """Delete all states, at the end of the job."""
        ...


class NoCheckpoint:
    """Remembers nothing."""

    def load(self, part: str) -> dict | None:
        return None

    def save(self, part: str, state: dict) -> None:
        pass

    def clear(self) -> None:
        pass


def progress_callback(progress: Progress):
    """A callback for `least_squares` that tells `progress`."""
    nan = float("nan")
    return lambda entry: progress.update(
        entry["iteration"], entry["cost"], {name: (value, nan) for name, value in entry["values"].items()}
    )
