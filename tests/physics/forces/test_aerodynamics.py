"""Lift and drag on triangles: the plate face-on and edge-on, the power, and still air."""

import math

import pytest
import torch
from checks import central_difference, error
from law_cases import WITHIN, lane_errors, lane_forces, lane_gradients, random_normal, random_positive
from torch import Tensor, linalg

from gradsim.physics.forces import aerodynamics

FORCE, N = aerodynamics.FORCE, 64
PLATE = torch.tensor([[0.3, 0.1, 0], [1.1, 0.2, 0], [0.5, 0.9, 0]], dtype=torch.float64)
AREA = 0.5 * (0.8 * 0.8 - 0.1 * 0.2)


@pytest.fixture
def state() -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    arrays = {name: random_positive(N, seed=k) for k, name in enumerate(("density", "drag", "lift"))}
    return (
        random_normal(N, 3, 3, seed=11),
        random_normal(N, 3, 3, seed=12),
        arrays | {"wind": random_normal(N, 3, seed=13)},
    )


def plates(speed: float, inclined: Tensor, drag: float, lift: float) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """PLATE in the xy plane of still air, moving at angles β to it towards +x and +z."""
    n = len(inclined)
    velocity = speed * torch.stack([inclined.cos(), torch.zeros(n).double(), inclined.sin()], 1)
    singles = {"density": 1.2, "drag": drag, "lift": lift}
    arrays = {name: torch.full((n,), y, dtype=torch.float64) for name, y in singles.items()}
    return PLATE.repeat(n, 1, 1), velocity[:, None].repeat(1, 3, 1), arrays | {"wind": torch.zeros(n, 3).double()}


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_lanes_and_their_derivatives_are_those_of_the_definition(state, dtype):
    x, v, arrays = state
    errors = lane_errors(FORCE, x, v, arrays, dtype)
    assert max(errors.values()) < WITHIN[dtype], errors


def test_a_plate_has_the_drag_and_lift_of_its_coefficients():
    """½ ρ A v² times C_D sin²β against the motion, C_L sin β cos β across it."""
    inclined = torch.linspace(-math.pi, math.pi, 33, dtype=torch.float64)  # with edge-on and face-on, from both sides
    x, v, arrays = plates(3.0, inclined, drag=1.1, lift=0.7)
    f, (along_x, _, along_z) = lane_forces(FORCE, x, v, arrays).sum(1), v[:, 0].T / 3
    pressure = 0.5 * 1.2 * AREA * 9
    against, across = f[:, 0] * along_x + f[:, 2] * along_z, f[:, 2] * along_x - f[:, 0] * along_z
    assert error(against, -pressure * 1.1 * inclined.sin() ** 2) < 1e-14
    assert error(across, -pressure * 0.7 * inclined.sin() * inclined.cos()) < 1e-14
    assert not f[:, 1].any()


def test_with_equal_coefficients_the_force_is_along_the_normal(state):
    x, v, arrays = state
    f = lane_forces(FORCE, x, v, arrays | {"lift": arrays["drag"]}).sum(1)
    normal = linalg.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0])
    assert (linalg.cross(f, normal).norm(dim=1) / (f.norm(dim=1) * normal.norm(dim=1))).max() < 1e-12


def test_drag_takes_energy_relative_to_the_wind_and_lift_none(state):
    x, v, arrays = state
    relative = v - arrays["wind"][:, None]
    nothing = torch.zeros(N).double()
    dragged = (lane_forces(FORCE, x, v, arrays) * relative).sum((1, 2))
    lifted = lane_forces(FORCE, x, v, arrays | {"drag": nothing})
    assert (dragged < 0).all()
    assert ((lifted * relative).sum((1, 2)).abs() / (lifted.norm(dim=(1, 2)) * relative.norm(dim=(1, 2)))).max() < 1e-14


def test_only_motion_relative_to_the_wind_counts_and_neither_side_is_the_front(state):
    x, v, arrays = state
    f = lane_forces(FORCE, x, v, arrays)
    still = lane_forces(FORCE, x, v - arrays["wind"][:, None], arrays | {"wind": torch.zeros(N, 3).double()})
    assert error(still, f) < 1e-14
    assert error(lane_forces(FORCE, x[:, [0, 2, 1]], v, arrays), f) < 1e-14


@pytest.mark.parametrize("angle", [0.0, math.pi / 2], ids=["edge-on", "face-on"])
def test_derivatives_edge_on_and_face_on_are_those_of_central_differences(angle):
    """The original release differentiates |n · u| wrongly here, by 108 to 183 %."""
    x, v, arrays = plates(3.0, torch.tensor([angle], dtype=torch.float64), drag=1.1, lift=0.7)
    probe = random_normal(1, 3, 3, seed=3)
    given = [x, v, arrays["wind"]]
    force = lambda x, v, wind: [lane_forces(FORCE, x, v, arrays | {"wind": wind})]
    found = lane_gradients(FORCE, x, v, arrays, probe)
    for k, name in enumerate(("x", "v", "wind")):
        for unit in torch.eye(given[k].numel()).double():
            along = [torch.zeros_like(y) for y in given]
            along[k] = unit.reshape(given[k].shape)
            (slope,) = central_difference(force, given, along, 1e-3)
            assert abs((slope * probe).sum() - (found[name] * along[k]).sum()) < 1e-9  # a fourth-order error of 1e-12


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_still_air_and_collapsed_triangles_have_no_force_and_finite_derivatives(state, dtype):
    x, v, arrays = state
    with_the_wind = arrays["wind"][:, None].repeat(1, 3, 1)
    scale = lane_forces(FORCE, x, v, arrays).abs().max()
    point, line = x[:, :1].expand(N, 3, 3), torch.stack([x[:, 0], x[:, 1], 2 * x[:, 1] - x[:, 0]], 1)
    for y, u in ((x, with_the_wind), (point, v), (line, v), (point, with_the_wind), (1e-10 * x, 1e-10 * v)):
        f, slopes = lane_forces(FORCE, y, u, arrays, dtype), lane_gradients(FORCE, y, u, arrays, v, dtype)
        assert f.abs().max() < WITHIN[dtype] * scale
        assert all(slope.isfinite().all() for slope in slopes.values())


def test_still_air_tells_nothing_of_drag_and_does_not_damp_small_motions(state):
    x, _, arrays = state
    still = torch.zeros(N, 3, 3).double()
    out = lane_gradients(FORCE, x, still, arrays | {"wind": torch.zeros(N, 3).double()}, random_normal(N, 3, 3, seed=3))
    assert not out["drag"].any()
    assert out["v"].abs().max() < 1e-10
