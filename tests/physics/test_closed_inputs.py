"""Adjoints of the inputs of a rigid body in closed form against PyTorch's graph of the same inputs."""

import pytest
import torch

from gradsim.physics import Model
from gradsim.physics.closed_inputs import ClosedRollout
from gradsim.scene import Scene

WORLDS = 3
TURNS = torch.tensor(
    [[0.0, 0.0, 0.0], [0.4, -0.7, 1.1], [0.01, 0.02, -0.015]], dtype=torch.float64
)  # of the start, beside the scene's
RELATIVE = 1e-12  # of the largest component: products of a dozen numbers, rounded in another order
BOX = {
    "shape": {"box": {"size": [0.6, 0.48, 0.36]}},
    "position": [0, 0, 0.3],
    "velocity": [1.0, 0.2, -0.5],
    "angular_velocity": [0.3, -1.0, 2.0],
    "drag": 0.1,
}
BLOW = {"impulse": [1.0, 0.5, 0.2], "point": [0.1, 0.0, 0.05], "at": 0}
WINDOW = {"force": [3.0, -1.0, 2.0], "point": [0.0, 0.1, 0.0], "window": [0.01, 0.06]}
BODIES = {
    "mass, pushes": {"mass": 5.0, "rotation_vector": [0.06, 0.15, 0.0], "pushes": [BLOW, WINDOW]},
    "density, turned": {"density": 40.0, "scale": 1.2, "quat_xyzw": [0.5, 0.5, 0.5, 0.5]},
    "moments, own contact": {
        "mass": 4.0,
        "scale": 0.9,
        "inertia": [0.1, 0.2, 0.25],
        "inertia_quat_xyzw": [0.5, -0.5, 0.5, 0.5],
        "friction": 0.3,
        "stiffness": 4e4,
    },
}
GROUNDS = {
    "ground": {
        "law": "continuous",
        "stiffness": 5e4,
        "dissipation": 0.5,
        "friction_stiffness": 50,
        "friction": 0.5,
        "rolling_friction": 1e-3,
        "normal": [0.02, 0.01, 1.0],
    },
    "wall": {"law": "continuous", "stiffness": 3e4, "friction": 0.2, "normal": [-1.0, 0.0, 0.1], "height": -0.5},
}


def model_of(numbers: dict) -> Model:
    timing = {"fps": 30, "frames": 6, "substeps": 40, "integrator": "semi-implicit"}
    bodies = {"box": BOX | numbers}
    return Model(Scene.parse({"gravity": 9.81, "timing": timing, "bodies": bodies, "grounds": GROUNDS}))


def slopes(model: Model) -> dict[str, torch.Tensor]:
    """Gradients by all parameters, each another in each world, of a sum of the states with different weights."""
    shift = 1 + 1e-3 * torch.arange(WORLDS, dtype=model.dtype)
    leaves = {}
    for name, x in model.named_parameters():
        if name not in model.unused_parameters and not name.startswith(
            "timing."
        ):  # of a push in a window the clock is known
            leaf = x.detach() * shift.reshape(-1, *[1] * x.ndim)
            leaves[name] = (leaf + TURNS if name == "box.rotation_vector" else leaf).requires_grad_()
    states = [y for state in model.rollout(leaves).states.values() for y in state.values()]
    sum((y * torch.linspace(0.5, 1.5, y.numel()).reshape(y.shape)).sum() for y in states).backward()
    return {name: x.grad for name, x in leaves.items()}


@pytest.mark.parametrize("body", BODIES)
def test_gradients_by_all_parameters_are_those_of_the_graph(body):
    model = model_of(BODIES[body])
    (group,) = model.groups
    for _ in range(3):  # the calls of the inputs are recorded at the second one
        closed = slopes(model)
    assert all(isinstance(program, ClosedRollout) for program in group.closed.values()) and group.closed
    group.closed = dict.fromkeys(group.closed)
    graph = slopes(model)
    assert set(closed) == set(graph)
    for name, x in graph.items():
        if x is None:
            assert closed[name] is None, name
            continue
        assert closed[name].shape == x.shape
        torch.testing.assert_close(closed[name], x, rtol=0, atol=RELATIVE * x.abs().max().item(), msg=name)
    assert sum(x is not None and bool(x.any()) for x in graph.values()) > 15


def test_a_parameter_whose_gradient_nobody_asks_for_has_none():
    model = model_of(BODIES["mass, pushes"]).requires_grad_(False)
    mass = torch.tensor([5.0, 6.0], dtype=model.dtype, requires_grad=True)
    model.rollout({"box.mass": mass})["box"]["x"].sum().backward()
    assert mass.grad is not None and all(x.grad is None for x in model.parameters())


def test_bodies_without_a_closed_form_have_the_graph():
    model = model_of({"mass": 3.0, "centre_of_mass": [0.01, 0.0, 0.02]})
    for _ in range(3):
        model.zero_grad()
        sum(y.sum() for y in model.rollout()["box"].values()).backward()
    assert list(model.groups[0].closed.values()) == [None]
    assert model.get_parameter("box.centre_of_mass").grad.any()


@pytest.mark.parametrize("body", BODIES)
def test_tangents_of_inputs_are_those_of_forward_mode(body, monkeypatch):
    model = model_of(BODIES[body])
    (group,) = model.groups
    shift = 1 + 1e-3 * torch.arange(WORLDS, dtype=model.dtype)
    named = {n: x.detach() for n, x in model.named_parameters() if not (model._late and n.startswith("timing."))}
    values = model.values({n: x * shift.reshape(-1, *[1] * x.ndim) for n, x in named.items()})
    values["box.rotation_vector"] = values["box.rotation_vector"] + TURNS
    closed, plain = [], type(group).inputs_along
    monkeypatch.setattr(type(group), "inputs_along", lambda *args: closed.append(plain(*args)) or closed[-1])
    names = [name for name in named if name not in model.unused_parameters and name != "timing.offset"]
    together = [
        n for n in names if n.rpartition(".")[2] in ("mass", "friction", "angular_velocity", "stiffness", "rate")
    ]
    counts = {True: 0, False: 0}
    for along in ([name] for name in names if name not in together), [[name] for name in together], [together]:
        for chosen in along:
            generator = torch.Generator().manual_seed(len(chosen))
            direction = {n: torch.randn(values[n].shape, generator=generator, dtype=model.dtype) for n in chosen}
            ours = model.tangent(values, direction, 6)[1]
            counts[closed[-1] is not None] += 1
            with monkeypatch.context() as other:
                other.setattr(type(group), "inputs_along", lambda *args: None)
                expected = model.tangent(values, direction, 6)[1]
            for key, slope in expected["box"].items():
                size = slope.abs().max().item()
                assert (ours["box"][key] - slope).abs().max().item() <= RELATIVE * max(size, 1e-300), (chosen, key)
    assert counts[True] > 8 and counts[False] > 3  # both ways are taken
