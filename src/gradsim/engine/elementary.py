"""exp and log(1 + x) on registers, single lanes of a register and their sum.

A library's exp takes a register one lane at a time; a polynomial takes all lanes in the time of one.

    exp(x) = 2ⁿ eʳ,  n = round(x / ln 2),  |r| ≤ ln 2 / 2,  eʳ by its Taylor series to rounding
    log(1 + x) = 2 artanh s = 2 (s + s³/3 + s⁵/5 + ...),  s = x / (2 + x) ≤ 1/3 for 0 ≤ x ≤ 1
"""

import math

import warp as wp

NAMES = ("exp", "log1p")
NAMES_WITHOUT_DUALS = ("lane", "put", "total")  # not on dual lanes; a template imports them by name

TERMS = {"float32": (8, 7), "float64": (14, 16)}  # of the two series: (ln 2 / 2)^n / n! and 9^-n / (2n + 1) round to 0
RANGE = {"float32": 87.0, "float64": 708.0}  # exp beyond ± it is infinite, or as good as 0
EXPONENT = {"float32": (127, 23), "float64": (1023, 52)}  # its bias, and the bits behind it
LN2_HIGH = 0.693145751953125  # with few bits, so that n times it is exact
LN2_LOW = math.log(2) - LN2_HIGH


def add(table) -> None:
    """Add the functions to a lane type (see `lanes._Table`)."""
    lane, scalar, native = table.lane, table.scalar, table.native
    Real, Scalar = table.names["Real"], table.dtype

    native("exp", Real, (Real,), f"{_exp(lane, scalar)}o[0] = y; ", f"{_exp(lane, scalar)}da[0] += g[0] * y; ", "to[0] = ta[0] * y; ")  # fmt: skip
    series = _horner([1 / (2 * k + 1) for k in range(TERMS[lane.dtype][1])], "s * s", scalar)
    native(
        "log1p",
        Real,
        (Real,),
        f"V s = a[0] / (a[0] + ({scalar})2); o[0] = ({scalar})2 * s * ({series}); ",
        f"da[0] += g[0] / (a[0] + ({scalar})1); ",
        f"to[0] = ta[0] / (a[0] + ({scalar})1); ",
    )
    if lane.dual:
        return
    one = lambda x, k: f"(({scalar}*){x})[{k}]"
    loop = f"for (int i = 0; i < {lane.width}; ++i) "
    native("lane", Scalar, (Real, wp.int32), f"out = {one('a', 'b_')}; ", f"{one('da', 'b_')} += adj_ret; ")
    native(
        "put",
        Real,
        (Real, wp.int32, Scalar),
        "o[0] = a[0]; o[0][b_] = c_; " if lane.width > 1 else "o[0] = c_; ",
        f"{loop}if (i == b_) adj_c_ += {one('g', 'i')}; else {one('da', 'i')} += {one('g', 'i')}; ",
    )
    halves = f"for (int h = {lane.width} / 2; h; h /= 2) for (int i = 0; i < h; ++i) {one('&s', 'i')} += {one('&s', 'i + h')}; "  # fmt: skip
    native("total", Scalar, (Real,), f"V s = a[0]; {halves}out = {one('&s', '0')}; ", f"{loop}{one('da', 'i')} += adj_ret; ")  # fmt: skip


def _exp(lane, scalar: str) -> str:
    """C++ that sets y to the exponential of a[0]."""
    if lane.width == 1:
        return "V y = wp::exp(a[0]); "
    bias, place = EXPONENT[lane.dtype]
    bound = RANGE[lane.dtype]
    series = _horner([1 / math.factorial(k) for k in range(TERMS[lane.dtype][0])], "r", scalar)
    return (
        f"V x = a[0] < -({scalar}){bound} ? V{{}} - ({scalar}){bound} : a[0]; "
        f"x = x > ({scalar}){bound} ? V{{}} + ({scalar}){bound} : x; "
        f"V m = x * ({scalar}){1 / math.log(2)!r}; "
        f"M n = __builtin_convertvector(m + (m < 0 ? V{{}} - ({scalar})0.5 : V{{}} + ({scalar})0.5), M); "
        f"V w = __builtin_convertvector(n, V); "
        f"V r = x - w * ({scalar}){LN2_HIGH!r} - w * ({scalar}){LN2_LOW!r}; "
        f"M bits = (n + {bias}) << {place}; V y = ({series}) * *(V*)&bits; "
    )


def _horner(coefficients: list[float], x: str, scalar: str) -> str:
    """C++ of the polynomial in x with these coefficients, the constant first."""
    text = f"({scalar}){coefficients[-1]!r}"
    for c in reversed(coefficients[:-1]):
        text = f"(({scalar}){c!r} + ({x}) * {text})"
    return text
