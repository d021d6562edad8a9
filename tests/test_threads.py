"""Results are the same to the last bit for any number of threads: motion, gradients, tangents, misfits, a fit, an iteration of control."""

from dataclasses import replace

import pytest
import torch

import gradsim as gs
from gradsim.control.task.setup import Setup
from gradsim.control.task.task import Task
from gradsim.engine import launch
from gradsim.errors import Status
from gradsim.identification import synthetic
from gradsim.identification.api import least_squares
from gradsim.runtime.threads import threads

COUNTS = (1, 2, 3)
CALLS = 3  # of a model: the last repeats the one before
FRAMES = 4
WORLDS = 19  # three packs of 8 in double precision, the last of them not full
SCENES = ("cube", "double_pendulum", "pendulum", "arm", "flag", "rope")


@pytest.fixture(autouse=True)
def every_launch_is_shared(monkeypatch):
    monkeypatch.setattr(launch, "SHORTEST_PIECE", 1)


def motion(model: gs.Model, worlds: int) -> list[torch.Tensor]:
    """States of worlds whose gravity differs, gradients of a weighted sum of them, and their tangents by gravity."""
    generator = torch.Generator().manual_seed(0)
    scale = torch.linspace(1, 1.1, worlds)[:, None].double()
    values = {name: x.detach().clone() for name, x in model.values().items()}
    values["gravity"] = values["gravity"] * scale
    leaves = {name: x.requires_grad_() for name, x in values.items()}
    states = [y for state in model.rollout(leaves, frames=FRAMES).states.values() for y in state.values()]
    weights = [torch.randn(y.shape, generator=generator, dtype=torch.float64) for y in states]
    total = sum((y * w).sum() for y, w in zip(states, weights, strict=True))
    gradients = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    full = {name: x.detach().expand(worlds, *x.shape[1:]) for name, x in values.items()}
    _, tangent = model.tangent(full, {"gravity": torch.ones(worlds, 3).double()}, FRAMES)
    rates = [y for state in tangent.states.values() for y in state.values()]
    return [*states, *(g for g in gradients if g is not None), *rates]


def assert_same_bits(results: list[list[torch.Tensor]]) -> None:
    """Whether lists of tensors are equal; `torch.equal` takes no NaN for equal."""
    first, *others = results
    assert first and any(y.detach().abs().max() > 0 for y in first)
    for other in others:
        assert [torch.equal(a, b) for a, b in zip(first, other, strict=True)] == [True] * len(first)


@pytest.mark.parametrize("name", SCENES)
def test_motion_gradients_and_tangents(name):
    """Of the first calls of a model and of those that repeat them, whose gradients differ by rounding."""
    results = []
    for count in COUNTS:
        model = gs.Model(gs.Scene.library(name))
        with threads(count):
            results.append([y for _ in range(CALLS) for y in motion(model, WORLDS)])
    assert_same_bits(results)


def test_a_fit():
    """Estimates, error bars and every stage of the search."""
    scene, unknowns = gs.Scene.library("cube"), ["cube.mass:2:12", "ground.friction:0.2:1"]
    model, trajectory = synthetic.simulate(scene, unknowns, synthetic.draw_truth(scene, unknowns, 0))
    masks = synthetic.float_masks(scene, trajectory)
    results = []
    for count in COUNTS:
        with threads(count):
            results.append(least_squares(scene, masks, unknowns, gs.MultistartConfig(starts=4), model=model))
    first, *others = results
    assert first.status == Status.OK
    assert all((fit.unknowns, fit.history) == (first.unknowns, first.history) for fit in others)


def test_an_iteration_of_control():
    """Losses and the trained policy, after two iterations in worlds whose gravity differs."""
    gravity = torch.tensor([0.0, 0.0, -1.0]).double() * torch.linspace(9.7, 9.9, WORLDS).double()[:, None]
    results = []
    for count in COUNTS:
        setup = Setup.of(Task.load("throw"), seed=0, quick=True)
        config = replace(setup.config, iterations=2)
        with threads(count):
            history = gs.control.train(setup.plant, setup.policy, setup.goal, config, overrides={"gravity": gravity})
        results.append([torch.tensor(history.raw("loss")), *history.policies["last"].values()])
    assert_same_bits(results)
