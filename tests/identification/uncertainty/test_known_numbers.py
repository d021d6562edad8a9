"""Effects of errors of known numbers, against fits with the number off."""

import numpy as np
import pytest
from fit_cases import SWING, SWING_TRUTH, THROW, THROW_TRUTH, recorded, swing, throw
from wavy_ball import NAMES, centres, masks, scene, waves

import gradsim as gs
from gradsim.errors import Status
from gradsim.identification.observation.base import Masks
from gradsim.identification.uncertainty import known_numbers
from gradsim.render.silhouettes import Silhouettes

STEP = 0.002  # of a number, to both sides: central differences of fits are then good to some 1e-5 of it


def changed(original: gs.Scene, name: str, factor: float) -> gs.Scene:
    """A scene with one of its numbers times a factor."""
    content = original.model_dump(by_alias=True, exclude_none=True)
    match name:
        case "gravity.z":
            content["gravity"] = [0, 0, original.gravity[2] * factor]
        case "cube.pushes.0.impulse.z":
            push = content["bodies"]["cube"]["pushes"][0]
            push["impulse"] = [*push["impulse"][:2], push["impulse"][2] * factor]
        case "timing.rate":
            content["timing"]["rate"] = factor
        case "cube.scale":
            content["bodies"]["cube"]["scale"] = factor
        case "camera.focal":
            focal = original.view().matrices()[0][0, 0]
            content["camera"]["look_at"].pop("fov")
            content["camera"]["focal"] = focal * factor
        case "ball.scale":
            content["bodies"]["ball"]["scale"] = factor
    return gs.Scene.parse(content)


def refitted(original: gs.Scene, unknowns, data: Masks, name: str) -> dict[str, float]:
    """Derivative of each unknown by the logarithm of a number: central difference of fits with it off."""
    ends = []
    for sign in (1, -1):
        wrong = changed(original, name, 1 + sign * STEP)
        seen = Masks(data.masks, data.sigma, Silhouettes.of(wrong))
        seen.outline_noise = data.outline_noise
        ends.append(gs.identify(wrong, unknowns, observation=seen, starts=1, known_numbers=False).values)
    return {key: (ends[0][key] - ends[1][key]) / (2 * STEP) for key in ends[0]}


@pytest.fixture(scope="module")
def thrown():
    data = recorded(throw(), THROW, THROW_TRUTH).observation
    return data, gs.identify(throw(), THROW, observation=data, starts=1)


SLOWLY = [
    pytest.param(name, marks=pytest.mark.slow) for name in ("cube.pushes.0.impulse.z", "timing.rate", "cube.scale")
]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gravity.z", "camera.focal", *SLOWLY])
def test_the_effect_of_one_per_cent_is_that_of_a_fit_with_the_number_off(thrown, name):
    data, fit = thrown
    (row,) = [row for row in fit.known_numbers["numbers"] if row["name"] == name]
    slopes = refitted(throw(), THROW, data, name)
    largest = max(abs(e["sd"]) for e in row["effects"].values())
    for key, slope in slopes.items():
        e = row["effects"][key]
        assert e["shift"] == pytest.approx(0.01 * slope, rel=0.02, abs=0.01 * largest * fit.unknowns[key].std)
        assert e["percent"] == pytest.approx(100 * e["shift"] / fit.values[key])
        assert e["sd"] == pytest.approx(e["shift"] / fit.unknowns[key].std, rel=1e-6)
    assert row["largest"] == largest and row["error"] == "1 %"


def test_a_table_lists_the_largest_effect_first_and_steps_of_numbers_that_are_zero(thrown):
    _, fit = thrown
    rows = fit.known_numbers["numbers"]
    assert [row["largest"] for row in rows] == sorted((row["largest"] for row in rows), reverse=True)
    zero = {row["name"]: row["error"] for row in rows if not row["value"]}
    assert zero["gravity.x"] == "0.1 m/s^2" and zero["cube.velocity.z"] == "0.01 m/s"
    assert not {row["name"] for row in rows} & {"cube.mass", "cube.velocity.x", "timing.offset"}
    assert next(row["name"] for row in rows if row["value"]) in fit.known_numbers["words"]


def test_the_error_of_the_center_of_a_camera_is_in_pixels_too(thrown):
    rows = {row["name"]: row for row in thrown[1].known_numbers["numbers"]}
    assert rows["camera.centre.x"]["value"] == 12 and rows["camera.centre.x"]["error"] == "1 % (0.12 px)"
    assert rows["camera.focal"]["error"] == "1 %"


def test_a_pendulum_in_a_stronger_gravity_has_a_longer_string():
    """Of a ball at a distance: the period tells g/L alone, and the arc L. Frames that are 1 % apart are 2 % of g."""
    fit = gs.identify(swing(), SWING, observation=recorded(swing(), SWING, SWING_TRUTH).observation, starts=1)
    rows = {row["name"]: row["effects"]["bob.string_length"] for row in fit.known_numbers["numbers"]}
    ratio = rows["timing.rate"]["shift"] / rows["gravity.z"]["shift"]
    assert ratio == pytest.approx(2, rel=0.02)  # only g rate² matters


def test_numbers_beyond_the_limit_are_counted(thrown, monkeypatch):
    data, _ = thrown
    monkeypatch.setattr(known_numbers, "MOST", 5)
    fit = gs.identify(throw(), THROW, observation=data, starts=1)
    table = fit.known_numbers
    assert len(table["numbers"]) <= 5 and table["left_out"] > 10 and "not examined" in table["words"]
    assert {row["name"].partition(".")[0] for row in table["numbers"]} <= {"timing", "gravity", "camera"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ball.scale", "camera.focal"])
def test_of_masks_whose_outlines_are_off_the_effect_is_that_of_a_fit_with_the_number_off(name):
    """The offset of all outlines takes what a wrong size does to them."""
    data = masks(centres(20, (1.0, 4.0, -9.81)), 0.1 * waves(20, 5.0, 0.5, np.random.default_rng(3)))
    fit = gs.identify(scene(20), NAMES, observation=data, starts=1)
    assert fit.status == Status.OK
    (row,) = [row for row in fit.known_numbers["numbers"] if row["name"] == name]
    for key, slope in refitted(scene(20), NAMES, data, name).items():
        e = row["effects"][key]
        assert e["shift"] == pytest.approx(0.01 * slope, rel=0.1, abs=0.2 * fit.unknowns[key].std)


def test_words_name_the_worst_number_that_is_zero_beside_those_of_which_one_percent_counts():
    row = lambda name, value, sd: {
        "name": name,
        "value": value,
        "error": "1 %" if value else "0.01 rad",
        "largest": sd,
        "effects": {"ball.mass": {"shift": 0.1, "percent": 2.0, "sd": sd}},
    }
    rows = [row("tilt", 0.0, 9.0), row("focal", 80.0, 5.0), row("roll", 0.0, 3.0), row("size", 0.2, 0.3)]
    words = known_numbers._words(rows, ["ball.mass"], 0, False)
    assert "1 % in focal moves ball.mass by +2 % (5 sd)." in words
    assert "0.01 rad in tilt, which is 0, moves ball.mass by +2 % (9 sd)." in words
    assert "roll" not in words and "size" not in words
