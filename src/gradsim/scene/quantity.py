"""Numbers of a scene with unit and range, given as a number or as text with a unit.

The classes annotate fields: `Annotated[float, Quantity("kg", lower=0, above=True)]`.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

from pydantic_core import core_schema

from gradsim.errors import InputError
from gradsim.scene import units
from gradsim.scene.node import mistake, quote

NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"  # text that begins so may be a quantity
_FLOAT = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
STATED_VALUE = re.compile(rf"\s*(?P<mean>{_FLOAT})\s*(?:±|\+-|\+/-)\s*(?P<sd>{_FLOAT})\s*(?P<percent>%?)\s*")
UNIT = "x-unit"  # keyword of a JSON schema for the SI unit of a plain number
Vector2 = tuple[float, float]
Vector3 = tuple[float, float, float]
Vector4 = tuple[float, float, float, float]
Matrix3 = tuple[Vector3, Vector3, Vector3]


@dataclass(frozen=True)
class Quantity:
    """A float with unit and range.

    Attributes:
        unit: SI unit, "" for a pure number.
        lower, upper: Range.
        above: True: the range excludes its lower end.
        infinite: True: infinity (`.inf` in a file) is a value too.
        positive: True for a positive scale, which estimators parametrize by its logarithm.
    """

    unit: str
    lower: float = -math.inf
    upper: float = math.inf
    above: bool = False
    positive: bool = False
    infinite: bool = False

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        return self.json_schema()

    def json_schema(self) -> dict[str, Any]:
        """JSON schema: a number in the SI unit, or text that begins with a number; the reader checks its unit."""
        ends = {"exclusiveMinimum" if self.above else "minimum": self.lower, "maximum": self.upper}
        number = {"type": "number", **{key: end for key, end in ends.items() if math.isfinite(end)}}
        return {"anyOf": [number, {"type": "string", "pattern": NUMBER}], **({UNIT: self.unit} if self.unit else {})}

    @property
    def expected(self) -> str:
        """Description of the accepted values."""
        unit = f" [{self.unit}]" if self.unit else ""
        if math.isfinite(self.lower) and math.isfinite(self.upper):
            return f"a number from {self.lower:.4g} to {self.upper:.4g}{unit}"
        if math.isfinite(self.lower):
            return f"a number {'above' if self.above else 'of at least'} {self.lower:g}{unit}"
        return f"a number{unit}"

    def read(self, raw: Any) -> float:
        """Convert to a number in SI units.

        Raises:
            PydanticCustomError: If the value is not a number of this unit and range.
        """
        value = plain(raw)
        if isinstance(value, str):
            try:
                value = units.parse(value, self.unit)
            except InputError as error:
                raise mistake(str(error)) from None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise mistake(f"got {quote(value)}; expected {self.expected}.")
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
        if not (math.isfinite(value) or (self.infinite and value == math.inf)):
            raise mistake(f"got {quote(raw)}, which is not finite; expected {self.expected}.")
        if value < self.lower or value > self.upper or (self.above and value == self.lower):
            degrees = self.unit == "rad" and self.lower <= math.radians(value) <= self.upper
            raise mistake(f"got {quote(raw)}; expected {self.expected}{f', or {value:g} deg' if degrees else ''}.")
        return value


@dataclass(frozen=True)
class Count:
    """An int from `lower` to `upper`, or one of `words`."""

    lower: int = 1
    upper: float = math.inf
    words: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        return self.json_schema()

    def json_schema(self) -> dict[str, Any]:
        """JSON schema of the number and the words."""
        number = {"type": "integer", "minimum": self.lower}
        if math.isfinite(self.upper):
            number["maximum"] = self.upper
        return {"anyOf": [number, {"enum": list(self.words)}]} if self.words else number

    def read(self, raw: Any) -> int | str:
        """Convert to an int, or return one of the words.

        Raises:
            PydanticCustomError: If the value is neither.
        """
        value = plain(raw)
        if isinstance(value, str):
            if value in self.words:
                return value
            try:
                value = float(value) if value.isascii() else None
            except ValueError:
                value = None
        whole = isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0
        if value is None or not whole or not self.lower <= value <= self.upper:
            ends = f"from {self.lower} to {self.upper}" if math.isfinite(self.upper) else f"of at least {self.lower}"
            raise mistake(f"got {quote(raw)}; expected {' or '.join([f'a whole number {ends}', *self.words])}.")
        return int(value)


@dataclass(frozen=True)
class Tuple:
    """A tuple of fixed size with components of one type.

    Attributes:
        component: Type of the components.
        size: Number of components.
        label: Name of the components in messages.
    """

    component: "Quantity | Count | Tuple"
    size: int = 3
    label: str = "numbers"

    def __get_pydantic_core_schema__(self, source, handler):
        parts = [self.component.__get_pydantic_core_schema__(None, None)] * self.size
        return core_schema.no_info_before_validator_function(self._as_tuple, core_schema.tuple_schema(parts))

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        return self.json_schema()

    def json_schema(self) -> dict[str, Any]:
        """JSON schema: a list of fixed length."""
        unit = {UNIT: self.unit} if self.unit else {}
        items = self.component.json_schema()
        return {"type": "array", "items": items, "minItems": self.size, "maxItems": self.size, **unit}

    @property
    def unit(self) -> str:
        """Unit of the components."""
        return getattr(self.component, "unit", "")

    def _as_tuple(self, raw: Any) -> tuple:
        value = plain(raw)
        if not isinstance(value, list | tuple) or len(value) != self.size:
            unit = f" [{self.unit}]" if self.unit else ""
            raise mistake(f"got {quote(value)}; expected a list of {self.size} {self.label}{unit}.")
        return tuple(value)


def mean_and_sd(text: str) -> tuple[float, float] | None:
    """Mean and standard deviation of MEAN ± SD, where SD may be in percent of the mean; None if it is not of this form."""
    match = STATED_VALUE.fullmatch(text)
    if match is None:
        return None
    mean, sd = float(match["mean"]), float(match["sd"])
    return mean, abs(mean) * sd / 100 if match["percent"] else sd


@dataclass(frozen=True)
class Uncertain:
    """Annotate a mean and a standard deviation above 0, in SI units."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        pair = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
        return {"anyOf": [{"type": "string", "minLength": 1}, pair]}

    def read(self, raw: Any) -> tuple[float, float]:
        """Convert to mean and standard deviation.

        Raises:
            PydanticCustomError: If the value is neither MEAN ± SD nor a list of both.
        """
        value = plain(raw)
        pair = mean_and_sd(value) if isinstance(value, str) else value
        is_number = lambda x: isinstance(x, int | float) and not isinstance(x, bool)
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(map(is_number, pair)) or not pair[1] > 0:
            raise mistake(
                f"got {quote(raw)}; expected MEAN ± SD in SI units with SD above 0, such as 1000 ± 50, or [1000, 50]."
            )
        return float(pair[0]), float(pair[1])


@dataclass(frozen=True)
class Increasing:
    """A list of any length, at least 2, of increasing numbers that begins with 0."""

    component: Quantity

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        return {"type": "array", "items": self.component.json_schema(), "minItems": 2, UNIT: self.component.unit}

    def read(self, raw: Any) -> tuple[float, ...] | None:
        """Convert to numbers in SI units.

        Raises:
            PydanticCustomError: If it is not such a list.
        """
        value = plain(raw)
        if value is None:
            return None
        if not isinstance(value, list | tuple) or len(value) < 2:
            raise mistake(
                f"got {quote(value)}; expected a list of two or more increasing numbers [{self.component.unit}]."
            )
        numbers = tuple(map(self.component.read, value))
        if numbers[0] != 0:
            raise mistake(f"begins with {numbers[0]:g}; expected 0: subtract the first from all.")
        for k in range(1, len(numbers)):
            if numbers[k] <= numbers[k - 1]:
                raise mistake(f"entry {k} is {numbers[k]:g}, not above the one before, {numbers[k - 1]:g}.")
        return numbers


def vector(unit: str, **limits: Any) -> Tuple:
    """Three numbers with a unit; further arguments as for `Quantity`."""
    return Tuple(Quantity(unit, **limits))


def positive(unit: str) -> Quantity:
    """A number above 0."""
    return Quantity(unit, lower=0.0, above=True, positive=True)


def plain(raw: Any) -> Any:
    """Convert arrays and scalars of NumPy and PyTorch to Python lists and numbers."""
    return raw.tolist() if hasattr(raw, "tolist") else raw
