"""Springs from vertices to planes."""

import pytest
import torch
from checks import error
from law_cases import (
    WITHIN,
    energy_slope,
    lane_errors,
    lane_forces,
    power,
    random_normal,
    random_positive,
)
from torch import Tensor

from gradsim.physics.forces import plane_constraint

FORCE, N = plane_constraint.FORCE, 32


@pytest.fixture
def state() -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    arrays = {"stiffness": 100 * random_positive(N, seed=1), "damping": 2 * random_positive(N, seed=2)}
    arrays |= {"point": random_normal(N, 3, seed=3)}
    arrays |= {"normal": torch.nn.functional.normalize(random_normal(N, 3, seed=5), dim=-1)}
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


def test_damping_takes_the_power_of_a_damper_across_the_plane(state):
    x, v, arrays = state
    lost = power(lane_forces(FORCE, x, v, arrays | {"stiffness": torch.zeros(N).double()}), v)
    speed = (v[:, 0] * arrays["normal"]).sum(1)
    assert error(lost, -arrays["damping"] * speed.square()) < 1e-14


def test_a_vertex_is_free_along_the_plane(state):
    x, v, arrays = state
    side = torch.linalg.cross(arrays["normal"], random_normal(N, 3, seed=6))[:, None]
    f = lane_forces(FORCE, x, v, arrays)
    assert error(lane_forces(FORCE, x + side, v + 2 * side, arrays), f) < 1e-13
    assert ((f * side).sum((1, 2)).abs() < 4e-16 * f.norm(dim=(1, 2)) * side.norm(dim=(1, 2))).all()  # three roundings
