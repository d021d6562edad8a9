"""What pulls at a pendulum of a scene: gravity from any side, and a force of its own."""

import torch
from model_cases import pendulum

from gradsim.physics.model import Model

ACROSS = [-0.5, 1.0, 0.0]  # the plane of the swing is along (1, 0.5, 0)


def row(*value):
    return torch.tensor([value], dtype=torch.float64)


def swing(gravity, force):
    return Model(pendulum()).rollout({"gravity": gravity, "bob.force_per_mass": force})["bob"]["angle"]


def test_force_over_mass_pulls_as_gravity_does():
    """From any side: only the sum of both acts."""
    pull, more, none = row(0.5, -0.3, -7.0), row(-1.0, 0.8, 0.4), row(0.0, 0.0, 0.0)
    torch.testing.assert_close(swing(pull + more, none), swing(pull, more), rtol=0, atol=1e-13)
    assert (swing(pull, none) - swing(pull, more)).abs().max() > 1e-3


def test_pull_across_the_swing_is_taken_up_by_the_pivot():
    """It makes no motion, and has no gradient."""
    model = Model(pendulum())
    angle, across = model.rollout()["bob"]["angle"], row(*ACROSS)
    pulls = [model.get_parameter(name) for name in ("gravity", "bob.force_per_mass")]
    for slope in torch.autograd.grad(angle[0, -1], pulls):
        assert abs(slope @ across[0]) < 1e-15 and slope.abs().min() > 1e-4
    gravity, force = (pull.detach()[None] for pull in pulls)
    torch.testing.assert_close(swing(gravity, force + 3 * across), angle.detach(), rtol=0, atol=1e-13)
