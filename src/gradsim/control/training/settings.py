"""The part of the film that a loss is taken of: short at first, then all of it.

Gradients through many steps of contact are large and point anywhere; through few they are tame. A search that first
asks for the goal soon, then later, starts each time from what already goes the right way.

How a policy is looked for: the settings of `train`, as a task file has them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gradsim.control.training.optimizers import OPTIMIZERS, UNCLIPPED, default_rate
from gradsim.errors import InputError
from gradsim.geometry.validation import counts
from gradsim.scene.node import did_you_mean


@dataclass(frozen=True)
class Horizon:
    """Frames that are simulated in an iteration: they grow evenly from a share of the film to all of it.

    The goal then sees the film as if it ended there: its last frame is that of the horizon.

    Args:
        first: The share of the film in the first iteration, above 0, at most 1.
        iterations: From this iteration on it is the whole film; 0 begins with it.

    Raises:
        InputError: If they are out of these ranges.
    """

    first: float = 0.25
    iterations: int = 10

    def __post_init__(self):
        if not 0 < self.first <= 1:
            raise InputError(f"horizon.first: got {self.first}; expected a share of the film above 0, at most 1.")
        counts("horizon.iterations", self.iterations, least=0)

    def frames(self, iteration: int, total: int) -> int:
        """Frames in an iteration, the start included; at least 2 of `total`."""
        grown = min(1.0, iteration / self.iterations) if self.iterations else 1.0
        share = self.first + (1 - self.first) * grown
        return min(total, 1 + math.ceil(share * (total - 1) - 1e-9))


@dataclass(frozen=True)
class TrainingConfig:
    """Descent along the gradients of rollouts.

    Args:
        optimizer: Its name: "adam", "sgd", "lbfgs", ... of PyTorch, or "polyak" (`optimizers.py`).
        rate: Learning rate; None takes that of the optimiser.
        iterations: How many; each is one rollout forward and one backward of every world.
        clip: The gradient's norm is cut to this; None leaves it.
        schedule: Of the learning rate: a name of `optimisers.SCHEDULES`, or a mapping of `name` and options.
        options: Further arguments of the optimiser, such as {"floor": 0.01} of polyak.
        horizon: The part of the film that counts; None is all of it throughout.
        target_loss: Ends after an iteration whose loss is at most this.
        not_finite: What to do where a rollout or a gradient leaves the finite numbers: "raise", or "halve" the step that
            led there and go on from its middle (counted in `History.retreats`).

    Raises:
        InputError: If a name is unknown, a number out of its range, or gradients are clipped that may not be.
    """

    optimizer: str = "adam"
    rate: float | None = None
    iterations: int = 40
    clip: float | None = None
    schedule: str | Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    horizon: Horizon | None = None
    target_loss: float = -math.inf
    not_finite: Literal["raise", "halve"] = "raise"

    def __post_init__(self):
        if self.optimizer not in OPTIMIZERS:
            hint = did_you_mean(self.optimizer, list(OPTIMIZERS)) or f"; choose one of {', '.join(OPTIMIZERS)}."
            raise InputError(f"there is no optimiser {self.optimizer!r}{hint}")
        counts("search.iterations", self.iterations)
        for name in ("rate", "clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"search.{name}: got {value}; expected a number above 0.")
        if self.clip is not None and self.optimizer in UNCLIPPED:
            raise InputError(f"{self.optimizer} takes no `clip`: {UNCLIPPED[self.optimizer]}; leave it out.")
        if self.not_finite not in ("raise", "halve"):
            raise InputError(f"search.not_finite: got {self.not_finite!r}; expected 'raise' or 'halve'.")

    @property
    def learning_rate(self) -> float:
        """At the start."""
        return default_rate(self.optimizer) if self.rate is None else self.rate
