"""Velocity Verlet and Nyström's method for soft bodies: their orders, exact adjoints and sensitivities, and a frame is a state.

Verlet is of second order for every force; Nyström's method of fourth where forces do not depend on velocity, else of third.
"""

from itertools import pairwise

import particle_cases as cases
import pytest
import soft_cases
import torch
from checks import central_difference, directions, dot_product_errors, error, gradients, weights
from torch import Tensor

from gradsim.engine.lanes import Lane, native_width
from gradsim.engine.mapping import InElements, Threads, Worlds
from gradsim.physics import integrators
from gradsim.physics.forces import spring
from gradsim.physics.forces.base import Elements
from gradsim.physics.model import Model
from gradsim.physics.soft.rollout import Particles
from gradsim.scene import Scene

WIDE = {dtype: native_width(dtype) for dtype in ("float64", "float32")}
QUICK = [InElements(Lane("float64", WIDE["float64"]))]
SLOW = [  # to compile
    Worlds(Lane("float64", WIDE["float64"])),
    Worlds(Lane("float64", 1)),
    Threads(Lane("float64", 1)),
    InElements(Lane("float32", WIDE["float32"])),
]
MAPPINGS = [*QUICK, *(pytest.param(mapping, marks=pytest.mark.slow) for mapping in SLOW)]
DOUBLE = MAPPINGS[:-1]
WITHIN = {"float64": 1e-12, "float32": 1e-4}  # as of `test_rollout`
name = lambda mapping: f"{mapping.name} {mapping.lane.name}"
INTEGRATORS = ("verlet", "nystrom")
ALL = pytest.mark.parametrize("integrator", INTEGRATORS)
SCENES = {
    "damped solid": soft_cases.solid(collision="none"),
    "solid on a ground": soft_cases.solid(),
    "cloth with drag, on a ground": soft_cases.cloth(),
    "damped springs, on a ground": soft_cases.net(),
    "springs": soft_cases.net(damping=0, anchors=[], collision="none"),
}


def program(integrator: str, mapping=None, **given) -> Particles:
    return cases.program(mapping, integrator=integrator, **given)


def scene_of(kind: str, integrator: str) -> Scene:
    return SCENES[kind].model_copy(update={"timing": SCENES[kind].timing.model_copy(update={"integrator": integrator})})


def orders(at, counts: list[int]) -> list[float]:
    """Observed orders, of Richardson: log₂ of the ratios between the changes from one number of steps to its double."""
    changes = [(b - a).norm().item() for a, b in pairwise([at(n) for n in counts])]
    return [torch.tensor(a / b).log2().item() for a, b in pairwise(changes)]


@ALL
@pytest.mark.parametrize("mapping", MAPPINGS, ids=name)
def test_rollout_and_gradients_are_those_of_the_definitions(mapping, integrator):
    given = cases.inputs(3, seed=2)
    leaves = [y.clone().requires_grad_() for y in given]
    expected = cases.plain(cases.groups(), leaves, integrator)
    adjoints = weights(expected, seed=3)
    slopes = torch.autograd.grad(expected, leaves, adjoints)
    cast = lambda ys: [y.to(getattr(torch, mapping.lane.dtype)) for y in ys]
    run = program(integrator, mapping).run
    within = WITHIN[mapping.lane.dtype]
    assert max(error(a, b) for a, b in zip(run(*cast(given)), expected, strict=True)) < within
    found = gradients(run, cast(given), cast(adjoints))
    assert max(error(a, b) for a, b in zip(found, slopes, strict=True)) < within


@ALL
@pytest.mark.parametrize("mapping", DOUBLE, ids=name)
def test_adjoint_is_the_transpose_of_the_tangent(mapping, integrator):
    """Also of a step of no length, as the first of a film whose clock may be late has."""
    given, rollout = cases.inputs(3, seed=4), program(integrator, mapping)
    given[-1][0, 0] = 0.0
    adjoints = weights(rollout.forward(given), seed=5)
    gradient = rollout.backward(given, rollout.forward(given), adjoints)
    tangent = lambda x, v: [t for _, t in rollout.tangent(x, v)]
    assert gradient[-1].all()
    assert max(dot_product_errors(tangent, gradient, given, adjoints, seed=6)) < 1e-12


@ALL
def test_tangent_is_that_of_central_differences(integrator):
    given = cases.inputs(2, seed=7)
    given[-1] = given[-1].new_full((2, cases.FRAMES - 1), 3e-4)
    along = [0.01 * d for d in directions(given, seed=8)]
    found = [t for _, t in program(integrator).tangent(given, along)]
    wanted = central_difference(program(integrator).run, given, along, 1e-5)
    assert max(error(a, b) for a, b in zip(found, wanted, strict=True)) < 1e-7


@ALL
def test_gradient_hardly_depends_on_the_checkpoints(integrator):
    """By some units in the last place: the reverse sweep recomputes steps that the forward sweep, a Warp module of its own,
    computed; their compilers fuse other products and sums."""
    given, results = cases.inputs(2, seed=11), []
    for segment in (1, 2, 3):
        rollout = program(integrator, segment=segment)
        outputs = rollout.forward(given)
        results.append(rollout.backward(given, outputs, weights(outputs, seed=12)))
    assert max(error(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True)) < 1e-13


@ALL
@pytest.mark.parametrize("kind", SCENES)
def test_order_of_positions_and_velocities(kind, integrator):
    """0.1 s in intervals of unequal length. Onsets of contact within a step leave it a little off: their mean is tested.

    A force that begins inside a step has a kink there, which leaves every method with an error of second order.
    """
    scene, expected = scene_of(kind, integrator), 2
    (body,) = scene.bodies
    if integrator == "nystrom":
        expected = 4 if kind == "springs" else 3

    def at(n: int, state: str) -> Tensor:
        model = Model(scene, substeps=n)
        return model.rollout_unchecked(model.values({"timing.offset": torch.tensor([0.013]).double()}), 5)[body][state]

    counts = [160, 320, 640, 1280]
    for state in ("x", "v"):
        found = orders(lambda n, state=state: at(n, state), counts)
        if "ground" in kind:
            mean = sum(found) / len(found)
            assert mean > 1.85 and (integrator == "nystrom" or mean < 2.15), state
        else:
            assert all(abs(order - expected) < 0.02 for order in found), state


@ALL
def test_order_is_as_high_where_parameters_jump_between_frames(integrator):
    given = cases.inputs(1, seed=18)
    given[7] = 0.1 * torch.randn(1, cases.FRAMES - 1, 30, generator=torch.Generator().manual_seed(1)).double()
    given[-1] = torch.tensor([[0.004, 0.003, 0.005]]).double()
    given[9] = given[9] - 1.0  # the ground, far below
    given[14] = given[14] + 5.0  # the obstacle, far off
    at = lambda n: torch.cat(program(integrator, substeps=n).forward([*given[:-1], given[-1] / n]), -1)
    expected, counts = (2, [40, 80, 160, 320]) if integrator == "verlet" else (3, [80, 160, 320, 640])
    assert all(abs(order - expected) < 0.05 for order in orders(at, counts))


@ALL
def test_free_fall_is_exact(integrator):
    """x = x₀ + v₀ t + g t²/2, v = v₀ + g t: to rounding, in steps of unlike length."""
    given = cases.inputs(2, seed=16)
    given[0], given[7] = cases.rest_positions().expand_as(given[0]).clone(), torch.zeros_like(given[7])
    given[1] = torch.tensor([0.4, 0.3, 2.0]).double().expand_as(given[1]).clone()
    given[9], given[14] = given[9] - 5.0, given[14] + 5.0
    x, v = program(integrator, pinned=()).forward(given)
    t = torch.cat([torch.zeros(2, 1), cases.SUBSTEPS * given[-1].cumsum(1)], 1).double()[..., None, None]
    g = given[3][:, None, None]
    assert error(x, given[0][:, None] + t * given[1][:, None] + t**2 / 2 * g) < 1e-13
    assert error(v, given[1][:, None] + t * g) < 1e-13


@ALL
def test_pinned_vertices_keep_their_velocity(integrator):
    given, rollout = cases.inputs(2, seed=14), program(integrator)
    x, v = rollout.forward(given)
    for k in cases.PINNED:
        assert torch.equal(v[:, :, k], given[1][:, None, k].expand_as(v[:, :, k]))
    gradient = rollout.backward(given, [x, v], weights([x, v], seed=15))
    assert not gradient[2][:, list(cases.PINNED)].any()


def test_energy_of_an_oscillator_stays_within_the_square_of_its_step():
    """For h ω = 0.2 over 1000 periods: leapfrog keeps E (1 - (h ω/2)²) at least, and E at most (Hairer et al., 2003)."""
    k, m, h = 40.0, 0.5, 0.2 / (40 / 0.5) ** 0.5
    rollout = Particles((Elements(spring.FORCE, torch.tensor([[0, 1]])),), 31_417, 1, h, (0,), integrator="verlet")
    x = torch.tensor([[[0.0, 0, 0], [0, 1.1, 0]]]).double()
    number = lambda value: torch.tensor([[value]]).double()
    inverse = torch.full((1, 2), 1 / m).double()
    given = [x, torch.zeros_like(x), inverse, torch.zeros(1, 3).double(), number(1.0), number(k), number(0.0)]
    x, v = (y[0, :, 1, 1] for y in rollout.forward([*given, x.new_zeros(1, 0)]))
    energy = m * v.square() + k * (x - 1).square()
    energy = energy / energy[0]
    assert 1 - 0.01 * 1.001 < energy.min() < 1 - 0.0099
    assert energy.max() < 1 + 1e-10


def test_a_vibration_loses_the_sixth_power_of_its_step_by_stages():
    """For h ω = 0.5 over 100 periods: the share (h ω)⁶/288 of E goes in a step, and none is gained below h ω = 2.58."""
    k, m, n = 40.0, 0.5, 1257
    group, number = Elements(spring.FORCE, torch.tensor([[0, 1]])), lambda value: torch.tensor([[value]]).double()

    def energy(z: float) -> float:
        rollout = Particles((group,), 2, n, z / (k / m) ** 0.5, (0,), integrator="nystrom")
        x = torch.tensor([[[0.0, 0, 0], [0, 1.1, 0]]]).double()
        given = [x, torch.zeros_like(x), torch.full((1, 2), 1 / m).double(), torch.zeros(1, 3).double()]
        x, v = (
            y[0, -1, 1, 1] for y in rollout.forward([*given, number(1.0), number(k), number(0.0), x.new_zeros(1, 0)])
        )
        return ((m * v.square() + k * (x - 1).square()) / (k * 0.01)).item()

    assert energy(0.5) == pytest.approx((1 - 0.5**6 / 288) ** n, rel=0.02)
    assert energy(2.58) < 1


@ALL
def test_rollout_that_continues_from_a_frame_is_the_same_bit_for_bit(integrator):
    model = Model(scene_of("solid on a ground", integrator))
    whole = model.rollout()
    start = {"beam": {name: y[:, 2] for name, y in whole["beam"].items()}}
    rest = model.rollout(frames=4, start=start)
    assert all(torch.equal(rest["beam"][name], whole["beam"][name][:, 2:]) for name in ("x", "v"))


@pytest.mark.parametrize(("integrator", "c"), [("verlet", 30.0), ("nystrom", 0.0), ("nystrom", 100.0)])
def test_bound_of_steps_is_sharp(integrator, c):
    """Of a damped spring alone: h² k/m + 4 h c/m < 4, by stages 0.6 h² k/m + 1.6 h c/m < 4; Euler's would let it diverge."""
    k, m = 40.0, 0.5
    of_k, of_c = integrators.SOFT[integrator].stability
    limit = 4 / (of_c * c / m + ((of_c * c / m) ** 2 + 4 * of_k * k / m) ** 0.5)
    ends = []
    for factor in (0.99, 1.02):
        group = Elements(spring.FORCE, torch.tensor([[0, 1]]))
        rollout = Particles((group,), 2, 4000, factor * limit, (0,), integrator=integrator)
        x = torch.tensor([[[0.0, 0, 0], [0, 1.1, 0]]]).double()
        number = lambda value: torch.tensor([[value]]).double()
        given = [x, torch.zeros_like(x), torch.full((1, 2), 1 / m).double(), torch.zeros(1, 3).double()]
        ends.append(
            rollout.forward([*given, number(1.0), number(k), number(c), x.new_zeros(1, 0)])[1][0, 1, 1, 1].abs()
        )
    assert ends[0] < 1e-6
    assert not ends[1] < 1.0
