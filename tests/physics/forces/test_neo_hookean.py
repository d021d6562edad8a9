"""Tetrahedra: the energy, the linearised moduli, and what no inner force may do."""

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
from gradsim.physics.forces import neo_hookean

FORCE, N = neo_hookean.FORCE, 64
PATCH = torch.tensor([[0, 1, 2, 4], [0, 3, 1, 4], [0, 2, 3, 4], [1, 3, 2, 4]])  # about vertex 4


@pytest.fixture
def rest() -> Tensor:
    """Tetrahedra of any shape, turned anyhow, of positive volume; the flattest are left out."""
    drawn = random_normal(8 * N, 4, 3, seed=3)
    volume = torch.linalg.det(drawn[:, 1:] - drawn[:, :1])
    drawn[volume < 0] = drawn[volume < 0][:, [0, 2, 1, 3]]
    return drawn[volume.abs().argsort(descending=True)[: 4 * N]][::4]


@pytest.fixture
def arrays(rest) -> dict[str, Tensor]:
    singles = {"mu": 100.0, "lam": 300.0, "damping": 3.0}
    arrays = {name: size * random_positive(N, seed=k) for k, (name, size) in enumerate(singles.items())}
    return rest_shape(rest) | arrays | {"activation": 0.2 * random_normal(N, seed=9)}


def rest_shape(rest: Tensor) -> dict[str, Tensor]:
    return neo_hookean.rest_shape(rest.flatten(0, 1), torch.arange(4 * len(rest)).reshape(-1, 4))


def deformed(rest: Tensor) -> Tensor:
    return carried(rest + 0.3 * random_normal(*rest.shape, seed=13), seed=14)


def relaxed(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    return arrays | {"activation": torch.zeros(N).double()}


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_lanes_and_their_derivatives_are_those_of_the_definition(rest, arrays, dtype):
    errors = lane_errors(FORCE, deformed(rest), random_normal(N, 4, 3, seed=15), arrays, dtype)
    assert max(errors.values()) < WITHIN[dtype], errors


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_undamped_force_is_minus_the_gradient_of_the_energy(rest, arrays, dtype):
    x = deformed(rest).to(dtype).double()
    arrays = {name: y.to(dtype).double() for name, y in arrays.items()} | {"damping": torch.zeros(N).double()}
    assert error(lane_forces(FORCE, x, x, arrays, dtype), energy_slope(FORCE, x, arrays)) < WITHIN[dtype]


def test_rigid_motion_of_the_rest_shape_makes_no_force(rest, arrays):
    """I_C of the diagonal of F alone, as in the original release, has forces here."""
    x = carried(rest, seed=4)
    f = lane_forces(FORCE, x, rigid_velocity(x, seed=5), relaxed(arrays))
    steep = torch.linalg.matrix_norm(arrays["rest"], 2)  # 1/height of the flattest
    scale = (arrays["mu"] + arrays["lam"]) * arrays["volume"] * steep**2 * x.abs().amax((1, 2))
    assert (f.abs().amax((1, 2)) / scale).max() < 1e-12


def test_rigid_motion_of_a_deformed_tetrahedron_is_not_damped(rest, arrays):
    """Damping that leaves out the first vertex, as in other engines, resists constant velocity."""
    x = deformed(rest)
    moving, still = (lane_forces(FORCE, x, v, arrays) for v in (rigid_velocity(x, seed=5), torch.zeros_like(x)))
    assert error(moving, still) < 1e-12


def test_forces_balance(rest, arrays):
    x = deformed(rest)
    assert imbalance(lane_forces(FORCE, x, random_normal(N, 4, 3, seed=15), arrays), x) < 1e-11  # torques of flat ones


def test_damping_never_adds_energy(rest, arrays):
    elastic = lane_forces(FORCE, deformed(rest), torch.zeros_like(rest), arrays)
    v = random_normal(N, 4, 3, seed=15)
    assert (power(lane_forces(FORCE, deformed(rest), v, arrays) - elastic, v) < 0).all()


def lost_power(form: str, x: Tensor, v: Tensor, arrays: dict[str, Tensor]) -> Tensor:
    """Power that damping takes (elements,) [W], of the lanes or of the definition."""
    if form == "definition":
        return 2 * neo_hookean.dissipation(x, v, arrays["rest"], arrays["volume"], arrays["damping"])
    return power(lane_forces(FORCE, x, torch.zeros_like(x), arrays) - lane_forces(FORCE, x, v, arrays), v)


def loud(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """With damping far above the elastic forces, whose rounding would hide it."""
    return arrays | {"damping": 1e3 * arrays["damping"]}


@pytest.mark.parametrize("form", ["lanes", "definition"])
def test_damping_of_a_pure_dilation_resists_the_rates_of_strain_and_volume(rest, arrays, form):
    """A body scaled by s that grows at v = κ x: Ċ = 2 κ s² and J̇ = 3 κ s³, so the power is V η κ² (6 s⁴ + 9 s⁶)."""
    arrays, scale, rate = loud(arrays), random_positive(N, seed=21), random_normal(N, seed=22)
    x = carried(scale[:, None, None] * rest, seed=4)
    v = rate[:, None, None] * x + rigid_velocity(x, seed=5)
    expected = arrays["volume"] * arrays["damping"] * rate**2 * (6 * scale**4 + 9 * scale**6)
    assert (lost_power(form, x, v, arrays) / expected - 1).abs().max() < WITHIN[torch.float64]


@pytest.mark.parametrize("form", ["lanes", "definition"])
def test_damping_of_a_pure_shear_resists_the_rate_of_strain_alone(rest, arrays, form):
    """v = S x with tr S = 0 keeps the volume of any shape: J̇ = J tr S = 0, and the power is V η/2 |Fᵀ (S + Sᵀ) F|²."""
    arrays, x = loud(arrays), deformed(rest)
    S = random_normal(N, 3, 3, seed=23)
    S = S - S.diagonal(dim1=1, dim2=2).mean(1)[:, None, None] * torch.eye(3).double()
    F = (x[:, 1:] - x[:, :1]).mT @ arrays["rest"]
    rate = F.mT @ (S + S.mT) @ F
    expected = arrays["volume"] * arrays["damping"] / 2 * rate.square().sum((1, 2))
    assert (lost_power(form, x, x @ S.mT, arrays) / expected - 1).abs().max() < WITHIN[torch.float64]


def test_linearised_moduli_are_three_quarters_mu_and_lam_minus_five_eighths_mu():
    """Acceptance A14: P ≈ 2 μ' ε + λ' tr ε at small symmetric strain ε."""
    rest = torch.tensor([[[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]]).double()  # D_m = 1
    singles = {"mu": 1000.0, "lam": 3000.0, "damping": 0.0, "activation": 0.0}
    arrays = rest_shape(rest) | {name: torch.tensor([y]).double() for name, y in singles.items()}
    stress = lambda e: -6 * lane_forces(FORCE, rest + rest @ e, torch.zeros_like(rest), arrays)[0, 1:].mT
    h = 1e-4  # fourth order: the remainder of 1e-16 is below the rounding, 1e-16 / 1e-4
    rate = lambda e: (8 * (stress(h * e) - stress(-h * e)) - (stress(2 * h * e) - stress(-2 * h * e))) / (12 * h)
    shear, stretch = torch.zeros(2, 3, 3).double()
    shear[0, 1] = shear[1, 0] = 0.5
    stretch[0, 0] = 1
    assert error(rate(shear), 2 * 750 * shear) < 1e-8
    assert error(rate(stretch), 2 * 750 * stretch + 2375 * torch.eye(3).double()) < 1e-8


def test_young_and_poisson_are_those_of_small_strains():
    young, poisson = torch.tensor([2e4, 5e5]).double(), torch.tensor([0.3, 0.45]).double()
    mu, lam = neo_hookean.lame(young, poisson)
    G, L = 0.75 * mu, lam - 0.625 * mu
    assert error(G * (3 * L + 2 * G) / (L + G), young) < 1e-14
    assert error(L / (2 * (L + G)), poisson) < 1e-14


def test_affine_deformation_makes_no_force_on_inner_vertices():
    """Acceptance A13: four tetrahedra about a vertex."""
    corners = torch.tensor([[0.0, 0, 0], [1, 0, 0.1], [0.2, 1.1, 0], [0, 0.1, 0.9], [0.3, 0.3, 0.2]]).double()
    x = corners @ random_rotations(1, seed=1)[0]
    edges = x[PATCH][:, 1:] - x[PATCH][:, :1]
    tets = torch.where((torch.linalg.det(edges) > 0)[:, None], PATCH, PATCH[:, [0, 2, 1, 3]])
    singles = {"mu": 1000.0, "lam": 3000.0, "damping": 10.0, "activation": 0.1}
    arrays = neo_hookean.rest_shape(x, tets) | {n: torch.full((4,), y).double() for n, y in singles.items()}
    A, B = random_normal(2, 3, 3, seed=2)
    f = lane_forces(FORCE, (x @ A)[tets], (x @ B)[tets], arrays)
    total = torch.zeros(5, 3).double().index_add(0, tets.flatten(), f.flatten(0, 1))
    assert total[:4].abs().amin(0).max() > 10
    assert total[4].abs().max() < 1e-12 * total.abs().max()


def test_activation_pulls_a_tetrahedron_together(rest, arrays):
    x = carried(rest, seed=4)
    arrays["activation"] = torch.full((N,), 0.1).double()
    f = lane_forces(FORCE, x, torch.zeros_like(x), arrays)
    assert ((f * (x - x.mean(1, keepdim=True))).sum((1, 2)) < 0).all()


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("state", ["a point", "flat", "inverted"])
def test_an_element_without_volume_has_finite_forces_and_derivatives(rest, arrays, dtype, state):
    x = deformed(rest)
    mirror = torch.tensor([1.0, 1, -1]).double()
    x = {"a point": x[:, :1].expand(N, 4, 3), "flat": x * mirror.clamp(min=0), "inverted": x * mirror}[state]
    v = random_normal(N, 4, 3, seed=15)
    out = lane_gradients(FORCE, x, v, arrays, random_normal(N, 4, 3, seed=16), dtype)
    for y in [lane_forces(FORCE, x, v, arrays, dtype), *out.values()]:
        assert y.isfinite().all()


def test_an_inverted_element_is_turned_back():
    """Its volume is pushed towards positive: cof F : (velocity of the forces) > 0."""
    rest = torch.tensor([[[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]]).double()
    singles = {"mu": 100.0, "lam": 300.0, "damping": 0.0, "activation": 0.0}
    arrays = rest_shape(rest) | {name: torch.tensor([y]).double() for name, y in singles.items()}
    x = rest * torch.tensor([1.0, 1, -0.2]).double()
    f = lane_forces(FORCE, x, torch.zeros_like(x), arrays)
    assert f[0, 3, 2] > 0 > f[0, :3, 2].sum()


def test_a_tetrahedron_of_no_or_negative_volume_is_named():
    x = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]).double()
    with pytest.raises(InputError, match=r"tetrahedron 1 has rest volume -0\.1667 m³; reorder its vertices or remesh"):
        neo_hookean.rest_shape(x, torch.tensor([[0, 1, 2, 3], [0, 2, 1, 3]]))
    with pytest.raises(InputError, match=r"tetrahedron 0 has rest volume 0 m³ \(2 of 3 are wrong\)"):
        neo_hookean.rest_shape(x, torch.tensor([[0, 1, 2, 4], [0, 1, 2, 3], [0, 2, 1, 3]]))
