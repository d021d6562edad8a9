"""Values of parameters written into scenes are what a model then holds."""

import pytest

from gradsim.dataset.sample import with_parameters
from gradsim.errors import InputError
from gradsim.physics.model import Model
from gradsim.scene import Scene


def test_placed_numbers_are_those_of_the_model():
    first = Scene.library("cube")
    values = {"cube.velocity.y": 0.25, "ground.friction": 0.125, "cube.pushes.0.impulse.z": -0.5, "cube.mass": 3.0}
    model, before = Model(with_parameters(first, values)), Model(first)
    for dotted, number in values.items():
        name, _, axis = dotted.rpartition(".")
        one, old = (
            (m.get_parameter(name)["xyz".index(axis)] if axis in "xyz" else m.get_parameter(dotted)).item()
            for m in (model, before)
        )
        assert one == number != old
    assert model.get_parameter("cube.velocity")[0] == before.get_parameter("cube.velocity")[0]


def test_tied_names_get_one_number():
    scene = with_parameters(Scene.library("cube"), {"cube.velocity.x=cube.velocity.z": -0.75})
    assert Model(scene).get_parameter("cube.velocity").tolist()[::2] == [-0.75, -0.75]


def test_names_that_the_scene_lacks_are_refused():
    with pytest.raises(InputError, match="the scene has no parameter `cube.mas`"):
        with_parameters(Scene.library("cube"), {"cube.mas": 1.0})
