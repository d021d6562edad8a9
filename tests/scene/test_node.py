"""Parts of a scene: immutable, strict, and all mistakes at once."""

import pytest
from pydantic import ValidationError

from gradsim.scene import Rigid, Scene, Shape
from gradsim.scene.shape import Box


def test_every_mistake_is_told_at_once_by_its_place(mistakes):
    """Within a key, between keys, unknown and missing ones, at every depth."""
    found = mistakes(
        {
            "gravity": "fast",
            "timing.fps": 0,
            "timing.substep": 3,
            "bodies.cube.shape": {"box": {}},
            "bodies.cube.density": 3,
            "bodies.cube.mass": -1,
            "bodies.cube.pushes": [{"impulse": [1, 2, 3]}, {"impulse": [1, 2], "force": [1, 2, 3]}],
            "bodies.ball": {"kind": "pendulum", "radius": 1},
            "ground.friction": -0.1,
            "camera.look_at.up": [0, 0],
        }
    )
    assert [line.split(":")[0] for line in found] == [
        "gravity",
        "timing.fps",
        "timing.substep",
        "bodies.cube",
        "bodies.cube.shape.box.size",
        "bodies.cube.mass",
        "bodies.cube.pushes.1",
        "bodies.cube.pushes.1",
        "bodies.cube.pushes.1.impulse",
        "bodies.ball.string_length",
        "ground.friction",
        "camera.look_at.up",
    ]


@pytest.mark.parametrize(
    ("place", "meant"),
    [
        ("gravty", "gravity"),
        ("body", "bodies"),
        ("gruond", "ground"),
        ("timing.FPS", "fps"),
        ("bodies.cube.pozition", "position"),
        ("bodies.cube.shape.sfere", "sphere"),
        ("bodies.cube.shape.box.sise", "size"),
        ("ground.stifness", "stiffness"),
        ("camera.lookat", "look_at"),
        ("camera.look_at.fow", "fov"),
    ],
)
def test_misspelt_keys_get_a_suggestion(mistakes, place, meant):
    assert f"{place}: unknown key; did you mean `{meant}`?" in mistakes({place: 1})


def test_keys_like_no_other_get_the_list(mistake):
    assert mistake({"timing.xyz": 1}) == (
        "timing.xyz: unknown key; expected `fps`, `frames`, `substeps`, `tolerance`, `integrator`, `rate`, `offset`, `stamps`."
    )


def test_choices_get_a_suggestion_or_the_list(mistake):
    assert mistake({"timing.integrator": "rk5"}) == "timing.integrator: got 'rk5'; did you mean `rk4`?"
    assert (
        mistake({"timing.integrator": 4})
        == "timing.integrator: got 4; expected 'auto', 'semi-implicit', 'rk4', 'verlet', 'nystrom', 'implicit' or 'midpoint'."
    )
    assert mistake({"bodies.cube.collision": "box"}) == (
        "bodies.cube.collision: got 'box'; expected 'vertices', 'hull', 'sphere' or 'none'."
    )


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("bodies", [1], "bodies: got [1]; expected a mapping of names to values."),
        ("bodies.cube", 7, "bodies.cube: got 7; expected a mapping with `kind`, `shape`, "),
        ("bodies.cube.pushes", {"at": 1}, "bodies.cube.pushes: got {'at': 1}; expected a list."),
        ("bodies.cube.pushes", "up", "bodies.cube.pushes: got 'up'; expected a list, such as ['up']."),
        ("name", [1], "name: got [1]; expected text."),
        ("timing", "fast", "timing: got 'fast'; expected a mapping with `fps`, "),
    ],
)
def test_another_structure_is_said_in_words_of_the_file(mistake, place, value, words):
    assert mistake({place: value}).startswith(words)


def test_long_values_are_cut_short(mistake):
    assert len(mistake({"bodies.cube.position": list(range(10**5))})) < 200
    assert len(mistake({"name": {"x" * 10**5: 1}})) < 200


def test_a_key_without_a_value_counts_as_left_out(scene):
    content = scene().model_dump()
    assert content["bodies"]["cube"]["density"] is None
    assert Scene.parse(content) == scene()


def test_parts_cannot_be_changed(scene):
    cube = scene().bodies["cube"]
    with pytest.raises(ValidationError, match="frozen"):
        cube.mass = 3
    with pytest.raises(TypeError):
        cube.position[0] = 3


def test_parts_can_be_made_in_python_and_put_together():
    cube = Rigid(shape=Shape(box=Box(size=(1, 1, 1))), mass=5)
    scene = Scene(bodies={"cube": cube})
    assert scene.bodies["cube"] is cube
    assert scene == Scene.parse({"bodies": {"cube": {"shape": {"box": {"size": [1, 1, 1]}}, "mass": 5}}})


def test_mistakes_in_python_are_value_errors_in_the_same_words():
    with pytest.raises(ValueError, match=r"mass\n  got -1; expected a number above 0 \[kg\]\."):
        Rigid(shape=Shape(box=Box(size=(1, 1, 1))), mass=-1)
