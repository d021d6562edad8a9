"""Grounds: the plane, and the numbers of each contact law."""

import math

import pytest

from gradsim.scene import Ground


def test_a_point_on_the_plane_gives_its_height(scene):
    """n·x = height with n = normal/|normal|."""
    ground = scene({"ground.point": [1, 2, 3], "ground.normal": [0, 3, 4]}).grounds["ground"]
    assert ground.height == pytest.approx((2 * 3 + 3 * 4) / 5, rel=1e-15)
    assert ground.point is None
    assert Ground.model_validate(ground.model_dump(exclude_unset=True)) == ground


def test_height_or_point_is_given(mistake):
    assert mistake({"ground.point": [0, 0, 1], "ground.height": 1}) == (
        "ground: got `height` and `point`; give one of them."
    )


def test_the_normal_has_a_direction(mistake):
    assert mistake({"ground.normal": [0, 0, 0]}).startswith("ground.normal: got a direction of length 0;")


@pytest.mark.parametrize(
    ("law", "own", "other", "unit"),
    [
        ("continuous", "dissipation", "damping", "s/m"),
        ("constant-restitution", "damping", "dissipation", "N s/m"),
        ("paper", "damping", "dissipation", "N s/m"),
        ("paper-adhesive", "damping", "dissipation", "N s/m"),
    ],
)
def test_each_law_has_its_own_damping(scene, mistake, law, own, other, unit):
    given = scene({"ground.law": law, f"ground.{own}": f"2 {unit}"}).grounds["ground"]
    assert (getattr(given, own), getattr(given, other)) == (2, None)
    default = scene({"ground.law": law}).grounds["ground"]
    assert getattr(default, own) > 0
    assert getattr(default, other) is None
    line = mistake({"ground.law": law, f"ground.{other}": 2})
    assert line.startswith(f"ground.{other}: the law `{law}` has no `{other}`")
    assert f"give `{own}` [{unit}]" in line


def test_continuous_is_the_law_where_none_is_named(scene, mistake):
    assert scene().grounds["ground"].law == "continuous"
    assert "or law: constant-restitution" in mistake({"ground.damping": 50})
    assert mistake({"ground.law": "papers"}) == "ground.law: got 'papers'; did you mean `paper`?"


def test_all_grounds_follow_one_law(mistake):
    two = {"floor": {"law": "paper"}, "wall": {"normal": [1, 0, 0]}}
    assert mistake({"ground": None, "grounds": two}) == (
        "grounds: have different contact laws (continuous, paper); give all the same `law`."
    )


def test_a_single_ground_may_stand_without_a_name(scene, mistakes):
    assert list(scene().grounds) == ["ground"]
    assert scene() == scene({"ground": None, "grounds": {"ground": {"stiffness": 1e5}}})
    assert scene({"ground": None}).grounds == {}
    assert mistakes({"grounds": {"wall": {}}})[0] == "ground: is given together with `grounds`; move it into `grounds`."


def test_mistakes_are_named_as_the_user_named_the_ground(mistake):
    assert mistake({"ground.friction": "rough"}).startswith("ground.friction: ")
    named = {"ground": None, "grounds": {"ground": {"friction": "rough"}}}
    assert mistake(named).startswith("grounds.ground.friction: ")


def test_heights_have_units(scene):
    assert scene({"ground.height": "-3 cm"}).grounds["ground"].height == -0.03
    assert math.isfinite(Ground().stiffness)
