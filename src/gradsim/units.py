"""Numbers with units in text, such as "10 cm" or "30 deg", to SI."""

import math
import re

from gradsim.errors import InputError

_PREFIX = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "c": 1e-2, "d": 1e-1}
_BASE = {  # unit: factor to SI, exponents of (m, kg, s, rad)
    "m": (1.0, (1, 0, 0, 0)),
    "g": (1e-3, (0, 1, 0, 0)),
    "t": (1e3, (0, 1, 0, 0)),
    "s": (1.0, (0, 0, 1, 0)),
    "min": (60.0, (0, 0, 1, 0)),
    "rad": (1.0, (0, 0, 0, 1)),
    "deg": (math.pi / 180, (0, 0, 0, 1)),
    "°": (math.pi / 180, (0, 0, 0, 1)),
    "rev": (2 * math.pi, (0, 0, 0, 1)),
    "N": (1.0, (1, 1, -2, 0)),
    "Pa": (1.0, (-1, 1, -2, 0)),
    "J": (1.0, (2, 1, -2, 0)),
    "Hz": (1.0, (0, 0, -1, 0)),
    "in": (0.0254, (1, 0, 0, 0)),
    "ft": (0.3048, (1, 0, 0, 0)),
    "lb": (0.45359237, (0, 1, 0, 0)),
    "fps": (1.0, (0, 0, -1, 0)),
    "px": (1.0, (0, 0, 0, 0)),
    "%": (0.01, (0, 0, 0, 0)),
    "1": (1.0, (0, 0, 0, 0)),
}
_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*$")
_FACTOR = re.compile(r"([A-Za-zµ°%]+|1)(?:\^?(-?\d+)|([²³]))?$")


def parse(value, unit: str) -> float:
    """A number in SI from a number, or from text with a unit.

    Args:
        value: Such as 0.1, "1e5", "10 cm", "2 kN/m", "30 deg/s".
        unit: What it has to measure, such as "m", "N/m", "rad/s", or "" for a plain number.

    Raises:
        InputError: If the text is no number, or its unit is unknown or measures something else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InputError(f"{value!r} is not a number{f' [{unit}]' if unit else ''}.")
    if not isinstance(value, str):
        return float(value)
    match = _NUMBER.match(value)
    if not match:
        raise InputError(f"{value!r} is not a number{f' [{unit}]; write it as 1.5 or 1.5 {unit}' if unit else ''}.")
    number, text = float(match[1]), match[2]
    if not text:
        return number
    factor, dimension = _unit(text)
    _, wanted = _unit(unit or "1")
    if dimension != wanted:
        raise InputError(f"{value!r} is not in units of {unit or 'a plain number'}; write it with {unit or 'no unit'}.")
    return number * factor


def _unit(text: str) -> tuple[float, tuple[int, ...]]:
    """Factor to SI, and exponents of (m, kg, s, rad)."""
    factor, total = 1.0, [0, 0, 0, 0]
    for k, group in enumerate(text.replace("·", " ").replace("*", " ").split("/")):
        for name in group.replace("(", " ").replace(")", " ").split():
            match = _FACTOR.match(name)
            if not match:
                raise InputError(f"unit {text!r} is not understood at {name!r}.")
            power = int(match[2]) if match[2] else {"²": 2, "³": 3, None: 1}[match[3]]
            power = -power if k else power
            size, dimension = _single(match[1], text)
            factor *= size**power
            total = [t + power * d for t, d in zip(total, dimension, strict=True)]
    return factor, tuple(total)


def _single(name: str, text: str) -> tuple[float, tuple[int, ...]]:
    if name in _BASE:
        return _BASE[name]
    if name[:1] in _PREFIX and name[1:] in ("m", "g", "s", "N", "Pa", "J", "Hz"):
        size, dimension = _BASE[name[1:]]
        return _PREFIX[name[0]] * size, dimension
    raise InputError(f"unit {text!r} is not known at {name!r}; use m, kg, s, rad, deg, N, Pa and their like.")
