"""Scenes whose rigid bodies touch one another: momenta, bounces with known derivatives, and gradients of rollouts."""

import math

import pytest
import torch
from torch import Tensor, linalg

from gradsim.errors import InputError
from gradsim.numerics import rotation
from gradsim.physics.contact_events import pair_touches
from gradsim.physics.model import Model
from gradsim.physics.rigid.island import ConstrainedIsland
from gradsim.scene import Scene

BALL = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1.0}
HIT = {"between": "all", "stiffness": 1e4, "dissipation": 0.1, "friction_stiffness": 20, "friction": 0.4}
CORNERS = [[0.0, 0, 0], [0.3, 0.05, 0], [0, 0.3, 0.1], [0.05, 0.1, 0.35]]


def crowd(**timing) -> Scene:
    """A box, a capsule, a tetrahedron and a ball that fly into one another."""
    bodies = {
        "box": {"shape": {"box": {"size": [0.3, 0.2, 0.25]}}, "mass": 1.5, "position": [-0.27, 0.02, 0.0], "velocity": [2, 0, 0], "quat_xyzw": [0.5, 0.1, -0.3, 0.8]},
        "stick": {"shape": {"capsule": {"radius": 0.06, "height": 0.3}}, "mass": 0.7, "position": [0.0, 0.03, 0.0], "velocity": [-1, 0.3, 0], "angular_velocity": [2, 3, 1]},
        "rock": {"shape": {"tetrahedron": {"vertices": CORNERS}}, "mass": 1.0, "position": [0.02, 0.34, 0.02], "velocity": [0, -2, 0.2], "rotation_vector": [0.3, 1.0, -0.5]},
        "ball": {**BALL, "position": [0.25, 0.03, 0.05], "velocity": [-2, 0, 0], "angular_velocity": [0, 5, 8]},
    }  # fmt: skip
    for body in bodies.values():
        q = torch.tensor(body.get("quat_xyzw", [0, 0, 0, 1]), dtype=torch.float64)
        body["quat_xyzw"] = (q / q.norm()).tolist() if "rotation_vector" not in body else [0, 0, 0, 1]
    clock = {"fps": 60, "frames": 11, "substeps": 50, "integrator": "semi-implicit", **timing}  # keeps momentum
    return Scene.parse({"gravity": 0, "timing": clock, "bodies": bodies, "contacts": {"hit": HIT}})


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(crowd())


def drawn(model: Model, names, seed: int) -> dict[str, Tensor]:
    """Values of two worlds, by at most 1 % off those of the scene."""
    generator = torch.Generator().manual_seed(seed)
    rand = lambda like: 1 + 0.01 * torch.rand(2, *like.shape, generator=generator, dtype=torch.float64)
    return {name: model.get_parameter(name).detach() * rand(model.get_parameter(name)) for name in names}


NAMES = [
    *(
        f"{body}.{key}"
        for body in ("box", "stick", "rock", "ball")
        for key in ("mass", "scale", "position", "velocity")
    ),
    *("box.rotation_vector", "ball.angular_velocity", "gravity", "timing.rate"),
    *(f"contacts.hit.{key}" for key in ("stiffness", "dissipation", "friction_stiffness", "friction")),
]


def test_all_bodies_of_a_contact_are_one_group(model):
    (group,) = model.groups
    assert isinstance(group, ConstrainedIsland) and len(group.systems) == 4
    states = model.rollout(drawn(model, NAMES, 1)).states
    turned = [(own["l"][:, -1] - own["l"][:, 0]).norm(dim=-1).min() for own in states.values()]
    assert min(turned) > 1e-3  # each has been hit, with friction


def test_linear_and_angular_momentum_are_kept(model):
    values = model.values(drawn(model, [n for n in NAMES if n != "gravity"], 2))
    states = model.rollout(values).states
    linear = {name: values[f"{name}.mass"][:, None, None] * own["v"] for name, own in states.items()}
    angular = {name: own["l"] + linalg.cross(own["x"], linear[name]) for name, own in states.items()}
    for parts in (linear, angular):
        total = torch.stack(list(parts.values())).sum(0)
        size = max(p.abs().max().item() for p in parts.values())
        assert (total - total[:, :1]).abs().max() < 500 * 1e-15 * size  # rounding of 500 steps


def test_energy_never_grows(model):
    """Contact with loss and friction, measured where bodies are apart: kinetic energy at the end is below the start's."""
    values = model.values(drawn(model, [n for n in NAMES if n != "gravity"], 3))
    states = model.rollout(values).states
    energy = torch.zeros(2, 11).double()
    for body in model.systems:
        own = states[body.name]
        spin = linalg.solve(_inertia(body, values, own["q"]), own["l"][..., None])[..., 0]
        energy = energy + 0.5 * values[f"{body.name}.mass"][:, None] * own["v"].square().sum(-1)
        energy = energy + 0.5 * (spin * own["l"]).sum(-1)
    assert (energy[:, -1] < 0.99 * energy[:, 0]).all()


def _inertia(body, values, q: Tensor) -> Tensor:
    turn = rotation.to_matrix(q)
    return turn @ body.inertia(values)[:, None] @ turn.mT


def test_adjoints_are_transposed_forward_sensitivities(model):
    """⟨J v, w⟩ = ⟨v, Jᵀ w⟩ of each parameter alone, over 500 steps with impacts."""
    given = drawn(model, NAMES, 4)
    leaves = {name: x.clone().requires_grad_() for name, x in given.items()}
    states = model.rollout(leaves, segment=3).states
    generator = torch.Generator().manual_seed(5)
    draw = lambda like: torch.randn(like.shape, generator=generator, dtype=torch.float64)
    weights = {(name, key): draw(own[key]) for name, own in states.items() for key in own}
    power = torch.stack([(states[name][key] * w).sum() for (name, key), w in weights.items()]).sum()
    gradient = dict(zip(leaves, torch.autograd.grad(power, list(leaves.values())), strict=True))
    values = model.values(given)
    for name in NAMES:
        along = {name: draw(given[name]) * given[name].abs().mean().clamp(min=0.1)}
        _, tangent = model.tangent(values, along, 11)
        forward = torch.stack([(tangent.states[n][k] * w).sum() for (n, k), w in weights.items()])
        reverse = (gradient[name] * along[name]).sum()
        assert abs(forward.sum() - reverse) < 1e-9 * (forward.abs().sum() + reverse.abs()), name


def test_two_equal_balls_exchange_their_velocities():
    """A21: ∂v₂/∂v₁ = 1 within 1 % at k = 1e5, with what a step h leaves of it: O(h k) times the time before they touch."""
    bodies = {"a": {**BALL, "position": [-0.25, 0, 0]}, "b": BALL}
    hit = {"between": ["a", "b"], "stiffness": 1e5, "dissipation": 0}
    clock = {"fps": 5, "frames": 2, "substeps": 200_000}
    model = Model(Scene.parse({"gravity": 0, "bodies": bodies, "contacts": {"hit": hit}, "timing": clock}))
    v = torch.tensor([[1.0, 0, 0], [1.3, 0, 0]], dtype=torch.float64)
    along = {"a.velocity": torch.tensor([[1.0, 0, 0]]).double().expand(2, 3)}
    final, slope = (y.states["b"]["v"][:, -1, 0] for y in model.tangent(model.values({"a.velocity": v}), along, 2))
    assert (final - v[:, 0]).abs().max() < 1e-6
    assert (slope - 1).abs().max() < 1e-2


@pytest.mark.parametrize(("between", "ok"), [(0.199, False), (0.2, True)])
def test_bodies_that_start_inside_one_another_are_refused_with_the_depth(between, ok):
    bodies = {"a": {**BALL, "position": [between, 0, 0]}, "b": BALL}
    scene = Scene.parse({"bodies": bodies, "contacts": {"hit": HIT}})
    if ok:
        Model(scene)
    else:
        with pytest.raises(InputError, match="`a` starts 0.001 m inside `b`; move one of them away"):
            Model(scene)


def test_planks_that_cross_without_a_corner_inside_are_refused_too():
    plank = {"shape": {"box": {"size": [1, 0.1, 0.1]}}, "mass": 1}
    turned = {**plank, "quat_xyzw": [0, 0, math.sqrt(0.5), math.sqrt(0.5)], "position": [0, 0, 0.02]}
    with pytest.raises(InputError, match="m inside"):
        Model(Scene.parse({"bodies": {"a": plank, "b": turned}, "contacts": {"hit": HIT}}))


def planks(**clock) -> Scene:
    """Two planks across one another on the ground, at rest."""
    plank = {"shape": {"box": {"size": [1, 0.1, 0.1]}}, "mass": 2}
    k, ground = 1e4, {"stiffness": 1e6, "dissipation": 0.1}
    depth, under = 2 * 9.81 / 4 / k, 4 * 9.81 / 4 / 1e6
    turned = {**plank, "quat_xyzw": [0, 0, math.sqrt(0.5), math.sqrt(0.5)], "position": [0, 0, 0.15 - depth - under]}
    bodies = {"low": {**plank, "position": [0, 0, 0.05 - under]}, "high": turned}
    content = {"bodies": bodies, "contacts": {"hit": HIT}, "ground": ground, "timing": {"fps": 20, **clock}}
    return Scene.parse(content)


def test_a_plank_rests_on_another_across_it():
    """No corner is inside the other: four crossings of edges carry it, each with k C = m g / 4."""
    states = Model(planks(frames=5, substeps=400)).rollout().states
    for name in ("low", "high"):
        assert (states[name]["x"] - states[name]["x"][:, :1]).abs().max() < 1e-9


@pytest.mark.usefixtures("optimized_reverse_sweeps")
def test_checkpoints_do_not_change_gradients(model):
    given, found = drawn(model, NAMES, 6), []
    for segment in (1, 4, 11):
        leaves = {name: x.clone().requires_grad_() for name, x in given.items()}
        end = torch.stack(
            [own["x"][:, -1].sum() for own in model.rollout(leaves, segment=segment).states.values()]
        ).sum()
        found.append(torch.autograd.grad(end, list(leaves.values())))
    for other in found[1:]:
        assert all(torch.equal(x, y) for x, y in zip(found[0], other, strict=True))


def test_gradients_are_those_of_central_differences_where_nothing_begins_or_ends_to_touch():
    """A plank on another across it, 200 steps: secants of fourth order within 1e-7."""
    model = Model(planks(frames=2, substeps=400))
    names = [f"{b}.{k}" for b in ("low", "high") for k in ("mass", "scale", "position", "velocity", "angular_velocity")]
    given = drawn(model, [*names, "gravity", "contacts.hit.stiffness", "contacts.hit.dissipation"], 8)
    generator = torch.Generator().manual_seed(9)
    draw = lambda like: torch.randn(like.shape, generator=generator, dtype=torch.float64)
    units = {"position": 1e-3, "velocity": 1e-2, "angular_velocity": 1e-2, "scale": 1e-3}
    for name in names:
        given[name] = model.get_parameter(name).detach().expand_as(given[name]).clone()
    given["high.velocity"] = given["high.velocity"] + 5e-3 * draw(given["high.velocity"])
    along = {name: draw(x) * units.get(name.rpartition(".")[2], 0.01 * x.abs().mean()) for name, x in given.items()}
    reach = lambda states: torch.cat([own[key][:, -1] for own in states.values() for key in ("x", "q")], 1)
    leaves = {name: x.clone().requires_grad_() for name, x in given.items()}
    reached = reach(model.rollout(leaves).states)
    weight = draw(reached)
    gradient = torch.autograd.grad((reached * weight).sum(), list(leaves.values()))
    slope = sum((g * v).sum() for g, v in zip(gradient, along.values(), strict=True))
    (group,), secants, marks = model.groups, [], set()
    assert isinstance(group, ConstrainedIsland) and group.pairs
    for width in (5e-3, 1e-2):
        ends = []
        for side in (1, -1):
            values = model.values({name: x + side * width * along[name] for name, x in given.items()})
            moved = model.rollout_unchecked(values, 2)
            marks |= set(pair_touches(group.pairs, moved, values).number.flatten().tolist())
            ends.append(reach(moved.states))
        secants.append(((ends[0] - ends[1]) * weight).sum() / (2 * width))
    assert marks == {4.0}
    assert abs((4 * secants[0] - secants[1]) / 3 - slope) < 1e-7 * abs(slope)
