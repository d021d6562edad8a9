"""Formatting of numbers with uncertainties, to two digits of the standard deviation."""

import math
from collections.abc import Sequence

UNDETERMINED = "undetermined"  # in place of a number of which the data say nothing
_PLAIN_EXPONENTS = range(-3, 6)  # decimal exponents written without a power of ten
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def rounded(value: float | None, std: float | None) -> str:
    """Format a number to the second digit of its standard deviation: 5.0031 with 0.012 gives "5.003".

    Args:
        value: Number; None and nan give a dash.
        std: Standard deviation; None, 0 and inf give four digits.
    """
    if value is None or not math.isfinite(value):
        return "–"
    std = std if std is not None and math.isfinite(std) else 0.0
    power, times = _scale(max(abs(value), std))
    return _decimal(value / power, _place(value / power, std / power)) + times


def with_error(value: float | None, std: float | None) -> str:
    """Format value and standard deviation: "5.003 ± 0.012", "(1.2346 ± 0.0012) × 10⁷".

    Args:
        value: Number; None and nan give a dash.
        std: Standard deviation; None and inf give "± ∞", nan (not known yet) nothing.
    """
    if value is None or not math.isfinite(value) or (std is not None and math.isnan(std)):
        return rounded(value, std)
    if std is None or math.isinf(std):
        return f"{rounded(value, std)} ± ∞"
    power, times = _scale(max(abs(value), std))
    value, std = value / power, std / power
    spread = _decimal(std, 1 - _exponent(std, 1)) if std > 1e-6 or std == 0 else f"{std:.1e}"
    text = f"{_decimal(value, _place(value, std))} ± {spread}"
    return f"({text}){times}" if times else text


def is_open(std: float | None) -> bool:
    """True if the data say nothing of a number: its standard deviation is infinite (None or inf)."""
    return std is None or math.isinf(std)


def interval_in_range(
    interval: Sequence[float | None] | None, low: float | None, high: float | None, std: float | None
) -> str:
    """Format an interval to two digits of the standard deviation: "4.976 … 5.023".

    Args:
        interval: Its ends, None for an infinite one; None for an infinite interval.
        low: Lower end of the range of the number; None if it is not known.
        high: Upper end.
        std: Standard deviation; None and inf give the range: "all of 1 … 12".
    """
    if is_open(std) and low is not None and high is not None:
        return f"all of {low:g} … {high:g}"
    left, right = interval or (None, None)
    return f"{'−∞' if left is None else rounded(left, std)} … {'∞' if right is None else rounded(right, std)}"


def two_digits(value: float, sign: bool = False) -> str:
    """Format a number to two digits, without a power of ten below a million: 742 is "740".

    Args:
        value: Number.
        sign: Whether a plus is written.
    """
    text = f"{float(f'{value:.2g}'):g}"
    return f"+{text}" if sign and value >= 0 else text


def _scale(size: float) -> tuple[float, str]:
    """Power of ten to divide by, and its text after the number."""
    exponent = _exponent(size)
    return (
        (1.0, "") if exponent in _PLAIN_EXPONENTS else (10.0**exponent, f" × 10{str(exponent).translate(_SUPERSCRIPT)}")
    )


def _exponent(value: float, digits: int = 15) -> int:
    """Decimal exponent of a number rounded to this many digits after the first."""
    return int(f"{value:.{digits}e}".split("e")[1]) if value else 0


def _place(value: float, std: float) -> int:
    """Decimals up to the second digit of `std`; a value below its `std` keeps two digits, but at most two places."""
    leading = -_exponent(value)
    if std == 0:
        return leading + 3
    place = 1 - _exponent(std, 1)
    return max(place, min(leading + 1, place + 2))


def _decimal(value: float, place: int) -> str:
    return f"{round(value, place):.{min(max(place, 0), 15)}f}"
