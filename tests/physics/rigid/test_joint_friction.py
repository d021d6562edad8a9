"""Dry friction of joints: closed forms of what slides and spins to rest, energy, and gradients."""

import math

import pytest
import torch
from joint_cases import BOX, tree

from gradsim import Model, Scene

FRICTION = {"wrist": 0.05, "elbow": 0.3, "rail": 0.4}


def _alone(joint: dict, **timing) -> Model:
    """One body on a joint to the world, without gravity."""
    body = {"shape": BOX, "mass": 2.0, "inertia": [0.02, 0.02, 0.02]}
    content = {"gravity": 0.0, "bodies": {"block": body}, "joints": {"axle": {"between": ["world", "block"], **joint}}}
    timing = {"fps": 50, "frames": 60, "substeps": 8, "integrator": "rk4", **timing}
    return Model(Scene.parse({**content, "timing": timing}))


def _left(speed: float, slip: float) -> float:
    """G(v) = √(v² + s²) - s asinh(s/v), which falls by F/m each second: dv/dt = -(F/m) v/√(v² + s²)."""
    return math.hypot(speed, slip) - slip * math.asinh(slip / speed)


@pytest.mark.parametrize(
    ("joint", "rate", "inertia"),
    [
        ({"kind": "prismatic", "axis": [1, 2, 2], "speed": 0.8, "friction": 1.5, "friction_speed": 0.05}, "speed", 2.0),
        ({"kind": "revolute", "axis": [1, 2, 2], "rate": 0.8, "friction": 0.015, "friction_rate": 0.05}, "rate", 0.02),
        (
            {"kind": "ball", "angular_velocity": [0.0, 0.0, 0.8], "friction": 0.015, "friction_rate": 0.05},
            "angular_velocity",
            0.02,
        ),
    ],
    ids=["slide", "hinge", "ball"],
)
def test_what_rubs_comes_to_rest_as_coulomb_says(joint, rate, inertia):
    now = _alone(joint).rollout().joint("axle")[rate][0].detach()
    speeds = (now if now.ndim == 1 else now[:, 2]).tolist()
    slip = joint.get("friction_speed", joint.get("friction_rate"))
    for k in (0, 20, 40, 50):  # it rests at 1.07 s, frame 53
        assert _left(speeds[k], slip) == pytest.approx(
            _left(0.8, slip) - joint["friction"] / inertia * k / 50, abs=1e-6
        )
    assert 0 < speeds[-1] < 0.2 * slip


def test_energy_never_grows():
    """Kinetic energy of a tree without gravity, springs and motors."""
    content = tree(fps=200, frames=120, substeps=16, integrator="rk4")
    content["gravity"] = 0.0
    acting = ("damping", "stiffness", "target", "upper", "lower", "limit_stiffness", "torque", "force")
    for name, joint in content["joints"].items():
        for key in acting:
            joint.pop(key, None)
        if name in FRICTION:
            joint["friction"] = FRICTION[name]
    model = Model(Scene.parse(content))
    states, values = model.rollout().states, model.values()
    total = sum(system.energy(states[system.name], values)[0] for system in model.systems if system.name in states)[
        0
    ].detach()
    assert total.diff().max() < 1e-9 * total[0]
    assert total[-1] < 0.97 * total[0]


@pytest.mark.slow
def test_gradients_and_tangents_are_those_of_differences():
    content = tree(fps=60, frames=6, substeps=32, integrator="rk4")
    for name, friction in FRICTION.items():
        content["joints"][name]["friction"] = friction
    model = Model(Scene.parse(content))
    slips = ("wrist.friction_rate", "elbow.friction_rate", "rail.friction_speed")
    names = [f"joints.{key}" for key in (*(f"{joint}.friction" for joint in FRICTION), *slips)]
    weight = torch.randn(3, generator=torch.Generator().manual_seed(0)).double()

    def final(**change):
        states = model.rollout(change).states
        return sum((y["x"][:, -1] * weight).sum() for y in states.values())

    for name in names:
        base = model.get_parameter(name).detach()[None]
        value = base.clone().requires_grad_()
        (slope,) = torch.autograd.grad(final(**{name: value}), value)
        h = 1e-4 * base
        central = ((final(**{name: base + h}) - final(**{name: base - h})) / (2 * h)).detach()
        torch.testing.assert_close(slope, central, rtol=1e-5, atol=1e-9)  # rounding of 10 m over 5e-6
        assert slope.abs() > 1e-8
        moving = model.tangent(model.values(), {name: torch.ones_like(base)}, 6)[1].states
        along = sum((y["x"][:, -1] * weight).sum() for y in moving.values())
        torch.testing.assert_close(along[None], slope, rtol=1e-9, atol=1e-15)
