"""What a search went through: every iteration as it was, and policies that can be taken back."""

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
    """One iteration of a search: what was found before its step.

    Args:
        loss: Mean over the worlds.
        gradient_norm: Of the loss by all parameters, before clipping; not a number where none was computed.
        seconds: CPU time of all threads [s].
        rollouts: Worlds that were rolled out, those of a line search included.
        steps: Simulated steps of these.
        distance: From the goal [m], as the goal measures it, mean over the worlds. For figures only: no search sees it.
        position_error: Mean over xyz of the squared distance of the centres of mass [m²], the paper's unit. As above.
        frames: Of the film, as long as it was then.
        stage: What the loss was called; losses of other stages or lengths are not comparable.
        rate: Learning rate of the step after it; 0 where there was none.
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
        """Losses with the same are comparable."""
        return self.stage, self.frames


@dataclass
class History:
    """A search.

    Attributes:
        iterations: Every one, raw.
        policies: State dictionaries: "first", "middle", "best" and "last" of the iterations.
        middle: The iteration of the middle policy: half of those that were to come, also where a search ends before.
        retreats: How often a step led to numbers that were not finite, and was halved.
        names: What it is the history of, such as task, method and seed: for files.
    """

    iterations: list[Iteration] = field(default_factory=list)
    policies: dict[str, State] = field(default_factory=dict)
    middle: int | None = None
    retreats: int = 0
    names: dict[str, str | float] = field(default_factory=dict)

    def add(self, entry: Iteration, policy: Mapping[str, Tensor] | None = None) -> bool:
        """Append an iteration, and keep the policy it was of as the last, and as the best if it is.

        Returns:
            Whether it is the best so far.
        """
        self.iterations.append(entry)
        best = self.best == len(self.iterations) - 1
        if policy is not None:
            own = {name: value.detach().clone() for name, value in policy.items()}
            self.policies["last"] = own
            self.policies.setdefault("first", own)
            if best:
                self.policies["best"] = own
        return best

    def keep_middle(self) -> None:
        """Keep the newest policy as the middle one."""
        self.policies["middle"], self.middle = self.policies["last"], len(self.iterations) - 1

    def __len__(self) -> int:
        return len(self.iterations)

    def raw(self, quantity: str = "loss") -> list[float]:
        """A quantity of each iteration as it was; its names are those of `Iteration`."""
        return [getattr(entry, quantity) for entry in self.iterations]

    def at_best(self, quantity: str = "loss") -> list[float]:
        """A quantity at the best iteration so far, for each: what one would have if the search had ended there.

        The best is chosen by the loss alone, among the iterations whose loss is of the same kind as the newest.
        """
        return [self.raw(quantity)[k] for k in self._bests()]

    def total(self, quantity: str = "rollouts") -> list[float]:
        """The sum up to and with each iteration, of rollouts, steps or seconds: a second axis."""
        sums, sum_ = [], 0
        for value in self.raw(quantity):
            sum_ += value
            sums.append(sum_)
        return sums

    @property
    def best(self) -> int:
        """The iteration with the least loss among those of the kind of the last one.

        Raises:
            InputError: If there is none.
        """
        if not self.iterations:
            raise InputError("the history is empty; a search has to run for at least one iteration.")
        return self._bests()[-1]

    def _bests(self) -> list[int]:
        found: list[int] = []
        for k, entry in enumerate(self.iterations):
            before = self.iterations[found[-1]] if found else None
            better = before is None or entry.kind != before.kind or entry.loss < before.loss or math.isnan(before.loss)
            found.append(k if better else found[-1])
        return found

    def json(self) -> dict:
        """All but the policies, as JSON has it: numbers that are none become null."""
        entries = [
            {
                key: None if isinstance(value, float) and not math.isfinite(value) else value
                for key, value in pairs.items()
            }
            for pairs in map(asdict, self.iterations)
        ]
        own = {"schema": SCHEMA, "names": self.names, "retreats": self.retreats, "middle": self.middle}
        return own | {"best": self.best if entries else None, "iterations": entries}

    def save(self, path: str | Path) -> None:
        """Write it as JSON, whole or not at all; policies are not in it (they are `torch.save`d)."""
        with atomic_write(path, "w") as file:
            file.write(json.dumps(self.json(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def parse(cls, content: Mapping) -> "History":
        """A history from what `json` gave.

        Raises:
            InputError: If it is none.
        """
        if content.get("schema") != SCHEMA:
            raise InputError(f"a history has the schema {SCHEMA!r}; got {content.get('schema')!r}.")
        entries = [_iteration(entry) for entry in content["iterations"]]
        return cls(entries, {}, content.get("middle"), content["retreats"], dict(content["names"]))

    @classmethod
    def load(cls, path: str | Path) -> "History":
        """A history from a file that `save` wrote.

        Raises:
            InputError: If there is no such file, or it is none.
        """
        try:
            return cls.parse(json.loads(Path(path).read_text()))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"{path} is no history of a search: {error}") from error

    @classmethod
    def of_checkpoint(cls, checkpoint: CheckpointFile) -> "History":
        """The history of an interrupted search, with its policies; empty if nothing was saved.

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
        """The same with these names beside its own."""
        return replace(self, names={**self.names, **names})


def _iteration(content: Mapping[str, Any]) -> Iteration:
    restored: dict[str, Any] = {key: math.nan if value is None else value for key, value in content.items()}
    return Iteration(**restored)
