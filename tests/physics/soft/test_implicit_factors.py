"""Implicit steps with sparse factors that are kept: the same solutions by fewer products, exact adjoints and sensitivities."""

import implicit_cases as cases
import pytest
import torch
from checks import central_difference, directions, dot_product_errors, error, slope, weights

from gradsim.engine.lanes import Lane, native_width
from gradsim.engine.mapping import InElements, Worlds
from gradsim.geometry import tet_grid
from gradsim.physics.forces import neo_hookean
from gradsim.physics.forces.base import Elements
from gradsim.physics.soft.implicit import ImplicitParticles
from gradsim.physics.soft.rollout import Particles

pytestmark = pytest.mark.usefixtures("unoptimized_kernels")

WORLDS = Worlds(Lane("float64", native_width("float64")))
MAPPINGS = [
    pytest.param(WORLDS, marks=pytest.mark.slow, id="worlds"),  # its adjoint takes as long again to compile
    pytest.param(InElements(Lane("float64", native_width("float64"))), id="elements"),
]
MESH = tet_grid.box((0.12, 0.01, 0.01), (12, 1, 2))
RATIO = 1000.0  # of the stiffness of the lower layer to that of the upper one


def _beam(
    steps: int,
    time: float,
    kind: type = ImplicitParticles,
    worlds: int = 1,
    frames: int = 0,
    ratio: float = RATIO,
    **given,
):
    """A beam of two layers that is held at one end and falls under its weight; its program and inputs.

    Frames are steps, unless their number is given.
    """
    x, tets = torch.tensor(MESH.vertices), torch.tensor(MESH.tets)
    group = Elements(neo_hookean.FORCE, tets, neo_hookean.rest_shape(x, tets))
    share = group.rest["volume"] * 1000 / 4
    mass = torch.zeros(len(x)).double().index_add(0, tets.flatten(), share.repeat_interleave(4))
    young = 1e4 * torch.where(x[tets, 2].mean(1) < x[:, 2].mean(), ratio, 1.0).double()
    none = torch.zeros(1, 1).double()
    inputs = [x[None], torch.zeros_like(x)[None], 1 / mass[None], torch.tensor([[0.0, 0, -9.81]]).double()]
    inputs += [young[None] / 2.6, young[None] * 0.3 / (1.3 * 0.4), none, none, x.new_zeros(1, 0)]
    inputs = [y.repeat(worlds, *[1] * (y.ndim - 1)) for y in inputs]
    frames = frames or steps
    pinned = (x[:, 0] == x[:, 0].min()).nonzero()[:, 0].tolist()
    return kind((group,), frames + 1, steps // frames, time / steps, pinned, **given), inputs


def _energy(inputs: list[torch.Tensor], x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Energy in each frame [J]."""
    tets = torch.tensor(MESH.tets)
    rest = neo_hookean.rest_shape(inputs[0][0], tets)
    elastic = neo_hookean.energy(x[0][:, tets], *rest.values(), *(y[0] for y in inputs[4:8])).sum(-1)
    mass = 1 / inputs[2][0]
    height = (mass[:, None] * x[0] * inputs[3][0]).sum((1, 2))
    return (elastic + 0.5 * (mass[:, None] * v[0].square()).sum((1, 2)) - height).detach()


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_steps_and_gradients_are_those_without_factors(mapping):
    """Which are those of dense matrices, see `test_implicit.py`."""
    given, adjoints = cases.inputs(2, seed=2), None
    results = []
    for factored in (False, True):
        program = cases.program(mapping, factored=factored)
        states = program.forward(given)
        adjoints = adjoints or weights(states, seed=3)
        results.append((states, program.backward(given, states, adjoints)))
    (states, gradient), (factored_states, factored_gradient) = results
    assert max(error(a, b) for a, b in zip(factored_states, states, strict=True)) < 1e-10
    assert max(error(a, b) for a, b in zip(factored_gradient, gradient, strict=True)) < 1e-9


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("theta", [0.5, 1.0])
def test_adjoint_is_the_transpose_of_the_tangent(mapping, theta):
    given, program = cases.inputs(2, seed=4), cases.program(mapping, factored=True, theta=theta)
    outputs = program.forward(given)
    adjoints = weights(outputs, seed=5)
    gradient = program.backward(given, outputs, adjoints)
    tangent = lambda x, v: [t for _, t in program.tangent(x, v)]
    assert max(dot_product_errors(tangent, gradient, given, adjoints, seed=6)) < 1e-10  # linear solves end at 1e-11


def test_tangent_by_every_input_is_that_of_central_differences():
    given, program = cases.inputs(1, seed=7), cases.program(factored=True)
    for k, d in enumerate(directions(given, seed=8)):
        along = [0.01 * d if j == k else torch.zeros_like(y) for j, y in enumerate(given)]
        slopes = [t for _, t in program.tangent(given, along)]
        wanted = central_difference(program.run, given, along, 1e-3)
        assert max(error(a, b) for a, b in zip(slopes, wanted, strict=True)) < 1e-7, program.names[k]


def test_a_stiff_beam_moves_as_without_factors_by_a_tenth_of_the_products():
    states, products = [], []
    for factored in (False, True):
        program, given = _beam(30, 0.03, theta=0.5, factored=factored)
        states.append(program.forward(given)[0] - given[0][:, None])
        products.append(program.effort(given)[0])
    assert error(*states) < 1e-7  # of a step, of which displacements are 1e-4
    assert products[1] < 0.1 * products[0]


def test_factors_are_made_again_where_a_body_turns():
    """A free beam turns by a radian; factors of the start alone would be of no use (thousands of products)."""
    program, given = _beam(100, 0.1, theta=0.5, factored=True)
    free = ImplicitParticles(program.groups, 101, 1, 1e-3, (), theta=0.5, factored=True)
    axis = torch.tensor([0.0, 10.0, 0.0]).double()
    given[1] = torch.linalg.cross(axis.expand_as(given[0]), given[0] - given[0].mean(1, keepdim=True))
    given[3] = torch.zeros_like(given[3])
    x = free.forward(given)[0][0]
    arms = [x[k, -1] - x[k, 0] for k in (0, 100)]
    angle = torch.acos(torch.nn.functional.cosine_similarity(*arms, dim=0)).item()
    assert abs(angle - 1) < 0.02
    assert free.effort(given)[0] < 50


def test_gradient_is_the_same_whatever_is_kept():
    results = []
    for segment in (1, 3):
        program, given = _beam(12, 0.02, frames=6, theta=0.5, factored=True, segment=segment)
        outputs = program.forward(given)
        results.append(program.backward(given, outputs, weights(outputs, seed=10)))
    assert max(error(a, b) for a, b in zip(*results, strict=True) if a.numel()) < 1e-7


def test_midpoint_steps_of_a_solid_are_of_second_order():
    """Of a soft beam, whose waves the steps resolve; of a stiff one gravity's onset leaves waves that they do not."""
    time = 0.05
    at = lambda program, given: program.forward(given)[0][:, -1]
    exact = at(*_beam(8192, time, Particles, frames=1, ratio=1.0, integrator="verlet"))
    counts = [32, 64, 128]
    errors = [(at(*_beam(n, time, ratio=1.0, theta=0.5, factored=True)) - exact).norm().item() for n in counts]
    assert abs(slope(counts, errors) + 2) < 0.15


def test_midpoint_steps_of_a_solid_keep_its_energy_and_those_of_euler_do_not():
    drift = {}
    for theta in (0.5, 1.0):
        program, given = _beam(200, 0.2, theta=theta, factored=True)
        energy = _energy(given, *program.forward(given))
        mass, speed = 1 / given[2][0], program.forward(given)[1][0].square().sum(-1)
        kinetic = 0.5 * (mass * speed).sum(-1).max()
        drift[theta] = (energy - energy[0]).abs().max().item() / kinetic.item()
    assert drift[0.5] < 0.02
    assert drift[1.0] > 0.2


@pytest.mark.slow
def test_a_world_of_a_batch_moves_as_it_does_alone():
    given = cases.inputs(11, seed=11)
    program = cases.program(WORLDS, factored=True)
    together, alone = program.forward(given), program.forward([y[4:5] for y in given])
    assert max(error(a[4:5], b) for a, b in zip(together, alone, strict=True)) < 1e-10


def test_from_a_state_far_from_rest_it_starts_with_a_share_of_the_step():
    given = cases.inputs(8, seed=14)
    given[-1] = given[-1].new_full(given[-1].shape, 0.05)
    states = cases.program(factored=True).forward(given)
    assert all(y.isfinite().all() for y in states)
