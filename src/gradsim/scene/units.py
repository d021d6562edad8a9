"""Parsing of quantities as text, such as "10 cm" or "2 kN/m", to numbers in SI units.

    quantity = number [unit]        unit = factors {/ (factor | "(" factors ")")}
    factors = factor {(space | * | ·) factor}        factor = symbol[^power]

A symbol may have a metric prefix. Angles are a dimension of their own, so that degrees are not accepted as a length.
Arithmetic is exact up to one rounding: "35 mm" is the float nearest to 0.035.
"""

import difflib
import math
import re
from fractions import Fraction
from functools import cache

from gradsim.errors import InputError

Dimension = dict[str, int]  # base unit to its power, without powers of 0

DEGREE = Fraction(math.pi) / 180
PREFIXED: dict[str, tuple[Fraction, Dimension]] = {  # symbol: size in base units, dimension
    "g": (Fraction(1, 1000), {"kg": 1}),
    "m": (Fraction(1), {"m": 1}),
    "s": (Fraction(1), {"s": 1}),
    "N": (Fraction(1), {"kg": 1, "m": 1, "s": -2}),
    "J": (Fraction(1), {"kg": 1, "m": 2, "s": -2}),
    "Pa": (Fraction(1), {"kg": 1, "m": -1, "s": -2}),
    "Hz": (Fraction(1), {"s": -1}),
    "rad": (Fraction(1), {"rad": 1}),
}
UNPREFIXED: dict[str, tuple[Fraction, Dimension]] = {
    "deg": (DEGREE, {"rad": 1}),
    "°": (DEGREE, {"rad": 1}),
    "rev": (360 * DEGREE, {"rad": 1}),
    "rpm": (6 * DEGREE, {"rad": 1, "s": -1}),
    "min": (Fraction(60), {"s": 1}),
    "t": (Fraction(1000), {"kg": 1}),
    "in": (Fraction(254, 10000), {"m": 1}),
    "ft": (Fraction(3048, 10000), {"m": 1}),
    "lb": (Fraction(45359237, 10**8), {"kg": 1}),
    "fps": (Fraction(1), {"s": -1}),
    "px": (Fraction(1), {"px": 1}),
    "%": (Fraction(1, 100), {}),
}
PREFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "µ": Fraction(1, 10**6),
    "μ": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "c": Fraction(1, 100),
    "d": Fraction(1, 10),
    "k": Fraction(1000),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
}
MAX_CHARACTERS = 200  # characters: exact arithmetic on longer text is slow

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_FACTOR = re.compile(r"(?P<symbol>[^\W\d_]+|[°%])(\^?(?P<power>-?[1-9]))?")
_SUPERSCRIPTS = str.maketrans("⁻¹²³⁴⁵⁶⁷⁸⁹", "-123456789")
_FORM = "write for example kg, cm, m/s^2, N s/m or deg"


def parse(text: str, unit: str = "") -> float:
    """Convert a text to a number in SI units.

    Args:
        text: A number with or without a unit: "10 cm", "1e5", "2 kN/m", "30 deg", "9.81 m/s^2". A number without a
            unit is in `unit`.
        unit: Expected SI unit, "" for a pure number; the text must have its dimension.

    Raises:
        InputError: If the text is not a quantity, or has another dimension.
    """
    match = _NUMBER.match(text.strip()) if len(text) <= MAX_CHARACTERS else None
    if not match:
        raise InputError(
            f"got {text[:MAX_CHARACTERS]!r}; expected a number{f', with or without a unit such as {unit}' * bool(unit)}."
        )
    number, rest = match.group(), text.strip()[match.end() :].strip()
    value = float(number)
    if not rest:
        return value
    try:
        size, dimension = _parse_unit(rest)
    except ValueError as error:
        raise InputError(f"got {text!r}; {error}.") from None
    if dimension != (_parse_unit(unit)[1] if unit else {}):
        expected = f"a quantity in {unit}" if unit else "a number without a unit"
        raise InputError(f"got {text!r}; expected {expected}.")
    if value == 0 or not math.isfinite(value):
        return value
    try:
        return float(Fraction(number) * size)
    except OverflowError:
        return math.copysign(math.inf, value)


@cache
def _parse_unit(unit: str) -> tuple[Fraction, Dimension]:
    """Size in base units, and dimension."""
    size, dimension = Fraction(1), {}
    above, *below = unit.translate(_SUPERSCRIPTS).replace("**", "^").split("/")
    groups = [(1, [] if above.strip() == "1" else _split(above))]
    for group in below:
        inside = re.fullmatch(r"\s*\((.*)\)\s*", group)
        factors = _split(inside[1] if inside else group)
        if len(factors) > 1 and not inside:
            raise ValueError(f"{unit!r} is ambiguous after the slash; write for example N/m/s or N/(m s)")
        groups.append((-1, factors))
    for sign, factors in groups:
        for factor in factors:
            match = _FACTOR.fullmatch(factor)
            if not match:
                raise ValueError(f"{unit!r} is not a unit; {_FORM}")
            factor_size, factor_dimension = _symbol(match["symbol"])
            power = sign * int(match["power"] or 1)
            size *= factor_size**power
            for base, exponent in factor_dimension.items():
                dimension[base] = dimension.get(base, 0) + power * exponent
    return size, {base: exponent for base, exponent in dimension.items() if exponent}


def _split(factors: str) -> list[str]:
    return re.split(r"\s*[\s*·⋅]\s*", factors.strip())


def _symbol(symbol: str) -> tuple[Fraction, Dimension]:
    known = {**PREFIXED, **UNPREFIXED}
    if symbol in known:
        return known[symbol]
    prefix, rest = symbol[0], symbol[1:]
    if prefix in PREFIXES and rest in PREFIXED:
        size, dimension = PREFIXED[rest]
        return PREFIXES[prefix] * size, dimension
    names = [*known, *(p + s for p in PREFIXES for s in PREFIXED)]
    near = [n for n in names if n.lower() == symbol.lower()] or difflib.get_close_matches(symbol, names, 1, 0.7)
    raise ValueError(f"unknown unit {symbol!r}{f'; did you mean {near[0]!r}?' if near else f'; {_FORM}'}")
