"""What an inverse problem solves for: names, ranges, transforms, priors.

A positive quantity is solved for by its logarithm, so that its derivative is relative and its sign is safe; others by
their value. Bounds hold by projection.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.physics.system import Values
from gradsim.scene.parameters import parameters, resolve

WIDE = 5.0  # range of an unknown given without bounds: its value in the scene over and times this


@dataclass(frozen=True)
class Unknown:
    """One number to solve for.

    Args:
        name: Dotted name of a parameter or of one component ("cube.mass", "cube.position.x").
        low: Lower bound, and lower end of the starts. None: from the scene's value (positive quantities only).
        high: Upper bound, and upper end of the starts.
        prior: Mean and standard deviation of a Gaussian prior, on the logarithm for positive quantities.
    """

    name: str
    low: float | None = None
    high: float | None = None
    prior: tuple[float, float] | None = None

    @classmethod
    def parse(cls, text: str) -> "Unknown":
        """From NAME or NAME:LOW:HIGH."""
        name, *bounds = text.split(":")
        if len(bounds) not in (0, 2):
            raise InputError(f"unknown {text!r} is not NAME or NAME:LOW:HIGH, such as cube.mass:2:12.")
        try:
            return cls(name, *map(float, bounds[:2]))  # pyright: ignore[reportArgumentType] -- none or two
        except ValueError:
            raise InputError(f"the bounds of unknown {text!r} are not numbers; write {name}:LOW:HIGH.") from None


class Space:
    """The unknowns of one problem, and the map from their numbers to the parameters of a scene.

    Args:
        scene: The scene.
        unknowns: Names, NAME:LOW:HIGH, or `Unknown`s. A vector parameter such as `cube.velocity` stands for all its
            components.

    Raises:
        InputError: On a name that the scene lacks, bounds the wrong way round or outside the physical range, and
            missing bounds where none can be guessed.
    """

    def __init__(self, scene, unknowns: Sequence[str | Unknown]):
        self.scene, self.kinds = scene, parameters(scene)
        if not unknowns:
            raise InputError("nothing to identify: name at least one unknown, such as cube.mass.")
        self.unknowns: list[Unknown] = []
        self.places: list[tuple[str, int | None]] = []
        self.logarithmic: list[bool] = []
        self.units: list[str] = []
        for given in unknowns:
            for unknown in self._components(Unknown.parse(given) if isinstance(given, str) else given):
                self._add(unknown)
        self.names = [u.name for u in self.unknowns]
        log = torch.tensor(self.logarithmic)
        bounds = torch.tensor([[u.low, u.high] for u in self.unknowns], dtype=torch.float64)
        self.low, self.high = torch.where(log[:, None], bounds.clamp(min=1e-300).log(), bounds).unbind(1)
        self._log = log

    def __len__(self) -> int:
        return len(self.unknowns)

    def range(self, k: int) -> tuple[float, float]:
        """Ends of the range of unknown k."""
        low, high = self.unknowns[k].low, self.unknowns[k].high
        assert low is not None and high is not None  # filled in by __init__
        return low, high

    def draw(self, rng: np.random.Generator, count: int) -> Tensor:
        """Starts (count, unknowns), uniform over the ranges."""
        low, high = (np.array([getattr(u, end) for u in self.unknowns]) for end in ("low", "high"))
        return self.inner(torch.tensor(low + (high - low) * rng.random((count, len(self)))))

    def inner(self, numbers: Tensor) -> Tensor:
        """What the solver moves (..., unknowns), from values in SI units."""
        return torch.where(self._log, numbers.clamp(min=1e-300).log(), numbers)

    def numbers(self, inner: Tensor) -> Tensor:
        """Values in SI units (..., unknowns)."""
        return torch.where(self._log, torch.where(self._log, inner, 0).exp(), inner)

    def values(self, inner: Tensor) -> Values:
        """Parameters (worlds, ...) that the unknowns touch, by name; differentiable."""
        numbers, worlds = self.numbers(inner), len(inner)
        touched: Values = {}
        for k, (name, index) in enumerate(self.places):
            if index is None:
                touched[name] = numbers[:, k]
                continue
            if name not in touched:
                base = torch.tensor(self.kinds[name].value, dtype=inner.dtype)
                touched[name] = base.expand(worlds, len(base))
            mask = torch.arange(touched[name].shape[1]) == index
            touched[name] = torch.where(mask, numbers[:, k, None], touched[name])
        return touched

    def _components(self, unknown: Unknown) -> list[Unknown]:
        name, index = resolve(self.scene, unknown.name)
        if index is not None or self.kinds[name].value.ndim == 0:
            return [unknown]
        axes = "xyz" if len(self.kinds[name].value) == 3 else "xy"
        return [Unknown(f"{unknown.name}.{a}", unknown.low, unknown.high, unknown.prior) for a in axes]

    def _add(self, unknown: Unknown) -> None:
        name, index = resolve(self.scene, unknown.name)
        kind = self.kinds[name]
        value = float(kind.value if index is None else kind.value[index])
        low, high = unknown.low, unknown.high
        if low is None or high is None:
            if not kind.positive or value <= 0:
                raise InputError(f"`{unknown.name}` needs a range: write {unknown.name}:LOW:HIGH.")
            low, high = value / WIDE, value * WIDE
        if not (math.isfinite(low) and math.isfinite(high)):
            raise InputError(f"the bounds of `{unknown.name}` are {low:g} and {high:g}; both must be finite.")
        if low >= high:
            raise InputError(f"the bounds of `{unknown.name}` are the wrong way round: {low:g} is not below {high:g}.")
        if low < kind.lower or high > kind.upper or (kind.positive and low <= 0):
            least = "above 0" if kind.positive else f"from {kind.lower:g} to {kind.upper:g}"
            raise InputError(f"the range {low:g} to {high:g} of `{unknown.name}` leaves what is physical ({least}).")
        if unknown.name in [u.name for u in self.unknowns]:
            raise InputError(f"`{unknown.name}` is named twice.")
        self.unknowns.append(Unknown(unknown.name, low, high, unknown.prior))
        self.places.append((name, index))
        self.logarithmic.append(kind.positive)
        self.units.append(kind.unit)
