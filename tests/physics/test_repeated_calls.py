"""Calls of a model that repeat earlier ones, which are bound, beside the same calls of a model that is new."""

import copy
import gc
import pickle
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from gradsim.errors import InputError
from gradsim.physics import Model, repeated_calls
from gradsim.physics.model import Divergence
from gradsim.physics.repeated_calls import RepeatedCall
from gradsim.physics.soft import rollout
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
    bound = [call for call in calls if isinstance(call, RepeatedCall)]
    return bool(bound) and all(group.bound is not None for call in bound for group in call.groups)


def repeated_call(model: Model) -> RepeatedCall:
    """The only bound call of a model."""
    (call,) = (call for _, calls in model._repeated._threads.values() for call in calls.values() if call is not True)
    assert isinstance(call, RepeatedCall)
    return call


def leaf_and_loss(model: Model, name: str, factor: float) -> tuple[torch.Tensor, torch.Tensor]:
    """A parameter of a call, and a sum of states with different weights."""
    leaf = (model.get_parameter(name).detach()[None] * factor).requires_grad_()
    states = model.rollout({name: leaf}, frames=FRAMES).states
    ys = [y for body in states.values() for y in body.values()]
    sums = [(y * torch.linspace(0.5, 1.5, y.numel(), dtype=y.dtype).reshape(y.shape)).sum() for y in ys]
    return leaf, torch.stack(sums).sum()


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


def pickled(model: Model) -> Model:
    return pickle.loads(pickle.dumps(model))


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


@pytest.mark.parametrize("integrator", ["semi-implicit", "nystrom"])
@pytest.mark.parametrize("worlds", [1, WORLDS, 19])
def test_gradients_by_kept_steps_are_those_by_steps_that_are_computed_again(worlds, integrator, monkeypatch):
    scene = Scene.parse(
        {"gravity": 9.81, "timing": TIMING | {"integrator": integrator}, "bodies": {"body": SOLID}, "ground": GROUND}
    )
    results, spacings = [], []
    for most in (rollout.STORED_BYTES, 0):
        monkeypatch.setattr(rollout, "STORED_BYTES", most)
        model = Model(scene)
        factors = torch.linspace(1.0, 1.1, worlds, dtype=model.dtype)
        mu = model.get_parameter("body.mu").detach() * factors.reshape(-1, *[1] * model.get_parameter("body.mu").ndim)
        for _ in range(3):
            results.append(states_and_gradients(model, {"body.mu": mu}))
        (group,) = repeated_call(model).groups
        spacings.append(group.bound.spacing)
    assert spacings == [model.substeps, 1]
    kept, again = results[2], results[-1]
    assert set(kept) == set(again) and len(kept) > 15
    for name, x in again.items():  # Nyström's steps are compiled into the reverse sweep with other roundings
        atol = RELATIVE * x.abs().max().item() if name.startswith("∂") and integrator == "nystrom" else 0
        torch.testing.assert_close(kept[name], x, rtol=0, atol=atol, msg=name)


def test_gradients_of_a_solid_in_closed_form_are_those_of_the_graph():
    model = Model(scene_of("solid"))
    for _ in range(3):
        closed = states_and_gradients(model, {})
    (group,) = repeated_call(model).groups
    assert len([name for name in group.live if name in group.closed.rules]) > 15
    group.closed = None
    group.plans.clear()
    assert_same(closed, states_and_gradients(model, {}))


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("offset", [None, 0.01])
def test_gradients_by_the_rate_of_the_clock_are_those_of_the_graph(name, offset):
    bodies, joints, _ = SCENES[name]
    timing = TIMING | ({} if offset is None else {"offset": offset})
    scene = {"gravity": 9.81, "timing": timing, "bodies": bodies, "joints": joints, "ground": GROUND}
    model = Model(Scene.parse(scene))
    rate = model.get_parameter("timing.rate").detach() * torch.tensor([1.0, 0.9], dtype=model.dtype)
    for _ in range(3):
        closed = states_and_gradients(model, {"timing.rate": rate})
    groups = [group for group in repeated_call(model).groups if "timing.rate" in group.live]
    assert groups and all(group.unit is not None for group in groups)
    for group in groups:
        assert not group.unit[:, : group.call.lead].any() and group.unit[:, group.call.lead :].all()
        group.unit = None
        group.plans.clear()
    by_graph = states_and_gradients(model, {"timing.rate": rate})
    assert by_graph["∂timing.rate"].all()
    assert_same(closed, by_graph)


def test_a_tensor_of_a_transform_that_has_ended_is_taken_at_each_call():
    model, wrapped = Model(scene_of("box")).requires_grad_(False), []
    torch.func.grad(lambda x: wrapped.append(x) or x.sum())(torch.full((1,), 3.0, dtype=torch.float64))
    plain = model.rollout({"body.mass": torch.full((1,), 3.0, dtype=torch.float64)}, frames=FRAMES)
    for _ in range(4):
        again = model.rollout({"body.mass": wrapped[0]}, frames=FRAMES)
        assert torch.equal(again["body"]["x"], plain["body"]["x"])


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
def test_a_graph_that_is_retained_has_the_same_gradient_again_and_one_that_is_not_has_none(name):
    model, parameter = Model(scene_of(name)).requires_grad_(False), SCENES[name][2][0]
    for _ in range(3):
        leaf, loss = leaf_and_loss(model, parameter, 1.0)
        once = torch.autograd.grad(loss, leaf, retain_graph=True)[0].clone()
        leaf_and_loss(model, parameter, 1.01)[1].backward()  # another call of the same kind, with other numbers
        again = torch.autograd.grad(loss, leaf)[0]
        assert once.any()
        torch.testing.assert_close(again, once, rtol=RELATIVE, atol=0)
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            torch.autograd.grad(loss, leaf)
    assert is_bound(model)


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
def test_backward_passes_in_other_threads_have_the_arrays_one_after_another(name):
    model, parameter = Model(scene_of(name)).requires_grad_(False), SCENES[name][2][0]
    for _ in range(3):
        leaf_and_loss(model, parameter, 1.0)
    factors = (1.0, 1.1, 1.2, 1.3)
    pairs = [leaf_and_loss(model, parameter, factor) for factor in factors]
    expected = [torch.autograd.grad(loss, leaf, retain_graph=True)[0] for leaf, loss in pairs]
    inside, most = [], []
    for group in repeated_call(model).groups:
        backward = group.bound.backward

        def slow(*args, backward=backward):
            inside.append(1)
            most.append(len(inside))
            slopes = backward(*args)
            time.sleep(0.02)
            inside.pop()
            return slopes

        group.bound.backward = slow
    with ThreadPoolExecutor(len(pairs)) as threads:
        results = list(threads.map(lambda pair: torch.autograd.grad(pair[1], pair[0])[0], pairs))
    for result, x in zip(results, expected, strict=True):
        assert torch.equal(result, x)
    assert len(most) == len(pairs) and max(most) == 1


@pytest.mark.parametrize("name", SCENES)
def test_whether_states_are_finite_is_seen_before_other_threads_write_to_them(name):
    model, parameter = Model(scene_of(name)).requires_grad_(False), SCENES[name][2][0]
    for _ in range(3):
        leaf_and_loss(model, parameter, 1.0)
    free = []
    for group in repeated_call(model).groups:

        def look(outputs, group=group, inner=group.are_finite):
            with ThreadPoolExecutor(1) as other:
                free.append(other.submit(group.lock.acquire, blocking=False).result())
            return inner(outputs)

        group.are_finite = look
    leaf_and_loss(model, parameter, 1.1)
    assert free and not any(free)


@pytest.mark.parametrize("name", SCENES)
def test_a_checkpoint_computes_every_call_again(name):
    model, parameter = Model(scene_of(name)).requires_grad_(False), SCENES[name][2][0]
    leaf, loss = leaf_and_loss(model, parameter, 1.0)
    (expected,) = torch.autograd.grad(loss, leaf)
    model = Model(scene_of(name)).requires_grad_(False)  # whose first call is one of the checkpoint
    body = model.systems[-1].name
    weights = lambda y: torch.linspace(0.5, 1.5, y.numel(), dtype=y.dtype).reshape(y.shape)

    def of(x):
        return [*model.rollout({parameter: x}, frames=FRAMES).states[body].values()]

    for _ in range(4):
        x = leaf.detach().clone().requires_grad_()
        sums = [(y * weights(y)).sum() for y in checkpoint(of, x, use_reentrant=False)]
        (slope,) = torch.autograd.grad(sum(sums), x)
        if len(model.systems) == 1:
            torch.testing.assert_close(slope, expected, rtol=RELATIVE, atol=0)
        assert slope.isfinite().all() and slope.any()
        leaf_and_loss(model, parameter, 1.0)  # outside of it, calls are bound
    assert is_bound(model)


@pytest.mark.parametrize("name", SCENES)
def test_parameters_of_another_dtype_than_the_model_s_are_converted_at_each_call(name):
    model, parameter = Model(scene_of(name)), SCENES[name][2][0]
    numbers = {key: x.float() for key, x in model.state_dict().items()}
    for _ in range(2):
        model.rollout(frames=FRAMES)
    model.load_state_dict(numbers, assign=True)
    for _ in range(4):
        with torch.no_grad():
            model.get_parameter(parameter).mul_(1.01)
        fresh = Model(scene_of(name), model.substeps)
        fresh.load_state_dict(model.state_dict())
        trajectory, expected = (x.rollout(frames=FRAMES) for x in (model, fresh))
        assert trajectory.values[parameter].dtype is model.dtype
        for body, states in expected.states.items():
            assert all(torch.equal(y, trajectory.states[body][key]) for key, y in states.items())


def test_a_call_lets_go_of_the_graph_of_what_it_was_given():
    scene = {
        "gravity": 9.81,
        "timing": TIMING | {"integrator": "rk4"},
        "bodies": {"bob": {"kind": "pendulum", "string_length": 1.0, "radius": 0.05, "angle": 0.3}},
    }
    model = Model(Scene.parse(scene)).requires_grad_(False)
    for _ in range(4):
        weights = torch.ones(3, dtype=model.dtype, requires_grad=True)
        inner = weights.exp()
        ref = weakref.ref(inner)
        gravity = model.get_parameter("gravity").detach()[None] * (inner * inner).mean()
        trajectory = model.rollout({"gravity": gravity}, frames=FRAMES)
        del weights, inner, gravity, trajectory
        gc.collect()
        assert ref() is None


@pytest.mark.parametrize("computed", [False, True])  # a leaf of the graph beside a tensor that is none
@pytest.mark.parametrize("key", ["position", "velocity", "density"])
def test_a_parameter_may_change_before_the_backward_pass(key, computed):
    model = Model(scene_of("solid")).requires_grad_(False)
    x = model.get_parameter(f"body.{key}").requires_grad_()
    slopes = []
    for k in range(4):
        spin = model.get_parameter("body.angular_velocity").detach()[None].requires_grad_()
        overrides = {"body.angular_velocity": spin * 1.0} if computed else {}
        loss = sum(y.square().sum() for y in model.rollout(overrides)["body"].values())
        if computed:
            (slope,) = torch.autograd.grad(loss, spin, create_graph=True)
            with pytest.raises(NotImplementedError, match="differentiable once"):
                slope.sum().backward(retain_graph=True)
        before = x.detach().clone()
        if k > 1:
            with torch.no_grad():
                x.mul_(1.1)
        slopes += torch.autograd.grad(loss, x)
        x.data = before
    assert is_bound(model)
    torch.testing.assert_close(slopes[-1], slopes[1], rtol=RELATIVE, atol=0)
    torch.testing.assert_close(slopes[-2], slopes[1], rtol=RELATIVE, atol=0)


def interrupted(function, at: int) -> int:
    """Call a function, with an interruption at a line of those that write to arrays; how many there were until then."""
    lines, files = 0, {"rollout.py", "multibody.py", "layout.py"}

    def trace(frame, event, arg):
        nonlocal lines
        if Path(frame.f_code.co_filename).name not in files:
            return None
        if event == "line":
            lines += 1
            if lines == at:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("name", SCENES)
def test_an_interruption_leaves_no_numbers_of_two_calls(name):
    model, parameter = Model(scene_of(name)).requires_grad_(False), SCENES[name][2][0]
    expected = {}
    for factor in (1.0, 1.0, 1.0, 1.3):
        leaf, loss = leaf_and_loss(model, parameter, factor)
        (slope,) = torch.autograd.grad(loss, leaf)
        expected[factor] = loss.item(), slope
    count = interrupted(lambda: leaf_and_loss(model, parameter, 1.0), 0)
    assert count > 10
    for at in range(1, count + 1, 5):
        for _ in range(2):
            leaf, loss = leaf_and_loss(model, parameter, 1.0)
        interrupted(lambda: leaf_and_loss(model, parameter, 1.3), at)
        (slope,) = torch.autograd.grad(loss, leaf)
        torch.testing.assert_close(slope, expected[1.0][1], rtol=RELATIVE, atol=0, msg=f"at line {at}")
        for factor, (number, _) in expected.items():
            assert leaf_and_loss(model, parameter, factor)[1].item() == number


def test_a_diverging_call_stays_bound():
    model = Model(scene_of("solid")).requires_grad_(False)
    mu = model.get_parameter("body.mu").detach()[None]
    expected = [model.rollout({"body.mu": mu})["body"]["x"] for _ in range(3)][-1]
    call = repeated_call(model)
    with pytest.raises(Divergence):
        model.rollout({"body.mu": mu * 1e200})
    assert torch.equal(model.rollout({"body.mu": mu})["body"]["x"], expected)
    assert repeated_call(model) is call


def test_many_kinds_of_calls_stay_bound_while_their_arrays_have_room(monkeypatch):
    model = Model(scene_of("box")).requires_grad_(False)
    masses, bound = [model.get_parameter("body.mass").detach().repeat(worlds) for worlds in range(1, 13)], []
    for most in (repeated_calls.MOST_ARRAY_BYTES, 0):
        monkeypatch.setattr(repeated_calls, "MOST_ARRAY_BYTES", most)
        model._repeated = repeated_calls.RepeatedCalls()
        for mass in masses:
            for _ in range(2):
                model.rollout({"body.mass": mass}, frames=2)
        ((_, calls),) = model._repeated._threads.values()
        bound.append([call.worlds for call in calls.values() if isinstance(call, RepeatedCall)])
    assert bound == [list(range(1, 13)), [12]]


def test_kinds_of_calls_that_have_no_room_together_are_not_bound_anew_at_each_call(monkeypatch):
    model, bound = Model(scene_of("box")).requires_grad_(False), []
    monkeypatch.setattr(repeated_calls, "MOST_ARRAY_BYTES", 0)
    monkeypatch.setattr(
        RepeatedCall, "__init__", lambda *args, real=RepeatedCall.__init__: bound.append(1) or real(*args)
    )
    expected = {frames: Model(scene_of("box")).rollout(frames=frames)["body"]["x"].detach() for frames in (2, FRAMES)}
    rounds = 2 * repeated_calls.CALLS_WITHOUT_ARRAYS
    for _ in range(rounds):
        for frames, x in expected.items():
            assert torch.equal(model.rollout(frames=frames)["body"]["x"], x)
    assert 2 <= len(bound) <= rounds // 2


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


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_copy_of_a_model_that_was_called_moves_by_itself(name, copied):
    model, parameter = Model(scene_of(name)), SCENES[name][2][0]
    for _ in range(3):
        expected = states_and_gradients(model, {})
    twin = copied(model)
    for _ in range(3):
        assert_same(states_and_gradients(twin, {}), expected)
    written_in_place(twin.get_parameter(parameter))
    fresh = Model(scene_of(name), model.substeps)
    fresh.load_state_dict(twin.state_dict())
    assert_same(states_and_gradients(twin, {}), states_and_gradients(fresh, {}))
    assert_same(states_and_gradients(model, {}), expected)


def test_zero_grad_clears_all_that_pytorch_clears():
    model = Model(scene_of("box"))
    model.add_module("controller", torch.nn.Linear(2, 2))
    for keep in (True, False):
        for x in model.parameters():
            x.grad = torch.ones_like(x)
        model.zero_grad(set_to_none=not keep)
        assert all((not x.grad.any()) if keep else x.grad is None for x in model.parameters())
