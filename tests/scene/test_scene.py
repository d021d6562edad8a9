"""The whole scene: defaults, gravity, names, and what does not go together."""

import subprocess
import sys

import pytest

from gradsim.scene import Scene

BOB = {"kind": "pendulum", "string_length": 0.5, "radius": 0.03}


def test_a_body_is_enough():
    scene = Scene.parse({"bodies": {"cube": {"shape": {"box": {"size": [1, 1, 1]}}, "mass": 1}}})
    assert scene.gravity == (0, 0, -9.81)
    assert (scene.timing.fps, scene.timing.frames, scene.timing.substeps) == (30, 60, "auto")
    assert (scene.grounds, scene.camera) == ({}, None)


def test_pushes_are_those_of_bodies_that_have_some():
    """Pendulums have none, and a box may have none."""
    box = {"shape": {"box": {"size": [1, 1, 1]}}, "mass": 1}
    scene = Scene.parse({"bodies": {"a": box, "b": {**box, "pushes": [{"impulse": [1, 0, 0]}]}, "c": BOB}})
    assert list(scene.pushes) == ["b"] and scene.pushes["b"][0].impulse == (1, 0, 0)


@pytest.mark.parametrize("given", [9.81, "9.81", "9.81 m/s^2", [0, 0, -9.81], ["0", 0, "-981 cm/s^2"]])
def test_gravity_is_a_vector_or_its_strength(scene, given):
    assert scene({"gravity": given}).gravity == (0, 0, -9.81)


def test_negative_strength_of_gravity_is_refused(mistake, scene):
    assert mistake({"gravity": -9.81}) == (
        "gravity: got -9.81; a single number is the downward acceleration: write 9.81."
    )
    assert scene({"gravity": 0}).gravity == (0, 0, 0)


@pytest.mark.parametrize("substeps", [8, "8", "auto"])
def test_substeps_are_a_number_or_auto(scene, mistake, substeps):
    assert scene({"timing.substeps": substeps}).timing.substeps == ("auto" if substeps == "auto" else 8)
    assert mistake({"timing.substeps": "few"}) == (
        "timing.substeps: got 'few'; expected a whole number from 1 to 1000000 or auto."
    )
    assert "expected a whole number" in mistake({"timing.substeps": 0})


@pytest.mark.parametrize("name", ["a.b", "", "1st", "a b", "ä", 5])
def test_names_can_be_part_of_a_dotted_name(mistakes, name):
    cube = {"shape": {"box": {"size": [1, 1, 1]}}, "mass": 1}
    assert any(line.startswith("bodies: got the name ") for line in mistakes({"bodies": {name: cube}}))


@pytest.mark.parametrize("name", ["gravity", "camera"])
def test_names_of_the_scene_itself_are_taken(mistake, name):
    assert mistake({f"bodies.{name}": BOB}) == (f"bodies.{name}: the name `{name}` is reserved; choose another.")


def test_a_body_and_a_ground_have_different_names(mistake):
    assert mistake({"bodies.ground": BOB}) == "ground: a body is also called `ground`; choose another name."


def test_a_scene_has_a_body(mistake):
    assert mistake({"bodies": {}}) == "bodies: is empty; give at least one body."
    assert mistake({"bodies": None}) == "bodies: is missing; give at least one body by name."


@pytest.mark.parametrize("name", ["two\nlines", "\x85", "\x00", "\ud800"])
def test_titles_are_one_printable_line(mistake, scene, name):
    assert mistake({"name": name}).startswith("name: got '")
    assert scene({"name": "μ = ½ – the cube’s"}).name == "μ = ½ – the cube’s"


def test_the_content_given_is_left_as_it_is():
    content = {"bodies": {"cube": {"shape": {"box": {"size": [1, 1, 1]}}, "mass": "1 kg"}}, "ground": {"height": None}}
    kept = repr(content)
    Scene.parse(content)
    assert repr(content) == kept


def test_scenes_do_not_wait_for_pytorch():
    code = "import gradsim.scene, sys; print([m for m in ('torch', 'warp', 'trimesh', 'scipy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_scene_that_the_library_names_is_one():
    names = Scene.library_names()
    assert {"cube", "pendulum", "beam"} <= set(names) and names == sorted(names)
    assert Scene.library(names[0]).bodies
