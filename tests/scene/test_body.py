"""Bodies: what is given once, twice or not at all, and orientations."""

import math

import numpy as np
import pytest

from gradsim.scene import Scene

CUBE = "bodies.cube"
BOB = {"kind": "pendulum", "string_length": "50 cm", "radius": 0.03, "angle": "30 deg"}


def test_mass_or_density_is_given(mistake, scene):
    assert mistake({f"{CUBE}.mass": None}) == f"{CUBE}: got none; give exactly one of `mass`, `density`."
    assert mistake({f"{CUBE}.density": 3}).startswith(f"{CUBE}: got `mass` and `density`;")
    cube = scene({f"{CUBE}.mass": None, f"{CUBE}.density": "2 g/cm^3"}).bodies["cube"]
    assert (cube.mass, cube.density) == (None, 2000)


def test_orientation_is_given_once(mistake, scene):
    quat, vector = [0, 0, 0.6, 0.8], [0.1, 0, 0]
    both = {f"{CUBE}.quat_xyzw": quat, f"{CUBE}.rotation_vector": vector}
    assert mistake(both) == (f"{CUBE}: got `quat_xyzw` and `rotation_vector`; give one of them.")
    assert scene({f"{CUBE}.quat_xyzw": quat}).bodies["cube"].rotation_vector == (0, 0, 0)
    assert scene({f"{CUBE}.rotation_vector": vector}).bodies["cube"].quat_xyzw == (0, 0, 0, 1)


def test_unit_quaternions_are_kept_bit_for_bit(scene):
    """Also those whose length rounding has left beside 1."""
    raw = np.random.default_rng(0).normal(size=(50, 4))
    for q in map(tuple, (raw / np.sqrt((raw**2).sum(1, keepdims=True))).tolist()):
        assert scene({f"{CUBE}.quat_xyzw": q}).bodies["cube"].quat_xyzw == q


def test_digits_that_a_file_dropped_from_a_quaternion_are_restored(scene):
    q = scene({f"{CUBE}.quat_xyzw": [0.1826, 0.3651, 0.5477, 0.7303]}).bodies["cube"].quat_xyzw
    assert math.hypot(*q) == pytest.approx(1, abs=1e-15)
    assert scene({f"{CUBE}.quat_xyzw": q}).bodies["cube"].quat_xyzw == q


def test_other_lengths_of_a_quaternion_are_refused_with_the_unit_one(mistake):
    assert "length 2; a rotation has length 1. If only its length is off, write [0, 0, 0.6, 0.8]" in mistake(
        {f"{CUBE}.quat_xyzw": [0, 0, 1.2, 1.6]}
    )
    assert mistake({f"{CUBE}.quat_xyzw": [0, 0, 0, 0]}).endswith("the identity is [0, 0, 0, 1].")


def test_the_analytic_sphere_touches_for_spheres_only(mistake, scene):
    assert mistake({f"{CUBE}.collision": "sphere"}) == (
        f"{CUBE}.collision: got 'sphere' for another shape; expected `vertices`, `hull` or `none`."
    )
    ball = {f"{CUBE}.shape": {"sphere": {"radius": 1}}, f"{CUBE}.collision": "sphere"}
    assert scene(ball).bodies["cube"].collision == "sphere"


@pytest.mark.parametrize(
    ("push", "place", "words"),
    [
        ({}, "", "got none; give exactly one of `impulse`, `force`."),
        ({"impulse": [1, 0, 0], "force": [1, 0, 0], "window": [0, 1]}, "", "got `impulse` and `force`"),
        ({"force": [1, 0, 0]}, "", "got a `force` without a `window`"),
        ({"impulse": [1, 0, 0], "at": 0.5, "window": [0, 1]}, "", "got both `at` and `window`"),
        ({"force": [1, 0, 0], "window": [0.3, 0.1]}, ".window", "the end must be after the begin."),
        ({"force": [1, 0, 0], "window": [0.3, 0.3]}, ".window", "the end must be after the begin."),
        ({"force": [1, 0, 0], "window": [-0.3, 0.1]}, ".window.0", "expected a number of at least 0 [s]."),
        ({"impulse": [1, 0, 0], "at": -1}, ".at", "expected a number of at least 0 [s]."),
        ({"impulse": ["5 N", 0, 0]}, ".impulse.0", "expected a quantity in N s."),
    ],
)
def test_pushes_that_say_too_much_or_too_little_are_refused(mistake, push, place, words):
    line = mistake({f"{CUBE}.pushes": [{"impulse": [1, 2, 3]}, push]})
    assert line.startswith(f"{CUBE}.pushes.1{place}: ")
    assert words in line


def test_an_impulse_acts_at_the_start_at_an_instant_or_over_a_window(scene):
    given = [{"impulse": [1, 2, 3]}, {"impulse": [1, 2, 3], "at": 0.5}, {"impulse": [1, 2, 3], "window": [0, 0.5]}]
    pushes = scene({f"{CUBE}.pushes": given}).bodies["cube"].pushes
    assert [push.window or (push.at, push.at) for push in pushes] == [(0, 0), (0.5, 0.5), (0, 0.5)]


def test_pendulums_are_read(scene):
    bob = scene({"bodies.bob": BOB}).bodies["bob"]
    assert (bob.string_length, bob.angle, bob.damping, bob.plane) == (0.5, math.pi / 6, 0, (1, 0, 0))


@pytest.mark.parametrize("plane", [[0, 0, 0], [0, 0, 1], [1, 0, 0.1]])
def test_pendulums_swing_in_a_vertical_plane(mistake, plane):
    assert "expected a horizontal direction" in mistake({"bodies.bob": {**BOB, "plane": plane}})


def test_kinds_of_bodies_that_do_not_exist_get_a_suggestion(mistake):
    assert mistake({f"{CUBE}.kind": "ridgid"}) == f"{CUBE}: got kind 'ridgid'; did you mean `rigid`?"
    assert (
        mistake({f"{CUBE}.kind": 5})
        == f"{CUBE}: got kind 5; expected rigid or pendulum or double_pendulum or solid or cloth or springs or rod."
    )


def test_keys_of_the_other_kind_are_refused(mistake):
    assert "bodies.bob.mass: unknown key" in mistake({"bodies.bob": {**BOB, "mass": 1}})


def test_content_names_one_orientation_and_one_time(scene):
    pushes = [{"impulse": [1, 2, 3]}, {"impulse": [1, 2, 3], "window": [0, 0.5]}]
    for key, value in (("quat_xyzw", (0, 0, 0.6, 0.8)), ("rotation_vector", (0.1, 0, 0))):
        made = scene({f"{CUBE}.{key}": value, f"{CUBE}.pushes": pushes})
        content = made.model_dump()["bodies"]["cube"]
        assert [k for k in content if k in ("quat_xyzw", "rotation_vector")] == [key]
        assert [("at" in push, "window" in push) for push in content["pushes"]] == [(True, False), (False, True)]
        assert Scene.parse(made.model_dump()) == made
        assert Scene.parse(made.model_dump(exclude_unset=True)) == made
