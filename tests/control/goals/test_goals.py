"""Goals in three dimensions and rewards, and what figures say of any goal."""

import goal_cases
import pytest
import torch
from checks import error
from goal_cases import numbers

from gradsim.control.goals.base import Reward, Truth
from gradsim.control.goals.image import ImageGoal
from gradsim.control.goals.state import StateGoal
from gradsim.control.task.setup import place_body
from gradsim.errors import InputError
from gradsim.numerics import rotation
from gradsim.render.silhouettes import Silhouettes

MODEL = goal_cases.model()
PLACE = numbers(0.2, -0.1, 0.3)


def episode():
    return goal_cases.episode(MODEL, numbers(0.1, -0.2))


def test_a_place_is_the_papers_position_error_at_the_last_frame():
    goal, one = StateGoal("beam", PLACE), episode()
    squares = (one.centre()[:, -1] - PLACE).square()
    assert error(goal.loss(one), squares.mean(1)) < 1e-15
    away, distance = goal.position_error(one), goal.distance(one)
    assert away is not None and error(away, squares.mean(1)) < 1e-15
    assert distance is not None and error(distance, squares.sum(1).sqrt()) < 1e-15


def test_a_place_for_all_frames_rewards_each():
    one = episode()
    expected = (one.centre() - PLACE).square().mean((1, 2))
    assert error(StateGoal("beam", PLACE, None).loss(one), expected) < 1e-15
    some = (one.centre()[:, [1, 3]] - PLACE).square().mean((1, 2))
    assert error(StateGoal("beam", PLACE, [1, -1]).loss(one), some) < 1e-15


def test_all_vertices_are_compared_one_by_one():
    seen, truth = goal_cases.at(MODEL, *PLACE.tolist())
    assert truth.vertices is not None
    goal, one = StateGoal("beam", truth.vertices, truth=truth), episode()
    expected = (one.trajectory["beam"]["x"][:, -1] - seen["beam"]["x"][0, 0]).square().mean((1, 2))
    assert error(goal.loss(one), expected) < 1e-15
    with pytest.raises(InputError, match="the goal of `beam` has 3 vertices; the body has 12"):
        StateGoal("beam", torch.zeros(3, 3)).loss(one)
    with pytest.raises(InputError, match=r"the goal of `beam` is shape \(4,\); expected a tensor \(3\)"):
        StateGoal("beam", torch.zeros(4))


def test_the_truth_of_a_placed_body_is_its_centre_of_mass():
    """Two materials: the centre of mass is not the middle of the shape, and turns with it."""
    seen, truth = goal_cases.at(MODEL, *PLACE.tolist())
    mass = MODEL.systems[0].mass(seen.values)[0]
    assert error(truth.centre, (mass[:, None] * seen["beam"]["x"][0, 0]).sum(0) / mass.sum()) < 1e-14
    assert torch.linalg.vector_norm(truth.centre - PLACE) > 1e-3


def test_a_shift_counts_from_the_start():
    start = MODEL.get_parameter("beam.position").detach()
    _, shifted = place_body(MODEL, "beam", None, (0.1, 0.2, 0.3))
    _, there = place_body(MODEL, "beam", (start + numbers(0.1, 0.2, 0.3)).tolist(), None)
    assert error(shifted.centre, there.centre) < 1e-15


def test_a_placed_body_is_its_rest_shape_turned_and_moved():
    seen, _ = goal_cases.at(MODEL, *PLACE.tolist())
    start = numbers(*MODEL.scene.bodies["beam"].quat_xyzw)
    q = rotation.multiply(rotation.exponential(numbers(0.1, -0.2, 0.3)), start)
    assert error(seen["beam"]["x"][0, 0], rotation.rotate(q, MODEL.systems[0].rest) + PLACE) < 1e-14


def test_figures_know_nothing_of_a_image_alone():
    sees, one = Silhouettes.of(MODEL.scene), episode()
    image = sees.union(one.trajectory.surface, one.trajectory.values)[0, -1].detach()
    goal = ImageGoal(sees, image)
    assert goal.distance(one) is None and goal.position_error(one) is None
    known = ImageGoal(sees, image, truth=Truth("beam", PLACE, frame=2))
    distance = known.distance(one)
    assert distance is not None and error(distance, (one.centre()[:, 2] - PLACE).square().sum(1).sqrt()) < 1e-15
    assert not distance.requires_grad


def test_a_reward_is_raised():
    goal, one = Reward(lambda e: e.centre()[:, -1, 0]), episode()
    assert torch.equal(goal.loss(one), -one.centre()[:, -1, 0])
    with pytest.raises(
        InputError, match=r"the reward of an episode is a tensor \(2, 3\); it needs one number for each world"
    ):
        Reward(lambda e: e.centre()[:, -1]).loss(one)
    with pytest.raises(InputError, match="is 3.0; it needs"):
        Reward(lambda e: 3.0).loss(one)  # pyright: ignore[reportArgumentType]
