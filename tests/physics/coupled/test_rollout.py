"""Soft and rigid bodies in one rollout: the definitions, exact derivatives, momenta, and pairs found on the way."""

import coupled_cases as cases
import pytest
import torch
from checks import central_difference, directions, dot_product_errors, error, gradients, weights
from rigid_cases import WINDOWS

from gradsim.physics.coupled.rollout import BODY
from gradsim.physics.rigid.rollout import RigidRollout

WIDE = pytest.param(8, marks=pytest.mark.slow)  # a minute to compile


@pytest.mark.parametrize("bodies", [2, pytest.param(0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("width", [1, WIDE])
def test_rollout_and_gradients_are_those_of_the_definitions(width, bodies):
    given = cases.inputs(3, seed=2, bodies=bodies)
    leaves = [y.clone().requires_grad_() for y in given]
    expected = cases.plain(leaves, bodies)
    adjoints = weights(expected, seed=3)
    slopes = torch.autograd.grad(expected, leaves, adjoints, materialize_grads=True)
    program = cases.program(bodies, width=width)
    for name, slope in zip(program.names, slopes, strict=True):
        assert slope.any() or not slope.numel(), f"a state that shows nothing of {name}"
    found = program.run(*given)
    assert max(error(a, b) for a, b in zip(found, expected, strict=True)) < 1e-12
    for name, a, b in zip(program.names, gradients(program.run, given, adjoints), slopes, strict=True):
        assert error(a, b) < 1e-11, name


@pytest.mark.parametrize("width", [1, WIDE])
def test_adjoint_is_the_transpose_of_the_tangent(width):
    given, program = cases.inputs(3, seed=4), cases.program(width=width)
    outputs = program.forward(given)
    adjoints = weights(outputs, seed=5)
    gradient = program.backward(given, outputs, adjoints)
    tangent = lambda x, v: [t for _, t in program.tangent(x, v)]
    assert max(dot_product_errors(tangent, gradient, given, adjoints, seed=6)) < 1e-12


def test_a_step_of_no_length_has_the_slope_by_its_length_of_the_forces():
    given, program = cases.inputs(3, seed=4), cases.program(width=1)
    given[-1][:, 0] = 0.0  # before the window of the push
    outputs = program.forward(given)
    adjoints = weights(outputs, seed=5)
    gradient = program.backward(given, outputs, adjoints)
    tangent = lambda x, v: [t for _, t in program.tangent(x, v)]
    assert gradient[-1][:, 0].all()
    assert max(dot_product_errors(tangent, gradient, given, adjoints, seed=6)) < 1e-12


def test_tangent_of_a_long_rollout_is_that_of_central_differences():
    given, program = cases.inputs(2, seed=7), cases.program(substeps=40, dt=2.25e-4, width=1)
    given[-1] = given[-1] * 0.15
    along = [0.01 * d for d in directions(given, seed=8)]
    found = [t for _, t in program.tangent(given, along)]
    # no contact begins or ends within the secants of these steps: the tangents agree at both
    for step in (1e-5, 2e-5):
        wanted = central_difference(program.run, given, along, step)
        assert max(error(a, b) for a, b in zip(found, wanted, strict=True)) < 1e-7


@pytest.mark.slow
def test_a_world_of_a_batch_moves_as_it_does_alone():
    """Though pairs are sought for all worlds together."""
    given, program = cases.inputs(11, seed=13), cases.program(width=8)
    together, alone = program.forward(given), program.forward([y[4:5] for y in given])
    assert all(torch.equal(a[4:5], b) for a, b in zip(together, alone, strict=True))


@pytest.mark.usefixtures("optimized_reverse_sweeps")
def test_gradient_is_the_same_bit_for_bit_whatever_is_kept():
    given = cases.inputs(2, seed=11)
    results = []
    for segment in (1, 2, 3):
        program = cases.program(segment=segment, width=1)
        program.faces.clear()
        outputs = program.forward(given)
        results.append(program.backward(given, outputs, weights(outputs, seed=12)))
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


def test_momentum_is_kept_by_all_that_acts_between_bodies():
    """Linear and angular, without gravity and pushes; grounds far below."""
    given, program = cases.inputs(2, seed=17), cases.program(pinned=(), width=1)
    names = program.names
    place = {name: k for k, name in enumerate(names)}
    for name in ("gravity", *(f"body{r}.{quantity}" for r in range(2) for quantity in ("gravity", "impulse"))):
        given[place[name]] = 0 * given[place[name]]
    for r in range(2):
        given[place[f"body{r}.height"]] = given[place[f"body{r}.height"]] - 100
    x, v, *bodies = program.forward(given)
    mass = 1 / given[place["inverse_mass"]][:, None, :, None]
    linear, angular = (mass * v).sum(2), (mass * torch.linalg.cross(x, v)).sum(2)
    least = angular.clone()
    for r in range(2):
        m = given[place[f"body{r}.mass"]][:, None, None]
        y, _, u, l = bodies[4 * r : 4 * r + 4]
        linear, angular = linear + m * u, angular + m * torch.linalg.cross(y, u) + l
    assert error(angular - least, angular[:, :1] - least[:, :1]) > 1e-3  # bodies and vertices do exchange it
    steps = (cases.FRAMES - 1) * cases.SUBSTEPS
    for momentum in (linear, angular):
        assert error(momentum[:, -1], momentum[:, 0]) < 1e-13 * steps


def test_bodies_that_meet_nothing_move_as_they_do_alone():
    given, program = cases.inputs(3, seed=19), cases.program(width=1)
    place = {name: k for k, name in enumerate(program.names)}
    for name, value in (("1.stiffness", 0.0), ("1.damping", 0.0), ("2.stiffness", 0.0), ("2.friction_stiffness", 0.0)):
        given[place[name]] = given[place[name]] * value
    states = program.forward(given)[2:]
    alone = RigidRollout(cases.FRAMES, cases.SUBSTEPS, cases.DT, WINDOWS)
    for r in range(2):
        own = [given[place[f"body{r}.{name}"]] for name in BODY]
        expected = alone.forward([*own, given[-1]])
        assert max(error(a, b) for a, b in zip(states[4 * r : 4 * r + 4], expected, strict=True)) < 1e-13
