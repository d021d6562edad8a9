"""Plastic bending of vertices of rods: against autograd of the energy, yield, dissipation, and rigid motions."""

import pytest
import torch
from checks import error
from law_cases import WITHIN, carried, energy_slope, lane_errors, lane_forces, random_normal, random_positive
from torch import Tensor

from gradsim.physics.forces import rod_bending, rod_plasticity

N = 48
NODES = [[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [0.5, 0.4, 0], [1.5, 0.3, 0.2]]
NUMBERS = dict(zip(rod_bending.FORCE.parameters, (0.3, -0.2, 0.4, 2.0, 3.0, 1.5, 0.2, 0.3, 0.1), strict=True))
NUMBERS |= {"yield_moment": 0.8, "twist_weight": 0.7, "hardening": 0.4}
NUMBERS |= {"fluidity": 3.0, "response": 40.0, "inertia": 0.1}


def _state() -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Deformed and moving vertices with plastic strains of their own; about half of them yield."""
    rest = torch.tensor(NODES).double() + 0.08 * random_normal(N, 5, 3, seed=1)
    x = carried(rest + 0.08 * random_normal(N, 5, 3, seed=3), seed=4)
    arrays = {name: size * random_positive(N, seed=10 + k) for k, (name, size) in enumerate(NUMBERS.items())}
    A = rod_bending.strains(x) + 0.4 * random_normal(N, 3, seed=5)
    x = torch.cat([x, A[:, None]], 1)
    return x, random_normal(*x.shape, seed=6), arrays | {"gravity": random_normal(N, 3, seed=7)}


def _effective(x: Tensor, arrays: dict[str, Tensor]) -> Tensor:
    """M̂ (N, 3), by its definition as the thermodynamic force of A."""
    return energy_slope(rod_plasticity.FORCE, x, arrays)[:, 5]


def _norm(effective: Tensor, arrays: dict[str, Tensor]) -> Tensor:
    return (effective.square().T * torch.stack([torch.ones(N), torch.ones(N), arrays["twist_weight"]])).sum(0).sqrt()


def _flow(x: Tensor, v: Tensor, arrays: dict[str, Tensor]) -> Tensor:
    """Ȧ that the point is drawn to, from the lanes: its force is m/θ (flow - Ȧ) - m g."""
    f = lane_forces(rod_plasticity.FORCE, x, v, arrays)[:, 5] + arrays["inertia"][:, None] * arrays["gravity"]
    return f / (arrays["inertia"] * arrays["response"])[:, None] + v[:, 5]


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_lanes_and_their_derivatives_are_those_of_the_definition(dtype):
    x, v, arrays = _state()
    yields = _norm(_effective(x, arrays), arrays) > arrays["yield_moment"]
    assert 0.2 * N < yields.sum() < 0.8 * N
    assert max(lane_errors(rod_plasticity.FORCE, x, v, arrays, dtype).values()) < 20 * WITHIN[dtype]


def test_force_on_the_vertices_is_minus_the_gradient_of_the_energy():
    x, v, arrays = _state()
    still = arrays | {name: 0 * y for name, y in arrays.items() if "damping" in name}
    f, slope = lane_forces(rod_plasticity.FORCE, x, v, still), energy_slope(rod_plasticity.FORCE, x, still)
    assert error(f[:, :5], slope[:, :5]) < 1e-11


def test_what_yields_loses_energy_and_what_does_not_keeps_its_shape():
    """M̂·Ȧ = N² (1 - M_y/N)/(k1 T) where N > M_y; elsewhere Ȧ = 0."""
    x, v, arrays = _state()
    effective = _effective(x, arrays)
    flow, size = _flow(x, v, arrays), _norm(effective, arrays)
    lost, yields = (effective * flow).sum(-1), size > arrays["yield_moment"]
    wanted = size.square() * (1 - arrays["yield_moment"] / size) * arrays["fluidity"]
    torch.testing.assert_close(lost[yields], wanted[yields], rtol=1e-9, atol=1e-12)
    assert (lost[yields] > 0).all()
    assert flow[~yields].abs().max() < 1e-12


def test_flow_is_normal_to_the_surface_of_yield():
    """Of all moments within it none does more work on Ȧ than the one that flows, drawn back to it (maximum dissipation)."""
    x, v, arrays = _state()
    effective, flow = _effective(x, arrays), _flow(x, v, arrays)
    size = _norm(effective, arrays)
    yields = size > arrays["yield_moment"]
    on = effective * (arrays["yield_moment"] / size)[:, None]
    for seed in range(20):
        other = random_normal(N, 3, seed=30 + seed)
        other = other * (arrays["yield_moment"] / _norm(other, arrays))[:, None]
        assert (((on - other) * flow).sum(-1)[yields] > -1e-12).all()


def test_a_vertex_at_rest_feels_no_rigid_motion_and_its_point_no_gravity():
    """s = s̄ + A turned and moved, without hardening."""
    x, _, arrays = _state()
    arrays = arrays | {"hardening": 0 * arrays["hardening"]}
    turned = carried(x[:, :5], seed=20)
    rest = torch.stack([arrays[key] for key in ("rest_curvature1", "rest_curvature2", "rest_twist")], -1)
    still = torch.cat([turned, (rod_bending.strains(x[:, :5]) - rest)[:, None]], 1)
    f = lane_forces(rod_plasticity.FORCE, still, torch.zeros_like(still), arrays)
    assert f[:, :5].abs().max() < 1e-10 * arrays["bending1"].max()
    torch.testing.assert_close(f[:, 5], -arrays["inertia"][:, None] * arrays["gravity"], rtol=0, atol=1e-10)
