"""Rigid bodies against closed forms, value and gradient (A1, A3–A7 and A10 of the acceptance cases).

Contacts begin and end between steps, and the phase of these events in their steps moves the error of one bounce. Where an
error is to fall as O(h), it is therefore the root mean square over random bounces.
"""

import math

import pytest
import torch
from checks import error, slope
from rigid_cases import GRAVITY, airborne, body, simulate
from rigid_reference import matrix
from scipy.special import ellipk
from torch import Tensor

UP = [[0.0, 0.0, 1.0]]
CENTER = [[0.0, 0.0, 0.0]]
PLATE = [[a, b, 0.0] for a in (-0.1, 0.1) for b in (-0.1, 0.1)]  # in the plane of the centre: friction does not tip it


def numbers(*values) -> list[Tensor]:
    return [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values]


def vertical(z: Tensor) -> Tensor:
    """(worlds, 3) from heights (worlds,)."""
    return torch.stack([torch.zeros_like(z), torch.zeros_like(z), z], 1)


def gradients(values: Tensor, by: list[Tensor]) -> Tensor:
    """∂value/∂x of each world, (parameters, worlds)."""
    return torch.stack(torch.autograd.grad(values.sum(), by, retain_graph=True, materialize_grads=True))


def relative(value: Tensor, expected: Tensor) -> float:
    return ((value - expected) / expected).abs().max().item()


def relative_change(value: Tensor, expected: Tensor, by: list[Tensor]) -> float:
    """Largest difference of x ∂value/∂x over the value: for parameters x on which it may not depend at all."""
    off = (gradients(value, by) - gradients(expected, by)) * torch.stack(by) / expected
    return off.abs().max().item()


# A1


def test_free_fall_is_the_sum_of_its_steps_and_tells_nothing_about_the_mass():
    """z_n = z₀ + n h v₀ − g h² n (n + 1)/2, for a tumbling body."""
    h, n = 1e-3, torch.arange(1001).double()
    case = {name: x.clone().requires_grad_() for name, x in airborne(8, seed=1).items()}
    case["impulse"] = torch.zeros(8, 0, 3).double()
    case["push_point"] = torch.zeros(8, 0, 3).double()
    states = simulate(case, 1001, h)
    x, v, g = (case[name][:, None].detach() for name in ("x", "v", "gravity"))
    expected = x + n[:, None] * h * v + g * h**2 * (n * (n + 1) / 2)[:, None]
    assert error(states["x"], expected) < 1e-13
    by_mass, by_velocity = torch.autograd.grad(states["x"][:, -1].sum(), [case["mass"], case["v"]])
    assert torch.equal(by_mass, torch.zeros(8).double())
    assert error(by_velocity, torch.ones(8, 3)) < 1e-13


# A3: t_c = π √(m/k), h_T = v (T − t_c) − z₀


def fall(
    law: str, h: float, duration: float, z: Tensor, v: Tensor, k: Tensor, m: Tensor, damping: Tensor | float = 0.0
) -> dict[str, Tensor]:
    """Points that fall without gravity on the ground: their start and end. Heights, speeds, ... are (worlds,)."""
    case = body(
        len(z),
        x=vertical(z),
        v=vertical(-v),
        points=CENTER,
        normal=UP,
        mass=m,
        stiffness=k[:, None],
        damping=torch.as_tensor(damping).double().expand_as(z)[:, None],
    )
    return simulate(case, 2, h, round(duration / h), law=law)


def elastic_height(duration: float, z, v, k, m) -> Tensor:
    return v * (duration - math.pi * torch.sqrt(m / k)) - z


@pytest.mark.parametrize("phase", [0.1, 0.5, 0.9])  # of the touch in its step
def test_elastic_bounce_and_its_four_gradients(phase):
    h, steps = 1e-5, 30000
    given = numbers([(10000 + phase) * h], [1.0], [1e3], [1.0])
    height, expected = fall("continuous", h, steps * h, *given)["x"][:, 1, 2], elastic_height(steps * h, *given)
    assert relative(height, expected) < 1e-4
    assert relative(gradients(height, given), gradients(expected, given)) < 1e-3


@pytest.mark.slow
def test_error_of_a_bounce_and_of_its_gradients_falls_with_the_step():
    """O(h): root mean square over 128 random bounces, for one alone depends on the phases of its touch and its leave."""
    uniform = torch.rand(4, 128, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    given = [
        x.requires_grad_() for x in (0.02 + 0.03 * uniform[0], 1 + uniform[1], 1e3 * (1 + uniform[2]), 1 + uniform[3])
    ]
    duration, steps = 0.27, [9e-5, 3e-5, 1e-5]
    expected = elastic_height(duration, *given)
    values, slopes = [], []
    for h in steps:
        height = fall("continuous", h, duration, *given)["x"][:, 1, 2]
        values.append((height - expected).square().mean().sqrt().item())
        off = gradients(height, given) / gradients(expected, given) - 1
        slopes.append(off.square().mean(1).sqrt())
    assert slope(steps, values) > 0.95  # semi-implicit Euler is symplectic, and does better than O(h) here
    for errors in torch.stack(slopes, 1):
        assert slope(steps, errors.tolist()) == pytest.approx(1, abs=0.05)


# A4: e = −v_exit/v_impact


def restitution(law: str, ratio: Tensor) -> Tensor:
    """e(ζ) of the paper's law, ζ = k_d/(2 √(k_e m)): exp(−(ζ/w) φ), w = √(1 − ζ²), φ = π if the ground may pull."""
    w = torch.sqrt(1 - ratio**2)
    phi = math.pi if law == "paper-adhesive" else math.pi - torch.atan2(2 * ratio * w, 1 - 2 * ratio**2)
    return torch.exp(-ratio / w * phi)


def continuous_exit(v: Tensor, dissipation: Tensor) -> Tensor:
    """Speed v_exit that leaves the continuous law: a (v + v_exit) = ln((1 + a v)/(1 − a v_exit)), by Newton's method.

    From m u du/dC = −k_e C (1 + a u), u = Ċ, integrated over the contact: neither k_e, m nor the start matter.
    """
    x = v / (1 + dissipation * v)  # converges for a v < 3
    for _ in range(8):  # the last steps, at the root, carry the gradient
        residual = dissipation * (v + x) - torch.log((1 + dissipation * v) / (1 - dissipation * x))
        x = x - residual / (dissipation - dissipation / (1 - dissipation * x))
    return x


@pytest.mark.parametrize("law", ["paper", "paper-adhesive"])
def test_restitution_of_the_papers_law(law):
    h, ratio = 1e-6, torch.tensor([0.05, 0.2, 0.4, 0.6]).double()
    z, v, k, m = (torch.full((4,), value).double() for value in (100.5 * h, 1.0, 1e3, 1.0))
    left = fall(law, h, 0.15, z, v, k, m, 2 * ratio * torch.sqrt(k * m))["v"][:, 1, 2]
    assert relative(left, restitution(law, ratio)) < 1e-4


def test_restitution_of_the_continuous_law():
    h, dissipation = 1e-6, torch.tensor([0.03, 0.1, 0.3, 0.6]).double()
    z, v, k, m = (torch.full((4,), value).double() for value in (100.5 * h, 1.0, 1e3, 1.0))
    left = fall("continuous", h, 0.15, z, v, k, m, dissipation)["v"][:, 1, 2]
    assert relative(left, continuous_exit(v, dissipation)) < 1e-4


def test_gradients_of_the_continuous_law_converge():
    """∂v_exit/∂(z₀, k_e, m) → 0, ∂/∂v and ∂/∂a → those of the closed form, all as O(h), over random impacts."""
    steps = [9e-6, 3e-6, 1e-6]
    uniform = torch.rand(5, 128, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    scale = torch.tensor([0.003, 3.0, 1e5, 1.0, 0.2])[:, None].double()  # z₀, v, k_e, m, a
    given = [x.requires_grad_() for x in scale * (1 + uniform)]
    expected = gradients(continuous_exit(given[1], given[4]), given)
    errors = []
    for h in steps:
        found = gradients(fall("continuous", h, 0.018, *given)["v"][:, 1, 2], given)
        errors.append(((found - expected) * scale).square().mean(1).sqrt())
    assert errors[-1].max() < 1e-3
    for of_one in torch.stack(errors, 1):
        assert slope(steps, of_one.tolist()) == pytest.approx(1, abs=0.05)


IMPACT = {"z": 0.02, "v": 3.0, "k": 1e5, "m": 2.0}  # of faults.md


def landing(law: str, h: float, damping: float) -> tuple[float, float, float]:
    """∂z_T/∂z₀ at 0.3 s: by autograd, by a secant within a step's travel v h (one tooth), by one over 600 of them.

    The impact takes e metres from z_T for each metre that the start is higher, so this is −e.
    """
    travel = IMPACT["v"] * h
    reach = travel * torch.tensor([0.0, 0.001, -0.001, 300.37, -300.37]).double()
    z = (IMPACT["z"] + 0.5 * travel + reach).requires_grad_()
    v, k, m = (torch.full_like(z, IMPACT[name]) for name in "vkm")
    height = fall(law, h, 0.3, z, v, k, m, damping)["x"][:, 1, 2]
    tooth, wide = ((height[i] - height[i + 1]) / (z[i] - z[i + 1]) for i in (1, 3))
    return gradients(height, [z])[0, 0].item(), tooth.item(), wide.item()


def test_tangent_of_the_continuous_law_agrees_with_wide_secants():
    dissipation = 0.2
    for h, within in ((2e-5, 0.2), (2e-6, 0.02)):  # O(h), times 0.3 s for the height
        tangent, _, wide = landing("continuous", h, dissipation)
        v = torch.tensor([IMPACT["v"]]).double()
        expected = -(continuous_exit(v, torch.tensor([dissipation]).double()) / v).item()
        assert wide == pytest.approx(expected, abs=1e-3)
        assert tangent == pytest.approx(expected, abs=within)


def test_tangent_of_the_papers_law_is_wrong_at_every_step_size():
    expected = -restitution("paper", torch.tensor(200 / (2 * math.sqrt(1e5 * 2))).double()).item()
    assert expected == pytest.approx(-0.54, abs=0.005)
    for h in (2e-5, 6e-6, 2e-6):
        tangent, tooth, wide = landing("paper", h, 200.0)
        assert wide == pytest.approx(expected, abs=0.05)
        assert tangent == pytest.approx(tooth, rel=1e-3)
        assert tangent < -10  # -15, which every finite difference inside one tooth confirms


# A5: u* = μ m g/k_f; d = (v₀² − u*²)/(2 μ g) + u* m/k_f


def plate(theta: Tensor, v: Tensor, m: Tensor, mu: Tensor, k_f: Tensor) -> dict[str, Tensor]:
    """A plate that rests on a ground tilted by θ about y, and slides along it at v, (worlds,) each; k_f over 4 vertices."""
    normal = torch.stack([torch.sin(theta), torch.zeros_like(theta), torch.cos(theta)], 1)
    along = torch.stack([torch.cos(theta), torch.zeros_like(theta), -torch.sin(theta)], 1)
    stiffness = torch.full_like(theta, 1e4)
    depth = m * GRAVITY * torch.cos(theta) / (4 * stiffness)
    return body(
        len(theta),
        x=-depth[:, None] * normal,
        q=torch.stack(
            [torch.zeros_like(theta), torch.sin(theta / 2), torch.zeros_like(theta), torch.cos(theta / 2)], 1
        ),
        v=v[:, None] * along,
        mass=m,
        gravity=[0.0, 0.0, -GRAVITY],
        points=PLATE,
        normal=normal[:, None],
        stiffness=stiffness[:, None],
        damping=0.3,
        friction_stiffness=k_f[:, None] / 4,
        friction=mu[:, None],
    )


def test_block_slides_to_rest_where_friction_says():
    h = 1.5e-6  # the distance lacks h v₀/2
    v, mu, k_f, m = given = numbers([1.0, 1.5, 0.8], [0.4, 0.6, 0.3], [60.0, 120.0, 45.0], [1.0, 2.0, 0.75])
    limit = mu * m * GRAVITY / k_f
    expected = (v**2 - limit**2) / (2 * mu * GRAVITY) + limit * m / k_f
    states = simulate(plate(torch.zeros(3).double(), v, m, mu, k_f), 2, h, 350000)
    distance = states["x"][:, 1, 0]
    assert relative(distance, expected) < 1e-5
    assert relative(gradients(distance, given), gradients(expected, given)) < 1e-4
    assert states["l"].abs().max() < 1e-9


# A6


def test_block_that_sticks_to_an_incline_creeps():
    """u = m g sin θ/k_f."""
    theta, mu, k_f, m = given = numbers([0.1, 0.2, 0.4], [0.5, 0.6, 0.9], [50.0, 80.0, 60.0], [1.0, 2.0, 1.0])
    states = simulate(plate(theta, 0 * theta, m, mu, k_f), 2, 1e-4, 10000)  # 30 times m/k_f and more
    along = torch.stack([torch.cos(theta), torch.zeros_like(theta), -torch.sin(theta)], 1)
    creep, expected = (states["v"][:, 1] * along).sum(1), m * GRAVITY * torch.sin(theta) / k_f
    assert relative(creep, expected) < 1e-6
    by, wanted = gradients(creep, given), gradients(expected, given)
    assert relative(by[[0, 2, 3]], wanted[[0, 2, 3]]) < 1e-6
    assert not by[1].any()


def test_block_that_slips_on_an_incline_accelerates():
    """a = g (sin θ − μ cos θ)."""
    theta, mu, k_f, m = given = numbers([0.6, 0.8, 1.2], [0.5, 0.3, 0.9], [500.0, 800.0, 600.0], [1.0, 2.0, 1.0])
    states = simulate(plate(theta, 0.5 + 0 * theta, m, mu, k_f), 2, 1e-4, 10000)
    along = torch.stack([torch.cos(theta), torch.zeros_like(theta), -torch.sin(theta)], 1)
    gained, expected = (states["v"][:, 1] * along).sum(1) - 0.5, GRAVITY * (torch.sin(theta) - mu * torch.cos(theta))
    assert relative(gained, expected) < 1e-6
    by, wanted = gradients(gained, given), gradients(expected, given)
    assert relative(by[:2], wanted[:2]) < 1e-6
    assert by[2:].abs().max() < 1e-9


# A7


def ball(theta: Tensor, v: Tensor, m: Tensor, mu: Tensor, radius: Tensor) -> dict[str, Tensor]:
    """A solid sphere on a ground tilted by θ about y: one contact point at its centre."""
    case = plate(theta, v, m, mu, torch.full_like(m, 2e4))
    case["x"] = case["x"] * 4 + radius[:, None] * case["normal"][:, 0]  # one contact carries all
    case["points"], case["radius"] = torch.zeros_like(case["points"][:, :1]), radius[:, None]
    inverse = 1 / (0.4 * m * radius**2)
    return {**case, "inertia_inverse": inverse[:, None, None] * torch.eye(3).double()}


def test_sliding_sphere_ends_up_rolling():
    """After t = 2 v₀/(7 μ g) and s = 12 v₀²/(49 μ g) it rolls at 5 v₀/7: x(T) = s + (5 v₀/7)(T − t)."""
    v, mu, m, radius = given = numbers([1.0, 2.0, 1.5], [0.3, 0.4, 0.2], [1.0, 2.0, 0.5], [0.1, 0.3, 0.05])
    t, s = 2 * v / (7 * mu * GRAVITY), 12 * v**2 / (49 * mu * GRAVITY)
    states = simulate(ball(torch.zeros(3).double(), v, m, mu, radius), 101, 1e-5, 500)
    end = 0.5
    reached, expected = states["x"][:, -1, 0], s + 5 / 7 * v * (end - t)
    assert (t < end).all()
    assert relative(states["v"][:, -1, 0], 5 / 7 * v) < 1e-3
    assert relative(reached, expected) < 1e-3
    assert relative_change(reached, expected, given) < 1e-3


@pytest.mark.parametrize("rolls", [True, False])
def test_sphere_rolls_or_slips_down_an_incline(rolls):
    """a = (5/7) g sin θ where μ ≥ (2/7) tan θ, else a = g (sin θ − μ cos θ)."""
    theta, m, radius = given = numbers([0.2, 0.5, 1.0], [1.0, 2.0, 0.5], [0.1, 0.3, 0.05])
    mu = 2 / 7 * torch.tan(theta) * (1.1 if rolls else 0.5)
    states = simulate(ball(theta, 0 * theta, m, mu, radius), 2, 1e-5, 50000)
    along = torch.stack([torch.cos(theta), torch.zeros_like(theta), -torch.sin(theta)], 1)
    slips = torch.sin(theta) - mu * torch.cos(theta)
    expected = GRAVITY * (5 / 7 * torch.sin(theta) if rolls else slips)
    gained = (states["v"][:, 1] * along).sum(1) / 0.5
    assert relative(gained, expected) < 1e-3
    assert relative_change(gained, expected, given) < 1e-3


# A10

INERTIA = torch.tensor([1.0, 2, 3]).double()
FLIPPING = torch.tensor([0.01, 2, 0.01]).double()  # [rad/s] about the middle axis
PERIOD = 21.9551459  # [s], of two flips


def free_spin(start: Tensor, frames: int, dt: float, substeps: int, integrator: str) -> tuple[Tensor, Tensor]:
    """Angular velocity in the body's frame (frames, 3) and angular momentum in the world's (frames, 3)."""
    case = body(inertia_inverse=torch.diag(1 / INERTIA), l=INERTIA * start)
    states = simulate(case, frames, dt, substeps, integrator=integrator)
    momentum = states["l"][0]
    return (momentum[:, None] @ matrix(states["q"][0]))[:, 0] / INERTIA, momentum


def energy(spin: Tensor) -> Tensor:
    return 0.5 * (INERTIA * spin**2).sum(-1)


def test_period_is_that_of_the_elliptic_integral():
    twice, square = 2 * energy(FLIPPING).item(), (INERTIA * FLIPPING).square().sum().item()  # 2 E and L²
    rate = math.sqrt((3 - 2) * (square - twice * 1) / (1 * 2 * 3))
    modulus = (2 - 1) * (twice * 3 - square) / ((3 - 2) * (square - twice * 1))
    assert 4 * ellipk(modulus) / rate == pytest.approx(PERIOD, rel=1e-8)


def test_dzhanibekov_period_and_invariants_over_a_hundred_flips():
    every = 0.02
    spin, momentum = free_spin(FLIPPING, round(50.2 * PERIOD / every), every / 4, 4, "rk4")
    w = spin[:, 1]
    before = ((w[:-1] < 0) & (w[1:] >= 0)).nonzero()[:, 0]  # every other flip
    times = (before + w[before] / (w[before] - w[before + 1])) * every
    assert len(times) == 50
    assert relative(times[1:] - times[:-1], torch.tensor(PERIOD)) < 1e-4
    assert relative(energy(spin), energy(spin[0])) < 1e-6
    assert torch.equal(momentum, momentum[:1].expand_as(momentum))


def test_semi_implicit_euler_keeps_momentum_and_errs_in_energy_as_the_step():
    steps, errors = [2e-3, 1e-3, 5e-4, 2.5e-4], []
    for dt in steps:
        spin, momentum = free_spin(torch.tensor([0.5, 1.0, 2.0]).double(), 2, dt, round(10 / dt), "semi-implicit")
        errors.append(relative(energy(spin[1]), energy(spin[0])))
        assert torch.equal(momentum[1], momentum[0])
    assert slope(steps, errors) == pytest.approx(1, abs=0.05)
