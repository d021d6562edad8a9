"""Springs from vertices to fixed points."""

import pytest
import torch
from checks import error
from law_cases import (
    WITHIN,
    energy_slope,
    lane_errors,
    lane_forces,
    lane_gradients,
    power,
    random_normal,
    random_positive,
)
from torch import Tensor

from gradsim.physics.forces import anchor

FORCE, N = anchor.FORCE, 32


@pytest.fixture
def state() -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    arrays = {"stiffness": 100 * random_positive(N, seed=1), "damping": 2 * random_positive(N, seed=2)}
    arrays |= {"point": random_normal(N, 3, seed=3)}
    return random_normal(N, 1, 3, seed=11), random_normal(N, 1, 3, seed=12), arrays


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


def test_damping_takes_the_power_of_a_linear_damper(state):
    x, v, arrays = state
    lost = power(lane_forces(FORCE, x, v, arrays | {"stiffness": torch.zeros(N).double()}), v)
    assert error(lost, -arrays["damping"] * v.square().sum((1, 2))) < 1e-15


def test_a_vertex_at_its_point_rests_and_is_held_as_stiffly_as_elsewhere(state):
    _, _, arrays = state
    x, still, probe = arrays["point"][:, None], torch.zeros(N, 1, 3).double(), random_normal(N, 1, 3, seed=4)
    assert not lane_forces(FORCE, x, still, arrays).any()
    slope = lane_gradients(FORCE, x, still, arrays, probe)["x"]
    assert error(slope, -arrays["stiffness"][:, None, None] * probe) < 1e-15
