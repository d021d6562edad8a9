"""Damped springs: against Hooke's law, the energy, and what no inner force may do."""

import pytest
import torch
from checks import error
from law_cases import (
    WITHIN,
    energy_slope,
    imbalance,
    lane_errors,
    lane_forces,
    lane_gradients,
    power,
    random_normal,
    random_positive,
    rigid_velocity,
)
from torch import Tensor

from gradsim.physics.forces import spring

FORCE, N = spring.FORCE, 64


@pytest.fixture
def state() -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Stretched and shortened springs in all directions, moving."""
    singles = {"rest_length": 1.0, "stiffness": 100.0, "damping": 2.0}
    arrays = {name: size * random_positive(N, seed=k) for k, (name, size) in enumerate(singles.items())}
    return random_normal(N, 2, 3, seed=11), random_normal(N, 2, 3, seed=12), arrays


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_lanes_and_their_derivatives_are_those_of_the_definition(state, dtype):
    x, v, arrays = state
    assert max(lane_errors(FORCE, x, v, arrays, dtype).values()) < WITHIN[dtype]


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_undamped_force_is_minus_the_gradient_of_the_energy(state, dtype):
    x, v, arrays = state
    x, arrays = x.to(dtype).double(), {name: y.to(dtype).double() for name, y in arrays.items()}
    arrays["damping"] = torch.zeros(N).double()
    assert error(lane_forces(FORCE, x, v, arrays, dtype), energy_slope(FORCE, x, arrays)) < WITHIN[dtype]


def test_force_and_damping_are_those_of_a_spring_along_an_axis():
    x = torch.tensor([[[0.0, 0, 0], [0, 0, 1.5]]]).double()
    v = torch.tensor([[[0.0, 0, 0], [3.0, 0, 0.25]]]).double()  # across, too: seen by neither law
    arrays = {"rest_length": torch.ones(1), "stiffness": torch.full((1,), 80.0), "damping": torch.full((1,), 5.0)}
    f = lane_forces(FORCE, x, v, arrays)
    assert error(f[0], torch.tensor([[0.0, 0, 41.25], [0, 0, -41.25]])) < 1e-15  # 80 · 0.5 + 5 · 0.25


def test_rigid_motion_of_springs_at_rest_makes_no_force(state):
    x, _, arrays = state
    arrays["rest_length"] = spring.rest_length(x.flatten(0, 1), torch.arange(2 * N).reshape(N, 2))
    f = lane_forces(FORCE, x, rigid_velocity(x, seed=5), arrays)
    assert f.abs().max() < 1e-12 * (arrays["stiffness"] * arrays["rest_length"]).max()


def test_forces_balance(state):
    x, v, arrays = state
    assert imbalance(lane_forces(FORCE, x, v, arrays), x) < 1e-12


def test_damping_never_adds_energy(state):
    x, v, arrays = state
    lost = power(lane_forces(FORCE, x, v, arrays | {"stiffness": torch.zeros(N).double()}), v)
    assert (lost <= 0).all()
    assert (lost < 0).sum() == N


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("length", [0.0, 1e-30, 1e-12])
def test_a_spring_of_no_length_has_finite_force_and_derivatives(state, dtype, length):
    x, v, arrays = state
    x = torch.tensor([[0.0], [1.0]]) * length * random_normal(N, 1, 3, seed=7)
    arrays["rest_length"][: N // 2] = 0
    out = lane_gradients(FORCE, x, v, arrays, v, dtype)
    assert all(y.isfinite().all() for y in [lane_forces(FORCE, x, v, arrays, dtype), *out.values()])


def test_a_spring_of_rest_length_zero_is_linear_through_zero(state):
    _, v, arrays = state
    x = torch.zeros(N, 2, 3).double()
    arrays |= {"rest_length": torch.zeros(N).double(), "damping": torch.zeros(N).double()}
    probe = random_normal(N, 2, 3, seed=8)
    slope = lane_gradients(FORCE, x, v, arrays, probe)["x"]
    wanted = arrays["stiffness"][:, None] * (probe[:, 0] - probe[:, 1])
    assert error(slope, torch.stack([-wanted, wanted], 1)) < 1e-15
