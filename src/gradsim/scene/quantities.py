"""Types of the numbers in a scene: SI values from numbers or from text with a unit."""

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from gradsim.errors import InputError
from gradsim.units import parse


class Strict(BaseModel):
    """A part of a scene: immutable, and no key that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


def _number(unit: str, low: float, above: float):
    def validate(value: Any) -> float:
        number = parse(value, unit)
        if not math.isfinite(number):
            raise InputError(f"{number} is not finite.")
        if number < low or number <= above:
            raise InputError(f"{number:g} has to be {'above' if low < above else 'at least'} {max(low, above):g}.")
        return number

    return BeforeValidator(validate)


def _vector(unit: str, length: int, above: float = -math.inf):
    one = _number(unit, -math.inf, above).func

    def validate(value: Any) -> tuple[float, ...]:
        if not isinstance(value, list | tuple) or len(value) != length:
            raise InputError(f"{value!r} is not a list of {length} numbers{f' [{unit}]' if unit else ''}.")
        return tuple(one(v) for v in value)

    return BeforeValidator(validate)


def number(unit: str = ""):
    """A finite number."""
    return Annotated[float, _number(unit, -math.inf, -math.inf)]


def positive(unit: str = ""):
    """A finite number above 0."""
    return Annotated[float, _number(unit, -math.inf, 0.0)]


def not_negative(unit: str = ""):
    """A finite number, at least 0."""
    return Annotated[float, _number(unit, 0.0, -math.inf)]


def vector(unit: str = "", length: int = 3):
    """So many finite numbers."""
    return Annotated[tuple[float, ...], _vector(unit, length)]


def positives(unit: str = "", length: int = 3):
    """So many finite numbers above 0."""
    return Annotated[tuple[float, ...], _vector(unit, length, 0.0)]


def matrix(rows: int, columns: int):
    """Rows of plain numbers."""

    def validate(value: Any):
        if not isinstance(value, list | tuple) or len(value) != rows:
            raise InputError(f"{value!r} is not a list of {rows} rows of {columns} numbers.")
        return tuple(_vector("", columns).func(row) for row in value)

    return Annotated[tuple[tuple[float, ...], ...], BeforeValidator(validate)]


def _colour(value: Any) -> tuple[float, float, float]:
    rgb = _vector("", 3).func(value)
    if not all(0 <= c <= 1 for c in rgb):
        raise InputError(f"colour {list(rgb)} is not in [0, 1]; divide 8-bit values by 255.")
    return rgb


Colour = Annotated[tuple[float, float, float], BeforeValidator(_colour)]
