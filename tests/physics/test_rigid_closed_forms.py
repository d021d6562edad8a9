"""Rigid bodies against closed forms, value and gradient (A1, A3–A7 and A10 of the acceptance cases).

Contacts begin and end between steps. Where an error is to fall as O(h), the steps shrink by odd factors and the start is
half a step's travel off the grid, so that the touch has the same phase in its step at every h.
"""

import math

import pytest
import torch
from scipy.special import ellipk
from torch import Tensor

from checks import error, slope
from rigid_cases import GRAVITY, airborne, body, simulate
from rigid_reference import matrix

UP = [[0.0, 0.0, 1.0]]
CENTRE = [[0.0, 0.0, 0.0]]
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


def fall(law: str, h: float, duration: float, z, v, k, m, damping=0.0) -> dict[str, Tensor]:
    """Points that fall without gravity on the ground: their start and end. Heights, speeds, ... are (worlds,)."""
    case = body(
        len(z),
        x=vertical(z),
        v=vertical(-v),
        points=CENTRE,
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


def test_error_of_a_bounce_and_of_its_gradients_falls_with_the_step():
    """O(h): root mean square over 256 random bounces, for one alone depends on the phases of its touch and its leave."""
    uniform = torch.rand(4, 256, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    given = [x.requires_grad_() for x in (0.02 + 0.03 * uniform[0], 1 + uniform[1], 1e3 * (1 + uniform[2]), 1 + uniform[3])]
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


# the impact of faults.md, where the height at landing moves by −0.54 m for each metre of the start
IMPACT = {"k": 1e5, "m": 2.0, "v": 3.0, "damping": 200.0}


def test_gradients_of_the_continuous_law_converge():
    """∂v_exit/∂(z₀, k_e, m) → 0, ∂/∂v and ∂/∂a → those of the closed form, all as O(h)."""
    worlds, steps = 256, [9e-6, 3e-6, 1e-6]
    uniform = torch.rand(5, worlds, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    scales = torch.tensor([0.003, IMPACT["v"], IMPACT["k"], IMPACT["m"], 0.2]).double()
    given = [x.requires_grad_() for x in scales[:, None] * (1 + uniform)]
    expected = gradients(continuous_exit(given[1], given[4]), given) * scales[:, None]
    found = []
    for h in steps:
        left = fall("continuous", h, 0.024, *given)["v"][:, 1, 2]
        found.append(gradients(left, given) * scales[:, None])
    print([(f - expected).square().mean(1).sqrt() for f in found])
