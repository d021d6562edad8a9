"""Hinges of sheets: the angle, its gradient, the energy, and what happens flat, shut and collapsed."""

import math

import pytest
import torch
from checks import error
from law_cases import (
    WITHIN,
    carried,
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

from gradsim.errors import InputError
from gradsim.physics.forces import bending

FORCE, N = bending.FORCE, 64
HINGE = torch.tensor([[-0.8, 0.4, 0], [0.7, 0.7, 0], [0, 0, 0], [0, 1, 0]], dtype=torch.float64)


def folded(phi: Tensor) -> Tensor:
    """The flat HINGE, its second triangle turned about the edge until the dihedral angle is φ [rad]."""
    x = HINGE.repeat(len(phi), 1, 1)
    x[:, 1, 0], x[:, 1, 2] = HINGE[1, 0] * phi.cos(), -HINGE[1, 0] * phi.sin()
    return x


def rest_shape(rest: Tensor) -> dict[str, Tensor]:
    return bending.rest_shape(rest.flatten(0, 1), torch.arange(4 * len(rest)).reshape(-1, 4))


@pytest.fixture
def rest() -> Tensor:
    """Hinges of any shape, curved by up to 2.5 rad either way."""
    return carried(folded(torch.linspace(-2.5, 2.5, N).double()) + 0.1 * random_normal(N, 4, 3, seed=3), seed=6)


@pytest.fixture
def arrays(rest) -> dict[str, Tensor]:
    singles = {"stiffness": 5.0, "damping": 0.3}
    arrays = {name: size * random_positive(N, seed=k) for k, (name, size) in enumerate(singles.items())}
    return (
        rest_shape(rest)
        | arrays
        | {
            "activation": torch.linspace(1.5, -1.5, N).double()[
                torch.randperm(N, generator=torch.Generator().manual_seed(9))
            ]
        }
    )


def deformed(seed: int = 13) -> Tensor:
    """All angles but shut ones, other edges and areas than at rest."""
    angles = torch.linspace(2.8, -2.8, N).double()
    return carried(folded(angles) * 1.3 + 0.1 * random_normal(N, 4, 3, seed=seed), seed=14)


def relaxed(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    return arrays | {"activation": torch.zeros(N).double()}


def test_the_angle_of_a_fold_is_that_by_which_it_was_folded():
    phi = torch.linspace(-3.1, 3.1, 63).double()
    assert error(bending.angle(carried(folded(phi), seed=1)), phi) < 1e-12


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_lanes_and_their_derivatives_are_those_of_the_definition(arrays, dtype):
    x, v = deformed(), random_normal(N, 4, 3, seed=15)
    errors = lane_errors(FORCE, x, v, arrays, dtype)
    assert max(errors.values()) < WITHIN[dtype], errors


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_undamped_force_is_minus_the_gradient_of_the_energy(arrays, dtype):
    x = deformed().to(dtype).double()
    arrays = {name: y.to(dtype).double() for name, y in arrays.items()} | {"damping": torch.zeros(N).double()}
    assert error(lane_forces(FORCE, x, x, arrays, dtype), energy_slope(FORCE, x, arrays)) < WITHIN[dtype]


def test_a_fold_is_opened_by_the_papers_sine_over_its_heights():
    """Both vertices of a right-angled fold are pushed across their triangles by w k sin(φ/2) / height, w of the flat."""
    phi = torch.tensor([math.pi / 2], dtype=torch.float64)
    singles = {"stiffness": 2.0, "damping": 0.0, "activation": 0.0}
    arrays = rest_shape(HINGE[None]) | {name: torch.tensor([y]).double() for name, y in singles.items()}
    f = lane_forces(FORCE, folded(phi), torch.zeros(1, 4, 3), arrays)[0]
    push = 2.0 * math.sin(math.pi / 4) / (0.8 + 0.7)  # k sin(φ/2) w, the edge 1 m long and heights 0.8 and 0.7 m
    assert error(f[0], torch.tensor([0, 0, push / 0.8], dtype=torch.float64)) < 1e-14
    assert error(f[1], torch.tensor([push / 0.7, 0, 0], dtype=torch.float64)) < 1e-14


def test_rigid_motion_of_curved_rest_shapes_makes_no_force(rest, arrays):
    x = carried(rest, seed=4)
    v = rigid_velocity(x, seed=5)
    f = lane_forces(FORCE, x, v, relaxed(arrays))
    height = rest_shape(rest)["least_normal"].sqrt() / bending.EPSILON  # twice the smaller area, edges about 1 m long
    scale = (arrays["stiffness"] + arrays["damping"]) / height**2 * x.abs().amax((1, 2))
    assert (f.abs().amax((1, 2)) / scale).max() < 1e-12


def test_rigid_motion_of_a_bent_sheet_is_not_damped(arrays):
    x = deformed()
    moving, still = (lane_forces(FORCE, x, v, arrays) for v in (rigid_velocity(x, seed=5), torch.zeros_like(x)))
    assert error(moving, still) < 1e-12


def test_forces_balance(arrays):
    x = deformed()
    assert imbalance(lane_forces(FORCE, x, random_normal(N, 4, 3, seed=15), arrays), x) < 1e-12


def test_damping_never_adds_energy(arrays):
    x, v = deformed(), random_normal(N, 4, 3, seed=15)
    assert (power(lane_forces(FORCE, x, v, arrays | {"stiffness": torch.zeros(N).double()}), v) < 0).all()


def test_activation_bends_a_sheet_by_twice_itself(rest, arrays):
    """f = 0 at φ = φ0 - 2 α."""
    arrays["activation"] = torch.linspace(-0.2, 0.2, N).double()
    phi = bending.angle(rest) - 2 * arrays["activation"]
    f, bent = (lane_forces(FORCE, folded(phi + by), torch.zeros(N, 4, 3), arrays).abs() for by in (0, 0.01))
    assert f.max() < 1e-12 * arrays["stiffness"].max()
    assert (bent.amax((1, 2)) > 1e-3 * arrays["stiffness"]).all()


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_a_flat_sheet_has_the_right_derivative_and_it_is_not_zero(dtype):
    """f = -w k (½ ∇φ · δx) ∇φ near a flat sheet at rest: through acos, as in the original release, it would be 0."""
    flat = carried(HINGE.repeat(N, 1, 1), seed=1).to(dtype).double()
    singles = {"stiffness": 2.0, "damping": 0.3, "activation": 0.0}
    arrays = {name: torch.full((N,), y).double() for name, y in singles.items()}
    shape = rest_shape(HINGE.repeat(N, 1, 1))
    probe, v = random_normal(N, 4, 3, seed=2).to(dtype).double(), torch.zeros(N, 4, 3)
    slope = lane_gradients(FORCE, flat, v, shape | arrays, probe, dtype)["x"]
    at = flat.clone().requires_grad_()
    (steep,) = torch.autograd.grad(bending.angle(at).sum(), at)
    wanted = -0.5 * 2.0 * shape["weight"][:, None, None] * (steep * probe).sum((1, 2), keepdim=True) * steep
    assert error(slope, wanted) < WITHIN[dtype]


def test_a_sheet_that_folds_shut_has_forces_that_change_steadily():
    """Over the last thousandth of a radian, from w k / height to minus that."""
    phi = math.pi + torch.linspace(-2e-3, 2e-3, 401, dtype=torch.float64)
    singles = {"stiffness": 2.0, "damping": 0.0, "activation": 0.0}
    arrays = {name: torch.full((401,), y).double() for name, y in singles.items()} | rest_shape(HINGE.repeat(401, 1, 1))
    across = lane_forces(FORCE, folded(phi), torch.zeros(401, 4, 3), arrays)[:, 0, 2] * 0.8 * 1.5 / 2.0
    assert (across[:100] - 1).abs().max() < 1e-5
    assert (across[-100:] + 1).abs().max() < 1e-5
    assert across[200].abs() < 1e-12
    assert across.diff().abs().max() < 0.011  # a step of 1e-5 rad, over 1e-3


@pytest.mark.parametrize("top", [0, 1])
def test_a_triangle_that_collapses_lets_go_without_a_torque(arrays, top):
    x = deformed()
    foot, away = 0.3 * x[:, 2] + 0.7 * x[:, 3], x[:, top].clone()
    sizes = []
    for height in torch.logspace(0, -6, 25):
        x[:, top] = torch.lerp(foot, away, height.double())
        f = lane_forces(FORCE, x, torch.zeros_like(x), arrays)
        assert imbalance(f, x) < 1e-9  # torques are small differences of forces that grow as 1/height
        sizes.append(f[:, top].norm(dim=-1))
    sizes = torch.stack(sizes)
    assert (sizes.amax(0) > 10 * sizes[0]).all()
    assert (sizes[-1] < 0.05 * sizes.amax(0)).all()


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("state", ["shut", "one point", "no edge", "a line", "a triangle without area", "a speck"])
def test_collapsed_and_shut_hinges_have_finite_forces_and_derivatives(arrays, dtype, state):
    x, v = deformed(), random_normal(N, 4, 3, seed=15)
    if state == "shut":
        x = carried(folded(torch.full((N,), math.pi, dtype=torch.float64)), seed=1)
        x[: N // 2, 1] = x[: N // 2, 0]  # exactly, not only to rounding
    elif state == "one point":
        x = x[:, :1].expand(N, 4, 3)
    elif state == "no edge":
        x = x[:, [0, 1, 2, 2]]
    elif state == "a speck":
        x = 1e-8 * x
    else:
        x[:, 0] = 0.3 * x[:, 2] + 0.7 * x[:, 3]
        if state == "a line":
            x[:, 1] = 2 * x[:, 2] - x[:, 3]
    out = lane_gradients(FORCE, x, v, arrays, random_normal(N, 4, 3, seed=16), dtype)
    for y in [lane_forces(FORCE, x, v, arrays, dtype), *out.values()]:
        assert y.isfinite().all()


def test_bad_hinges_are_named():
    x = torch.cat([HINGE, torch.tensor([[0.0, 2, 0], [-0.5, 0.2, 0]]).double()])
    with pytest.raises(InputError, match=r"hinge 1 has a triangle of area 0 m² .*\[4, 1, 2, 3\].*merge"):
        bending.rest_shape(x, torch.tensor([[0, 1, 2, 3], [4, 1, 2, 3]]))
    with pytest.raises(InputError, match=r"hinge 1 is folded by 180° .*\[0, 5, 2, 3\].*open it"):
        bending.rest_shape(x, torch.tensor([[0, 1, 2, 3], [0, 5, 2, 3]]))
