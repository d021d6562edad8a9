"""Calls of a model that repeat earlier ones, which are bound, beside the same calls of a model that is new."""

import copy
import threading

import pytest
import torch

from gradsim.errors import InputError
from gradsim.physics import Model
from gradsim.physics.repeated_calls import BoundRollouts
from gradsim.scene import Scene

FRAMES, WORLDS = 3, 2
RELATIVE = 1e-12  # of the largest component of a gradient: sums in another order
TIMING = {"fps": 30, "frames": FRAMES, "substeps": 40, "integrator": "semi-implicit"}
GROUND = {
    "law": "continuous",
    "stiffness": 5e3,
    "dissipation": 0.5,
    "friction_stiffness": 5,
    "friction": 0.5,
    "margin": 0.01,
}
SOLID = {
    "kind": "solid",
    "shape": {"box": {"size": [0.2, 0.2, 0.2], "cells": [2, 2, 2], "per_cell": 5}},
    "density": 100.0,
    "mu": 1e4,
    "lam": 2e4,
    "damping": 1.0,
    "position": [0, 0, 0.12],
    "velocity": [0.5, 0.1, -0.5],
    "angular_velocity": [0.3, -1.0, 2.0],
    "rotation_vector": [0.02, -0.03, 0.4],
}
BOX = {
    "shape": {"box": {"size": [0.6, 0.48, 0.36]}},
    "mass": 4.0,
    "position": [0, 0, 0.2],
    "velocity": [1.0, 0.2, -0.5],
}
LINK = {"shape": {"box": {"size": [0.02, 0.02, 0.1]}}, "mass": 0.1, "collision": "none"}
HINGE = {"kind": "revolute", "child_point": [0, 0, 0.05], "axis": [0, 1, 0], "damping": 1e-3}
HINGES = {
    "hinge0": HINGE | {"between": ["world", "link0"], "parent_point": [0, 0, 1.0], "angle": 0.3},
    "hinge1": HINGE | {"between": ["link0", "link1"], "parent_point": [0, 0, -0.05], "angle": 0.02},
}
SCENES = {
    "solid": ({"body": SOLID}, {}, ("body.mu", "body.velocity", "ground.friction")),
    "box": ({"body": BOX}, {}, ("body.mass", "body.velocity", "timing.rate")),
    "chain": ({"link0": LINK, "link1": LINK}, HINGES, ("link1.mass", "joints.hinge0.damping", "gravity")),
}


def scene_of(name: str) -> Scene:
    bodies, joints, _ = SCENES[name]
    return Scene.parse({"gravity": 9.81, "timing": TIMING, "bodies": bodies, "joints": joints, "ground": GROUND})


def is_bound(model: Model) -> bool:
    """True if all groups of a bound call of the model have arrays of their own."""
    calls = [call for _, calls in model._repeated._threads.values() for call in calls.values()]
    bound = [call for call in calls if isinstance(call, BoundRollouts)]
    return bool(bound) and all(group.bound is not None for call in bound for group in call.groups)


def states_and_gradients(model: Model, overrides: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """States, and gradients by the overrides and the model's own parameters of a sum with different weights."""
    model.zero_grad()
    leaves = {name: x.clone().requires_grad_() for name, x in overrides.items()}
    trajectory = model.rollout(leaves, frames=FRAMES)
    results = {f"{body}.{key}": y for body, states in trajectory.states.items() for key, y in states.items()}
    sum(
        (y * torch.linspace(0.5, 1.5, y.numel(), dtype=y.dtype).reshape(y.shape)).sum() for y in results.values()
    ).backward()
    results |= {f"∂{name}": leaf.grad for name, leaf in leaves.items()}
    results |= {f"∂own {name}": x.grad for name, x in model.named_parameters() if x.grad is not None}
    return {name: x.detach().clone() for name, x in results.items()}


def assert_same(results: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert set(results) == set(expected)
    for name, x in expected.items():
        if name.startswith("∂"):
            torch.testing.assert_close(results[name], x, rtol=0, atol=RELATIVE * x.abs().max().item(), msg=name)
        else:
            assert torch.equal(results[name], x), name


def written_in_place(x: torch.nn.Parameter) -> None:
    with torch.no_grad():
        x.mul_(1.01)


def written_as_data(x: torch.nn.Parameter) -> None:
    x.data.mul_(1.01)


def written_by_numpy(x: torch.nn.Parameter) -> None:
    array = x.detach().numpy()
    array[...] = 1.01 * array


def written_elsewhere(x: torch.nn.Parameter) -> None:
    x.data = 1.01 * x.data


@pytest.mark.parametrize("change", [written_in_place, written_as_data, written_by_numpy, written_elsewhere])
@pytest.mark.parametrize("name", SCENES)
def test_a_repeated_call_sees_every_change_of_a_parameter(name, change):
    model, parameter = Model(scene_of(name)), SCENES[name][2][0]
    for _ in range(3):
        states_and_gradients(model, {})
    assert is_bound(model)
    change(model.get_parameter(parameter))
    fresh = Model(scene_of(name), model.substeps)
    fresh.load_state_dict(model.state_dict())
    assert_same(states_and_gradients(model, {}), states_and_gradients(fresh, {}))


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("worlds", [1, WORLDS])
def test_a_repeated_call_with_other_overrides_is_that_of_a_new_model(name, worlds):
    model, (parameter, *others) = Model(scene_of(name)).requires_grad_(False), SCENES[name][2]
    values = {
        key: model.get_parameter(key).detach()[None].repeat(worlds, *[1] * model.get_parameter(key).ndim)
        for key in (parameter, *others)
    }
    values[others[0]] = values[others[0]][:1]  # one row for all worlds
    for k in range(4):
        shift = 1 + 1e-2 * k * torch.arange(1, worlds + 1, dtype=model.dtype)
        values[parameter] = values[parameter] * shift.reshape(-1, *[1] * (values[parameter].ndim - 1))
        results = states_and_gradients(model, values)
    assert is_bound(model)
    assert_same(results, states_and_gradients(Model(scene_of(name), model.substeps).requires_grad_(False), values))


@pytest.mark.parametrize("name", SCENES)
def test_a_backward_pass_after_another_call_is_that_of_its_own(name):
    model, parameter = Model(scene_of(name)).requires_grad_(False), SCENES[name][2][0]
    value, gradients = model.get_parameter(parameter).detach()[None], []
    for _ in range(3):
        leaves = [(value * factor).requires_grad_() for factor in (1.0, 1.3)]
        ends = [
            sum(y.sum() for y in model.rollout({parameter: leaf}).states[model.systems[-1].name].values())
            for leaf in leaves
        ]
        gradients.append([torch.autograd.grad(end, leaf)[0] for end, leaf in zip(ends, leaves, strict=True)])
    assert is_bound(model)
    for first, last in zip(gradients[0], gradients[-1], strict=True):
        torch.testing.assert_close(first, last, rtol=RELATIVE, atol=0)
    assert not torch.equal(*gradients[0])


def test_gradients_of_a_solid_in_closed_form_are_those_of_the_graph():
    model = Model(scene_of("solid"))
    for _ in range(3):
        closed = states_and_gradients(model, {})
    (call,) = (call for _, calls in model._repeated._threads.values() for call in calls.values() if call is not True)
    (group,) = call.groups
    assert len([name for name in group.live if name in group.closed.rules]) > 15
    group.closed = None
    group.plans.clear()
    assert_same(closed, states_and_gradients(model, {}))


def test_two_passes_add_up_in_every_gradient():
    """Height and margin of a ground act as their sum, and have gradients of their own."""
    for name in ("solid", "box"):
        model = Model(scene_of(name))
        for _ in range(3):
            model.zero_grad()
            loss = model.rollout()["body"]["v"].sum()
            loss.backward(retain_graph=True)
            once = {key: x.grad.clone() for key, x in model.named_parameters() if x.grad is not None}
            loss.backward()
            for key, slope in once.items():
                torch.testing.assert_close(model.get_parameter(key).grad, 2 * slope, rtol=RELATIVE, atol=0, msg=key)
        assert once["ground.height"].any()


@pytest.mark.parametrize("name", SCENES)
def test_a_repeated_call_has_no_second_derivative(name):
    model, parameter = Model(scene_of(name)).requires_grad_(False), SCENES[name][2][0]
    for _ in range(3):
        leaf = model.get_parameter(parameter).detach()[None].clone().requires_grad_()
        state = sum(y.square().sum() for y in model.rollout({parameter: leaf}).states[model.systems[-1].name].values())
        (slope,) = torch.autograd.grad(state, leaf, create_graph=True)
        with pytest.raises(NotImplementedError, match="differentiable once"):
            slope.sum().backward()


def test_a_repeated_call_refuses_numbers_out_of_range_and_goes_on():
    model = Model(scene_of("box"))
    value = torch.tensor([4.0], dtype=model.dtype)
    expected = [model.rollout({"body.mass": value})["body"]["x"] for _ in range(3)][-1]
    for wrong in (-1.0, torch.nan, torch.inf):
        with pytest.raises(InputError, match=r"`body.mass` of world 0"):
            model.rollout({"body.mass": torch.full_like(value, wrong)})
        assert torch.equal(model.rollout({"body.mass": value})["body"]["x"], expected)


def test_threads_have_calls_of_their_own():
    model, expected, results = Model(scene_of("box")), None, []
    for _ in range(3):
        expected = model.rollout()["body"]["x"].detach()

    together = threading.Barrier(2)

    def repeat():
        together.wait()
        results.append([model.rollout()["body"]["x"].detach() for _ in range(3)][-1])
        together.wait()

    threads = [threading.Thread(target=repeat) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(model._repeated._threads) == 1 + len(threads) == 1 + len(results) and all(
        torch.equal(x, expected) for x in results
    )


@pytest.mark.parametrize("name", SCENES)
def test_calls_in_inference_mode_leave_later_ones_as_they_are(name):
    model = Model(scene_of(name))
    for _ in range(3):
        with torch.inference_mode():
            still = model.rollout(frames=FRAMES)
    results = [states_and_gradients(model, {}) for _ in range(3)][-1]
    assert_same(results, states_and_gradients(Model(scene_of(name), model.substeps), {}))
    for body, states in still.states.items():
        assert all(torch.equal(y, results[f"{body}.{key}"]) for key, y in states.items())


def test_a_copy_of_a_model_that_was_never_called_moves_by_itself():
    model = Model(scene_of("chain"))
    twin = copy.deepcopy(model)
    assert_same(states_and_gradients(twin, {}), states_and_gradients(model, {}))


def test_zero_grad_clears_all_that_pytorch_clears():
    model = Model(scene_of("box"))
    model.add_module("controller", torch.nn.Linear(2, 2))
    for keep in (True, False):
        for x in model.parameters():
            x.grad = torch.ones_like(x)
        model.zero_grad(set_to_none=not keep)
        assert all((not x.grad.any()) if keep else x.grad is None for x in model.parameters())
