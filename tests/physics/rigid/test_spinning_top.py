"""Acceptance A11: a heavy symmetric top precesses steadily at both rates that its spin allows.

Ω² I₁ cos θ − Ω I₃ ω₃ + m g l = 0,   I₁ about the tip, ω₃ the whole spin about the axis
"""

import math
from typing import Any

import pytest
import torch

from gradsim import Model, Scene
from gradsim.numerics import rotation

TILT, SPIN = 0.5, 20.0  # [rad], [rad/s]


def rates(model: Model) -> list[float]:
    """The slow and the fast rate of precession [rad/s]."""
    body: Any = model.systems[0]
    inertia, mass = body.inertia(model.values())[0].detach(), 0.5
    arm = 0.075
    across, along = inertia[0, 0].item() + mass * arm**2, inertia[2, 2].item() * SPIN
    root = math.sqrt(along**2 - 4 * across * math.cos(TILT) * mass * 9.81 * arm)
    return [(along + sign * root) / (2 * across * math.cos(TILT)) for sign in (-1, 1)]


def motion(model: Model, given=None) -> tuple[torch.Tensor, torch.Tensor]:
    """Tilt from the vertical and direction of the axis about it (frames,) [rad], the latter without jumps."""
    model.requires_grad_(False)
    axis = rotation.rotate(model.rollout(given)["top"]["q"][0], torch.tensor([0, 0, -1.0], dtype=torch.float64))
    turn = torch.atan2(axis[:, 1], axis[:, 0])
    turn[1:] -= 2 * math.pi * torch.round(turn.diff() / (2 * math.pi)).cumsum(0)
    return torch.acos(axis[:, 2]), turn


@pytest.mark.parametrize("which", [0, 1])
def test_a_top_precesses_steadily_at_either_rate(which):
    """To 1e-3, as accepted; the fourth order of the integrator leaves far less."""
    model = Model(Scene.library("top"))
    rate = rates(model)[which]
    axis = torch.tensor([math.sin(TILT), 0, math.cos(TILT)], dtype=torch.float64)
    spin = torch.tensor([0, 0, rate], dtype=torch.float64) + (SPIN - rate * math.cos(TILT)) * axis
    tilt, turn = motion(model, {"joints.tip.angular_velocity": spin[None]})
    expected = rate * torch.arange(len(turn)) / 30
    assert (tilt - TILT).abs().max() < 1e-5
    assert ((turn - expected).abs() / expected.clamp(min=1.0)).max() < 1e-5


def test_the_top_of_the_library_is_the_slow_one():
    model = Model(Scene.library("top"))
    tilt, turn = motion(model)
    assert (tilt - TILT).abs().max() < 1e-5
    assert abs((turn[-1] - turn[0]).item() / 2.0 / rates(model)[0] - 1) < 1e-5


def test_a_top_that_is_let_go_nods():
    """Without a precession at the start it falls, is caught, and its energy stays."""
    model = Model(Scene.library("top"))
    axis = torch.tensor([[math.sin(TILT), 0, math.cos(TILT)]], dtype=torch.float64)
    tilt, _ = motion(model, {"joints.tip.angular_velocity": SPIN * axis})
    assert tilt.min() > TILT - 1e-6 and 0.05 < tilt.max() - TILT < 0.6
