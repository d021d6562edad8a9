"""Training histories: every iteration, and the policies at the first, middle, best and last one."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_write
from gradsim.runtime.checkpoint import CheckpointFile

SCHEMA = "gradsim.history/1"

State = dict[str, Tensor]  # of a policy


@dataclass(frozen=True)
class Iteration:
    """One iteration of training, measured before its step.

    Args:
        loss: Mean loss over the worlds.
        gradient_norm: Norm of the gradient with respect to all parameters, before clipping; NaN if not computed.
        seconds: CPU time of all threads [s].
        rollouts: Number of worlds rolled out, including those of a line search.
        steps: Simulation steps of these.
        distance: Distance from the goal [m], mean over the worlds. For figures only, never used in training.
        position_error: Mean over xyz of the squared distance of the centres of mass [m²], as in the paper. For figures
            only.
        frames: Frames of the episode in this iteration.
        stage: Name of the loss; losses of different stages or lengths are not comparable.
        rate: Learning rate of the step; 0 without a step.
    """

    loss: float
    gradient_norm: float = math.nan
    seconds: float = 0.0
    rollouts: int = 1
    steps: int = 0
    distance: float = math.nan
    position_error: float = math.nan
    frames: int = 0
    stage: str = ""
    rate: float = 0.0

    @property
    def kind(self) -> tuple[str, int]:
        """Stage and length; losses of the same kind are comparable."""
        return self.stage, self.frames


@dataclass
class History:
    """Training history.

    Attributes:
        iterations: All iterations, unsmoothed.
        policies: State dictionaries: "first", "middle", "best" and "last" of the iterations.
        middle: Iteration of the middle policy: half of the planned iterations, also if training ended early.
        retreats: Number of steps that led to non-finite values and were halved.
        names: Metadata for files, such as task, method and seed.
    """

    iterations: list[Iteration] = field(default_factory=list)
    policies: dict[str, State] = field(default_factory=dict)
    middle: int | None = None
    retreats: int = 0
    names: dict[str, str | float] = field(default_factory=dict)

    def add(self, entry: Iteration, policy: Mapping[str, Tensor] | None = None) -> bool:
        """Append an iteration; store its policy as the last one, and as the best one if it is.

        Returns:
            True if it is the best so far.
        """
        self.iterations.append(entry)
        best = self.best == len(self.iterations) - 1
        if policy is not None:
            state = {name: value.detach().clone() for name, value in policy.items()}
            self.policies["last"] = state
            self.policies.setdefault("first", state)
            if best:
                self.policies["best"] = state
        return best

    def keep_middle(self) -> None:
        """Store the last policy as the middle one."""
        self.policies["middle"], self.middle = self.policies["last"], len(self.iterations) - 1

    def __len__(self) -> int:
        return len(self.iterations)

    def raw(self, quantity: str = "loss") -> list[float]:
        """Values of an attribute of `Iteration` in each iteration."""
        return [getattr(entry, quantity) for entry in self.iterations]

    def at_best(self, quantity: str = "loss") -> list[float]:
        """Values of an attribute at the best iteration so far, for each iteration.

        The best has the smallest loss among the iterations up to then whose loss is of the same kind.
        """
        return [self.raw(quantity)[k] for k in self._bests()]

    def total(self, quantity: str = "rollouts") -> list[float]:
        """Cumulative sum of rollouts, steps or seconds up to and including each iteration."""
        sums, sum_ = [], 0
        for value in self.raw(quantity):
            sum_ += value
            sums.append(sum_)
        return sums

    @property
    def best(self) -> int:
        """Iteration with the smallest loss among those of the kind of the last one.

        Raises:
            InputError: If the history is empty.
        """
        if not self.iterations:
            raise InputError("the history is empty; train for at least one iteration.")
        return self._bests()[-1]

    def _bests(self) -> list[int]:
        bests: list[int] = []
        for k, entry in enumerate(self.iterations):
            before = self.iterations[bests[-1]] if bests else None
            better = before is None or entry.kind != before.kind or entry.loss < before.loss or math.isnan(before.loss)
            bests.append(k if better else bests[-1])
        return bests

    def json(self) -> dict:
        """Content without the policies for JSON; non-finite numbers become null."""
        entries = [
            {
                key: None if isinstance(value, float) and not math.isfinite(value) else value
                for key, value in pairs.items()
            }
            for pairs in map(asdict, self.iterations)
        ]
        header = {"schema": SCHEMA, "names": self.names, "retreats": self.retreats, "middle": self.middle}
        return header | {"best": self.best if entries else None, "iterations": entries}

    def save(self, path: str | Path) -> None:
        """Write as JSON, atomically; without the policies, which are saved by `torch.save`."""
        with atomic_write(path, "w") as file:
            file.write(json.dumps(self.json(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def parse(cls, content: Mapping) -> "History":
        """Read a history from the output of `json`.

        Raises:
            InputError: If the content is not a history.
        """
        if content.get("schema") != SCHEMA:
            raise InputError(f"a history has the schema {SCHEMA!r}; got {content.get('schema')!r}.")
        entries = [_iteration(entry) for entry in content["iterations"]]
        return cls(entries, {}, content.get("middle"), content["retreats"], dict(content["names"]))

    @classmethod
    def load(cls, path: str | Path) -> "History":
        """Read a history from a file written by `save`.

        Raises:
            InputError: If the file cannot be read, or is not a history.
        """
        try:
            return cls.parse(json.loads(Path(path).read_text()))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"{path} is not a training history: {error}") from error

    @classmethod
    def of_checkpoint(cls, checkpoint: CheckpointFile) -> "History":
        """History of interrupted training, with its policies; empty if nothing was saved.

        Raises:
            InputError: If the file is not a checkpoint, or of another job.
        """
        state = checkpoint.load()
        if state is None:
            return cls()
        history = cls.parse(state["history"])
        history.policies = dict(state["policies"])
        return history

    def named(self, **names: str | float) -> "History":
        """The same history with these names added."""
        return replace(self, names={**self.names, **names})


def _iteration(content: Mapping[str, Any]) -> Iteration:
    restored: dict[str, Any] = {key: math.nan if value is None else value for key, value in content.items()}
    return Iteration(**restored)
