"""Baselines on bodies: a soft slug that crawls, and a ball that is thrown."""

import importlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from control_scenes import ball, slug
from tolerances import ROUNDING, SOLVED, assert_near, near

from gradsim.control.actuator_sharing import element_centers
from gradsim.control.baselines import BASELINES, Budget, cma_es, diffphysics, tuned_rate
from gradsim.control.baselines.common import SmoothActions, basis_weights
from gradsim.control.policies import PiecewiseConstant, Sinusoids
from gradsim.control.task.setup import Setup
from gradsim.control.training.settings import TrainingConfig


def crawl() -> Setup:
    plant, goal = slug()
    task: Any = SimpleNamespace(name="slug")
    return Setup(task, plant, Sinusoids(plant.outputs, frequency=9.0, seed=2, start=0.3), goal, TrainingConfig())


def throw() -> Setup:
    plant, goal = ball()
    task: Any = SimpleNamespace(name="ball")
    return Setup(task, plant, PiecewiseConstant(3), goal, TrainingConfig())


@pytest.mark.slow
@pytest.mark.parametrize("case", [crawl, throw])
@pytest.mark.parametrize("name", BASELINES)
def test_the_policy_that_comes_back_is_the_best_of_the_history(name, case):
    setup = case()
    policy, history = BASELINES[name](setup, Budget(12, 4), 1)
    with torch.no_grad():
        episode = setup.plant.rollout(policy)
    assert history.total("rollouts")[-1] == 12
    error = setup.goal.position_error(episode)
    assert error.item() == near(history.at_best("position_error")[-1], SOLVED)
    if name != "diffphysics":  # which lowers another loss
        assert setup.goal.loss(episode).item() == near(history.at_best()[-1], SOLVED)


@pytest.mark.slow
def test_diffphysics_gets_where_the_image_is():
    history = diffphysics(throw(), Budget(60), rate=0.1)[1]
    assert history.raw("position_error") == pytest.approx(history.raw())
    assert history.at_best("distance")[-1] < 0.02 * history.raw("distance")[0]


def test_the_tuned_rate_is_the_one_that_ends_lowest():
    setups = [throw(), throw()]
    errors = {rate: diffphysics(setups[0], Budget(8), rate=rate)[1].raw()[-1] for rate in (0.001, 0.1, 3.0)}
    assert tuned_rate(setups, 8, errors) == min(errors, key=lambda rate: errors[rate])


def test_many_parameters_are_searched_among_smooth_controllers(monkeypatch):
    monkeypatch.setattr(cma_es, "MAX_DIRECT_PARAMETERS", 100)
    setup = crawl()
    policy, history = BASELINES["cma"](setup, Budget(8, 4), 0)
    assert isinstance(policy, SmoothActions) and history.names["parameters"] == sum(
        p.numel() for p in policy.parameters()
    )


def test_ppo_acts_on_many_elements_by_few_shares(monkeypatch):
    """With one cell, by eight: its actions are within their span."""
    module, setup = importlib.import_module("gradsim.control.baselines.ppo"), crawl()
    shares = basis_weights(setup.plant, 1)
    monkeypatch.setattr(module, "MAX_DIRECT_OUTPUTS", 14)
    monkeypatch.setattr(module, "basis_weights", lambda plant: shares)
    policy: Any
    policy, history = BASELINES["ppo"](setup, Budget(8, 4), 0)
    with torch.no_grad():
        episode = setup.plant.rollout(policy)
    assert setup.goal.loss(episode).item() == near(history.at_best()[-1], SOLVED)
    u = episode.actions[0].T
    assert_near(shares @ (torch.linalg.pinv(shares) @ u), u, SOLVED, scale=1.0)
    assert torch.linalg.matrix_rank(shares) == 8


def test_a_smooth_controller_knows_where_elements_are():
    """Its actions are linear along each edge of the one cell of its grid: a trilinear function of the places."""
    plant, _ = slug()
    places = element_centers(plant.model, "slug.activation")
    assert places is not None
    x = plant.model.systems[0].rest[plant.model.systems[0].matter.tets].mean(1)
    assert_near(places, x, ROUNDING, scale=1.0)
    policy = SmoothActions(plant, cells=1)
    with torch.no_grad():
        policy.spline.coefficients.copy_(torch.linspace(-1, 1, 48, dtype=torch.float64).reshape(6, 8))
        u = policy(plant.times)[0]
    assert u.shape == (4, 15) and u.abs().max() < 1
    line = torch.cat([torch.ones(15, 1, dtype=torch.float64), places], 1)
    products = torch.stack([places[:, i] * places[:, j] for i, j in ((0, 1), (0, 2), (1, 2))], 1)
    trilinear = torch.cat([line, products, places.prod(1, keepdim=True)], 1)
    residual = u.T - trilinear @ torch.linalg.lstsq(trilinear, u.T).solution
    assert residual.abs().max() < 1e-12 and u.std(1).min() > 1e-3
