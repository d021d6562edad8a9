"""Materials, textures and the visible squares of grounds, as a scene file has them."""

import numpy as np
import pytest
from PIL import Image

from gradsim.errors import InputError
from gradsim.scene import Rigid, Scene


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pictures").mkdir()
    Image.fromarray(np.zeros((2, 2, 3), np.uint8)).save(tmp_path / "pictures" / "wood.png")
    return tmp_path


def content(texture):
    cube = {"shape": {"box": {"size": [1, 1, 1]}}, "mass": 1, "material": {"texture": texture, "specular": "50 %"}}
    return {"bodies": {"cube": cube}, "ground": {"visible": {"size": "4 m", "texture": texture, "repeat": 8}}}


def test_textures_count_from_the_scene_file_and_move_with_it(folder):
    scene = Scene.parse(content("pictures/wood.png"), folder=folder)
    (folder / "run").mkdir()
    scene.save(folder / "run" / "scene.yaml")
    assert "texture: ../pictures/wood.png" in (folder / "run" / "scene.yaml").read_text()
    assert Scene.load(folder / "run" / "scene.yaml") == scene
    cube, square = scene.bodies["cube"], scene.grounds["ground"].visible
    assert isinstance(cube, Rigid)
    assert cube.material.texture == folder / "pictures" / "wood.png"
    assert (cube.material.specular, cube.material.diffuse, square.size, square.repeat) == (0.5, 1.0, 4.0, 8.0)


@pytest.mark.parametrize(
    ("texture", "words"),
    [
        ("pictures/wod.png", r"the file .*wod\.png does not exist; did you mean pictures/wood\.png\?"),
        ("pictures/wood.gif", r"got pictures/wood\.gif; expected a file that ends in \.png, \.jpg, \.jpeg\."),
        (3, r"got 3; expected the path of an image\."),
    ],
)
def test_textures_that_are_none_get_a_suggestion(folder, texture, words):
    with pytest.raises(InputError, match=rf"bodies\.cube\.material\.texture: {words}"):
        Scene.parse(content(texture), folder=folder)


@pytest.mark.parametrize(
    ("place", "value", "line"),
    [
        ("bodies.cube.material.specular", 1.5, "got 1.5; expected a number from 0 to 1."),
        ("bodies.cube.material.shininess", 0, "got 0; expected a number above 0."),
        ("bodies.cube.material.gloss", 1, "unknown key; expected `texture`, `ambient`,"),
        ("ground.visible.size", -1, "got -1; expected a number above 0 [m]."),
    ],
)
def test_wrong_materials_are_refused_by_their_place(mistakes, place, value, line):
    assert mistakes({place: value})[-1].startswith(f"{place}: {line}")


def test_a_visible_ground_has_a_size(mistake):
    assert mistake({"ground.visible": {}}) == "ground.visible.size: is missing; give the edge length in m."


def test_a_body_without_a_material_says_nothing_of_it(scene, tmp_path):
    scene().save(tmp_path / "plain.yaml")
    text = (tmp_path / "plain.yaml").read_text()
    assert "material" not in text
    assert "visible" not in text
