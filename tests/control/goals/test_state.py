"""A goal for a part of the way, and training by pieces with it."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import torch
from plant_cases import hanging, swinging
from tolerances import SOLVED, near

from gradsim.control.goals.state import ApproachGoal
from gradsim.control.impulses import RandomImpulses
from gradsim.control.policies import Sinusoids
from gradsim.control.training.randomization import DomainRandomization
from gradsim.control.training.settings import TrainingConfig
from gradsim.control.training.train import borders, train, train_truncated
from gradsim.errors import InputError

PLACE = torch.tensor([3.0, 1.0, 4.0], dtype=torch.float64)


@dataclass
class Moved:
    """All that the goal looks at of an episode."""

    path: torch.Tensor
    times: torch.Tensor

    @property
    def trajectory(self):
        return self

    def centre(self, body):
        return self.path


def moved(path: torch.Tensor, times: torch.Tensor | None = None) -> Any:
    """An episode, of half a second unless told."""
    return Moved(path, torch.tensor([0.0, 0.2, 0.5]) if times is None else times)


def test_it_asks_for_as_much_of_the_way_as_the_speed_allows():
    start = torch.tensor([[1.0, 1.0, 7.0], [2.0, 1.0, 4.5]], dtype=torch.float64)
    after = torch.tensor([[1.4, 1.0, 6.0], [3.0, 1.2, 4.0]], dtype=torch.float64)
    path = torch.stack([start, start + 9.0, after], 1).requires_grad_()
    goal = ApproachGoal("walker", PLACE, speed=2.0, axes=(0, 2), scale=0.5)
    # reach 1 m; ways (2, -3) of length √13 and (1, -0.5) of √1.25, both longer than it
    wanted = torch.stack(
        [start[0, [0, 2]] + torch.tensor([2.0, -3.0]) / 13**0.5, start[1, [0, 2]] + torch.tensor([1, -0.5]) / 1.25**0.5]
    )
    expected = (1 + ((after[:, [0, 2]] - wanted) / 0.5).square().sum(1)).sqrt() - 1
    loss = goal.loss(moved(path))
    assert torch.allclose(loss, expected, atol=1e-7)
    loss.sum().backward()
    assert path.grad is not None
    assert path.grad[:, 2].any() and not path.grad[:, :2].any()  # where it began is none of its business
    arrived = ApproachGoal("walker", PLACE, speed=2.0, axes=(0,)).loss(moved(path.detach()))
    assert arrived[1] == 0 and arrived[0] > 0


def test_it_refuses_what_it_cannot_approach():
    with pytest.raises(InputError, match=r"should approach is shape \(2,\)"):
        ApproachGoal("walker", PLACE[:2], 1.0)
    with pytest.raises(InputError, match="speed"):
        ApproachGoal("walker", PLACE, 0.0)
    with pytest.raises(InputError, match=r"axes that count are \(4,\)"):
        ApproachGoal("walker", PLACE, 1.0, axes=(4,))


def test_pieces_cover_an_episode_and_begin_elsewhere_in_each_iteration():
    seen = set()
    for k in range(20):
        found = borders(17, 5, k)
        assert found[0] == 0 and found[-1] == 17 and found == borders(17, 5, k)
        assert all(0 < b - a <= 5 for a, b in pairwise(found))
        seen.add(found[1])
    assert seen == {1, 2, 3, 4, 5}


def test_a_single_piece_is_ordinary_training():
    found = []
    for by_pieces in (False, True):
        plant = swinging()
        policy, goal = Sinusoids(plant.outputs, seed=3), ApproachGoal("beam", PLACE, 3.0)
        search = TrainingConfig("sgd", rate=0.1, iterations=3, clip=0.5)
        given = DomainRandomization(
            plant.model, {"beam.density": 0.3}, worlds=2, seed=1, impulses=[RandomImpulses("beam", 1.0, 3)]
        )
        if by_pieces:
            assert all(borders(plant.intervals, 40, k) == [0, plant.intervals] for k in range(3))
            found.append(train_truncated(plant, policy, goal, search, 40, given))
        else:
            found.append(train(plant, policy, goal, search, overrides=given))
    whole, pieces = found
    for quantity in ("loss", "gradient_norm", "rollouts", "steps", "rate"):
        assert pieces.raw(quantity) == near(whole.raw(quantity), SOLVED)
    assert torch.allclose(*(history.policies["last"]["weight"] for history in found), rtol=1e-9)
    assert not torch.allclose(*(whole.policies[name]["weight"] for name in ("first", "last")), rtol=1e-3)


def test_a_piece_begins_where_the_one_before_ended():
    """At no rate the losses are those of an episode that is cut afterwards; the borders are those of the iteration."""
    plant = hanging(13)
    policy, goal = Sinusoids(plant.outputs, frequency=20.0, seed=3), ApproachGoal("beam", PLACE, 3.0)
    given = DomainRandomization(
        plant.model, {"beam.density": 0.3}, worlds=2, seed=1, impulses=[RandomImpulses("beam", 1.0, 12)]
    )
    history = train_truncated(plant, policy, goal, TrainingConfig("sgd", rate=1e-30, iterations=2), 5, given)
    for k in range(2):
        with torch.no_grad():
            path, times = plant.rollout(policy, given(k)).centre(), plant.model.rollout(frames=13).times
        cuts = list(pairwise(borders(12, 5, k)))
        assert len(cuts) >= 3
        losses = [goal.loss(moved(path[:, a : b + 1], times[a : b + 1])).mean() for a, b in cuts]
        assert history.raw()[k] == near(torch.stack(losses).mean().item(), SOLVED)


def test_searches_that_do_not_go_by_pieces_are_refused():
    plant = swinging()
    policy, goal = Sinusoids(plant.outputs), ApproachGoal("beam", PLACE, 1.0)
    with pytest.raises(InputError, match="lbfgs evaluates the same loss"):
        train_truncated(plant, policy, goal, TrainingConfig("lbfgs"), 2)
    with pytest.raises(InputError, match="length"):
        train_truncated(plant, policy, goal, TrainingConfig(), 0)
