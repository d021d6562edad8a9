"""Everything that moves with recorded frames has the derivative that central differences find, by the recording too."""

import pytest
import torch
from checks import central_difference, directions, dot_product_errors, each_alone, error, gradients, weights
from recorded_cases import gripper

from gradsim import Model, Scene

pytestmark = pytest.mark.usefixtures("unoptimized_kernels")

FRAMES = 4
ZERO = ("hand.mass", "hand.scale")  # what nothing pushes has no use of its mass


def case(**timing):
    """A model, the names of what its motion reads, a function from their values to all states, and generic values of two worlds."""
    model = Model(Scene.parse(gripper(**timing)))
    names = [n for n in model.kinds if n.endswith(("motion_offset", "motion_rotation"))]
    names += [n for n in model.kinds if n.split(".")[-1] in ("mass", "gravity", "parent_point", "child_point", "axis")]
    names += [
        n for n in model.kinds if n.split(".")[-1] in ("rate", "stiffness", "angular_velocity", "position", "impulse")
    ]
    names = list(dict.fromkeys(names))

    def states(*numbers, segment=1):
        bodies = model.rollout(dict(zip(names, numbers, strict=True)), segment=segment).states
        return [y for state in bodies.values() for y in state.values()]

    generator = torch.Generator().manual_seed(1)
    values = [model.get_parameter(n).detach()[None].expand(2, *model.get_parameter(n).shape).clone() for n in names]
    for name, value in zip(names, values, strict=True):
        if "motion_" in name:
            value += 0.01 * torch.randn(value.shape, generator=generator, dtype=value.dtype)
    return model, names, states, values


@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit"])
def test_adjoint_and_forward_sensitivity_agree(integrator):
    model, names, states, values = case(integrator=integrator)
    adjoints = weights(states(*values), 1)
    gradient = gradients(states, values, adjoints)
    assert all(g.abs().max() > 0 for n, g in zip(names, gradient, strict=True) if n not in ZERO)

    def tangent(x, v):
        along = dict(zip(names, v, strict=True))
        moving = model.tangent(model.values(dict(zip(names, x, strict=True))), along, FRAMES)[1].states
        return [y for state in moving.values() for y in state.values()]

    assert max(dot_product_errors(tangent, gradient, values, adjoints, 2, batched=True)) < 1e-12


@pytest.mark.parametrize("timing", [{}, {"integrator": "semi-implicit"}, {"offset": 0.013, "rate": 1.2}])
def test_the_gradient_matches_central_differences(timing):
    _, names, states, values = case(**timing)
    adjoints = weights(states(*values), 3)
    gradient = gradients(states, values, adjoints)
    along = directions(values, 4)
    with torch.no_grad():
        secants = central_difference(
            states, *each_alone(values, along), 1e-6
        )  # short: no stage leaves or meets the ball
    for k, v in enumerate(along):
        terms = torch.cat([(w * s[2 * k : 2 * k + 2]).flatten() for w, s in zip(adjoints, secants, strict=True)])
        scale = terms.abs().sum() + 1e-6 * sum(g.abs().sum() for g in gradient)
        assert abs((v * gradient[k]).sum() - terms.sum()) < 1e-6 * scale, names[k]


def test_checkpoints_change_no_gradient():
    _, _, states, values = case()
    adjoints = weights(states(*values), 6)
    whole = gradients(lambda *x: states(*x, segment=3), values, adjoints)
    assert max(error(a, b) for a, b in zip(whole, gradients(states, values, adjoints), strict=True)) < 1e-12
