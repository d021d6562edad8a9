"""Unknowns as directions in parameter space, in comparable units.

A unit step multiplies a positive quantity by e and adds its natural scale to any other: the size of the body to a
position, 1 rad to an angle, the bending stiffness times the time of a fall to its damping, and so on; or the range, where
one is given.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.unknowns import Space
from gradsim.physics.dependencies import require_dependency
from gradsim.physics.model import Model
from gradsim.physics.system import Values
from gradsim.scene.parameters import component_letters, resolve


@dataclass(frozen=True)
class Direction:
    """Direction of one unknown.

    Args:
        name: Name of the unknown.
        places: Parameters that it sets, each with a component or None.
        scale: Increment of a unit step [unit]; None: a unit step multiplies by e.
        unit: SI unit.
    """

    name: str
    places: tuple[tuple[str, int | None], ...]
    scale: float | None
    unit: str

    @property
    def kind(self) -> str:
        """Last part of the parameter's name, such as "friction"."""
        return self.places[0][0].rsplit(".", 1)[-1]

    @property
    def owner(self) -> str:
        """Name of the body, ground or other owner; "" for gravity."""
        return self.places[0][0].partition(".")[0] if "." in self.places[0][0] else ""

    def shift(self, values: Values, amount: Tensor) -> Values:
        """Parameters that it sets (worlds, ...), shifted by `amount` (worlds,) unit steps; differentiable."""
        changed: Values = {}
        for name, mask in self._masks(values):
            value = changed.get(name, values[name])
            amount_ = amount.reshape(-1, *[1] * (value.ndim - 1)).to(value.dtype)
            changed[name] = (
                value * (amount_ * mask).exp() if self.scale is None else value + self.scale * amount_ * mask
            )
        return changed

    def tangent(self, values: Values) -> Values:
        """Derivatives (worlds, ...) of the parameters that it sets by the amount."""
        slopes: Values = {}
        for name, mask in self._masks(values):
            unit = values[name] if self.scale is None else self.scale
            slopes[name] = slopes.get(name, 0) + unit * mask
        return slopes

    def _masks(self, values: Values) -> Iterator[tuple[str, Tensor]]:
        """Each parameter that it sets, and 1 for the components that it sets, else 0 (worlds, ...)."""
        for name, index in self.places:
            mask = torch.ones_like(values[name])
            if mask.ndim > 1 and index is not None:
                mask = mask * (torch.arange(mask.shape[1], device=mask.device) == index)
            yield name, mask

    def effect(self) -> str:
        """Size of a hundredth of a step, as text."""
        return "1 %" if self.scale is None else f"{0.01 * self.scale:.2g} {self.unit}".strip()


def of_space(space: Space) -> list[Direction]:
    """Directions of the unknowns of a fit; of one that is not positive, in units of its range."""
    span = (space.high - space.low).tolist()
    return [
        Direction(name, tuple(space.places[k]), None if space.logarithmic[k] else span[k], space.units[k])
        for k, name in enumerate(space.names)
    ]


def of_model(model: Model, names: Sequence[str] | None, overrides: Mapping[str, Tensor]) -> list[Direction]:
    """Named parameters of a model, vectors by their components.

    Args:
        model: The model.
        names: Which; None: those of `overrides`, and if none are given, all masses, stiffnesses and other positive quantities
            but the camera's and the clock's.
        overrides: Parameters in use.

    Raises:
        InputError: On a name that the scene lacks, that of an array, or one that nothing reads.
    """
    if isinstance(names, str):
        names = [names]
    chosen = (
        names
        if names is not None
        else list(overrides)
        or [
            name
            for name, kind in model.kinds.items()
            if kind.positive
            and not kind.row_of
            and not name.startswith(("camera.", "timing."))
            and name not in model.unused_parameters
        ]
    )
    directions = []
    for label in chosen:
        name, index = resolve(model.scene, label)
        require_dependency(model, [name])
        kind = model.kinds[name]
        if kind.row_of:
            raise InputError(
                f"`{name}` is an array with one row for each {kind.row_of}; name numbers, such as gravity.z."
            )
        indices = [index] if index is not None or kind.value.ndim == 0 else list(range(kind.value.size))
        for k in indices:
            number = float(kind.value if k is None else kind.value[k])
            scale = None if kind.positive and number > 0 else _natural(model, name, kind)
            dotted = (
                name if k is None or name == label and kind.value.ndim == 0 else f"{name}.{component_letters(name)[k]}"
            )
            directions.append(Direction(dotted, ((name, k),), scale, kind.unit))
    if not directions:
        raise InputError("the scene has nothing to explain: name unknowns, such as cube.velocity.")
    return directions


def size_of(model: Model, values: Values) -> float:
    """Radius of the largest rigid or soft body about its centre [m]; 1 where there is none."""
    sizes = [s.bounding_radius(values) for s in model.systems if "x" in s.states]
    return max(sizes, default=1.0)


def time_of(model: Model, size: float) -> float:
    """Time in which a body falls by its radius [s]; 0.1 s without gravity."""
    g = sum(float(c) ** 2 for c in model.kinds["gravity"].value) ** 0.5
    return (2 * size / g) ** 0.5 if g > 0 else 0.1


def _natural(model: Model, name: str, kind) -> float:
    size = size_of(model, model.values())
    time = time_of(model, size)
    magnitude = float(abs(kind.value).max())
    scales = {"m": size, "rad": 1.0, "m/s": size / time, "rad/s": 1 / time, "m/s^2": size / time**2}
    if name.endswith(".bending_damping"):  # 1 N m s is that of a board
        scales["N m s"] = float(abs(model.kinds[name.removesuffix("_damping")].value).max()) * time
    return scales.get(kind.unit) or magnitude or 1.0
