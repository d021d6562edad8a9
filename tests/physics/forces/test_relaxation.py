"""One Maxwell branch of soft solids: against autograd of its energy, and objective."""

import pytest
import torch
from checks import error
from law_cases import WITHIN, energy_slope, lane_errors, lane_forces, random_normal, random_positive, random_rotations
from torch import Tensor

from gradsim.physics.forces import neo_hookean, neo_hookean_quadratic, relaxation, relaxation_quadratic

N = 24
LAWS = {"linear": relaxation, "quadratic": relaxation_quadratic}
CORNERS = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]).double()


def _state(law: str) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Deformed and moving elements with a strain A that is not theirs."""
    rest = CORNERS + 0.1 * random_normal(N, 4, 3, seed=1)
    if law == "quadratic":
        a, b = torch.tensor(neo_hookean_quadratic.EDGES).T
        rest = torch.cat([rest, (rest[:, a] + rest[:, b]) / 2], 1)
    x = rest @ (torch.eye(3).double() + 0.2 * random_normal(3, 3, seed=2)) + 0.05 * random_normal(*rest.shape, seed=3)
    symmetric = random_normal(N, 3, 3, seed=4)
    strain = torch.eye(3).double() + 0.1 * (symmetric + symmetric.mT)
    x = torch.cat([x, strain.mT], 1)
    shape = neo_hookean.rest_shape(rest[:, :4].flatten(0, 1), torch.arange(4 * N).reshape(-1, 4))
    shape["volume"] = shape["volume"] / (4 if law == "quadratic" else 1)
    numbers = {"mu": 3.0, "lam": 5.0, "rate": 2.0, "response": 40.0, "inertia": 0.1}
    arrays = {name: size * random_positive(N, seed=10 + k) for k, (name, size) in enumerate(numbers.items())}
    return x, random_normal(*x.shape, seed=5), {**shape, **arrays, "gravity": random_normal(N, 3, seed=6)}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_lanes_and_their_derivatives_are_those_of_the_definition(law, dtype):
    assert max(lane_errors(LAWS[law].FORCE, *_state(law), dtype).values()) < 10 * WITHIN[dtype]


@pytest.mark.parametrize("law", LAWS)
def test_force_on_the_vertices_is_minus_the_gradient_of_the_energy(law):
    force, (x, v, arrays) = LAWS[law].FORCE, _state(law)
    real = force.nodes - 3
    f = lane_forces(force, x, v, arrays, torch.float64)
    slope = energy_slope(force, x, arrays)
    assert error(f[:, :real], slope[:, :real]) < 1e-12


@pytest.mark.parametrize("law", LAWS)
def test_branch_feels_no_rigid_motion_and_a_point_no_gravity(law):
    x, _, arrays = _state(law)
    real = x.shape[1] - 3
    corners = x if law == "linear" else relaxation_quadratic.corners(x)
    C = relaxation.squared_strain(corners, arrays["rest"])
    still = torch.cat([x[:, :real] @ random_rotations(N, 7).mT, C.mT], 1)
    f = lane_forces(LAWS[law].FORCE, still, torch.zeros_like(x), arrays, torch.float64)
    weight = arrays["inertia"][:, None, None] * arrays["gravity"][:, None]
    assert f[:, :real].abs().max() < 1e-12 * arrays["mu"].max()
    torch.testing.assert_close(f[:, real:], -weight.expand(-1, 3, -1), rtol=0, atol=1e-11)


def test_power_lost_in_creep_is_twice_the_energy_over_the_time():
    """-dΨ/dt at a strain that lasts, with Ȧ = D/τ."""
    x, _, arrays = _state("linear")
    D = relaxation.squared_strain(x, arrays["rest"]) - x[:, 4:].mT
    a = x[:, 4:].clone().requires_grad_()
    psi = relaxation.energy(torch.cat([x[:, :4], a], 1), **arrays)
    (slope,) = torch.autograd.grad(psi.sum(), a)
    lost = -(slope * (D.mT * arrays["rate"][:, None, None])).sum((-2, -1))
    torch.testing.assert_close(lost, 2 * psi.detach() * arrays["rate"], rtol=1e-12, atol=0)
    assert (lost >= 0).all()
