"""Numbers of a scene: each with its unit and range, given as a number or as text with a unit."""

import math
import numbers
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic_core import PydanticCustomError, core_schema

from gradsim import units
from gradsim.scene.node import mistake, shown

Vector2 = tuple[float, float]
Vector3 = tuple[float, float, float]
Vector4 = tuple[float, float, float, float]
Matrix3 = tuple[Vector3, Vector3, Vector3]


@dataclass(frozen=True)
class Quantity:
    """Annotates a float of a scene.

    Attributes:
        unit: SI unit, "" for a pure number.
        lower, upper: The range.
        above: Whether the lower end itself is out of the range.
        positive: Whether it is a scale, by nature above 0, which estimators see by its logarithm.
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
            return f"a number from {self.lower:g} to {self.upper:g}{unit}"
        if math.isfinite(self.lower):
            return f"a number {'above' if self.above else 'of at least'} {self.lower:g}{unit}"
        return f"a number{unit}"

    def read(self, given: Any) -> float:
        """The number in SI units; raises the mistake."""
        value = _scalar(given)
        if isinstance(value, str):
            try:
                value = units.parse(value, self.unit)
            except ValueError as error:
                raise mistake(f"got {shown(given)}; {error}.") from None
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise mistake(f"got {shown(given)}; expected {self.expected}.")
        value = float(value)
        if not math.isfinite(value):
            raise mistake(f"got {shown(given)}, which is not finite; expected {self.expected}.")
        if value < self.lower or value > self.upper or (self.above and value == self.lower):
            degrees = self.unit == "rad" and self.lower < math.radians(value) < self.upper
            hint = f"; did you mean {value:g} deg?" if degrees else f"; expected {self.expected}."
            raise mistake(f"got {shown(given)}{hint}")
        return value


@dataclass(frozen=True)
class Count:
    """Annotates an int of a scene, from `lower` to `upper`."""

    lower: int = 1
    upper: int | None = None

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self.read)

    def read(self, given: Any) -> int:
        """The int; raises the mistake."""
        value = _scalar(given)
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                value = None
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or value % 1 != 0 or value < self.lower:
            value = None
        if value is None or (self.upper is not None and value > self.upper):
            end = f"of at least {self.lower}" if self.upper is None else f"from {self.lower} to {self.upper}"
            raise mistake(f"got {shown(given)}; expected a whole number {end}.")
        return int(value)


@dataclass(frozen=True)
class Vector:
    """Annotates a tuple of floats of a scene.

    Attributes:
        each: What every component is.
        size: How many there are.
    """

    each: Quantity
    size: int = 3

    def __get_pydantic_core_schema__(self, source, handler):
        parts = [self.each.__get_pydantic_core_schema__(None, None)] * self.size
        return core_schema.no_info_before_validator_function(self._listed, core_schema.tuple_schema(parts))

    def _listed(self, given: Any) -> tuple:
        return listed(given, self.size, f"{self.size} numbers{f' [{self.each.unit}]' if self.each.unit else ''}")


def listed(given: Any, size: int, what: str) -> tuple:
    """A list, tuple or array of so many things as a tuple; raises the mistake."""
    given = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(given, list | tuple) or len(given) != size:
        raise mistake(f"got {shown(given)}; expected a list of {what}.")
    return tuple(given)


def _scalar(given: Any) -> Any:
    """Without the array around it: also what NumPy and PyTorch give for one number."""
    return given.tolist() if hasattr(given, "tolist") else given


def _positive(unit: str) -> Quantity:
    return Quantity(unit, lower=0.0, above=True, positive=True)


def _vector(unit: str) -> Vector:
    return Vector(Quantity(unit))


Mass = Annotated[float, _positive("kg")]
Density = Annotated[float, _positive("kg/m^3")]
Size = Annotated[float, _positive("m")]
Ratio = Annotated[float, _positive("")]
Coordinate = Annotated[float, Quantity("m")]
Gap = Annotated[float, Quantity("m", lower=0.0)]
Time = Annotated[float, Quantity("s", lower=0.0)]
Angle = Annotated[float, Quantity("rad")]
AngularRate = Annotated[float, Quantity("rad/s")]
Position = Annotated[Vector3, _vector("m")]
Velocity = Annotated[Vector3, _vector("m/s")]
AngularVelocity = Annotated[Vector3, _vector("rad/s")]
RotationVector = Annotated[Vector3, _vector("rad")]
Direction = Annotated[Vector3, _vector("")]
Acceleration = Annotated[Vector3, _vector("m/s^2")]
Impulse = Annotated[Vector3, _vector("N s")]
Force = Annotated[Vector3, _vector("N")]
Colour = Annotated[Vector3, Vector(Quantity("", 0.0, 1.0))]
Sizes = Annotated[Vector3, Vector(_positive("m"))]
__all__ = [name for name in dict(globals()) if name[0].isupper() and name not in ("Annotated", "Any")] + ["listed"]
_ = PydanticCustomError
