"""Numbers of a scene: each with its unit and range, given as a number or as text with a unit.

The classes here annotate fields: `Annotated[float, Quantity("kg", lower=0, above=True)]`.
"""

import math
from dataclasses import dataclass
from typing import Any

from pydantic_core import core_schema

from gradsim.errors import InputError
from gradsim.scene import units
from gradsim.scene.node import mistake, shown

Vector2 = tuple[float, float]
Vector3 = tuple[float, float, float]
Vector4 = tuple[float, float, float, float]
Matrix3 = tuple[Vector3, Vector3, Vector3]


@dataclass(frozen=True)
class Quantity:
    """A float.

    Attributes:
        unit: SI unit, "" for a pure number.
        lower, upper: The range.
        above: Whether the lower end itself is out of the range.
        positive: Whether it is a scale, above 0 by nature, which estimators see by its logarithm.
    """

    unit: str
    lower: float = -math.inf
    upper: float = math.inf
    above: bool = False
    positive: bool = False

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self.read)

    @property
    def expected(self) -> str:
        """What may stand here, in words."""
        unit = f" [{self.unit}]" if self.unit else ""
        if math.isfinite(self.lower) and math.isfinite(self.upper):
            return f"a number from {self.lower:.4g} to {self.upper:.4g}{unit}"
        if math.isfinite(self.lower):
            return f"a number {'above' if self.above else 'of at least'} {self.lower:g}{unit}"
        return f"a number{unit}"

    def read(self, given: Any) -> float:
        """The number in SI units; raises the mistake."""
        value = plain(given)
        if isinstance(value, str):
            try:
                value = units.parse(value, self.unit)
            except InputError as error:
                raise mistake(str(error)) from None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise mistake(f"got {shown(value)}; expected {self.expected}.")
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise mistake(f"got {shown(given)}, which is not finite; expected {self.expected}.")
        if value < self.lower or value > self.upper or (self.above and value == self.lower):
            degrees = self.unit == "rad" and self.lower <= math.radians(value) <= self.upper
            raise mistake(f"got {shown(given)}; expected {self.expected}{f', or {value:g} deg' if degrees else ''}.")
        return value


@dataclass(frozen=True)
class Count:
    """An int from `lower` to `upper`, or one of some words."""

    lower: int = 1
    upper: float = math.inf
    words: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self.read)

    def read(self, given: Any) -> int | str:
        """The int or word; raises the mistake."""
        value = plain(given)
        if isinstance(value, str):
            if value in self.words:
                return value
            try:
                value = float(value)
            except ValueError:
                value = None
        whole = isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0
        if value is None or not whole or not self.lower <= value <= self.upper:
            ends = f"from {self.lower} to {self.upper}" if math.isfinite(self.upper) else f"of at least {self.lower}"
            raise mistake(f"got {shown(given)}; expected {' or '.join([f'a whole number {ends}', *self.words])}.")
        return int(value)


@dataclass(frozen=True)
class Tuple:
    """A tuple of so many things of one kind; `what` they are stands in the message.

    Attributes:
        each: What every component is.
        size: How many there are.
        what: What to call them.
    """

    each: "Quantity | Count | Tuple"
    size: int = 3
    what: str = "numbers"

    def __get_pydantic_core_schema__(self, source, handler):
        parts = [self.each.__get_pydantic_core_schema__(None, None)] * self.size
        return core_schema.no_info_before_validator_function(self._listed, core_schema.tuple_schema(parts))

    @property
    def unit(self) -> str:
        """Unit of every component."""
        return getattr(self.each, "unit", "")

    def _listed(self, given: Any) -> tuple:
        value = plain(given)
        if not isinstance(value, list | tuple) or len(value) != self.size:
            unit = f" [{self.unit}]" if self.unit else ""
            raise mistake(f"got {shown(value)}; expected a list of {self.size} {self.what}{unit}.")
        return tuple(value)


def vector(unit: str, **each: Any) -> Tuple:
    """Three numbers with a unit; further arguments are those of `Quantity`."""
    return Tuple(Quantity(unit, **each))


def positive(unit: str) -> Quantity:
    """A number above 0."""
    return Quantity(unit, lower=0.0, above=True, positive=True)


def plain(given: Any) -> Any:
    """Python's own numbers and lists for those of NumPy and PyTorch."""
    return given.tolist() if hasattr(given, "tolist") else given
