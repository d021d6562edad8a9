"""Contact of rigid bodies with one another: forces, energies, momenta and derivatives of every kind of pair."""

import pytest
import torch
from checks import error
from pair_cases import CORES, KINDS, empty_list, lane_adjoints, lane_forces, pairs_among, random_meeting
from torch import Tensor, linalg

from gradsim.engine.lanes import Lane
from gradsim.numerics import rotation
from gradsim.physics.contact.convex_reference import Placed, energy, wrench

N = 4
LANE = Lane("float64", 4)
NUMBERS = ("stiffness", "dissipation", "friction_stiffness", "friction")
kinds = pytest.mark.parametrize("kinds", KINDS, ids="-".join)


def placed(kinds, states, numbers, k: int) -> tuple[Placed, Placed]:
    rows = zip(kinds, states["x"][k], states["q"][k], numbers["scale"][k], strict=True)
    a, b = (Placed(CORES[kind], x, q, scale) for kind, x, q, scale in rows)
    return a, b


def defined(kinds, states, numbers) -> Tensor:
    """Force and torque of the definition (worlds, 2 bodies, force and torque, 3)."""
    found = []
    for k in range(len(states["x"])):
        speeds = [states["v"][k, 0], states["w"][k, 0], states["v"][k, 1], states["w"][k, 1]]
        parts = wrench(*placed(kinds, states, numbers, k), speeds, [numbers[key][k, 0] for key in NUMBERS])
        found.append(torch.stack(parts).view(2, 2, 3))
    return torch.stack(found)


def of_lanes(kinds, states, numbers, lane: Lane = LANE) -> Tensor:
    (f, t), _ = lane_forces(pairs_among(kinds), states, numbers, lane)
    return torch.stack([f, t], 2)


@kinds
def test_forces_are_those_of_the_definition(kinds):
    states, numbers = random_meeting(kinds, N, seed=1)
    assert error(of_lanes(kinds, states, numbers), defined(kinds, states, numbers)) < 1e-12


@kinds
def test_force_and_torque_are_minus_the_gradient_of_the_energy(kinds):
    """By moves and turns of both bodies; of edges that are nearly parallel too, by the couple that goes with them."""
    states, numbers = random_meeting(kinds, N, seed=2)
    numbers |= {key: torch.zeros(N, 1).double() for key in ("dissipation", "friction_stiffness")}
    moved = torch.zeros(N, 2, 2, 3).double().requires_grad_()
    turned = rotation.multiply(rotation.exponential(moved[:, :, 1]), states["q"])
    there = states | {"x": states["x"] + moved[:, :, 0], "q": turned}
    energies = [energy(*placed(kinds, there, numbers, k), numbers["stiffness"][k, 0]) for k in range(N)]
    (slope,) = torch.autograd.grad(torch.stack(energies).sum(), moved)
    assert error(of_lanes(kinds, states, numbers), -slope) < 1e-11


@kinds
def test_adjoints_are_those_of_the_definition(kinds):
    states, numbers = random_meeting(kinds, N, seed=3)
    leaves = {key: x.clone().requires_grad_() for key, x in (states | numbers).items()}
    probes = torch.randn(N, 2, 2, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    power = (defined(kinds, leaves, leaves) * probes).sum()
    expected = dict(zip(leaves, torch.autograd.grad(power, list(leaves.values()), materialize_grads=True), strict=True))
    found = lane_adjoints(pairs_among(kinds), states, numbers, probes.unbind(2), LANE)
    across = expected["q"] - (expected["q"] * states["q"]).sum(-1, keepdim=True) * states["q"]  # both rotate unit ones
    found["q"] = found["q"] - (found["q"] * states["q"]).sum(-1, keepdim=True) * states["q"]
    scale = expected["x"].abs().max()  # a ball feels no turn of its own
    assert (found["q"] - across).abs().max() < 1e-11 * max(scale, across.abs().max())
    assert max(error(found[key], y) for key, y in expected.items() if key != "q") < 1e-11


@pytest.mark.parametrize("kinds", [("capsule", "ball"), ("rock", "box")], ids="-".join)
def test_forward_derivatives_are_transposed_adjoints(kinds):
    """⟨J v, w⟩ = ⟨v, Jᵀ w⟩ of dual lanes and adjoints."""
    states, numbers = random_meeting(kinds, N, seed=5)
    generator = torch.Generator().manual_seed(6)
    draw = lambda x: torch.randn(x.shape, generator=generator, dtype=torch.float64) * x.abs().mean()
    along = {key: draw(x) for key, x in (states | numbers).items()}
    probes = [draw(states["x"]), draw(states["x"])]
    _, (df, dt) = lane_forces(pairs_among(kinds), states, numbers, Lane("float64", 4, dual=True), along)
    adjoint = lane_adjoints(pairs_among(kinds), states, numbers, probes, LANE)
    forward = torch.stack([df * probes[0], dt * probes[1]])
    reverse = torch.cat([(along[key] * adjoint[key]).flatten() for key in along])
    assert abs(forward.sum() - reverse.sum()) < 1e-12 * (forward.abs().sum() + reverse.abs().sum())


@kinds
def test_momenta_are_kept_and_friction_takes_energy(kinds):
    states, numbers = random_meeting(kinds, N, seed=7)
    f, t = of_lanes(kinds, states, numbers).unbind(2)
    assert f[:, 0].norm(dim=1).min() > 0
    assert not (f[:, 0] + f[:, 1]).any()
    arms = linalg.cross(states["x"], f)
    assert (t + arms).sum(1).abs().max() < 1e-13 * torch.stack([t, arms]).abs().max()
    none = {key: torch.zeros(N, 1).double() for key in ("dissipation", "friction_stiffness")}
    elastic_f, elastic_t = of_lanes(kinds, states, numbers | none).unbind(2)
    power = ((f - elastic_f) * states["v"] + (t - elastic_t) * states["w"]).sum((1, 2))
    assert (power < 0).all()


@pytest.mark.parametrize("kinds", [("ball", "rock"), ("box", "capsule")], ids="-".join)
def test_a_common_motion_feels_no_friction(kinds):
    """Both bodies as one rigid body: the force is that without friction and loss."""
    states, numbers = random_meeting(kinds, N, seed=8)
    w = states["w"][:, :1].expand(N, 2, 3)
    states |= {"w": w.contiguous(), "v": states["v"][:, :1] + linalg.cross(w, states["x"] - states["x"][:, :1])}
    none = {key: torch.zeros(N, 1).double() for key in ("dissipation", "friction_stiffness")}
    assert error(of_lanes(kinds, states, numbers), of_lanes(kinds, states, numbers | none)) < 1e-11


def test_pairs_are_listed_again_where_a_body_has_come_near():
    """Of boxes far apart, on their way, and touching; a list is right as long as no body has left its allowance."""
    pairs, (states, numbers) = pairs_among(("box", "rock")), random_meeting(("box", "rock"), N, seed=8)
    near = empty_list(pairs, N, LANE)
    away = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]).double()
    for distance in (9.0, 0.5, 0.02, 0.01, 0.0, 0.005):
        there = states | {"x": states["x"] + distance * away}
        fresh, kept = (lane_forces(pairs, there, numbers, LANE, near=one)[0] for one in (None, near))
        assert all(torch.equal(a, b) for a, b in zip(fresh, kept, strict=True))
    assert kept[0].abs().amin((1, 2)).max() > 0


@kinds
def test_bodies_that_a_face_keeps_apart_feel_nothing_and_those_that_touch_are_not_taken_for_apart(kinds):
    """From a touch outwards: forces are those of the definition, which looks at every element, until they vanish."""
    states, numbers = random_meeting(kinds, N, seed=9)
    aim = torch.nn.functional.normalize(states["x"][:, 0] - states["x"][:, 1], dim=-1)
    forces = []
    for distance in (0.0, 0.01, 0.03, 0.1, 1.0):
        x = states["x"].clone()
        x[:, 0] += distance * aim
        forces.append(of_lanes(kinds, states | {"x": x}, numbers))
        assert (forces[-1] - defined(kinds, states | {"x": x}, numbers)).abs().max() < 1e-11 * forces[0].abs().max()
    assert forces[0].abs().max() > 0 and not forces[-1].any()
