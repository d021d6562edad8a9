"""Triangles in their plane: the energy, the linearised moduli, and what no inner force may do."""

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
    random_rotations,
    rigid_velocity,
)
from torch import Tensor

from gradsim.errors import InputError
from gradsim.physics.forces import membrane

FORCE, N = membrane.FORCE, 64


@pytest.fixture
def rest() -> Tensor:
    """Triangles of any shape, in any plane; the thinnest has an angle of some degrees."""
    drawn = random_normal(4 * N, 3, 3, seed=3)
    shape = membrane.rest_shape(drawn.flatten(0, 1), torch.arange(12 * N).reshape(4 * N, 3))
    return drawn[shape["area"].argsort(descending=True)[:N]]


@pytest.fixture
def arrays(rest) -> dict[str, Tensor]:
    singles = {"mu": 100.0, "lam": 300.0, "damping": 3.0}
    arrays = {name: size * random_positive(N, seed=k) for k, (name, size) in enumerate(singles.items())}
    return rest_shape(rest) | arrays | {"activation": 0.2 * random_normal(N, seed=9)}


def rest_shape(rest: Tensor) -> dict[str, Tensor]:
    return membrane.rest_shape(rest.flatten(0, 1), torch.arange(3 * len(rest)).reshape(-1, 3))


def deformed(rest: Tensor) -> Tensor:
    return carried(rest + 0.3 * random_normal(*rest.shape, seed=13), seed=14)


def relaxed(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    return arrays | {"activation": torch.zeros(N).double()}


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_lanes_and_their_derivatives_are_those_of_the_definition(rest, arrays, dtype):
    errors = lane_errors(FORCE, deformed(rest), random_normal(N, 3, 3, seed=15), arrays, dtype)
    assert max(errors.values()) < WITHIN[dtype], errors


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_undamped_force_is_minus_the_gradient_of_the_energy(rest, arrays, dtype):
    x = deformed(rest).to(dtype).double()
    arrays = {name: y.to(dtype).double() for name, y in arrays.items()} | {"damping": torch.zeros(N).double()}
    assert error(lane_forces(FORCE, x, x, arrays, dtype), energy_slope(FORCE, x, arrays)) < WITHIN[dtype]


def test_rigid_motion_of_the_rest_shape_makes_no_force(rest, arrays):
    x = carried(rest, seed=4)
    f = lane_forces(FORCE, x, rigid_velocity(x, seed=5), relaxed(arrays))
    steep = torch.stack([arrays["inverse_00"], arrays["inverse_01"].abs(), arrays["inverse_11"]]).amax(0)  # 1/height
    scale = (arrays["mu"] + arrays["lam"]) * arrays["area"] * steep**2 * x.abs().amax((1, 2))
    assert (f.abs().amax((1, 2)) / scale).max() < 1e-12


def test_rigid_motion_of_a_deformed_triangle_is_not_damped(rest, arrays):
    x = deformed(rest)
    moving, still = (lane_forces(FORCE, x, v, arrays) for v in (rigid_velocity(x, seed=5), torch.zeros_like(x)))
    assert error(moving, still) < 1e-12


def test_forces_balance(rest, arrays):
    x = deformed(rest)
    assert imbalance(lane_forces(FORCE, x, random_normal(N, 3, 3, seed=15), arrays), x) < 1e-12


def test_damping_never_adds_energy(rest, arrays):
    nothing = {name: torch.zeros(N).double() for name in ("mu", "lam")}
    x, v = deformed(rest), random_normal(N, 3, 3, seed=15)
    assert (power(lane_forces(FORCE, x, v, arrays | nothing), v) < 0).all()


def test_a_strip_of_the_material_rotated_a_quarter_turn_keeps_its_size(rest, arrays):
    """I_C of the diagonal of F alone, as in the original release, has forces here."""
    quarter = torch.tensor([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]]).double()
    f = lane_forces(FORCE, rest @ quarter, torch.zeros_like(rest), relaxed(arrays))
    assert f.abs().max() < 1e-10 * (arrays["mu"] + arrays["lam"]).max()


def test_linearised_moduli_are_two_thirds_mu_and_lam_minus_four_ninths_mu():
    """Acceptance A14: f ≈ -area (2 μ' ε + λ' tr ε) Dm⁻ᵀ at small symmetric strain ε of a sheet in the xy plane."""
    rest = torch.tensor([[[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]]).double()  # Dm = 1
    singles = {"mu": 1000.0, "lam": 3000.0, "damping": 0.0, "activation": 0.0}
    arrays = rest_shape(rest) | {name: torch.tensor([y]).double() for name, y in singles.items()}

    def stress(strain: Tensor) -> Tensor:
        moved = rest + rest @ torch.nn.functional.pad(strain, (0, 1, 0, 1))
        return -2 * lane_forces(FORCE, moved, torch.zeros_like(rest), arrays)[0, 1:, :2].mT

    h = 1e-4  # fourth order: the remainder of 1e-16 is below the rounding, 1e-16 / 1e-4
    rate = lambda e: (8 * (stress(h * e) - stress(-h * e)) - (stress(2 * h * e) - stress(-2 * h * e))) / (12 * h)
    shear, stretch = torch.tensor([[0.0, 0.5], [0.5, 0]]).double(), torch.tensor([[1.0, 0], [0, 0]]).double()
    mu, lam = 1000 * 2 / 3, 3000 - 1000 * 4 / 9
    assert error(rate(shear), 2 * mu * shear) < 1e-8
    assert error(rate(stretch), 2 * mu * stretch + lam * torch.eye(2).double()) < 1e-8


def test_affine_deformation_of_a_sheet_makes_no_force_on_inner_vertices():
    """Acceptance A13: a patch of four random triangles about a vertex, flat at rest, mapped into space."""
    corners = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0.9, 1.2, 0], [-0.2, 1, 0]]).double()
    inner = torch.tensor([[0.4, 0.55, 0]]).double()
    x = torch.cat([corners, inner]) @ random_rotations(1, seed=1)[0]
    triangles = torch.tensor([[0, 1, 4], [1, 2, 4], [4, 2, 3], [3, 0, 4]])
    singles = {"mu": 1000.0, "lam": 3000.0, "damping": 10.0, "activation": 0.1}
    arrays = membrane.rest_shape(x, triangles) | {n: torch.full((4,), y).double() for n, y in singles.items()}
    A, B = random_normal(2, 3, 3, seed=2)
    f = lane_forces(FORCE, (x @ A)[triangles], (x @ B)[triangles], arrays)
    total = torch.zeros(5, 3).double().index_add(0, triangles.flatten(), f.flatten(0, 1))
    assert total[:4].abs().amin(0).max() > 10
    assert total[4].abs().max() < 1e-12 * total.abs().max()


def test_activation_moves_the_area_at_which_a_triangle_rests(rest, arrays):
    x = carried(rest, seed=4)
    arrays["activation"] = torch.full((N,), 0.1).double()  # J - α > 0 at rest: it pulls together
    f = lane_forces(FORCE, x, torch.zeros_like(x), arrays)
    assert ((f * (x - x.mean(1, keepdim=True))).sum((1, 2)) < 0).all()


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("state", ["a point", "a line", "two vertices at one place", "nearly a line"])
def test_a_collapsed_triangle_has_finite_forces_and_derivatives(rest, arrays, dtype, state):
    x, v = deformed(rest), random_normal(N, 3, 3, seed=15)
    if state == "a point":
        x = x[:, :1].expand(N, 3, 3)
    elif state == "two vertices at one place":
        x = x[:, [0, 1, 1]]
    else:
        off = 1e-7 if state == "nearly a line" else 0.0
        x = torch.stack([x[:, 0], x[:, 1], 0.25 * x[:, 0] + 0.75 * x[:, 1] + off * x[:, 2]], 1)
    out = lane_gradients(FORCE, x, v, arrays, random_normal(N, 3, 3, seed=16), dtype)
    for y in [lane_forces(FORCE, x, v, arrays, dtype), *out.values()]:
        assert y.isfinite().all()


def test_forces_are_continuous_and_conservative_down_to_a_collapsed_triangle(rest, arrays):
    arrays["damping"] = torch.zeros(N).double()
    tall = deformed(rest)
    foot = 0.25 * tall[:, 0] + 0.75 * tall[:, 1]
    for height in (1e-2, 1e-3, 3e-4, 1e-5):
        x = torch.stack([tall[:, 0], tall[:, 1], torch.lerp(foot, tall[:, 2], height)], 1)
        assert error(lane_forces(FORCE, x, x, arrays), energy_slope(FORCE, x, arrays)) < 1e-11


def test_no_lame_modulus_is_no_trouble(rest, arrays):
    x = carried(rest, seed=4)
    out = lane_forces(FORCE, x, torch.zeros_like(x), relaxed(arrays) | {"lam": torch.zeros(N).double()})
    assert out.abs().max() < 1e-10 * arrays["mu"].max()


def test_a_triangle_without_area_is_named():
    x = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [2, 0, 0]])
    with pytest.raises(InputError, match=r"triangle 1 has area 0 m² at rest \(vertices \[0, 1, 3\]\).*merge"):
        membrane.rest_shape(x, torch.tensor([[0, 1, 2], [0, 1, 3]]))
