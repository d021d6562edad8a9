"""Headline of a report: what a fit says, in words."""

import math

import pytest

from gradsim.app.report.headline import headline, quantity
from gradsim.app.report.sections import CAUSES, sections, verdict_of
from gradsim.errors import Status


def unknown(value: float, std: float | None, unit: str = "", identifiable: bool = True) -> dict:
    bar = std or math.inf
    return {
        "value": value,
        "std": std,
        "unit": unit,
        "identifiable": identifiable,
        "interval95": [value - bar, value + bar],
        "truth": None,
        "low": 0.0,
        "high": 10.0,
    }


FOUND = {"cube.mass": unknown(7.2143, 0.0012, "kg"), "ground.friction": unknown(0.58, 0.003)}
OPEN = {"cube.mass": unknown(7.2, None, "kg", False), "gravity.z": unknown(-9.8, None, "m/s^2", False)}


def said(status: str, unknowns: dict) -> str:
    return headline(sections({"status": status, "unknowns": unknowns})[0])


def test_numbers_are_given_with_their_error_bars():
    assert said(Status.OK, FOUND) == "The cube weighs 7.2143 ± 0.0012 kg; friction of the ground 0.5800 ± 0.0030."


def test_what_the_video_cannot_tell_is_named_and_not_given():
    words = said(Status.UNIDENTIFIABLE, {**OPEN, "ground.friction": FOUND["ground.friction"]})
    assert words == (
        "Friction of the ground 0.5800 ± 0.0030. The video cannot tell the mass of the cube and the gravity z."
    )
    assert "7.2" not in words


@pytest.mark.parametrize("status", [Status.MISMATCH, Status.FAILED])
def test_a_model_that_does_not_explain_the_video_measures_nothing(status):
    words = said(status, FOUND)
    assert words.startswith("Not a measurement") and "7.2" not in words


@pytest.mark.parametrize(
    ("status", "opening"), [(Status.APPROXIMATE, "To the accuracy"), (Status.UNCONVERGED, "One of")]
)
def test_answers_that_are_not_certain_say_so_first(status, opening):
    assert said(status, FOUND).startswith(opening)


def test_a_search_that_was_stopped_has_no_headline():
    assert said(Status.INTERRUPTED, FOUND) == ""


def test_four_numbers_are_enough():
    many = {f"body_{k}.friction": unknown(0.5, 0.01) for k in range(6)}
    assert said(Status.OK, many).endswith("friction of the body 3 0.500 ± 0.010; and 2 more below.")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ground.friction", "friction of the ground"),
        ("joints.left_hinge.damping", "damping of the left hinge"),
        ("timing.rate", "rate of the clock"),
        ("gravity.z", "gravity z"),
        ("cube.velocity.x", "velocity x of the cube"),
    ],
)
def test_names_are_said_in_words(name, words):
    assert quantity(name) == words


def test_a_model_that_explains_nothing_has_no_open_directions_and_no_next_video():
    result = {"status": "mismatch", "unknowns": FOUND, "null_directions": [{"explanation": "no bounce"}]}
    result |= {"known_numbers": {"words": "no error of 1 % moves it"}, "next_video": {"words": "film higher"}}
    (section,) = sections(result)
    assert not section.null_directions and section.known_numbers is None and section.next_video is None
    (section,) = sections(result | {"status": "unidentifiable"})
    assert section.null_directions and section.known_numbers and section.next_video


def test_a_mismatch_of_a_video_says_how_its_causes_are_tested():
    assert CAUSES in verdict_of(Status.MISMATCH, {"video": "clip.webm"}).advice
    for other in ({"video": "clip.webm", "outline": {"words": ""}}, {"tracks": "t.csv"}):
        assert CAUSES not in verdict_of(Status.MISMATCH, other).advice
