"""Numbers of a scene: units, ranges, and what is no number."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

POSITION = "bodies.cube.position"


@pytest.mark.parametrize(
    "value", [5, 5.0, "5", "5 kg", "5e0", "5000 g", np.float32(5), np.int64(5), np.array(5.0), torch.tensor(5.0)]
)
def test_numbers_come_as_numbers_text_or_arrays(scene, value):
    assert scene({"bodies.cube.mass": value}) == scene()
    assert type(scene({"bodies.cube.mass": value}).bodies["cube"].mass) is float


@pytest.mark.parametrize("value", [[1, 2.5, 3], (1, "250 cm", "3"), np.array([1, 2.5, 3]), torch.tensor([1, 2.5, 3])])
def test_vectors_come_as_lists_tuples_or_arrays(scene, value):
    assert scene({POSITION: value}).bodies["cube"].position == (1.0, 2.5, 3.0)


@pytest.mark.parametrize(
    ("place", "unit"),
    [
        ("timing.fps", "1/s"),
        ("bodies.cube.mass", "kg"),
        ("bodies.cube.scale", ""),
        ("ground.stiffness", "N/m"),
        ("camera.focal", "px"),
    ],
)
@pytest.mark.parametrize("value", [0, -1, 0.0, -0.0, "0", -1e-300])
def test_what_has_to_be_above_zero_is_refused_at_zero_and_below(mistakes, place, unit, value):
    (line,) = [line for line in mistakes({place: value}) if line.startswith(f"{place}:")]
    assert line == f"{place}: got {value!r}; expected a number above 0{f' [{unit}]' if unit else ''}."


@pytest.mark.parametrize(
    "place", ["ground.dissipation", "ground.friction_stiffness", "ground.friction", "ground.margin"]
)
def test_what_may_be_zero_is_refused_below(scene, mistake, place):
    assert getattr(scene({place: 0}).grounds["ground"], place.split(".")[1]) == 0
    assert "expected a number of at least 0" in mistake({place: -1e-9})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, "1e999", np.array(math.nan)])
@pytest.mark.parametrize("place", ["bodies.cube.mass", "ground.height", "gravity"])
def test_what_is_not_finite_is_refused(mistake, place, value):
    assert "not finite" in mistake({place: value})


@pytest.mark.parametrize("value", [True, [5], {"kg": 5}, "five", "5 m", 5j, Fraction(5), np.array([5.0])])
def test_what_is_no_number_is_refused(mistake, value):
    line = mistake({"bodies.cube.mass": value})
    assert line.startswith("bodies.cube.mass: got ")
    assert "kg" in line


@pytest.mark.parametrize("value", [[1, 2], [1, 2, 3, 4], 3, "1 2 3", {"x": 1}, np.eye(3)[:2]])
def test_vectors_of_another_length_are_refused(mistake, value):
    assert "expected a list of 3 numbers [m]." in mistake({POSITION: value})


def test_every_bad_component_is_told(mistakes):
    assert mistakes({POSITION: ["1 kg", 2, math.nan]}) == [
        f"{POSITION}.0: got '1 kg'; expected a quantity in m.",
        f"{POSITION}.2: got nan, which is not finite; expected a number [m].",
    ]


def test_angles_in_degrees_without_a_unit_are_caught(mistake, scene):
    assert mistake({"camera.look_at.fov": 45}).endswith("[rad], or 45 deg.")
    assert mistake({"bodies.cube.rotation_vector": [0, 30, 0]}).endswith("[rad], or 30 deg.")
    assert scene().camera.look_at.fov == math.pi / 4


def test_colors_lie_between_0_and_1(mistake):
    assert mistake({"background": [0, 255, 0]}) == "background.1: got 255; expected a number from 0 to 1."


@pytest.mark.parametrize("value", [0, -3, 2.5, "many", True, None, [3], math.inf, math.nan, 10**400, 100_001])
def test_counts_are_whole_numbers_in_their_range(mistake, scene, value):
    if value is None:
        assert scene({"timing.frames": None}).timing.frames == 60
    else:
        assert "expected a whole number from 1 to 100000." in mistake({"timing.frames": value})


@pytest.mark.parametrize("value", [12, 12.0, "12", "1.2e1", np.int32(12)])
def test_counts_come_as_numbers_or_text(scene, value):
    frames = scene({"timing.frames": value}).timing.frames
    assert frames == 12
    assert type(frames) is int


@pytest.mark.parametrize("value", ["\u0668", "\uff18"])  # eight in Arabic-Indic and in full-width digits
def test_counts_are_not_read_from_digits_of_other_scripts(mistake, value):
    assert "expected a whole number" in mistake({"timing.frames": value})
