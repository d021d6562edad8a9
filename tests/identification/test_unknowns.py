"""Names, ranges and transforms of unknowns."""

import numpy as np
import pytest
import torch
from fit_cases import throw, tossed
from tolerances import ULPS, assert_near

from gradsim.errors import InputError
from gradsim.identification.scene_models import parameter_values
from gradsim.identification.unknowns import DEFAULT_RANGE_FACTOR, Space, Unknown
from gradsim.scene import Scene

SCENE = tossed().scene
MIXED = ("cube.mass:1:8", "cube.velocity.x:-1:3", "cube.velocity.z:-2:2", "ground.friction:0.1:1")


def test_a_name_with_bounds_is_parsed():
    assert Unknown.parse("cube.mass:2:12") == Unknown("cube.mass", 2.0, 12.0)
    assert Unknown.parse("ground.stiffness:2e4:5e5") == Unknown("ground.stiffness", 2e4, 5e5)
    assert Unknown.parse("cube.mass") == Unknown("cube.mass")


@pytest.mark.parametrize("text", ["cube.mass:2", "cube.mass:2:3:4", "cube.mass:low:high"])
def test_text_that_is_not_a_name_with_two_bounds_is_refused(text):
    with pytest.raises(InputError, match="cube.mass"):
        Unknown.parse(text)


@pytest.mark.parametrize(
    "names, message",
    [
        (["cube.mass:5:2"], "wrong way round"),
        (["cube.mass:2:2"], "wrong way round"),
        (["cube.mas:2:5"], r"did you mean `?cube\.mass"),
        (["cub.mass:2:5"], r"did you mean"),
        (["cube.mass:-1:5"], "physical"),
        (["cube.mass:0:5"], "physical"),
        (["cube.mass:nan:5"], "finite"),
        (["cube.mass:1:inf"], "finite"),
        (["cube.velocity.x"], r"needs a range: write cube\.velocity\.x:LOW:HIGH"),
        (["cube.mass:1:2", "cube.mass:1:3"], "twice"),
        ([], "at least one"),
    ],
)
def test_wrong_unknowns_are_refused_with_the_way_out(names, message):
    with pytest.raises(InputError, match=message):
        Space(SCENE, names)


def test_a_positive_unknown_without_bounds_ranges_about_the_scene():
    space = Space(SCENE, ["cube.mass"])
    assert space.range(0) == (2.0 / DEFAULT_RANGE_FACTOR, 2.0 * DEFAULT_RANGE_FACTOR)


def test_a_vector_stands_for_its_components():
    assert Space(SCENE, ["cube.velocity:-1:1"]).names == ["cube.velocity.x", "cube.velocity.y", "cube.velocity.z"]


def test_transforms_round_trip():
    space = Space(SCENE, MIXED)
    inner = space.draw(np.random.default_rng(0), 20)
    assert_near(space.inner(space.numbers(inner)), inner, ULPS)
    assert torch.allclose(space.numbers(inner)[:, 0], inner[:, 0].exp())
    assert torch.equal(space.numbers(inner)[:, 1], inner[:, 1])


def test_unit_of_a_logarithm_is_one_and_else_the_range():
    assert Space(SCENE, MIXED).unit.tolist() == [1.0, 4.0, 4.0, 1.0]


def test_starts_are_uniform_over_the_ranges():
    """Mean and variance of the uniform distribution within 4 standard errors of 4000 draws."""
    space = Space(SCENE, MIXED)
    share = (space.numbers(space.draw(np.random.default_rng(1), 4000)) - torch.tensor([1, -1, -2, 0.1])) / torch.tensor(
        [7, 4, 4, 0.9]
    )
    assert (share >= 0).all() and (share <= 1).all()
    assert ((share.mean(0) - 0.5).abs() < 4 * (1 / 12 / 4000) ** 0.5).all()
    assert ((share.var(0) - 1 / 12).abs() < 4 * (1 / 180 / 4000) ** 0.5).all()


def test_values_keep_the_components_that_are_not_solved_for():
    space = Space(throw(velocity=[0.1, 0.2, 0.3]), ["cube.velocity.y:-1:1", "cube.mass:1:8"])
    values = space.values(torch.tensor([[0.7, 0.0], [0.9, 1.0]]).double())
    assert values["cube.velocity"].tolist() == [[0.1, pytest.approx(0.7), 0.3], [0.1, pytest.approx(0.9), 0.3]]
    assert values["cube.mass"].tolist() == pytest.approx([1, np.e])


def test_values_are_differentiable():
    space = Space(SCENE, MIXED)
    u = space.draw(np.random.default_rng(2), 3)
    function = lambda u: torch.cat([v.reshape(3, -1) for v in space.values(u).values()], 1)
    assert torch.autograd.gradcheck(function, u.requires_grad_())


def test_tied_parameters_share_one_number():
    """Two bodies, whose masses are one unknown and whose velocities are another three."""
    scene = two_bodies()
    space = Space(scene, ["right.mass=left.mass:1:8", "left.velocity=right.velocity:-1:3", "left.position.z:0:1"])
    tied = ["left.velocity.x=right.velocity.x", "left.velocity.y=right.velocity.y", "left.velocity.z=right.velocity.z"]
    assert space.names == ["right.mass=left.mass", *tied, "left.position.z"]
    assert space.units[:2] == ["kg", "m/s"] and space.logarithmic == [True, False, False, False, False]
    values = space.values(space.inner(torch.tensor([[3.0, 0.1, 0.2, 0.3, 0.4]], dtype=torch.float64)))
    assert values["left.mass"].tolist() == values["right.mass"].tolist() == [pytest.approx(3.0)]
    assert values["left.velocity"].tolist() == values["right.velocity"].tolist() == [[0.1, 0.2, 0.3]]
    assert values["left.position"].tolist() == [[0.0, 0.0, 0.4]] and "right.position" not in values


def test_a_tie_without_bounds_ranges_about_its_first_parameter():
    assert Space(two_bodies(), ["right.mass=left.mass"]).range(0) == (
        3.0 / DEFAULT_RANGE_FACTOR,
        3.0 * DEFAULT_RANGE_FACTOR,
    )


@pytest.mark.parametrize(
    "names, message",
    [
        (["left.mass=right.scale:1:2"], r"different kinds \(left.mass \[kg\], right.scale \[\]\)"),
        (["left.mass=left.mass:1:2"], "`left.mass` is named twice"),
        (["left.mass=right.mass:1:2", "right.mass:1:2"], "`right.mass` is named twice"),
        (["left.mass=rigt.mass:1:2"], "did you mean `right.mass`"),
        (["left.velocity=right.velocity.x:1:2"], "ties vectors to numbers"),
        (["left.mass=:1:2"], "no parameter ``"),
    ],
)
def test_ties_that_make_no_sense_are_refused(names, message):
    with pytest.raises(InputError, match=message):
        Space(two_bodies(), names)


def two_bodies() -> Scene:
    box = {"shape": {"box": {"size": [0.3, 0.2, 0.1]}}, "mass": 2.0}
    return Scene.parse({"bodies": {"left": box, "right": {**box, "mass": 3.0}}})


def test_numbers_of_a_tie_are_placed_at_each_of_its_parameters():
    values = parameter_values(two_bodies(), {"left.mass=right.mass": 5.0, "left.velocity.y=right.velocity.x": 0.5})
    assert values["left.mass"].item() == values["right.mass"].item() == 5.0
    assert values["left.velocity"].tolist() == [[0, 0.5, 0]] and values["right.velocity"].tolist() == [[0.5, 0, 0]]


def test_slopes_are_the_derivatives_of_values():
    space = Space(SCENE, MIXED)
    u = space.draw(np.random.default_rng(0), 3)
    slopes = space.slopes(u)
    for k in range(len(space)):
        _, expected = torch.func.jvp(space.values, (u,), (torch.eye(len(space)).double()[k].expand_as(u),))
        assert expected.keys() == slopes.keys()
        assert all(torch.equal(slopes[name][:, k], d) for name, d in expected.items())
