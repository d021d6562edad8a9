"""A plant under a policy: open loop and feedback are one motion, with one gradient; mistakes are refused."""

import re

import pytest
import soft_cases
import torch
from checks import error
from plant_cases import Center, Table
from torch import nn

from gradsim.control.plant import Control, Plant
from gradsim.control.policies import PiecewiseConstant
from gradsim.errors import InputError
from gradsim.physics.model import Model


def plant(interval: int = 2, observation=None) -> Plant:
    return Plant(Model(soft_cases.solid()), [Control("beam.activation", -0.3, 0.1)], interval, observation)


def table(system: Plant, feedback: bool) -> Table:
    generator = torch.Generator().manual_seed(1)
    u = torch.rand(system.intervals, system.outputs, generator=generator, dtype=torch.float64) * 2 - 1
    return Table(u, system.interval / system.model.scene.timing.fps, feedback)


@pytest.mark.parametrize("interval", [1, 2, 7])
def test_feedback_that_sees_nothing_new_is_the_open_loop(interval):
    system = plant(interval, Center())
    found = {}
    for feedback in (False, True):
        policy = table(system, feedback)
        episode = system.rollout(policy)
        states = episode.trajectory["beam"]
        assert states["x"].shape[1] == system.frames and episode.actions.shape == (1, system.intervals, system.outputs)
        weights = torch.randn(states["x"].shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        ((states["x"] + 0.1 * states["v"]) * weights).sum().backward()
        found[feedback] = states["x"], policy.u.grad
    assert found[True][1].any()
    assert error(found[True][0], found[False][0]) < 1e-12
    assert error(found[True][1], found[False][1]) < 1e-11


def test_ends_of_the_range_are_what_u_of_one_means():
    system = plant()
    u = torch.tensor([[-1.0, 1.0, 0.0]]).double().mT.expand(3, system.outputs)
    policy = Table(u.clone(), 2 / system.model.scene.timing.fps, False)
    values = system.rollout(policy).trajectory.values["beam.activation"]
    assert error(values[0, :, 0], torch.tensor([-0.3, -0.3, 0.1, 0.1, -0.1], dtype=torch.float64)) < 1e-15


def test_each_interval_has_its_own_numbers_under_a_model_of_single_precision():
    """Times of single precision fall before the starts of intervals."""
    system = Plant(Model(soft_cases.solid(), dtype=torch.float32), [Control("beam.activation", -1, 1)], 2)
    numbers = torch.arange(100, dtype=torch.float64)[:, None]
    free = PiecewiseConstant(1, 100, 100 * 2 / system.model.scene.timing.fps, numbers)
    assert torch.equal(free(system.times_of(100))[0], numbers)


def test_a_launch_is_set_at_the_start():
    system = Plant(Model(soft_cases.solid()), [Control("beam.velocity", -2.0, 2.0), Control("beam.activation", 0, 0.1)])
    assert system.outputs_of == {"beam.velocity": 3, "beam.activation": 10} and not system.launched
    one = Plant(system.model, [Control("beam.velocity", -2.0, 2.0)])
    assert one.launched and one.intervals == 1
    u = torch.tensor([[0.5, 0.0, -0.25]], dtype=torch.float64)
    episode = one.rollout(Table(u, 1.0, False))
    assert episode.trajectory.values["beam.velocity"].tolist() == [[1.0, 0.0, -0.5]]


def test_the_centre_of_mass_is_that_of_the_masses():
    system = plant()
    trajectory = system.rollout(table(system, False)).trajectory
    centre = system.rollout(table(system, False)).centre()
    (body,) = system.model.systems
    mass = body.mass(trajectory.values)[0]
    expected = (mass[:, None] * trajectory["beam"]["x"][0]).sum(1) / mass.sum()
    assert error(centre[0], expected) < 1e-14


def test_mistakes_are_named():
    model = Model(soft_cases.solid())
    for words, make in {
        "at least one control": lambda: Plant(model, []),
        "did you mean `beam.activation`": lambda: Plant(model, [Control("beam.actvation", -1, 1)]),
        "give `beam.velocity` instead of its component 0": lambda: Plant(model, [Control("beam.velocity.x", -1, 1)]),
        "is a control twice": lambda: Plant(model, [Control("beam.activation", -1, 1)] * 2),
        "low has to be below high": lambda: Control("beam.activation", 1, -1),
        "goes from -2 to 1, and the parameter from -1 to 1": lambda: Plant(model, [Control("beam.activation", -2, 1)]),
        "has to be at least 1": lambda: Plant(model, [Control("beam.activation", -1, 1)], 0),
    }.items():
        with pytest.raises(InputError, match=re.escape(words)):
            make()


def test_a_scene_of_one_frame_is_refused():
    scene = soft_cases.solid()
    still = scene.model_copy(update={"timing": scene.timing.model_copy(update={"frames": 1})})
    with pytest.raises(InputError, match="single frame"):
        Plant(Model(still), [Control("beam.activation", -1, 1)])


def test_other_worlds_than_are_given_are_refused():
    system = plant()
    u = torch.zeros(2, system.intervals, system.outputs, dtype=torch.float64)
    policy = lambda times, seen: u
    policy.feedback = False
    density = system.model.get_parameter("beam.density").detach().expand(3)
    with pytest.raises(InputError, match="acts in 2 worlds, and the parameters have 3"):
        system.rollout(policy, {"beam.density": density})


def test_a_policy_that_does_not_fit_is_refused_before_any_rollout():
    system = plant(observation=Center())
    wrong = Table(torch.zeros(3, 4, dtype=torch.float64), 0.1, False)
    with pytest.raises(InputError, match="need 10: 10 of `beam.activation`; make it with outputs=10"):
        system.check(wrong)
    narrow = nn.Linear(4, 10, dtype=torch.float64)
    policy = lambda times, seen: narrow(seen)[:, None]
    policy.feedback = True
    other = lambda times: narrow(times)
    other.feedback = False
    with pytest.raises(
        InputError, match="fails on the inputs of the plant, times alone: .* takes 1 positional argument"
    ):
        system.check(other)
    with pytest.raises(InputError, match="fails on the inputs of the plant, a time and 3 numbers"):
        system.check(policy)
    with pytest.raises(InputError, match="reads observations, and the plant has none"):
        plant().check(policy)
