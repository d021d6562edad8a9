"""Joints of a scene: who places whom, what is refused, and what can be an unknown."""

import copy

import pytest

from gradsim.errors import InputError
from gradsim.scene import Scene, parameters, resolve

LINK = {"shape": {"box": {"size": [0.4, 0.1, 0.08]}}, "mass": 1.0}
CONTENT = {
    "bodies": {"upper": LINK, "lower": LINK, "third": LINK},
    "joints": {
        "elbow": {"kind": "revolute", "between": ["upper", "lower"], "angle": "30 deg"},
        "shoulder": {"kind": "ball", "between": ["world", "upper"]},
        "rail": {"kind": "prismatic", "between": ["lower", "third"], "speed": 0.5},
        "loop": {"kind": "ball", "between": ["world", "third"]},
    },
}


def content(changes=None) -> dict:
    """The chain with other values at dotted places."""
    found = copy.deepcopy(CONTENT)
    for place, value in (changes or {}).items():
        *path, last = place.split(".")
        node = found
        for key in path:
            node = node[key]
        node[last] = value
    return found


def words(changes) -> str:
    with pytest.raises(InputError) as error:
        Scene.parse(content(changes))
    return str(error.value)


def test_the_first_joint_of_a_child_places_it_and_a_later_one_closes_a_loop():
    """The order in the file does not matter for who hangs on whom: the shoulder stands behind the elbow."""
    known = parameters(Scene.parse(content()))
    assert "joints.elbow.angle" in known and "joints.shoulder.rotation_vector" in known
    assert "joints.loop.rotation_vector" not in known and "joints.loop.damping" in known
    assert not [name for name in known if name.endswith((".position", ".velocity"))]


def test_a_joint_to_its_own_parent_closes_a_loop():
    joints = {
        "there": {"kind": "ball", "between": ["upper", "lower"]},
        "back": {"kind": "ball", "between": ["lower", "upper"]},
    }
    known = parameters(Scene.parse(content({"joints": joints})))
    assert "upper.position" in known and "joints.back.rotation_vector" not in known
    assert "joints.there.rotation_vector" in known and "lower.position" not in known


def test_a_scene_with_joints_is_written_and_read_back(tmp_path):
    scene = Scene.parse(content({"joints.elbow.torque": "2 N m", "joints.elbow.damping": 0.1}))
    scene.save(tmp_path / "chain.yaml")
    again = Scene.load(tmp_path / "chain.yaml")
    assert again.joints == scene.joints and again.joints["elbow"].model_dump()["torque"] == 2.0
    assert "joints" not in Scene.parse({"bodies": {"upper": LINK}}).model_dump()


def test_motors_and_targets_may_change_over_time():
    known = parameters(Scene.parse(content()))
    timed = {name for name, p in known.items() if p.timed}
    assert timed == {f"joints.{n}" for n in ("elbow.torque", "elbow.target", "rail.force", "rail.target")}


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (
            "bodies.lower",
            {**LINK, "position": [1, 0, 0]},
            "the joint `elbow` places `lower` relative to its parent; give `angle`",
        ),
        ("bodies.lower", {**LINK, "velocity": [1, 0, 0]}, "bodies.lower.velocity: the joint `elbow` places `lower`"),
        ("joints.elbow.between", ["upper", "hand"], "joints.elbow.between: the scene has no body `hand`"),
        ("joints.elbow.between", ["upper", "upper"], "`upper` is both parent and child"),
        ("joints.elbow.between", ["upper", "world"], "the world cannot be the child; write [world, upper]."),
        ("joints.elbow.between", ["upper"], "expected the names [parent, child]"),
        ("joints.elbow.axis", [0, 0, 0], "joints.elbow.axis: got a direction of length 0"),
        ("joints.elbow.upper", 1.0, "joints.elbow.limit_stiffness: is missing"),
        ("joints.elbow.limit_stiffness", 1.0, "is given without `lower` or `upper`"),
        ("joints.elbow.displacement", 1.0, "joints.elbow.displacement: unknown key"),
        ("joints.elbow.kind", "hinge", "got kind 'hinge'; expected revolute or prismatic or ball or fixed"),
        (
            "joints.loop.angular_velocity",
            [0, 0, 1],
            "is of a joint that closes a loop, where other joints place `third`",
        ),
        ("joints.elbow.torque", "2 N", "joints.elbow.torque: got '2 N'; expected a quantity in N m."),
    ],
)
def test_what_is_wrong_with_a_joint_is_said_where_it_stands(place, value, said):
    assert said in words({place: value})


def test_limits_that_cross_are_refused():
    given = {**CONTENT["joints"]["elbow"], "lower": 1.0, "upper": 0.5, "limit_stiffness": 10.0}
    assert "joints.elbow.lower: got 1; expected less than `upper`, 0.5." in words({"joints.elbow": given})


def test_only_rigid_bodies_have_joints_and_none_is_called_world():
    bob = {"kind": "pendulum", "string_length": 1.0, "radius": 0.1}
    assert "`third` is not a rigid body; joints support rigid bodies only." in words({"bodies.third": bob})
    assert "a body is called `world`" in words({"bodies.world": LINK})


def test_a_gradient_by_the_place_of_a_child_is_refused_with_the_way_out():
    with pytest.raises(InputError, match=r"the joint `elbow` places it; use `joints.elbow.angle`"):
        resolve(Scene.parse(content()), "lower.position.x")
    assert resolve(Scene.parse(content()), "joints.elbow.axis.y") == ("joints.elbow.axis", 1)


def test_given_moments_of_inertia_are_those_of_some_body():
    assert "a moment of inertia cannot exceed the sum of the other two" in words(
        {"bodies.lower": {**LINK, "inertia": [1, 2, 3.1]}}
    )
    assert "is given together with `density`" in words(
        {"bodies.lower": {"shape": LINK["shape"], "density": 100, "inertia": [1, 2, 2]}}
    )
    assert "lower.inertia" in parameters(Scene.parse(content({"bodies.lower": {**LINK, "inertia": [1, 2, 2]}})))
