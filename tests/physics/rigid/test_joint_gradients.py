"""Every number of joints has the derivative that central differences find, forwards, backwards and across frames."""

import pytest
import torch
from checks import (
    central_difference,
    directions,
    dot_product_errors,
    each_alone,
    error,
    gradients,
    taylor_slope,
    weights,
)
from joint_cases import four_bar, tree

from gradsim import Model, Scene

pytestmark = pytest.mark.usefixtures("unoptimized_kernels")

FRAMES = 4


def case(content, dtype=torch.float64, **timing):
    """A model, the names of everything that its joints read, and a function from their values to all states."""
    timing = {"fps": 60, "frames": FRAMES, "substeps": 4, **timing}
    model = Model(Scene.parse(content(**timing)), dtype=dtype)
    names = [n for n in model.kinds if n.startswith("joints.") and not n.endswith(("friction_rate", "friction_speed"))]
    names += [
        n for n in model.kinds if n.split(".")[-1] in ("mass", "density", "scale", "inertia", "gravity", "velocity")
    ]
    names += [n for n in model.kinds if n.endswith(("angular_velocity", "rotation_vector")) and n not in names]
    if content is four_bar:  # its points, axes and start have no derivative by themselves: they would open the loop
        names = [n for n in names if n.split(".")[-1] in KEEPING]

    def states(*given, segment=1):
        found = model.rollout(dict(zip(names, given, strict=True)), segment=segment).states
        return [y for own in found.values() for y in own.values()]

    given = [model.get_parameter(n).detach()[None].expand(2, *model.get_parameter(n).shape).clone() for n in names]
    return model, names, states, given


@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit"])
@pytest.mark.parametrize("content", [tree, four_bar])
def test_adjoint_and_forward_sensitivity_agree(content, integrator):
    model, names, states, given = case(content, integrator=integrator)
    adjoints = weights(states(*given), 1)
    gradient = gradients(states, given, adjoints)
    assert all(g.abs().max() > 0 for n, g in zip(names, gradient, strict=True) if n in SEEN)

    def tangent(x, v):
        values = model.values(dict(zip(names, x, strict=True)))
        along = dict(zip(names, v, strict=True))
        moving = model.tangent(values, along, FRAMES)[1].states
        return [y for own in moving.values() for y in own.values()]

    assert max(dot_product_errors(tangent, gradient, given, adjoints, 2, batched=True)) < 1e-12


KEEPING = ("gravity", "mass", "stiffness", "target", "damping", "torque")  # what leaves the loop closed
SEEN = (  # gradients that are not 0
    *(
        "joints.elbow.axis",
        "joints.elbow.stiffness",
        "joints.elbow.target",
        "joints.elbow.damping",
        "joints.elbow.upper",
    ),
    *("joints.elbow.limit_stiffness", "joints.elbow.angle", "joints.elbow.rate", "joints.elbow.torque"),
    *("joints.wrist.parent_point", "joints.wrist.child_point", "joints.wrist.damping", "joints.wrist.rotation_vector"),
    *("joints.rail.axis", "joints.rail.force", "joints.rail.lower", "joints.rail.displacement", "joints.rail.speed"),
    *("joints.weld.parent_point", "joints.weld.child_point", "plate.inertia", "arm.scale", "joints.d.stiffness"),
)


@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit"])
def test_the_gradient_matches_central_differences(integrator):
    _, names, states, given = case(tree, integrator=integrator)
    adjoints = weights(states(*given), 3)
    gradient = gradients(states, given, adjoints)
    along = directions(given, 4)
    with torch.no_grad():
        secants = central_difference(states, *each_alone(given, along), 1e-4)
    for k, v in enumerate(along):
        terms = torch.cat([(w * s[2 * k : 2 * k + 2]).flatten() for w, s in zip(adjoints, secants, strict=True)])
        assert abs((v * gradient[k]).sum() - terms.sum()) < 1e-7 * terms.abs().sum(), names[k]


def test_the_remainder_of_a_step_is_of_second_order():
    _, _, states, given = case(tree)
    assert abs(taylor_slope(states, given, directions(given, 5), [4e-4, 2e-4, 1e-4]) - 2) < 0.05


def test_checkpoints_change_no_gradient():
    _, _, states, given = case(tree)
    adjoints = weights(states(*given), 6)
    whole = gradients(lambda *x: states(*x, segment=3), given, adjoints)
    assert max(error(a, b) for a, b in zip(whole, gradients(states, given, adjoints), strict=True)) < 1e-12


@pytest.mark.slow  # another precision is another half minute of compilation
def test_single_precision_has_the_gradient_to_its_digits():
    *_, states, given = case(tree, integrator="semi-implicit")
    *_, rough, short = case(tree, torch.float32, integrator="semi-implicit")
    adjoints = weights(states(*given), 7)
    fine = gradients(states, given, adjoints)
    coarse = gradients(rough, short, [w.float() for w in adjoints])
    norm = lambda parts: torch.cat(
        [x.double().flatten() / (y.abs().max() or 1) for x, y in zip(parts, fine, strict=True)]
    )
    assert (norm(coarse) - norm(fine)).abs().max() < 1e-3
