"""Parameters by dotted name: values, units and ranges, and what a name means."""

import math

import numpy as np
import pytest

from gradsim.errors import InputError
from gradsim.scene import Scene, parameters, resolve

FULL = {
    "gravity": 9.6,
    "bodies": {
        "cube": {
            "shape": {"box": {"size": [1, 1, 1]}},
            "mass": 5,
            "scale": 2,
            "position": [0, 0, 1],
            "quat_xyzw": [0, 0, 0.6, 0.8],
            "velocity": [1, 2, 3],
            "pushes": [
                {"impulse": [5, 1.5, -2]},
                {"force": [10, 0, 0], "window": [0, 1]},
                {"impulse": [1, 1, 1], "window": [0, 1]},
            ],
        },
        "ball": {"shape": {"sphere": {"radius": 1}}, "density": 1000, "rotation_vector": [0.1, 0.2, 0.3]},
        "bob": {"kind": "pendulum", "string_length": 0.5, "radius": 0.03, "angle": 0.6, "pivot": [0, 0, 2]},
    },
    "ground": {"law": "paper", "damping": 20, "point": [0, 0, 0.1]},
    "camera": {"size": [60, 40], "K": {"focal": 50}, "R": np.eye(3), "t": [0, 1, 4]},
}
VALUES = {  # name: value, unit, positive
    "gravity": ([0, 0, -9.6], "m/s^2", False),
    "cube.mass": (5, "kg", True),
    "cube.scale": (2, "", True),
    "cube.position": ([0, 0, 1], "m", False),
    "cube.rotation_vector": ([0, 0, 0], "rad", False),
    "cube.velocity": ([1, 2, 3], "m/s", False),
    "cube.angular_velocity": ([0, 0, 0], "rad/s", False),
    "cube.pushes.0.impulse": ([5, 1.5, -2], "N s", False),
    "cube.pushes.1.force": ([10, 0, 0], "N", False),
    "cube.pushes.2.impulse": ([1, 1, 1], "N s", False),
    "ball.density": (1000, "kg/m^3", True),
    "ball.scale": (1, "", True),
    "ball.position": ([0, 0, 0], "m", False),
    "ball.rotation_vector": ([0.1, 0.2, 0.3], "rad", False),
    "ball.velocity": ([0, 0, 0], "m/s", False),
    "ball.angular_velocity": ([0, 0, 0], "rad/s", False),
    "bob.string_length": (0.5, "m", True),
    "bob.radius": (0.03, "m", True),
    "bob.angle": (0.6, "rad", False),
    "bob.rate": (0, "rad/s", False),
    "bob.damping": (0, "1/s", True),
    "bob.drag": (0, "1/rad", True),
    "bob.force_per_mass": ([0, 0, 0], "m/s^2", False),
    "bob.pivot": ([0, 0, 2], "m", False),
    "ground.stiffness": (1e5, "N/m", True),
    "ground.damping": (20, "N s/m", True),
    "ground.friction_stiffness": (50, "N s/m", True),
    "ground.friction": (0.5, "", True),
    "ground.margin": (0, "m", False),
    "ground.height": (0.1, "m", False),
    "ground.normal": ([0, 0, 1], "", False),
    "timing.rate": (1, "", True),
    "timing.offset": (0, "s", False),
    "camera.focal": (50, "px", True),
    "camera.centre": ([30, 20], "px", False),
    "camera.rotation_vector": ([0, 0, 0], "rad", False),
    "camera.translation": ([0, 1, 4], "m", False),
}


@pytest.fixture(scope="module")
def full():
    return Scene.parse(FULL)


def test_numbers_of_a_further_camera_stand_under_its_name():
    found = parameters(Scene.parse({**FULL, "cameras": {"side": {**FULL["camera"], "K": {"focal": 70}}}}))
    assert found.keys() == {
        *VALUES,
        *(f"cameras.side.{key}" for key in ("focal", "centre", "rotation_vector", "translation")),
    }
    assert found["cameras.side.focal"].value == 70


def test_every_number_that_can_be_fitted_has_a_name(full):
    found = parameters(full)
    assert found.keys() == VALUES.keys()
    for name, (value, unit, positive) in VALUES.items():
        parameter = found[name]
        assert parameter.value.dtype == np.float64
        assert parameter.value.shape == np.shape(value)
        np.testing.assert_array_equal(parameter.value, value, err_msg=name)
        assert (parameter.unit, parameter.positive) == (unit, positive), name


def test_values_lie_in_their_ranges(full):
    for name, parameter in parameters(full).items():
        assert (parameter.lower <= parameter.value).all(), name
        assert (parameter.value <= parameter.upper).all(), name
        assert not parameter.positive or parameter.lower == 0, name


def test_the_two_focal_lengths_of_pixels_that_are_not_square_are_a_vector(scene):
    K = [[50, 0, 30], [0, 60, 20], [0, 0, 1]]
    camera = {"size": [60, 40], "K": K, "R": np.eye(3), "t": [0, 1, 4]}
    assert parameters(scene({"camera": camera}))["camera.focal"].value.tolist() == [50, 60]


def test_a_camera_that_looks_at_something_has_the_same_parameters(scene):
    found = parameters(scene())
    assert found["camera.focal"].value == pytest.approx(24 / math.tan(math.pi / 8))
    assert found["camera.centre"].value.tolist() == [32, 24]
    assert np.linalg.norm(found["camera.translation"].value) == pytest.approx(math.hypot(4, 1))


def test_a_scene_without_a_camera_has_none_of_its_parameters(scene):
    assert not any(name.startswith("camera") for name in parameters(scene({"camera": None})))


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("cube.mass", ("cube.mass", None)),
        ("cube.position", ("cube.position", None)),
        ("cube.position.x", ("cube.position", 0)),
        ("cube.rotation_vector.z", ("cube.rotation_vector", 2)),
        ("cube.pushes.0.impulse.y", ("cube.pushes.0.impulse", 1)),
        ("gravity.z", ("gravity", 2)),
        ("camera.centre.y", ("camera.centre", 1)),
        ("ground.friction", ("ground.friction", None)),
    ],
)
def test_names_mean_a_parameter_or_a_component(full, name, meaning):
    assert resolve(full, name) == meaning


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cube.mas", "no parameter `cube.mas`; did you mean `cube.mass`?"),
        ("ground.restitution", "a `restitution` in the file becomes a `damping`; use `ground.damping`"),
        ("cube.velocity_x", "did you mean `cube.velocity.x`?"),
        ("grund.friction", "did you mean `ground.friction`?"),
        ("Cube.Mass", "did you mean `cube.mass`?"),
        ("cube.density", "the scene gives `mass` of `cube`; use `cube.mass`, or give `density` in the scene."),
        ("ball.mass", "the scene gives `density` of `ball`; use `ball.density`"),
        ("ground.dissipation", "the scene gives `damping` of `ground`; use `ground.damping`"),
        ("cube", "`cube` has mass, scale, position,"),
        ("camera", "`camera` has focal, centre, rotation_vector, translation."),
        ("cube.position.w", "`cube.position` has components x, y, z."),
        ("camera.centre.z", "`camera.centre` has components x, y."),
        ("cube.position.xy", "`cube.position` has components x, y, z."),
        ("cube.position.", "`cube.position` has components x, y, z."),
        ("cube.mass.x", "`cube.mass` is one number"),
        ("", "it has gravity, cube.mass"),
        ("nothing alike", "it has gravity, cube.mass"),
    ],
)
def test_other_names_are_refused_with_a_way_out(full, name, words):
    with pytest.raises(InputError) as error:
        resolve(full, name)
    assert words in str(error.value)


def test_tables_are_of_the_scene_as_it_is(full):
    before = parameters(full)
    before.pop("gravity")
    assert "gravity" in parameters(full)  # a table is the caller's own
    heavier = full.model_copy(
        update={"bodies": {**full.bodies, "cube": full.bodies["cube"].model_copy(update={"mass": 7.0})}}
    )
    assert parameters(heavier)["cube.mass"].value == 7
    assert parameters(full)["cube.mass"].value == 5
    full.bodies["other"] = full.bodies["ball"]
    assert "other.density" in parameters(full)
    del full.bodies["other"]
    assert "other.density" not in parameters(full)
