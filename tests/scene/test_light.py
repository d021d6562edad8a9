"""Lights of a scene, and how they are written."""

import pytest

from gradsim.scene import Directional, Point, Scene, parameters, resolve

LIGHTS = {
    "sky": {"kind": "ambient", "colour": [0.2, 0.2, 0.3]},
    "sun": {"kind": "directional", "direction": [1, 1, -2], "colour": [1.2, 1, 1]},
    "lamp": {"kind": "point", "position": [0, "1 m", "20 cm"], "falloff": "inverse-square"},
    "dome": {"kind": "harmonics", "coefficients": [[k, -k, 0.1] for k in range(9)]},
}


def test_lights_are_of_four_kinds_and_come_back(scene, tmp_path):
    lit = scene({"lights": LIGHTS, "shading": "blinn-phong"})
    sun, lamp = lit.lights["sun"], lit.lights["lamp"]
    assert isinstance(sun, Directional)
    assert isinstance(lamp, Point)
    assert (sun.direction, sun.colour) == ((1, 1, -2), (1.2, 1, 1))
    assert (lamp.position, lamp.falloff) == ((0, 1, 0.2), "inverse-square")
    lit.save(tmp_path / "lit.yaml")
    assert Scene.load(tmp_path / "lit.yaml") == lit


def test_a_scene_without_lights_shows_colors(scene, tmp_path):
    assert (scene().lights, scene().shading) == ({}, "colour")
    scene().save(tmp_path / "plain.yaml")
    assert "lights" not in (tmp_path / "plain.yaml").read_text()


@pytest.mark.parametrize(
    ("light", "words"),
    [
        ({}, "got {}; expected a mapping with `kind`: ambient or directional or point or harmonics."),
        ("sun", "got 'sun'; expected a mapping with `kind`: ambient or directional or point or harmonics."),
        ({"kind": "Point"}, "got kind 'Point'; did you mean `point`?"),
        ({"kind": ["sun"]}, "got kind ['sun']; expected ambient or directional or point or harmonics."),
    ],
)
def test_a_light_says_its_kind(mistake, light, words):
    assert mistake({"lights": {"sun": light}}) == f"lights.sun: {words}"


@pytest.mark.parametrize(
    ("light", "line"),
    [
        (
            {"kind": "directional"},
            "direction: is missing; give the direction of travel of the light, such as [1, 1, -2].",
        ),
        ({"kind": "directional", "direction": [0, 0, 0]}, "direction: got a direction of length 0;"),
        ({"kind": "ambient", "colour": [1, -1, 1]}, "colour.1: got -1; expected a number of at least 0."),
        ({"kind": "point", "position": [0, 0, 1], "falloff": "square"}, "falloff: got 'square'; did you mean"),
        ({"kind": "harmonics", "coefficients": [[1, 1, 1]] * 4}, "coefficients: got [[1, 1, 1],"),
        ({"kind": "ambient", "direction": [0, 0, 1]}, "direction: unknown key; expected `kind`, `colour`."),
    ],
)
def test_wrong_lights_are_refused_by_their_place(mistake, light, line):
    assert mistake({"lights": {"sun": light}}).startswith(f"lights.sun.{line}")


def test_shadings_have_names(mistake):
    assert mistake({"shading": "blinn"}) == "shading: got 'blinn'; did you mean `blinn-phong`?"


def test_lights_are_parameters_by_name(scene):
    found = parameters(scene({"lights": LIGHTS}))
    lit = {name: p.value.tolist() for name, p in found.items() if name.startswith("lights.")}
    assert lit == {
        "lights.sky.colour": [0.2, 0.2, 0.3],
        "lights.sun.direction": [1, 1, -2],
        "lights.sun.colour": [1.2, 1, 1],
        "lights.lamp.position": [0, 1, 0.2],
        "lights.lamp.colour": [0.7, 0.7, 0.7],
    }
    assert found["lights.sun.colour"].lower == 0
    assert resolve(scene({"lights": LIGHTS}), "lights.sun.colour.g") == ("lights.sun.colour", 1)
    assert resolve(scene({"lights": LIGHTS}), "lights.lamp.position.z") == ("lights.lamp.position", 2)
