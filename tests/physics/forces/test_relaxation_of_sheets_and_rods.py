"""One Maxwell branch of triangles, hinges and vertices of rods: against autograd of its energy, objective, and passive."""

from types import ModuleType

import pytest
import torch
from checks import error
from law_cases import WITHIN, carried, energy_slope, lane_errors, lane_forces, random_normal, random_positive
from torch import Tensor

from gradsim.physics.forces import (
    bending,
    bending_relaxation,
    membrane,
    membrane_relaxation,
    rod_bending,
    rod_relaxation,
)

N = 24
LAWS = {"triangle": membrane_relaxation, "hinge": bending_relaxation, "rod": rod_relaxation}
NODES = {
    "triangle": [[0.0, 0, 0], [1, 0, 0], [0, 1, 0]],
    "hinge": [[-0.8, 0.4, 0], [0.7, 0.7, 0.2], [0, 0, 0], [0, 1, 0]],
    "rod": [[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [0.5, 0.4, 0], [1.5, 0.3, 0.2]],
}
STIFFNESS = {
    "triangle": {"mu": 3.0, "lam": 5.0},
    "hinge": {"stiffness": 4.0},
    "rod": {"bending1": 2.0, "bending2": 3.0, "twisting": 1.5},
}
CREEP = {"rate": 2.0, "response": 40.0, "inertia": 0.1}


def _state(kind: str) -> tuple[ModuleType, Tensor, Tensor, dict[str, Tensor]]:
    """The law, and deformed and moving elements with strains A that are not theirs."""
    rest = torch.tensor(NODES[kind]).double() + 0.08 * random_normal(N, len(NODES[kind]), 3, seed=1)
    index = torch.arange(rest.shape[0] * rest.shape[1]).reshape(N, -1)
    shape = {"triangle": membrane, "hinge": bending}.get(kind)
    shape = {} if shape is None else shape.rest_shape(rest.flatten(0, 1), index)
    numbers = STIFFNESS[kind] | CREEP
    arrays = {name: size * random_positive(N, seed=10 + k) for k, (name, size) in enumerate(numbers.items())}
    arrays = {name: shape[name] for name in LAWS[kind].FORCE.rest} | arrays
    x = carried(rest + 0.08 * random_normal(*rest.shape, seed=3), seed=4)
    A = _strain(kind, x, arrays) + 0.2 * random_normal(N, 3, seed=5)
    x = torch.cat([x, A[:, None]], 1)
    return LAWS[kind], x, random_normal(*x.shape, seed=6), arrays | {"gravity": random_normal(N, 3, seed=7)}


def _strain(kind: str, x: Tensor, arrays: dict[str, Tensor]) -> Tensor:
    if kind == "triangle":
        return membrane_relaxation.strain(x, *(arrays[k] for k in ("inverse_00", "inverse_01", "inverse_11")))
    if kind == "hinge":
        s = bending_relaxation.strain(x)
        return torch.stack([s, 0 * s, 0 * s], -1)
    return rod_bending.strains(x)


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_lanes_and_their_derivatives_are_those_of_the_definition(kind, dtype):
    law, x, v, arrays = _state(kind)
    assert max(lane_errors(law.FORCE, x, v, arrays, dtype).values()) < 20 * WITHIN[dtype]


@pytest.mark.parametrize("kind", LAWS)
def test_force_on_the_vertices_is_minus_the_gradient_of_the_energy(kind):
    law, x, v, arrays = _state(kind)
    f, slope = lane_forces(law.FORCE, x, v, arrays), energy_slope(law.FORCE, x, arrays)
    assert error(f[:, :-1], slope[:, :-1]) < 1e-11


@pytest.mark.parametrize("kind", LAWS)
def test_a_branch_feels_no_rigid_motion_and_a_point_no_gravity(kind):
    law, x, _, arrays = _state(kind)
    turned = carried(x[:, :-1], seed=20)
    still = torch.cat([turned, _strain(kind, x[:, :-1], arrays)[:, None]], 1)
    f = lane_forces(law.FORCE, still, torch.zeros_like(still), arrays)
    weight = arrays["inertia"][:, None] * arrays["gravity"]
    assert f[:, :-1].abs().max() < 1e-11 * max(arrays[name].max() for name in STIFFNESS[kind])
    torch.testing.assert_close(f[:, -1], -weight, rtol=0, atol=1e-11)


@pytest.mark.parametrize("kind", LAWS)
def test_power_lost_in_creep_is_twice_the_energy_over_the_time(kind):
    """-dΨ/dt at a strain that lasts, with Ȧ = D/τ."""
    law, x, _, arrays = _state(kind)
    if kind == "hinge":
        x[:, -1, 1:] = 0.0
    A = x[:, -1].clone().requires_grad_()
    psi = law.energy(torch.cat([x[:, :-1], A[:, None]], 1), **arrays)
    (slope,) = torch.autograd.grad(psi.sum(), A)
    D = _strain(kind, x[:, :-1], arrays) - x[:, -1]
    lost = -(slope * D * arrays["rate"][:, None]).sum(-1)
    torch.testing.assert_close(lost, 2 * psi.detach() * arrays["rate"], rtol=1e-12, atol=0)
    assert (lost > 0).all()


@pytest.mark.parametrize("kind", ["triangle", "hinge"])
def test_small_changes_of_a_branch_add_to_the_stiffness_that_lasts(kind):
    """Second derivatives of Ψ with A held are those of the elastic energy, at the flat and unstrained rest shape."""
    rest = torch.tensor(NODES[kind]).double()[None]
    rest[..., 2] = 0.0
    elastic = {"triangle": membrane, "hinge": bending}[kind]
    shape = elastic.rest_shape(rest[0], torch.arange(rest.shape[1])[None])
    if kind == "triangle":
        mu, lam = torch.tensor([3.0]).double(), torch.tensor([5.0]).double()
        lasting, relaxing = {"mu": mu, "lam": lam}, {"mu": 2 / 3 * mu, "lam": lam - 4 / 9 * mu}
    else:
        lasting = relaxing = {"stiffness": torch.tensor([4.0]).double()}
    A = _strain(kind, rest, shape)[:, None]
    first = lambda y: elastic.energy(y.reshape(rest.shape), **shape, **lasting).sum()
    second = lambda y: LAWS[kind].energy(torch.cat([y.reshape(rest.shape), A], 1), **shape, **relaxing).sum()
    wanted, hessian = (torch.autograd.functional.hessian(e, rest.flatten()) for e in (first, second))
    assert error(hessian, wanted) < 1e-9
