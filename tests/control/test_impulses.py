"""Kicks: velocities between intervals, the same for those that look and those that do not."""

import pytest
import torch
from checks import error
from plant_cases import Center, Table, swinging

from gradsim.control.goals.state import StateGoal
from gradsim.control.impulses import RandomImpulses
from gradsim.control.mpc import Mpc, run_mpc
from gradsim.control.plant import Control, Plant
from gradsim.control.training.randomization import DomainRandomization
from gradsim.control.training.settings import TrainingConfig
from gradsim.errors import InputError


def impulses(plant: Plant, worlds: int = 1) -> torch.Tensor:
    """At the second and third of three intervals."""
    generator = torch.Generator().manual_seed(3)
    found = torch.randn(worlds, plant.intervals, 3, generator=generator, dtype=torch.float64)
    found[:, 0] = 0
    return found


def table(plant: Plant, feedback: bool) -> Table:
    generator = torch.Generator().manual_seed(1)
    u = torch.rand(plant.intervals, plant.outputs, generator=generator, dtype=torch.float64) * 2 - 1
    return Table(u, plant.interval / plant.model.scene.timing.fps, feedback)


def test_a_kick_is_a_velocity_that_is_added_between_two_intervals():
    plant, policy = swinging(), table(swinging(), False)
    blows = impulses(plant)
    with torch.no_grad():
        found = plant.rollout(policy, {"beam.impulses": blows}).trajectory["beam"]
        states, expected = plant.begin(), []
        for k in range(plant.intervals):
            states["beam"]["v"] = states["beam"]["v"] + blows[:, k, None]
            moved = plant.advance(states, policy.u[None, k], frames=min(2, plant.frames - 1 - 2 * k))["beam"]
            states = {"beam": {name: y[:, -1] for name, y in moved.items()}}
            expected.append(moved["x"][:, 1:])
    assert error(found["x"][:, 1:], torch.cat(expected, 1)) < 1e-12
    free = plant.rollout(policy).trajectory["beam"]["x"]
    assert error(found["x"][:, :3], free[:, :3]) < 1e-12
    assert error(found["x"][:, 3:], free[:, 3:]) > 1e-3


def test_open_and_closed_loops_get_the_same_impulses_and_gradients():
    found = {}
    for feedback in (False, True):
        plant = Plant(swinging().model, [Control("beam.activation", -0.4, 0.4)], 2, Center())
        policy, given = table(plant, feedback), impulses(plant, 2).requires_grad_()
        x = plant.rollout(policy, {"beam.impulses": given}).trajectory["beam"]["x"]
        weights = torch.randn(x.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        (x * weights).sum().backward()
        found[feedback] = x, policy.u.grad, given.grad
    assert found[True][0].shape[0] == 2 and found[True][2][:, 1:].any()
    for one, other in zip(*found.values(), strict=True):
        assert error(one, other) < 1e-11


def test_a_controller_that_plans_is_kicked_too():
    plant = swinging()
    goal, search = StateGoal("beam", torch.zeros(3, dtype=torch.float64)), TrainingConfig("polyak", iterations=2)
    given = {"beam.impulses": impulses(plant)}
    episode, _ = run_mpc(Mpc(plant, goal, 1, search), plant, goal, given)
    again = plant.rollout(Table(episode.actions[0], 2 / 50, False), given)
    seconds = plant.interval / plant.model.scene.timing.fps
    assert seconds == pytest.approx(2 / 50)
    assert error(again.centre(), episode.centre()) < 1e-11


def test_draws_have_the_number_size_ways_and_instants_that_are_asked_for():
    drawn = DomainRandomization(
        swinging().model, seed=4, worlds=300, impulses=[RandomImpulses("beam", 0.5, 40, 1, 3, (0.25, 0.5), (0, 2))]
    )
    blows = drawn(1)["beam.impulses"]
    assert torch.equal(blows, drawn(1)["beam.impulses"]) and not torch.equal(blows, drawn(2)["beam.impulses"])
    assert blows.shape == (300, 40, 3) and not blows[..., 1].any()
    assert not blows[:, :10].any() and not blows[:, 20:].any() and blows[:, 10].any() and blows[:, 19].any()
    many = blows.any(2).sum(1)
    assert many.min() == 1 and many.max() == 3
    alone = torch.linalg.vector_norm(blows[many == 1].sum(1), dim=1)
    assert (alone - 0.5).abs().lt(1e-12).float().mean() > 0.8  # the others are two at one instant
    assert blows.sum((0, 1)).abs().max() < 3 * 0.5 * (2 * 300) ** 0.5  # no way is preferred


def test_impulses_that_make_no_sense_are_refused():
    plant = swinging()
    policy = table(plant, False)
    with pytest.raises(InputError, match=r"`bean` takes no impulses; .* of beam"):
        plant.rollout(policy, {"bean.impulses": impulses(plant)})
    with pytest.raises(InputError, match=r"`beam.impulses` has shape \(3, 3\); expected \(worlds, intervals, 3\)"):
        plant.rollout(policy, {"beam.impulses": impulses(plant)[0]})
    launched = Plant(plant.model, [Control("beam.velocity", -1.0, 1.0)])
    with pytest.raises(InputError, match="impulses act over time, and `beam.velocity` is set at the start"):
        launched.rollout(Table(torch.zeros(1, 3).double(), 1.0, False), {"beam.impulses": impulses(plant)})
    for wrong in ({"size": -1.0}, {"least": 3, "most": 2}, {"span": (0.5, 0.2)}, {"axes": (3,)}):
        with pytest.raises(InputError, match="impulses"):
            RandomImpulses(**{"body": "beam", "size": 1.0, "intervals": 3, **wrong})
