"""Bending and twist of rods, and what holds their frames: against autograd of the energies, and closed forms of strains."""

import math

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

from gradsim.physics.forces import rod_bending, rod_frame

N = 32
SIZES = dict(zip(rod_bending.FORCE.parameters, (0.3, -0.2, 0.4, 2.0, 3.0, 1.5, 0.2, 0.3, 0.1), strict=True))
LAWS = {"bending": (rod_bending, SIZES), "frame": (rod_frame, {"arm": 0.3, "stiffness": 50.0, "damping": 2.0})}
NODES = {
    "bending": [[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [0.5, 0.4, 0], [1.5, 0.3, 0.2]],
    "frame": [[0.0, 0, 0], [1, 0, 0], [0.5, 0.4, 0]],
}


def _state(law: str) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Bent, twisted and stretched elements with frame points off their circles, moving."""
    nodes = torch.tensor(NODES[law]).double()
    x = nodes + 0.08 * random_normal(N, *nodes.shape, seed=11)
    arrays = {name: size * random_positive(N, seed=k) for k, (name, size) in enumerate(LAWS[law][1].items())}
    return x, random_normal(N, *nodes.shape, seed=12), arrays


def _undamped(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: y * (0.0 if "damping" in name else 1.0) for name, y in arrays.items()}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_lanes_and_their_derivatives_are_those_of_the_definition(law, dtype):
    x, v, arrays = _state(law)
    if law == "bending":  # the reference takes derivatives itself, so it has no second ones: forces alone
        assert error(lane_forces(rod_bending.FORCE, x, v, arrays, dtype), _reference(x, v, arrays)) < 10 * WITHIN[dtype]
    else:
        assert max(lane_errors(rod_frame.FORCE, x, v, arrays, dtype).values()) < WITHIN[dtype]


def _reference(x: Tensor, v: Tensor, arrays: dict[str, Tensor]) -> Tensor:
    return rod_bending.reference(x, v, *arrays.values())


def test_the_derivative_of_the_virtual_power_is_that_of_differences():
    x, v, arrays = _state("bending")
    probe, along = random_normal(*x.shape, seed=5), random_normal(*x.shape, seed=6)
    out = lane_gradients(rod_bending.FORCE, x, v, arrays, probe)
    total = lambda y, u, given=arrays: (_reference(y, u, given) * probe).sum()
    h = 1e-5
    by_x = (total(x + h * along, v) - total(x - h * along, v)) / (2 * h)
    assert abs((out["x"] * along).sum() - by_x) < 1e-7 * abs(by_x)
    by_v = (total(x, v + along) - total(x, v - along)) / 2  # linear
    assert abs((out["v"] * along).sum() - by_v) < 1e-11 * abs(by_v)
    for name in arrays:  # linear, too
        more, less = (arrays | {name: arrays[name] + sign} for sign in (1.0, -1.0))
        by = (total(x, v, more) - total(x, v, less)) / 2
        assert abs(out[name].sum() - by) < 1e-10 * max(abs(by), 1.0), name


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_undamped_force_is_minus_the_gradient_of_the_energy(law, dtype):
    force, (x, v, arrays) = LAWS[law][0].FORCE, _state(law)
    x, arrays = x.to(dtype).double(), {name: y.to(dtype).double() for name, y in _undamped(arrays).items()}
    assert error(lane_forces(force, x, v, arrays, dtype), energy_slope(force, x, arrays)) < 10 * WITHIN[dtype]


@pytest.mark.parametrize("law", LAWS)
def test_forces_balance_and_damping_never_adds_energy(law):
    force, (x, v, arrays) = LAWS[law][0].FORCE, _state(law)
    assert imbalance(lane_forces(force, x, v, arrays), x) < 1e-11
    lossy = {name: y if "damping" in name or name == "arm" else 0.0 * y for name, y in arrays.items()}
    assert (power(lane_forces(force, x, v, lossy), v) < 0).all()


@pytest.mark.parametrize("law", LAWS)
def test_rigid_motion_meets_no_damping(law):
    force, (x, _, arrays) = LAWS[law][0].FORCE, _state(law)
    lossy = {name: y if "damping" in name or name == "arm" else 0.0 * y for name, y in arrays.items()}
    turning = rigid_velocity(x, seed=3)
    assert (
        lane_forces(force, x, turning, lossy).abs().max()
        < 1e-11 * lane_forces(force, x, random_normal(*x.shape, seed=4), lossy).abs().max()
    )


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_nodes_in_one_place_have_finite_forces_and_derivatives(law, dtype):
    force, (x, v, arrays) = LAWS[law][0].FORCE, _state(law)
    out = lane_gradients(force, 0 * x, v, arrays, v, dtype)
    assert all(y.isfinite().all() for y in [lane_forces(force, 0 * x, v, arrays, dtype), *out.values()])


def test_strains_are_those_of_a_helix():
    """|κ| = R/(R² + c²) and torsion c/(R² + c²) of a helix with pitch 2π c, whose Frenet frame twists by the torsion."""
    R, c, n = 0.8, 0.3, 2000
    a = torch.linspace(0, 1, n + 1, dtype=torch.float64)
    x = torch.stack([R * a.cos(), R * a.sin(), c * a], -1)
    middle = (a[1:] + a[:-1]) / 2
    inward = -torch.stack([middle.cos(), middle.sin(), 0 * middle], -1)
    frame = (x[1:] + x[:-1]) / 2 + 0.01 * inward
    nodes = torch.stack([x[:-2], x[1:-1], x[2:], frame[:-1], frame[1:]], -2)
    length = (x[1] - x[0]).norm()
    found = rod_bending.strains(nodes) / length
    # d1 is the normal, d2 the binormal: the curvature is about d2, so κ1 = κ and κ2 = 0
    wanted = torch.tensor([R, 0.0, c], dtype=torch.float64) / (R**2 + c**2)
    assert (found - wanted).abs().max() < 1e-6  # the error of second order in the length of an edge, 4e-4


def test_the_twist_of_a_straight_rod_is_the_angle_between_its_frames():
    angle = 0.7
    x = torch.tensor([[[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [0.5, 0.2, 0], [1.5, 0.2, 0]]]).double()
    x[0, :, 1:] = 0.0
    x[0, 3, 1], x[0, 4, 1], x[0, 4, 2] = 0.25, 0.25 * math.cos(angle), 0.25 * math.sin(angle)
    assert (
        error(rod_bending.strains(x), torch.tensor([[0.0, 0.0, 2 * math.tan(angle / 2)]], dtype=torch.float64)) < 1e-14
    )
