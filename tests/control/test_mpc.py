"""Receding horizon: plans go on from plans, and bear what their model does not know."""

from itertools import pairwise

import pytest
import torch
from checks import error
from model_cases import cube
from plant_cases import hanging, swinging
from tolerances import ROUNDING, near

from gradsim.control.goals.state import StateGoal
from gradsim.control.mpc import Mpc, _as_seen, run_mpc
from gradsim.control.plant import Control, Plant
from gradsim.control.policies import PiecewiseConstant
from gradsim.control.training.settings import TrainingConfig
from gradsim.control.training.train import train
from gradsim.errors import InputError
from gradsim.physics.model import Model

QUICK = TrainingConfig("polyak", iterations=2)


def goal(plant: Plant) -> StateGoal:
    """Where the beam gets with an actuation of its own."""
    u = torch.rand(plant.intervals, plant.outputs, dtype=torch.float64, generator=torch.manual_seed(2)) * 2 - 1
    hidden = PiecewiseConstant(plant.outputs, plant.intervals, plant.intervals * plant.interval / 50, u)
    with torch.no_grad():
        return StateGoal("beam", plant.rollout(hidden).centre()[0, -1])


def test_a_plan_begins_as_the_one_before_where_the_model_is_right():
    """To the end of the film: the rest of the best plan, from the state that it led to, has the same loss."""
    plant = swinging()
    aim = goal(plant)
    episode, history = run_mpc(Mpc(plant, aim, None, TrainingConfig("polyak", iterations=4)), swinging(), aim)
    plans = [[e.loss for e in history.iterations if e.stage == f"interval {k}"] for k in range(plant.intervals)]
    assert [len(losses) for losses in plans] == [4, 4, 4]
    for before, after in pairwise(plans):
        assert after[0] == pytest.approx(min(before), rel=1e-8)
    assert history.raw()[-1] == pytest.approx(min(plans[-1]), rel=1e-8)
    assert history.raw()[-1] == near(aim.loss(episode).item(), ROUNDING)
    assert min(plans[-1]) < 0.05 * plans[0][0]


def test_a_plan_ahead_holds_its_last_interval_for_the_next():
    plant = hanging(6)
    controller = Mpc(plant, goal(plant), 2, QUICK)
    states = plant.begin()
    for k in range(3):
        u, history = controller.act(states, k)
        assert torch.equal(u[0], controller.numbers[k]) and history.raw("frames") == [3, 3]
        if k + 2 < plant.intervals:
            assert torch.equal(controller.numbers[k + 2], controller.numbers[k + 1])
        states = {b: {n: y[:, -1] for n, y in s.items()} for b, s in plant.advance(states, u).states.items()}
    assert controller.numbers[2].abs().max() > 0


def test_it_comes_nearer_than_the_open_loop_where_the_body_is_heavier_than_it_knows():
    """Density 30 % more. The goal is a state of rest that both masses can be held in."""
    plant, aside = hanging(), torch.tensor([0.85 * 1170.0], dtype=torch.float64)
    with torch.no_grad():
        place = plant.model.rollout({"beam.density": aside}, 200)["beam"]["x"][0, -1].mean(0)
    dense, heavy = StateGoal("beam", place, None), {"beam.density": aside / 0.85}
    search = TrainingConfig("polyak", iterations=30, options={"retreat": True})
    policy = PiecewiseConstant(plant.outputs, plant.intervals, plant.intervals / 50, bounded=True)
    train(plant, policy, dense, search)
    with torch.no_grad():
        away = lambda one: (plant.rollout(one, heavy).centre()[0, -1] - place).norm().item()
        opened, passive = away(policy), away(PiecewiseConstant(plant.outputs))
    controller = Mpc(
        plant, dense, None, TrainingConfig("polyak", iterations=6, options={"retreat": True}), start=policy
    )
    _, history = run_mpc(controller, hanging(), dense, heavy)
    closed = history.raw("distance")[-1]
    assert opened < 0.5 * passive and closed < 0.5 * opened
    assert history.total()[-1] == 6 * plant.intervals + 1 and history.iterations[-1].stage == "episode"


def test_bounds_are_kept():
    plant = swinging()
    far = StateGoal("beam", torch.tensor([0.0, 0.0, 9.0]).double())
    episode, _ = run_mpc(Mpc(plant, far, 3, TrainingConfig("adam", 2.0, 5)), swinging(), far)
    assert episode.actions.abs().max() == 1


def test_a_spin_is_measured_not_a_momentum():
    """The model's inertia is that of half the mass, so that the same spin has half the angular momentum."""
    model, heavy = Model(cube(pushes=[])), {"cube.mass": torch.tensor([4.0]).double()}
    plant = Plant(model, [Control("cube.velocity", -1, 1)])
    controller = Mpc.__new__(Mpc)
    controller.plant, controller.overrides = plant, None
    states, values = plant.begin(heavy), model.values(heavy)
    seen = _as_seen(states, plant, values, controller)
    assert error(seen["cube"]["l"], states["cube"]["l"] / 2) < 1e-12
    assert (
        error(
            model.systems[0].spin(seen["cube"]["q"], seen["cube"]["l"], model.values()),
            torch.tensor([[2.0, 1.0, -3.0]]),
        )
        < 1e-12
    )
    assert torch.equal(seen["cube"]["q"], states["cube"]["q"])


def test_what_cannot_be_planned_is_refused():
    plant = swinging()
    aim = StateGoal("beam", torch.zeros(3).double())
    thrown = Plant(plant.model, [Control("beam.velocity", -1, 1)])
    both = Plant(plant.model, [*plant.controls, *thrown.controls], 2)
    for words, make in {
        "MPC cannot replan it": lambda: Mpc(thrown, aim),
        "`beam.velocity` is set at the start": lambda: Mpc(both, aim),
        "not in the last frame": lambda: Mpc(plant, StateGoal("beam", torch.zeros(3).double(), 4)),
        "iterations of MPC: got 1": lambda: Mpc(plant, aim, config=TrainingConfig(iterations=1)),
        "horizon: got 0": lambda: Mpc(plant, aim, 0),
        "make it with outputs=10": lambda: Mpc(plant, aim, start=PiecewiseConstant(3)),
        "`interval` of the model is 2 and of the plant 1": lambda: run_mpc(
            Mpc(plant, aim), Plant(plant.model, plant.controls), aim
        ),
        "has 2 worlds": lambda: run_mpc(
            Mpc(plant, aim), plant, aim, {"beam.density": torch.tensor([1.0, 2.0]).double()}
        ),
    }.items():
        with pytest.raises(InputError, match=words):
            make()
