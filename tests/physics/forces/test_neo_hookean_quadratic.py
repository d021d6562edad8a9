"""Quadratic tetrahedra: against the energy, four linear ones, closed forms, and a beam that linear ones make too stiff."""

import math

import numpy as np
import pytest
import torch
from checks import error
from law_cases import (
    WITHIN,
    carried,
    defined_gradients,
    energy_slope,
    imbalance,
    lane_errors,
    lane_forces,
    power,
    random_normal,
    random_positive,
    random_rotations,
    rigid_velocity,
)
from tolerances import ULPS, near
from torch import Tensor

from gradsim.engine.lanes import Lane
from gradsim.engine.mapping import Worlds
from gradsim.errors import InputError
from gradsim.geometry.tet_grid import box
from gradsim.geometry.tet_mesh import TetMesh
from gradsim.geometry.tet_mesh import quadratic as quadratic_mesh
from gradsim.physics.forces import neo_hookean, neo_hookean_quadratic
from gradsim.physics.forces.base import Elements
from gradsim.physics.soft.rollout import Particles

pytestmark = pytest.mark.usefixtures("unoptimized_kernels")

FORCE, N = neo_hookean_quadratic.FORCE, 24
NARROW = Worlds(Lane("float64"))  # one number at a time: full registers take 15 to 60 s to compile


@pytest.fixture
def rest() -> Tensor:
    """Tetrahedra of any shape with straight edges, turned anyhow; the flattest are left out."""
    corners = random_normal(8 * N, 4, 3, seed=3)
    volume = torch.linalg.det(corners[:, 1:] - corners[:, :1])
    corners[volume < 0] = corners[volume < 0][:, [0, 2, 1, 3]]
    return straight(corners[volume.abs().argsort(descending=True)[: 4 * N]][::4])


@pytest.fixture
def arrays(rest) -> dict[str, Tensor]:
    singles = {"mu": 100.0, "lam": 300.0, "damping": 3.0}
    arrays = {name: size * random_positive(N, seed=k) for k, (name, size) in enumerate(singles.items())}
    return rest_shape(rest) | arrays | {"activation": 0.2 * random_normal(N, seed=9)}


def straight(corners: Tensor) -> Tensor:
    """With the middles of the edges (m, 10, 3) of (m, 4, 3)."""
    a, b = torch.tensor(neo_hookean_quadratic.EDGES).T
    return torch.cat([corners, (corners[:, a] + corners[:, b]) / 2], 1)


def rest_shape(rest: Tensor) -> dict[str, Tensor]:
    return neo_hookean_quadratic.rest_shape(rest.flatten(0, 1), torch.arange(10 * len(rest)).reshape(-1, 10))


def deformed(rest: Tensor) -> Tensor:
    """Bent: no two points of an element have the same F."""
    return carried(rest + 0.2 * random_normal(*rest.shape, seed=13), seed=14)


def one_step(arrays: dict[str, Tensor], mapping: Worlds | None = NARROW) -> tuple[Particles, list[Tensor]]:
    """A step of 1 s of unit masses, so that gains of velocity are forces, and its inputs after x and v."""
    n = 10 * len(arrays["volume"])
    rest = {name: arrays[name] for name in FORCE.rest}
    program = Particles((Elements(FORCE, torch.arange(n).reshape(-1, 10), rest),), 2, 1, 1.0, mapping=mapping)
    given = [torch.ones(1, n).double(), torch.zeros(1, 3).double(), *(arrays[name][None] for name in FORCE.parameters)]
    return program, [*given, torch.zeros(1, 0).double()]


def forces(x: Tensor, v: Tensor, arrays: dict[str, Tensor]) -> Tensor:
    """(m, 10, 3), by the lanes of a rollout: those of the law alone would be built for this file only."""
    program, given = one_step(arrays)
    after = program.forward([x.reshape(1, -1, 3), v.reshape(1, -1, 3), *given])[1]
    return after[0, 1].reshape(v.shape) - v


def test_forces_and_their_derivatives_are_those_of_the_definition(rest, arrays):
    x, v, probe = deformed(rest), random_normal(N, 10, 3, seed=15), random_normal(N, 10, 3, seed=16)
    f, slopes = defined_gradients(FORCE, x, v, arrays, probe)
    assert error(forces(x, v, arrays), f) < 1e-12
    program, given = one_step(arrays)
    inputs = [x.reshape(1, -1, 3), v.reshape(1, -1, 3), *given]
    seen = torch.stack([torch.zeros(10 * N, 3).double(), probe.reshape(-1, 3)])[None]
    found = program.backward(inputs, program.forward(inputs), [torch.zeros_like(seen), seen])
    slopes["v"] += probe  # v' = v + f
    names = ["x", "v", None, None, *FORCE.parameters]
    errors = {n: error(g.reshape(slopes[n].shape), slopes[n]) for n, g in zip(names, found, strict=False) if n}
    assert max(errors.values()) < 1e-12, errors


@pytest.mark.slow
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_lanes_and_their_derivatives_are_those_of_the_definition(rest, arrays, dtype):
    errors = lane_errors(FORCE, deformed(rest), random_normal(N, 10, 3, seed=15), arrays, dtype)
    assert max(errors.values()) < WITHIN[dtype], errors


@pytest.mark.slow
def test_full_registers_have_the_forces_and_derivatives_of_one_number(rest, arrays):
    x, v = deformed(rest).reshape(1, -1, 3), random_normal(1, 10 * N, 3, seed=15)
    results = []
    for mapping in (NARROW, None):
        program, given = one_step(arrays, mapping)
        outputs = program.forward([x, v, *given])
        results.append([*outputs, *program.backward([x, v, *given], outputs, outputs)])
    assert max(error(a, b) for a, b in zip(*results, strict=True)) < 1e-12


def test_undamped_force_is_minus_the_gradient_of_the_energy(rest, arrays):
    x, arrays = deformed(rest), arrays | {"damping": torch.zeros(N).double()}
    assert error(forces(x, x, arrays), energy_slope(FORCE, x, arrays)) < 1e-12


def test_gauss_points_see_the_gradient_of_the_quadratic_map(rest):
    """x = X + q(X) with any quadratic q: F at barycentric L is I + ∂q/∂X there, in closed form."""
    Q = random_normal(3, 3, 3, seed=6)
    Q = Q + Q.mT
    x = rest + torch.einsum("ijk,mnj,mnk->mni", Q, rest, rest)
    inner, outer = (5 + 3 * 5**0.5) / 20, (5 - 5**0.5) / 20
    D_m_inv = rest_shape(rest)["rest"]
    for c, y in enumerate(neo_hookean_quadratic.gauss(x)):
        L = torch.full((4,), outer, dtype=torch.float64)
        L[c] = inner
        at = torch.einsum("n,mni->mi", L, rest[:, :4])
        F = (y[:, 1:] - y[:, :1]).mT @ D_m_inv
        assert error(F, torch.eye(3).double() + 2 * torch.einsum("ijk,mk->mij", Q, at)) < 1e-11


def test_affine_motion_makes_the_forces_of_a_linear_tetrahedron(rest, arrays):
    """Power against any affine velocity is that of one constant strain."""
    A, B, C = random_normal(3, 3, 3, seed=2)
    f = forces(rest @ A, rest @ B, arrays)
    g = lane_forces(neo_hookean.FORCE, (rest @ A)[:, :4], (rest @ B)[:, :4], arrays)
    assert error(power(f, rest @ C), power(g, rest[:, :4] @ C)) < 1e-12


def test_rigid_motion_makes_no_force(rest, arrays):
    x = carried(rest, seed=4)
    f = forces(x, rigid_velocity(x, seed=5), arrays | {"activation": torch.zeros(N).double()})
    steep = torch.linalg.matrix_norm(arrays["rest"], 2)
    scale = (arrays["mu"] + arrays["lam"]) * arrays["volume"] * steep**2 * x.abs().amax((1, 2))
    assert (f.abs().amax((1, 2)) / scale).max() < 1e-12


def test_rigid_motion_of_a_bent_element_is_not_damped(rest, arrays):
    x = deformed(rest)
    moving, still = (forces(x, v, arrays) for v in (rigid_velocity(x, seed=5), torch.zeros_like(x)))
    assert error(moving, still) < 1e-12


def test_forces_balance(rest, arrays):
    x = deformed(rest)
    assert imbalance(forces(x, random_normal(N, 10, 3, seed=15), arrays), x) < 1e-11


def test_damping_never_adds_energy(rest, arrays):
    x, v = deformed(rest), random_normal(N, 10, 3, seed=15)
    elastic = forces(x, torch.zeros_like(x), arrays)
    assert (power(forces(x, v, arrays) - elastic, v) < 0).all()


def test_affine_deformation_makes_no_force_on_inner_vertices():
    """Acceptance A13, on a box of random inner corners; damped, moving, activated."""
    grid = box((1.0, 1.2, 0.9), (2, 2, 2))
    inner = (np.abs(grid.vertices) < [0.4, 0.5, 0.4]).all(1)
    places = grid.vertices + inner[:, None] * 0.1 * random_normal(len(grid.vertices), 3, seed=7).numpy()
    x, tets = (torch.tensor(y) for y in quadratic_mesh(TetMesh(places, grid.tets)))
    edge = (x.abs() > torch.tensor([0.5, 0.6, 0.45]).double() - 1e-6).any(1)
    x = x @ random_rotations(1, seed=1)[0]
    singles = {"mu": 1000.0, "lam": 3000.0, "damping": 10.0, "activation": 0.1}
    arrays = neo_hookean_quadratic.rest_shape(x, tets) | {
        n: torch.full((len(tets),), y).double() for n, y in singles.items()
    }
    A, B = random_normal(2, 3, 3, seed=2)
    f = forces((x @ A)[tets], (x @ B)[tets], arrays)
    total = torch.zeros_like(x).index_add(0, tets.flatten(), f.flatten(0, 1))
    assert 1 <= inner.sum() < (~edge).sum()
    assert total[~edge].abs().max() < 1e-12 * f.abs().max()


def test_masses_are_positive_and_add_up(rest):
    volume = rest_shape(rest)["volume"]
    density = random_positive(N, seed=8)
    elements = torch.arange(10 * N).reshape(N, 10)
    mass = neo_hookean_quadratic.masses(volume, elements, density, 10 * N)
    assert (mass > 0).all()
    assert error(mass.reshape(N, 10).sum(1), density * volume) < 1e-14
    # ∫ N² of a corner, N = L (2 L − 1), and of an edge, N = 4 L L': by ∫ L^a L'^b = a! b! 3!/(a + b + 3)! of the volume
    moment = lambda a, b: math.factorial(a) * math.factorial(b) * 6 / math.factorial(a + b + 3)
    corner, edge = 4 * moment(4, 0) - 4 * moment(3, 0) + moment(2, 0), 16 * moment(2, 2)
    assert neo_hookean_quadratic.MASSES[0] / neo_hookean_quadratic.MASSES[9] == near(corner / edge, ULPS)


@pytest.mark.parametrize(("poisson", "within"), [(0.3, 0.02), (0.45, 0.06)])  # 24 × 4 × 4: 0.009, 0.026
def test_a_cantilever_bends_as_far_as_beam_theory_says(poisson, within):
    """Acceptance A15: tip force on a slender beam, F L³/(3 E I) with Timoshenko's shear. Linear ones: 50 % off."""
    L, H, E, F = 1.0, 0.1, 1e5, 1e-4
    bent = _tip(L, H, E, poisson, F)
    shear = 2 * (1 + poisson) * (12 + 11 * poisson) / (10 * (1 + poisson)) * F * L / (E * H * H)
    assert bent == pytest.approx(4 * F * L**3 / (E * H**4) + shear, rel=within)


def _tip(L: float, H: float, E: float, poisson: float, force: float) -> float:
    """Deflection by Newton's method from the definition of the energy: one step, since it is small."""
    x, tets = (torch.tensor(y) for y in quadratic_mesh(box((L, H, H), (12, 2, 2))))
    mu, lam = neo_hookean.lame(torch.tensor(E).double(), torch.tensor(poisson).double())
    constants = neo_hookean_quadratic.rest_shape(x, tets)
    at = x[tets].requires_grad_()
    none = torch.zeros(()).double()
    energy = neo_hookean_quadratic.energy(at, **constants, mu=mu, lam=lam, damping=none, activation=none)
    slope = torch.autograd.grad(energy.sum(), at, create_graph=True)[0].flatten(1)
    rows = [torch.autograd.grad(slope[:, k].sum(), at, retain_graph=True)[0].flatten(1) for k in range(30)]
    place = (3 * tets[:, :, None] + torch.arange(3)).flatten(1)
    K = torch.zeros(3 * len(x), 3 * len(x)).double()
    K.index_put_((place[:, :, None], place[:, None]), torch.stack(rows, 1), accumulate=True)
    free = (x[:, 0] > -L / 2 + 1e-9).repeat_interleave(3)
    end = x[:, 0] > L / 2 - 1e-9
    load = torch.zeros_like(x)
    load[end, 2] = force / end.sum()
    move = torch.linalg.solve(K[free][:, free], load.flatten()[free])
    full = torch.zeros(3 * len(x)).double()
    full[free] = move
    return full.reshape(-1, 3)[end, 2].mean().item()


def test_a_free_body_keeps_momentum_in_a_rollout():
    """60 steps of a bent, damped block, no gravity: linear momentum to rounding."""
    x, tets = (torch.tensor(y) for y in quadratic_mesh(box((0.2, 0.1, 0.1), (2, 1, 1))))
    rest = neo_hookean_quadratic.rest_shape(x, tets)
    mass = neo_hookean_quadratic.masses(rest["volume"], tets, 1000.0, len(x))
    program = Particles((Elements(FORCE, tets, rest),), 7, 10, 1e-4, mapping=NARROW)
    one = lambda value: torch.full((1, 1), value).double()
    start, v = x[None] + 0.005 * random_normal(1, len(x), 3, seed=1), random_normal(1, len(x), 3, seed=2)
    given = [start, v, 1 / mass[None], torch.zeros(1, 3).double(), one(1e4), one(3e4), one(5.0), one(0.05)]
    _, v = program.forward([*given, torch.zeros(1, 0).double()])
    momentum = (mass[:, None] * v).sum(2)[0]
    assert not torch.allclose(v[0, -1], v[0, 0], rtol=0.1)
    assert error(momentum, momentum[:1].expand_as(momentum)) < 1e-12


def test_a_middle_that_is_not_in_the_middle_is_named():
    x = straight(torch.tensor([[[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]]).double())[0]
    x[8] += 0.01
    with pytest.raises(InputError, match=r"tetrahedron 0: vertex 8 is 0\.0173 m off the middle of its edge"):
        neo_hookean_quadratic.rest_shape(x, torch.arange(10)[None])


def test_an_element_of_negative_volume_is_named():
    x = straight(torch.tensor([[[0.0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]]).double())[0]
    with pytest.raises(InputError, match=r"tetrahedron 0 has rest volume -0\.1667 m³"):
        neo_hookean_quadratic.rest_shape(x, torch.arange(10)[None])
