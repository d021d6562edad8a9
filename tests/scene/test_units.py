"""Texts become the nearest float to what they say, or an error that says what to write."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsim.errors import InputError
from gradsim.scene.units import parse


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("10 cm", "m", 0.1),
        ("35mm", "m", 0.035),
        (" 0.37 kg ", "kg", 0.37),
        ("370 g", "kg", 0.37),
        ("2 t", "kg", 2000),
        ("1e5", "N/m", 1e5),
        ("-.5", "m", -0.5),
        ("+3.", "m", 3),
        ("2 kN/m", "N/m", 2000),
        ("2 kg/s^2", "N/m", 2),
        ("2 N·m^-1", "N/m", 2),
        ("9.81 m/s²", "m/s^2", 9.81),
        ("9.81 m s⁻²", "m/s^2", 9.81),
        ("9.81 m*s**-2", "m/s^2", 9.81),
        ("9.81 m/s/s", "m/s^2", 9.81),
        ("9.81 m/(s s)", "m/s^2", 9.81),
        ("5 N s", "N s", 5),
        ("5 kg m/s", "N s", 5),
        ("200 N s/m", "N s/m", 200),
        ("0.3 s/m", "s/m", 0.3),
        ("7.8 g/cm^3", "kg/m^3", 7800),
        ("0.1 1/s", "1/s", 0.1),
        ("2 1/rad", "1/rad", 2),
        ("30 fps", "1/s", 30),
        ("0.03 kHz", "1/s", 30),
        ("10 ms", "s", 0.01),
        ("2 min", "s", 120),
        ("45 deg", "rad", math.pi / 4),
        ("90°", "rad", math.pi / 2),
        ("1 rev", "rad", 2 * math.pi),
        ("60 rpm", "rad/s", 2 * math.pi),
        ("3 µm", "m", 3e-6),
        ("1 ft", "m", 0.3048),
        ("12 in", "m", 0.3048),
        ("1 lb", "kg", 0.45359237),
        ("80 px", "px", 80),
        ("50 %", "", 0.5),
        ("0.5", "", 0.5),
        ("0 cm", "m", 0),
        ("1e-400 cm", "m", 0),
        ("1e400 cm", "m", math.inf),
        ("1e307 km", "m", math.inf),
    ],
)
def test_a_text_gives_the_nearest_float_in_si_units(text, unit, value):
    assert parse(text, unit) == value


@given(st.decimals(-(10**6), 10**6, places=4), st.sampled_from([("mm", 1000), ("km", Fraction(1, 1000)), ("m", 1)]))
def test_conversion_rounds_once(number, unit):
    name, parts = unit
    assert parse(f"{number} {name}", "m") == float(Fraction(number) / parts)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_bare_number_is_read_exactly(number):
    assert parse(repr(number), "kg") == number


@pytest.mark.parametrize(
    ("text", "unit", "message"),
    [
        ("fast", "m/s", "got 'fast'; expected a number, with or without a unit such as m/s."),
        ("fast", "", "got 'fast'; expected a number."),
        ("", "m", "expected a number"),
        ("nan", "m", "expected a number"),
        ("1,5 m", "m", "is not a unit"),
        ("1 kg", "m", "got '1 kg'; expected a quantity in m."),
        ("1 m", "", "got '1 m'; expected a number without a unit."),
        ("30 deg", "m", "expected a quantity in m"),
        ("30 m", "rad", "expected a quantity in rad"),
        ("5 CM", "m", "did you mean 'cm'"),
        ("5 met", "m", "unknown unit 'met'"),
        ("5 kgg", "kg", "did you mean 'kg'"),
        ("5 kN s/m s", "N s/m", "write for example N/m/s or N/(m s)"),
        ("5 m^99", "m", "is not a unit"),
        ("5 m^0", "m", "is not a unit"),
        ("5 /s", "1/s", "is not a unit"),
        ("5 m/", "m", "is not a unit"),
        ("5 m//s", "m/s", "is not a unit"),
        ("5 (m)", "m", "is not a unit"),
        ("1_000", "m", "is not a unit"),
        ("1" * 10**6, "m", "expected a number"),
        ("1 " + "m " * 10**5, "m", "expected a number"),
    ],
)
def test_what_is_no_quantity_is_refused_with_a_way_out(text, unit, message):
    with pytest.raises(InputError) as error:
        parse(text, unit)
    assert message in str(error.value)
    assert len(str(error.value)) < 400
