"""Plastic bending of vertices of rods and of hinges: against autograd of the energy, yield, dissipation, and rigid motions."""

import pytest
import torch
from checks import error
from law_cases import WITHIN, carried, energy_slope, lane_errors, lane_forces, random_normal, random_positive
from torch import Tensor

from gradsim.physics.forces import bending, bending_plasticity, rod_bending, rod_plasticity

N = 48
LAWS = {"rod": rod_plasticity, "hinge": bending_plasticity}
NODES = {
    "rod": [[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [0.5, 0.4, 0], [1.5, 0.3, 0.2]],
    "hinge": [[-0.8, 0.4, 0], [0.7, 0.7, 0.2], [0, 0, 0], [0, 1, 0]],
}
FLOW = {"fluidity": 3.0, "response": 40.0, "inertia": 0.1}
NUMBERS = {
    "rod": dict(zip(rod_bending.FORCE.parameters, (0.3, -0.2, 0.4, 2.0, 3.0, 1.5, 0.2, 0.3, 0.1), strict=True))
    | {"yield_moment": 0.8, "twist_weight": 0.7, "hardening": 0.4, **FLOW},
    "hinge": {"stiffness": 4.0, "damping": 0.3, "activation": 0.1, "yield_moment": 0.5, "hardening": 0.4, **FLOW},
}


def _state(kind: str) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Deformed and moving elements with plastic strains of their own; some yield, others do not."""
    rest = torch.tensor(NODES[kind]).double()
    rest = rest + 0.08 * random_normal(N, *rest.shape, seed=1)
    x = carried(rest + 0.08 * random_normal(*rest.shape, seed=3), seed=4)
    arrays = {name: size * random_positive(N, seed=10 + k) for k, (name, size) in enumerate(NUMBERS[kind].items())}
    if kind == "hinge":
        index = torch.arange(4 * N).reshape(N, 4)
        arrays = bending.rest_shape(rest.flatten(0, 1), index) | arrays
        A = 0.4 * random_normal(N, 3, seed=5) * torch.tensor([1.0, 0, 0])
        arrays["activation"] = arrays["activation"].clamp(max=0.5)
    else:
        A = rod_bending.strains(x) + 0.4 * random_normal(N, 3, seed=5)
    x = torch.cat([x, A[:, None]], 1)
    return x, random_normal(*x.shape, seed=6), arrays | {"gravity": random_normal(N, 3, seed=7)}


def _effective(kind: str, x: Tensor, arrays: dict[str, Tensor]) -> Tensor:
    """M̂ (N, 3), by its definition as the thermodynamic force of A."""
    return energy_slope(LAWS[kind].FORCE, x, arrays)[:, -1]


def _norm(effective: Tensor, arrays: dict[str, Tensor]) -> Tensor:
    one = torch.ones(N).double()
    return (effective.square().T * torch.stack([one, one, arrays.get("twist_weight", one)])).sum(0).sqrt()


def _flow(kind: str, x: Tensor, v: Tensor, arrays: dict[str, Tensor]) -> Tensor:
    """Ȧ that the point is drawn to, from the lanes: its force is m/θ (flow - Ȧ) - m g."""
    f = lane_forces(LAWS[kind].FORCE, x, v, arrays)[:, -1] + arrays["inertia"][:, None] * arrays["gravity"]
    return f / (arrays["inertia"] * arrays["response"])[:, None] + v[:, -1]


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_lanes_and_their_derivatives_are_those_of_the_definition(kind, dtype):
    x, v, arrays = _state(kind)
    yields = _norm(_effective(kind, x, arrays), arrays) > arrays["yield_moment"]
    assert 0.2 * N < yields.sum() < 0.8 * N
    assert max(lane_errors(LAWS[kind].FORCE, x, v, arrays, dtype).values()) < 20 * WITHIN[dtype]


@pytest.mark.parametrize("kind", LAWS)
def test_force_on_the_vertices_is_minus_the_gradient_of_the_energy(kind):
    x, v, arrays = _state(kind)
    still = arrays | {name: 0 * y for name, y in arrays.items() if "damping" in name}
    f, slope = lane_forces(LAWS[kind].FORCE, x, v, still), energy_slope(LAWS[kind].FORCE, x, still)
    assert error(f[:, :-1], slope[:, :-1]) < 1e-11


@pytest.mark.parametrize("kind", LAWS)
def test_what_yields_loses_energy_and_what_does_not_keeps_its_shape(kind):
    """M̂·Ȧ = N² (1 - M_y/N)/(k1 T) where N > M_y; elsewhere Ȧ = 0."""
    x, v, arrays = _state(kind)
    effective = _effective(kind, x, arrays)
    flow, size = _flow(kind, x, v, arrays), _norm(effective, arrays)
    lost, yields = (effective * flow).sum(-1), size > arrays["yield_moment"]
    wanted = size.square() * (1 - arrays["yield_moment"] / size) * arrays["fluidity"]
    torch.testing.assert_close(lost[yields], wanted[yields], rtol=1e-9, atol=1e-12)
    assert (lost[yields] > 0).all()
    assert flow[~yields].abs().max() < 1e-12


def test_flow_is_normal_to_the_surface_of_yield():
    """No other moment within it does more work on Ȧ than the one that flows, drawn back to it (maximum dissipation)."""
    x, v, arrays = _state("rod")
    effective, flow = _effective("rod", x, arrays), _flow("rod", x, v, arrays)
    size = _norm(effective, arrays)
    yields = size > arrays["yield_moment"]
    on = effective * (arrays["yield_moment"] / size)[:, None]
    for seed in range(20):
        other = random_normal(N, 3, seed=30 + seed)
        other = other * (arrays["yield_moment"] / _norm(other, arrays))[:, None]
        assert (((on - other) * flow).sum(-1)[yields] > -1e-12).all()


@pytest.mark.parametrize("kind", LAWS)
def test_an_element_at_rest_feels_no_rigid_motion_and_its_point_no_gravity(kind):
    """s = s̄ + A turned and moved, without hardening and activation."""
    x, _, arrays = _state(kind)
    arrays = arrays | {name: 0 * arrays[name] for name in ("hardening", "activation") if name in arrays}
    turned = carried(x[:, :-1], seed=20)
    if kind == "rod":
        rest = torch.stack([arrays[key] for key in ("rest_curvature1", "rest_curvature2", "rest_twist")], -1)
        A = rod_bending.strains(x[:, :-1]) - rest
    else:
        A = torch.zeros(N, 3).double()
        A[:, 0] = bending.angle(x[:, :-1]) - 2 * torch.atan2(arrays["sin_half"], arrays["cos_half"])
    still = torch.cat([turned, A[:, None]], 1)
    f = lane_forces(LAWS[kind].FORCE, still, torch.zeros_like(still), arrays)
    assert f[:, :-1].abs().max() < 1e-9
    torch.testing.assert_close(f[:, -1], -arrays["inertia"][:, None] * arrays["gravity"], rtol=0, atol=1e-9)
