"""What acts between a vertex and a rigid body, attachments and contact: definitions, energies, momenta."""

import pytest
import torch
from checks import error
from law_cases import WITHIN, lane_errors, lane_forces, random_normal, random_positive
from torch import Tensor, linalg
from torch.nn.functional import normalize, pad

from gradsim.numerics import rotation
from gradsim.physics.contact import vertex_body
from gradsim.physics.forces import attachment

N = 64
TOUCH, HELD = vertex_body.touch_body("continuous"), attachment.FORCE


def state(force) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Vertices inside bodies, outside their edges and in them, all turned and moving."""
    q = normalize(random_normal(N, 4, seed=1), dim=1)
    centre = random_normal(N, 3, seed=2)
    x = torch.stack([centre + 0.8 * random_normal(N, 3, seed=3), centre, q[:, :3], pad(q[:, 3:], (0, 2))], 1)
    singles = {"stiffness": 100.0, "damping": 0.02, "friction_stiffness": 5.0, "friction": 0.5, "rounding": 1.5}
    singles |= {f"half{k}": 0.3 * (k + 1) for k in range(3)}
    arrays = {name: size * random_positive(N, seed=k) for k, (name, size) in enumerate(singles.items())}
    arrays["rounding"] += 2
    arrays["point"] = random_normal(N, 3, seed=21)
    return x, random_normal(N, 4, 3, seed=4), {name: arrays[name] for name in force.parameters}


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("force", [TOUCH, HELD], ids=lambda f: f.name)
def test_lanes_and_their_derivatives_are_those_of_the_definition(force, dtype):
    x, v, arrays = state(force)
    assert max(lane_errors(force, x, v, arrays, dtype).values()) < WITHIN[dtype]


@pytest.mark.parametrize("force", [TOUCH, HELD], ids=lambda f: f.name)
def test_force_and_torque_are_minus_the_gradient_of_the_energy(force):
    """The torque: by a turn of the body, q → exp(θ) q."""
    x, v, arrays = state(force)
    arrays |= {name: torch.zeros(N).double() for name in ("damping", "friction_stiffness") if name in arrays}
    moved = torch.zeros(N, 3, 3).double().requires_grad_()
    q = torch.cat([x[:, 2], x[:, 3, :1]], 1)
    turned = rotation.multiply(rotation.exponential(moved[:, 2]), q)
    place = torch.stack([x[:, 0] + moved[:, 0], x[:, 1] + moved[:, 1], turned[:, :3], pad(turned[:, 3:], (0, 2))], 1)
    energy = {TOUCH: vertex_body, HELD: attachment}[force].energy(place, **arrays)
    (slope,) = torch.autograd.grad(energy.sum(), moved)
    assert error(lane_forces(force, x, v, arrays)[:, :3], -slope) < 1e-12


@pytest.mark.parametrize("force", [TOUCH, HELD], ids=lambda f: f.name)
def test_force_and_torque_balance(force):
    x, v, arrays = state(force)
    f = lane_forces(force, x, v, arrays)
    assert f[:, 0].norm(dim=1).min() > 0
    assert not (f[:, 0] + f[:, 1]).any()
    torques = linalg.cross(x[:, 0], f[:, 0]), linalg.cross(x[:, 1], f[:, 1]), f[:, 2]
    assert error(torques[0] + torques[1], -torques[2]) < 1e-13


@pytest.mark.parametrize("force", [TOUCH, HELD], ids=lambda f: f.name)
def test_a_rigid_motion_of_both_feels_no_damping_and_other_motions_lose_energy(force):
    x, v, arrays = state(force)
    none = torch.zeros(N).double()
    elastic = lane_forces(force, x, v, arrays | {k: none for k in ("damping", "friction_stiffness") if k in arrays})
    lost = lane_forces(force, x, v, arrays) - elastic
    assert ((lost * v)[:, :3].sum((1, 2)) < 0).all()
    v[:, 0] = v[:, 1] + linalg.cross(v[:, 2], x[:, 0] - x[:, 1])
    assert error(lane_forces(force, x, v, arrays), elastic) < 1e-12
