"""Contacts between rigid bodies: which bodies they are about, and mistakes."""

import pytest

from gradsim.errors import InputError
from gradsim.scene import Scene

BALL = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1}
BODIES = {
    "a": BALL,
    "b": {**BALL, "position": [1, 0, 0]},
    "c": {"shape": {"box": {"size": [1, 1, 1]}}, "mass": 1, "position": [3, 0, 0]},
    "ghost": {**BALL, "collision": "none"},
    "bob": {"kind": "pendulum", "string_length": 1, "radius": 0.1},
}  # fmt: skip


def scene(contacts: dict, names=("a", "b", "c")) -> Scene:
    return Scene.parse({"bodies": {name: BODIES[name] for name in names}, "contacts": contacts})


def test_rigid_bodies_are_named_or_are_all():
    named = scene({"x": {"between": ["c", "a"], "stiffness": 1e4}})
    every = scene({"x": {"between": "all", "stiffness": 1e4}})
    assert named.contacts["x"].names(named.bodies) == ("c", "a")
    assert every.contacts["x"].names(every.bodies) == ("a", "b", "c")
    assert every.contacts["x"].rigid(every.bodies)


def test_all_rigid_bodies_are_those_that_collide():
    every = scene({"x": {"between": "all", "stiffness": 1e4}}, ("a", "ghost", "b"))
    assert every.contacts["x"].names(every.bodies) == ("a", "b")
    with pytest.raises(InputError, match="names 1 rigid bodies; expected at least two"):
        scene({"x": {"between": "all", "stiffness": 1e4}}, ("a", "ghost"))


def test_a_scene_with_rigid_contacts_is_written_and_read_again(tmp_path):
    every = scene({"x": {"between": "all", "stiffness": 1e4}})
    every.save(tmp_path / "scene.yaml")
    assert Scene.load(tmp_path / "scene.yaml") == every


@pytest.mark.parametrize(
    ("between", "more", "words"),
    [
        (["a", "b"], {"stiffness": None}, "contacts.x.stiffness: is missing; give k_e in N/m"),
        (["a"], {}, "contacts.x.between: names 1 rigid bodies; expected at least two"),
        (["a", "b", "a"], {}, "names `a` twice; rigid bodies have no self-contact"),
        (["a", "ghost"], {}, "`ghost` has `collision: none`; remove that key"),
        (["a", "bob"], {}, "`bob` is neither a rigid nor a soft body"),
        (
            ["a", "b"],
            {"thickness": 0.01},
            "contacts.x.thickness: applies to soft bodies only; remove it between rigid bodies",
        ),
        (["a", "bb"], {}, "no body `bb`; did you mean `bob`"),
    ],
)
def test_mistakes_are_named(between, more, words):
    given = {"between": between, "stiffness": 1e4, **more}
    with pytest.raises(InputError, match=words):
        scene({"x": {key: value for key, value in given.items() if value is not None}}, ("a", "b", "ghost", "bob"))


def test_two_bodies_touch_by_one_contact():
    contacts = {"x": {"between": "all", "stiffness": 1e4}, "y": {"between": ["b", "c"], "stiffness": 1e4}}
    with pytest.raises(InputError, match="contacts.y.between: `b` and `c` are in `contacts.x` already"):
        scene(contacts)


def test_a_body_that_meets_a_soft_one_touches_no_rigid_one():
    rope = {
        "kind": "springs",
        "shape": {"rope": {"length": 1, "segments": 2}},
        "mass": 1,
        "stiffness": 10,
        "radius": 0.01,
    }
    content = {
        "bodies": {**{n: BODIES[n] for n in "abc"}, "rope": rope},
        "contacts": {"x": {"between": "all", "stiffness": 1}},
    }
    content["attachments"] = {"hook": {"body": "rope", "to": "a", "region": {"vertices": [0]}}}
    with pytest.raises(
        InputError, match="contacts.x.between: `a` also interacts with a soft body.*remove it from `between`"
    ):
        Scene.parse(content)
