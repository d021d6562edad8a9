"""Numbers to the precision that their uncertainty allows: two digits of the standard deviation."""

import math

_PLAIN = range(-3, 6)  # decimal exponents that are written without a power of ten
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def rounded(value: float, std: float | None) -> str:
    """A number to the second digit of its standard deviation: 5.0031 with 0.012 gives "5.003".

    Args:
        value: The number.
        std: Its standard deviation; None, 0 and inf give four digits.
    """
    if not math.isfinite(value):
        return "–"
    exponent = _exponent(value)
    if exponent in _PLAIN:
        return _decimal(value, _place(value, std))
    power = 10.0**exponent
    return f"{_decimal(value / power, _place(value / power, std and std / power))} × {_power(exponent)}"


def with_error(value: float, std: float | None) -> str:
    """Value and standard deviation: "5.003 ± 0.012", "(1.2346 ± 0.0012) × 10⁷", "5.003 ± ∞" for None and inf."""
    if std is None or not math.isfinite(std):
        return f"{rounded(value, std)} ± ∞"
    exponent = _exponent(max(abs(value), std))
    power = 1.0 if exponent in _PLAIN else 10.0**exponent
    value, std = value / power, std / power
    spread = _decimal(std, 1 - _exponent(std, 1)) if std > 1e-6 or std == 0 else f"{std:.1e}"
    text = f"{_decimal(value, _place(value, std))} ± {spread}"
    return text if power == 1.0 else f"({text}) × {_power(exponent)}"


def _exponent(value: float, digits: int = 15) -> int:
    """Decimal exponent of a number as written with so many digits after the first."""
    return int(f"{value:.{digits}e}".split("e")[1]) if value else 0


def _place(value: float, std: float | None) -> int:
    """Decimals up to the second digit of `std`; a value below its `std` keeps two digits, but at most two places."""
    own = -_exponent(value)
    if not std or not math.isfinite(std):
        return own + 3
    place = 1 - _exponent(std, 1)
    return max(place, min(own + 1, place + 2))


def _decimal(value: float, place: int) -> str:
    return f"{round(value, place):.{min(max(place, 0), 15)}f}"


def _power(exponent: int) -> str:
    return "10" + str(exponent).translate(_SUPERSCRIPT)
