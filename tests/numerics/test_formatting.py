"""Formatting of numbers to two digits of their standard deviation."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsim.numerics.formatting import interval_in_range, is_open, rounded, two_digits, with_error


@pytest.mark.parametrize(
    ("value", "std", "text"),
    [
        (5.0031, 0.012, "5.003 ± 0.012"),
        (0.5, 0.0996, "0.50 ± 0.10"),  # the rounding of sd carries over
        (98765.4, 2000, "98800 ± 2000"),
        (-2.345, 0.02, "-2.345 ± 0.020"),
        (1.2345678e7, 1.2e3, "(1.23457 ± 0.00012) × 10⁷"),
        (3e-5, 1e-7, "(3.000 ± 0.010) × 10⁻⁵"),
        (5.2, 300, "5.2 ± 300"),
        (0.0, 0.1, "0.00 ± 0.10"),
        (5.0031, 1e-9, "5.0031000000 ± 1.0e-09"),
        (1e5, math.inf, "100000 ± ∞"),
        (0.5, None, "0.5000 ± ∞"),
        (0.5, math.nan, "0.5000"),
        (None, None, "–"),
    ],
)
def test_value_and_error_are_rounded_alike(value, std, text):
    assert with_error(value, std) == text


@given(st.floats(-9e5, 9e5), st.floats(1e-5, 1e5))
def test_rounding_costs_less_than_a_twentieth_of_the_error(value, std):
    # two digits of sd: half a unit of the second is at most 0.05 sd
    assert abs(float(rounded(value, std).split(" ")[0]) - value) <= 0.0501 * std or "×" in rounded(value, std)


@pytest.mark.parametrize(
    ("value", "sign", "text"),
    [
        (742.0, False, "740"),
        (1e2, True, "+100"),
        (-0.0346, True, "-0.035"),
        (5.0, False, "5"),
        (12345.0, False, "12000"),
    ],
)
def test_two_digits_have_no_power_of_ten(value, sign, text):
    assert two_digits(value, sign) == text


@pytest.mark.parametrize(
    ("interval", "std", "text"),
    [
        ((4.9761, 5.0229), 0.012, "4.976 … 5.023"),
        ((0.9, 13), 3.0, "0.90 … 13.0"),
        ((1e-303, 1e303), math.inf, "all of 1 … 12"),
        ((None, None), None, "all of 1 … 12"),
        ((None, 5.0229), 0.012, "−∞ … 5.023"),
        (None, 0.012, "−∞ … ∞"),
    ],
)
def test_the_interval_of_an_open_number_is_its_range(interval, std, text):
    assert interval_in_range(interval, 1.0, 12.0, std) == text
    assert is_open(std) == text.startswith("all of")


def test_an_open_number_without_a_range_has_an_infinite_interval():
    assert interval_in_range((None, None), None, None, None) == "−∞ … ∞"
