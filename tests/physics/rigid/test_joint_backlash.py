"""Backlash of joints: the law against its energy, the period of a mass in a gap, energy, and gradients."""

import math

import pytest
import torch
from joint_cases import BOX, tree
from scipy.integrate import quad
from scipy.optimize import brentq

from gradsim import Model, Scene

MASS, STIFFNESS, SPEED = 2.0, 30.0, 0.8
WORN = {"elbow": 0.3, "rail": 0.06}


def _slide(backlash: float, **joint) -> dict:
    """A mass on a spring with a gap, thrown from the middle of it."""
    body = {"shape": BOX, "mass": MASS, "inertia": [0.02, 0.02, 0.02]}
    rail = {"kind": "prismatic", "between": ["world", "block"], "axis": [1, 2, 2], "displacement": 0.1, "target": 0.1}
    rail |= {"speed": SPEED, "stiffness": STIFFNESS, "backlash": backlash, **joint}
    return {"gravity": 0.0, "bodies": {"block": body}, "joints": {"rail": rail}}


def _potential(offset: float, backlash: float) -> float:
    """∫ k z dψ, by the definition of z alone."""
    edge = backlash / 20

    def z(y):
        y = abs(y) - backlash / 2
        return 0.0 if y < -edge else y if y > edge else (y + edge) ** 2 / (4 * edge)

    return STIFFNESS * quad(z, 0, offset, points=[backlash / 2 - edge, backlash / 2 + edge], epsabs=1e-13)[0]


def _period(backlash: float) -> float:
    """4 ∫ dψ / √(2 (E - U)/m) up to the turning point, by ψ = ψ_max sin u."""
    total = MASS * SPEED**2 / 2
    turning = brentq(lambda y: _potential(y, backlash) - total, 0, 1)
    share = lambda u: math.cos(u) / math.sqrt(max(total - _potential(turning * math.sin(u), backlash), 1e-15))
    edges = [math.asin((backlash / 2 + sign * backlash / 20) / turning) for sign in (-1, 1)]
    whole = quad(share, 0, math.pi / 2 - 1e-5, points=edges, limit=200, epsabs=1e-10)[0]
    last = share(math.pi / 2 - 1e-5) * 1e-5  # finite at the end, where both go to 0
    return 4 * math.sqrt(MASS / 2) * turning * (whole + last)


@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit"])
def test_a_mass_crosses_the_gap_freely_between_two_half_swings(integrator):
    """T = 2π √(m/k) + 2 b/v₀ of a hard gap; what sets in over ± e differs by (e/A)⁵, A = v₀ √(m/k): terms of third order cancel."""
    backlash, frames = 0.2, 40
    hard = 2 * math.pi * math.sqrt(MASS / STIFFNESS) + 2 * backlash / SPEED
    exact = _period(backlash)
    assert exact == pytest.approx(hard, rel=(0.05 * backlash / (SPEED * math.sqrt(MASS / STIFFNESS))) ** 5)
    assert hard > 1.3 * _period(1e-9)
    timing = {"fps": frames / exact, "frames": frames + 1, "substeps": 100, "integrator": integrator}
    now = Model(Scene.parse({**_slide(backlash), "timing": timing})).rollout().joint("rail")
    assert now["displacement"][0, -1].item() == pytest.approx(0.1, abs=1e-5)
    assert now["speed"][0, -1].item() == pytest.approx(SPEED, abs=1e-5)
    assert now["displacement"][0, frames // 2].item() == pytest.approx(0.1, abs=1e-5)
    assert now["speed"][0, frames // 2].item() == pytest.approx(-SPEED, abs=1e-5)


@pytest.mark.parametrize("kind", ["hinge", "slide"])
def test_energy_is_conserved_and_nothing_acts_within_the_gap(kind):
    """Kinetic energy and k Z; the rate is constant up to 9/10 of half the width."""
    content = _slide(0.2)
    if kind == "hinge":
        hinge = {"kind": "revolute", "between": ["world", "block"], "axis": [1, 2, 2], "angle": 0.1, "target": 0.1}
        content["joints"] = {"rail": hinge | {"rate": 8.0, "stiffness": STIFFNESS, "backlash": 0.2}}
    timing = {"fps": 400, "frames": 400, "substeps": 16, "integrator": "rk4"}
    model = Model(Scene.parse({**content, "timing": timing}))
    trajectory, values = model.rollout(), model.values()
    block = next(system for system in model.systems if system.name == "block")
    kinetic = block.energy(trajectory.states["block"], values)[0][0].detach()
    potential = model.groups[0].joints.energy(trajectory.states, values)[0].detach()
    total = kinetic + potential
    assert (total / total[0] - 1).abs().max() < 1e-7
    offset, rate = (y[0].detach() for y in trajectory.joint("rail").values())
    inside = (offset - 0.1).abs() < 0.1 * 0.9 - 1e-4
    assert inside.sum() > 40
    assert (~inside).sum() > 40
    assert potential[inside].abs().max() == 0
    assert (rate[inside].abs() / rate[0] - 1).abs().max() < 1e-7


def test_a_joint_without_backlash_has_the_spring_to_rounding():
    """½ k ψ², also at its rest, and a derivative by b of ∓k/2 there: the spring loses half the width at each side."""
    content = _slide(0.0) | {"timing": {"fps": 50, "frames": 30, "substeps": 8, "integrator": "rk4"}}
    model = Model(Scene.parse(content))
    trajectory = model.rollout()
    offset = trajectory.joint("rail")["displacement"][0].detach() - 0.1
    energy = model.groups[0].joints.energy(trajectory.states, model.values())[0].detach()
    torch.testing.assert_close(energy, 0.5 * STIFFNESS * offset**2, rtol=1e-9, atol=1e-15)
    swing = math.sqrt(STIFFNESS / MASS)
    exact = SPEED / swing * torch.sin(swing * torch.arange(30).double() / 50)
    assert (offset - exact).abs().max() < 1e-6 * SPEED / swing
    still = Model(Scene.parse(_slide(0.0, displacement=0.3, speed=0.0) | {"timing": {"fps": 1000, "frames": 2}}))
    (slope,) = torch.autograd.grad(
        still.rollout().joint("rail")["speed"][0, -1], still.get_parameter("joints.rail.backlash")
    )
    assert slope.item() == pytest.approx(0.5 * STIFFNESS / MASS * 1e-3, rel=1e-3)


@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit"])
def test_gradients_and_tangents_are_those_of_differences_in_every_world(integrator):
    """A tree whose hinge and slide pass the edges of their gaps; two worlds of other widths."""
    content = tree(fps=60, frames=8, substeps=24, integrator=integrator)
    for name, width in WORN.items():
        content["joints"][name] |= {"backlash": width}
    content["joints"]["elbow"] |= {"target": 1.0, "stiffness": 8.0}
    content["joints"]["rail"] |= {"target": 0.33}
    model = Model(Scene.parse(content))
    weight = torch.randn(3, generator=torch.Generator().manual_seed(0)).double()

    def final(**change):
        states = model.rollout(change).states
        return sum((y["x"][:, -1] * weight).sum(-1) for y in states.values())

    for key in ("backlash", "stiffness", "target"):
        for joint in WORN:
            name = f"joints.{joint}.{key}"
            base = model.get_parameter(name).detach() * torch.tensor([1.0, 1.2]).double()
            value = base.clone().requires_grad_()
            (slope,) = torch.autograd.grad(final(**{name: value}).sum(), value)
            h = 1e-5 * base
            central = ((final(**{name: base + h}) - final(**{name: base - h})) / (2 * h)).detach()
            torch.testing.assert_close(slope, central, rtol=2e-5, atol=1e-8)  # z'' jumps where a step meets an edge
            assert slope.abs().min() > 1e-6
            values = model.values({name: base})
            moving = model.tangent(values, {name: torch.ones_like(base)}, 8)[1].states
            along = sum((y["x"][:, -1] * weight).sum(-1) for y in moving.values())
            torch.testing.assert_close(along, slope, rtol=1e-9, atol=1e-13)
