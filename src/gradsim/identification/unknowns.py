"""Unknowns of an inverse problem: names, ranges, transforms, priors.

Positive quantities are solved for in logarithms, so that derivatives are relative and signs are kept; others in their
value. Bounds are enforced by projection.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.priors import Prior, Weight, reach
from gradsim.physics.system import Values
from gradsim.scene.parameters import Parameter, component_letters, parameters, resolve

DEFAULT_RANGE_FACTOR = 5.0  # range of an unknown given without bounds: its value in the scene over and times this


@dataclass(frozen=True)
class Unknown:
    """One number to solve for.

    Args:
        name: Dotted name of a parameter or of one component ("cube.mass", "cube.position.x"). Several names tied by `=`
            share the number: "left.friction=right.friction".
        low: Lower bound, and lower end of the starts. None: from the scene's value (positive quantities only).
        high: Upper bound, and upper end of the starts.
        prior: Mean and standard deviation of a Gaussian prior, on the logarithm for positive quantities.
        logarithmic: Whether it is solved for by its logarithm; None: if the quantity is positive.
        at: Number about which only derivatives are needed, so that its range does not matter.
    """

    name: str
    low: float | None = None
    high: float | None = None
    prior: tuple[float, float] | None = None
    logarithmic: bool | None = None
    at: float | None = None

    @classmethod
    def parse(cls, text: str) -> "Unknown":
        """From NAME or NAME:LOW:HIGH; NAME=OTHER ties two or more parameters to one number."""
        name, *bounds = text.split(":")
        if len(bounds) not in (0, 2):
            raise InputError(f"unknown {text!r} is not NAME or NAME:LOW:HIGH, such as cube.mass:2:12.")
        try:
            return cls(name, *map(float, bounds[:2]))  # pyright: ignore[reportArgumentType] -- none or two
        except ValueError:
            raise InputError(f"the bounds of unknown {text!r} are not numbers; write {name}:LOW:HIGH.") from None

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters or components that share the number."""
        return tuple(name.strip() for name in self.name.split("="))


def _tied(label: str) -> set[str]:
    """Names that share a number, each with the clip that it is of."""
    names, at, clip = label.partition("@")
    return {f"{name.strip()}{at}{clip}" for name in names.split("=")}


class Ranges:
    """Unknowns with the ranges they start in, and their solver coordinates.

    Args:
        unknowns: With both bounds.
        logarithmic: Whether each is solved for by its logarithm.
        units: SI unit of each.
        decades: Whether starts are drawn evenly over the logarithms of positive unknowns, not over their values.
        priors: Priors of some unknowns by their names, besides those of `Unknown.prior`.
        only_prior: Names of the unknowns that start at the mean of their prior.

    Attributes:
        priors: As given.
        weights: All priors in solver coordinates.
        prior_mean: Mean of each unknown with a prior, else 0 (unknowns,).
        prior_precision: P (unknowns, unknowns); 0 without priors.
    """

    def __init__(
        self,
        unknowns: Sequence[Unknown],
        logarithmic: Sequence[bool],
        units: Sequence[str],
        decades: bool = False,
        priors: Sequence[Prior] = (),
        only_prior: Sequence[str] = (),
    ):
        self.decades, self.priors = decades, list(priors)
        self.unknowns, self.logarithmic, self.units = list(unknowns), list(logarithmic), list(units)
        self.names = [u.name for u in self.unknowns]
        log = torch.tensor(self.logarithmic)
        bounds = torch.tensor([[u.low, u.high] for u in self.unknowns], dtype=torch.float64)
        self.low, self.high = torch.where(log[:, None], bounds.clamp(min=1e-300).log(), bounds).unbind(1)
        self._log = log
        self.weights = [
            Weight(u.name, [k], torch.tensor([u.prior[0]]).double(), torch.tensor([[u.prior[1] ** -2]]).double())
            for k, u in enumerate(self.unknowns)
            if u.prior
        ]
        self.weights += [
            Weight.of(prior, [self._column(name) for name in prior.names], self.logarithmic) for prior in priors
        ]
        self._weigh()
        self._first = torch.full_like(self.low, torch.nan)
        for k in [self._column(name) for name in only_prior]:
            self._first[k] = self.prior_mean[k].clamp(self.low[k], self.high[k])

    def _weigh(self) -> None:
        """Sum the priors."""
        n = len(self)
        self.prior_mean, self.prior_precision = torch.zeros(n).double(), torch.zeros(n, n).double()
        taken: set[int] = set()
        for weight in self.weights:
            if twice := taken & set(weight.columns):
                raise InputError(f"`{self.names[min(twice)]}` has two priors; give one, or their product as one.")
            taken |= set(weight.columns)
            self.prior_precision += weight.among(n)
            self.prior_mean[weight.columns] = weight.mean

    def _column(self, name: str) -> int:
        """Index of the unknown of this name, or that ties it to others."""
        return next(k for k, u in enumerate(self.unknowns) if _tied(name) <= _tied(u.name))

    def __len__(self) -> int:
        return len(self.unknowns)

    @property
    def unit(self) -> Tensor:
        """Change of each unknown that counts as 100 %, in solver coordinates (unknowns,): 1 of a logarithm, else the range."""
        return torch.where(self._log, 1.0, self.high - self.low)

    def range(self, k: int) -> tuple[float, float]:
        """Ends of the range of unknown k."""
        low, high = self.unknowns[k].low, self.unknowns[k].high
        assert low is not None and high is not None  # unknowns have both here
        return low, high

    def draw(self, rng: np.random.Generator, count: int) -> Tensor:
        """Starts (count, unknowns), uniform over the ranges, or over their logarithms with `decades`.

        Unknowns that only a prior made so start at its mean.
        """
        share = rng.random((count, len(self)))
        if self.decades:
            starts = self.low + (self.high - self.low) * torch.tensor(share)
        else:
            low, high = (np.array([getattr(u, end) for u in self.unknowns]) for end in ("low", "high"))
            starts = self.inner(torch.tensor(low + (high - low) * share))
        return torch.where(self._first.isnan(), starts, self._first)

    def is_drawn(self, k: int) -> bool:
        """True if starts differ in unknown k; False if only a prior makes it an unknown."""
        return bool(self._first[k].isnan())

    def inner(self, numbers: Tensor) -> Tensor:
        """Solver coordinates (..., unknowns) of values in SI units."""
        return torch.where(self._log, numbers.clamp(min=1e-300).log(), numbers)

    def numbers(self, inner: Tensor) -> Tensor:
        """Values in SI units (..., unknowns)."""
        return torch.where(self._log, torch.where(self._log, inner, 0).exp(), inner)


class Space(Ranges):
    """The unknowns of one problem, and the map from their numbers to the parameters of a scene.

    Args:
        scene: The scene.
        unknowns: Names, NAME:LOW:HIGH, or `Unknown`s; NAME=OTHER is one number for several parameters. A vector
            parameter such as `cube.velocity` means all its components.
        decades: As for `Ranges`.
        priors: Priors of numbers of the scene; what is not among the unknowns becomes one.

    Raises:
        InputError: On a name that the scene lacks, arrays of soft bodies, bounds the wrong way round or outside the physical range,
            missing bounds where none can be guessed, and ties between parameters of different kinds.
    """

    def __init__(self, scene, unknowns: Sequence[str | Unknown], decades: bool = False, priors: Sequence[Prior] = ()):
        self.scene, self.kinds = scene, parameters(scene)
        if not unknowns and not priors:
            raise InputError("nothing to identify: name at least one unknown, such as cube.mass.")
        self.unknowns: list[Unknown] = []
        self.places: list[list[tuple[str, int | None]]] = []  # of each unknown: what it sets
        self._vectors: dict[tuple[str, torch.dtype], tuple[Tensor, Tensor]] = {}
        self.logarithmic: list[bool] = []
        self.units: list[str] = []
        for item in unknowns:
            for unknown in self._components(Unknown.parse(item) if isinstance(item, str) else item):
                self._add(unknown)
        added = [unknown for prior in priors for unknown in self._from_prior(prior)]
        for unknown in added:
            self._add(unknown)
        only_prior = [unknown.name for unknown in added]
        super().__init__(self.unknowns, self.logarithmic, self.units, decades, priors, only_prior)

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Ranges of the numbers that the unknowns set, by parameter; of a vector, that of one component."""
        return {name: self.range(k) for k, places in enumerate(self.places) for name, _ in places}

    def values(self, inner: Tensor) -> Values:
        """Parameters (worlds, ...) that the unknowns touch, by name; differentiable."""
        numbers, worlds = self.numbers(inner), len(inner)
        touched: Values = {}
        for k, name, index in ((k, *place) for k, places in enumerate(self.places) for place in places):
            if index is None:
                touched[name] = numbers[:, k]
                continue
            base, masks = self._vector(name, inner.dtype)
            if name not in touched:
                touched[name] = base.expand(worlds, len(base))
            touched[name] = torch.where(masks[index], numbers[:, k, None], touched[name])
        return touched

    def _vector(self, name: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Components of a parameter in the scene (n,), and True where one is the k-th (n, n)."""
        known = self._vectors.get((name, dtype))
        if known is None:
            with torch.inference_mode(False):  # it is kept for calls outside of one
                base = torch.tensor(self.kinds[name].value, dtype=dtype)
                known = self._vectors[name, dtype] = base, torch.eye(len(base), dtype=torch.bool)
        return known

    def slopes(self, inner: Tensor) -> Values:
        """Derivatives (worlds, unknowns, ...) of `values` by each unknown, by name."""
        numbers, (worlds, n) = self.numbers(inner), inner.shape
        rate, slopes = torch.where(self._log, numbers, 1.0), {}
        for k, name, index in ((k, *place) for k, places in enumerate(self.places) for place in places):
            if name not in slopes:
                slopes[name] = inner.new_zeros(worlds, n, *self.kinds[name].value.shape)
            slopes[name][:, k, ... if index is None else index] = rate[:, k]
        return slopes

    def _from_prior(self, prior: Prior) -> list[Unknown]:
        """Unknowns for the names of a prior that none has so far."""
        added, taken = [], [place for places in self.places for place in places]
        for name, mean, sd in zip(prior.names, prior.mean, prior.sd, strict=True):
            unknown = Unknown(name)
            places = [resolve(self.scene, part, self.kinds) for part in unknown.names]
            if set(places) <= set(taken):
                continue
            kind = self._kind(unknown, [self.kinds[where] for where, _ in places])
            low, high = reach(kind, name, mean, sd)
            if not low < mean < high:
                raise InputError(
                    f"the prior of `{name}` has the mean {mean:g}, which leaves what is physical: {kind.lower:g} to {kind.upper:g}."
                )
            added.append(Unknown(name, low, high))
        return added

    def _components(self, unknown: Unknown) -> list[Unknown]:
        sizes = {len(self.kinds[name].value) for name in unknown.names if self._whole_vector(name)}
        if not sizes:
            return [unknown]
        if len(sizes) > 1 or not all(map(self._whole_vector, unknown.names)):
            raise InputError(
                f"`{unknown.name}` ties vectors to numbers, or to others; name a component of each, as .x."
            )
        letters = component_letters(unknown.names[0])[: sizes.pop()]
        return [replace(unknown, name="=".join(f"{name}.{axis}" for name in unknown.names)) for axis in letters]

    def _whole_vector(self, dotted: str) -> bool:
        name, index = resolve(self.scene, dotted, self.kinds)
        if row_of := self.kinds[name].row_of:
            raise InputError(
                f"`{name}` is an array with one row for each {row_of}; an unknown is a number. "
                "Solve for arrays by `identify_fields`."
            )
        return index is None and self.kinds[name].value.ndim > 0

    def _add(self, unknown: Unknown) -> None:
        places = [resolve(self.scene, name, self.kinds) for name in unknown.names]
        label, kind = "=".join(unknown.names), self._kind(unknown, [self.kinds[name] for name, _ in places])
        low, high = unknown.low, unknown.high
        logarithmic = kind.positive if unknown.logarithmic is None else unknown.logarithmic
        if unknown.at is not None:
            low, high = unknown.at - 1, unknown.at + 1
        elif low is None or high is None:
            name, index = places[0]
            value = float(self.kinds[name].value if index is None else self.kinds[name].value[index])
            if not kind.positive or value <= 0:
                raise InputError(f"`{label}` needs a range: write {label}:LOW:HIGH.")
            low, high = value / DEFAULT_RANGE_FACTOR, value * DEFAULT_RANGE_FACTOR
        if not (math.isfinite(low) and math.isfinite(high)):
            raise InputError(f"the bounds of `{label}` are {low:g} and {high:g}; both must be finite.")
        if low >= high:
            raise InputError(f"the bounds of `{label}` are the wrong way round: {low:g} is not below {high:g}.")
        if unknown.at is None and (low < kind.lower or high > kind.upper or (kind.positive and low <= 0)):
            least = "above 0" if kind.positive else f"from {kind.lower:g} to {kind.upper:g}"
            possible = max(low, high / 1000 if kind.positive else kind.lower), min(high, kind.upper)
            way = f"; write {label}:{possible[0]:.3g}:{possible[1]:.3g}" if possible[0] < possible[1] else ""
            raise InputError(f"the range {low:g} to {high:g} of `{label}` leaves what is physical ({least}){way}.")
        taken = [place for others in self.places for place in others]
        for name, place in zip(unknown.names, places, strict=True):
            if place in taken:
                raise InputError(f"`{name}` is named twice.")
            taken.append(place)
        self.unknowns.append(replace(unknown, name=label, low=low, high=high))
        self.places.append(places)
        self.logarithmic.append(logarithmic)
        self.units.append(kind.unit)

    def _kind(self, unknown: Unknown, kinds: list[Parameter]) -> Parameter:
        """Kind of the tied parameters, with the intersection of their ranges."""
        if len({(kind.unit, kind.positive) for kind in kinds}) > 1:
            units = ", ".join(f"{name} [{kind.unit}]" for name, kind in zip(unknown.names, kinds, strict=True))
            raise InputError(f"`{unknown.name}` ties parameters of different kinds ({units}); tie like to like.")
        lower, upper = max(kind.lower for kind in kinds), min(kind.upper for kind in kinds)
        return replace(kinds[0], lower=lower, upper=upper)
