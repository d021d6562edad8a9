"""Settings of training, and the growing horizon of an episode.

Gradients through many steps of contact are large and erratic, through few steps they are moderate. Training with a
horizon that grows starts each stage from a policy that already moves towards the goal.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gradsim.control.training.optimizers import OPTIMIZERS, UNCLIPPED_OPTIMIZERS, default_rate
from gradsim.errors import InputError
from gradsim.geometry.validation import counts
from gradsim.scene.node import did_you_mean


@dataclass(frozen=True)
class Horizon:
    """Number of simulated frames by iteration: grows linearly from a fraction of the episode to all of it.

    The goal is evaluated as if the episode ended at the horizon: frame -1 is the last frame of the horizon.

    Args:
        first: Fraction of the episode in the first iteration, above 0, at most 1.
        iterations: Iteration from which on it is the whole episode; 0: from the start.

    Raises:
        InputError: If a value is out of its range.
    """

    first: float = 0.25
    iterations: int = 10

    def __post_init__(self):
        if not 0 < self.first <= 1:
            raise InputError(f"horizon.first: got {self.first}; expected a fraction of the episode above 0, at most 1.")
        counts("horizon.iterations", self.iterations, least=0)

    def frames(self, iteration: int, total: int) -> int:
        """Frames in an iteration, including the start; at least 2 of `total`."""
        grown = min(1.0, iteration / self.iterations) if self.iterations else 1.0
        share = self.first + (1 - self.first) * grown
        return min(total, 1 + math.ceil(share * (total - 1) - 1e-9))


@dataclass(frozen=True)
class TrainingConfig:
    """Configuration of gradient descent through rollouts.

    Args:
        optimizer: Name: "adam", "sgd", "lbfgs", ... of PyTorch, or "polyak" (`optimizers.py`).
        rate: Learning rate; None: the default of the optimizer.
        iterations: Number of iterations; each is one rollout forward and one backward of every world.
        clip: Largest norm of the gradient, which is scaled down to it; None: no clipping.
        schedule: Learning-rate schedule: a name in `optimizers.SCHEDULES`, or a mapping of `name` and options.
        options: Further arguments of the optimizer, such as {"floor": 0.01} of polyak.
        horizon: Growing horizon; None: always the whole episode.
        target_loss: Training ends after an iteration with at most this loss.
        not_finite: Action if a rollout or a gradient is not finite: "raise", or "halve" the step that led there and
            continue from its middle (counted in `History.retreats`).

    Raises:
        InputError: If a name is unknown, a number is out of its range, or the optimizer does not allow clipping.
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
            raise InputError(f"unknown optimiser {self.optimizer!r}{hint}")
        counts("search.iterations", self.iterations)
        for name in ("rate", "clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"search.{name}: got {value}; expected a number above 0.")
        if self.clip is not None and self.optimizer in UNCLIPPED_OPTIMIZERS:
            raise InputError(f"{self.optimizer} takes no `clip`: {UNCLIPPED_OPTIMIZERS[self.optimizer]}; remove it.")
        if self.not_finite not in ("raise", "halve"):
            raise InputError(f"search.not_finite: got {self.not_finite!r}; expected 'raise' or 'halve'.")

    @property
    def learning_rate(self) -> float:
        """Initial learning rate."""
        return default_rate(self.optimizer) if self.rate is None else self.rate
