"""Implicit steps of vertices beside rigid bodies: their equations, exact derivatives, and momenta."""

import coupled_cases as cases
import pytest
import torch
from checks import central_difference, directions, dot_product_errors, error, weights
from rigid_cases import WINDOWS
from rigid_reference import share, spin, struck, turned, wrench
from torch import Tensor

from gradsim.physics.contact import vertex_body
from gradsim.physics.coupled.implicit import ImplicitCoupled
from gradsim.physics.coupled.rollout import BODY, Coupled
from gradsim.physics.forces import attachment, spring

FORCES = {"spring": 3, "attachment": 3, "touch_body": 8}  # number of parameters of each
WIDE = pytest.param(8, marks=pytest.mark.slow)  # minutes to compile


def _program(theta: float, width: int = 1, **given) -> ImplicitCoupled:
    arguments = {"frames": cases.FRAMES, "substeps": cases.SUBSTEPS, "dt": cases.DT, "pinned": cases.PINNED} | given
    explicit = Coupled(cases.groups()[:3], windows=(WINDOWS,) * 2, width=width, **arguments)
    return ImplicitCoupled(explicit, theta, tuple(range(cases.N)))


def _inputs(worlds: int, seed: int) -> list[Tensor]:
    """Of `_program`: those of all forces but that between triangles, with steps ten times as long."""
    every = cases.inputs(worlds, seed)
    first = 4 + sum(FORCES.values())
    return [*every[:first], *every[first + len(cases.SIZES["touch_face"]) : -1], 3 * every[-1]]


def _drifted(case: dict, state: list[Tensor], h: Tensor) -> list[Tensor]:
    x, q, v, l = state
    if not h.any():
        return state
    middle = turned(q, h / 2 * spin(case, q, l))
    return [x + h * v, turned(q, h * spin(case, middle, l)), v, l]


@pytest.mark.parametrize("theta", [0.5, 1.0])
def test_every_step_is_a_solution_of_its_equations(theta):
    """M (v' - v) = h (f + M g) at the state at θ of the step, and drift, kick, drift of the bodies."""
    given = _inputs(3, seed=2)
    outputs = _program(theta, substeps=1).forward(given)
    left = list(given)
    take = lambda count: [left.pop(0) for _ in range(count)]
    _, _, inverse_mass, gravity = take(4)
    law = {name: take(count) for name, count in FORCES.items()}
    case = [dict(zip(BODY, take(len(BODY)), strict=True)) for _ in range(2)]
    free = torch.ones(cases.N, dtype=torch.float64)
    free[list(cases.PINNED)] = 0
    felt = dict.fromkeys(FORCES, 0.0)
    for k in range(cases.FRAMES - 1):
        h, time = left[0][:, k, None], k * cases.DT
        (x, v, *before), (x1, v1, *after) = ([y[:, j] for y in outputs] for j in (k, k + 1))
        struck_bodies = [struck(c, WINDOWS, time, cases.DT, before[4 * r : 4 * r + 4]) for r, c in enumerate(case)]
        middle = [_drifted(c, s, theta * h) for c, s in zip(case, struck_bodies, strict=True)]
        X, U = x + theta * (x1 - x), torch.where(free[:, None] > 0, v + theta * (v1 - v), v1)
        f = torch.zeros_like(x).index_add(
            1,
            cases.SPRINGS.flatten(),
            spring.reference(X[:, cases.SPRINGS], U[:, cases.SPRINGS], *law["spring"]).flatten(1, 2),
        )
        felt["spring"] += f.abs().sum()
        acts = []
        for r, name, which in ((0, "attachment", cases.HOLDS), (1, "touch_body", cases.EVERY)):
            file = {"attachment": attachment, "touch_body": vertex_body}[name]
            each = file.reference(*cases._nodes(case[r], middle[r], X[:, which], U[:, which]), *law[name])
            f = f.index_add(1, which, each[:, :, 0])
            acts.append([each[:, :, m].sum(1) for m in (1, 2)])
            felt[name] += each.abs().sum()
        wanted = v + h[..., None] * free[:, None] * (f * inverse_mass[..., None] + gravity[:, None])
        assert error(v1, wanted) < 1e-9
        assert error(X, x + theta * h[..., None] * U) < 1e-12
        for r, c in enumerate(case):
            x_b, q, v_b, l = middle[r]
            parts = [share(w, time, cases.DT) for w in WINDOWS]
            force, torque = wrench(c, "continuous", parts, h, x_b, q, v_b, spin(c, q, l))
            v_b = v_b + h * ((force + acts[r][0]) / c["mass"][:, None] + c["gravity"])
            state = _drifted(c, [x_b, q, v_b, l + h * (torque + acts[r][1])], (1 - theta) * h)
            assert max(error(a, b) for a, b in zip(after[4 * r : 4 * r + 4], state, strict=True)) < 1e-9
    assert all(felt.values()), "a force that acts nowhere"


@pytest.mark.parametrize("theta", [0.5, 1.0])
@pytest.mark.parametrize("width", [1, WIDE])
def test_adjoint_is_the_transpose_of_the_tangent_and_that_is_a_secant(theta, width):
    given = _inputs(3, seed=4)
    program = _program(theta, width)
    outputs = program.forward(given)
    adjoints = weights(outputs, seed=5)
    gradient = program.backward(given, outputs, adjoints)
    tangent = lambda x, v: [t for _, t in program.tangent(x, v)]
    assert max(dot_product_errors(tangent, gradient, given, adjoints, seed=6)) < 1e-9
    for name, slope in zip(program.names, gradient, strict=True):
        assert slope.any() or not slope.numel(), f"a state that shows nothing of {name}"
    along = [1e-2 * d for d in directions(given, seed=8)]
    wanted = central_difference(program.run, given, along, 1e-5)
    assert max(error(a, b) for a, b in zip(tangent(given, along), wanted, strict=True)) < 1e-6


def test_gradient_is_that_of_any_segments_and_of_one_step_a_frame():
    given = _inputs(2, seed=11)
    for substeps in (1, 4):
        results = []
        for segment in (1, 3):
            program = _program(0.5, segment=segment, substeps=substeps)
            outputs = program.forward(given)
            results.append(program.backward(given, outputs, weights(outputs, seed=12)))
        assert max(error(a, b) for a, b in zip(*results, strict=True)) < 1e-9


def test_a_step_of_no_length_has_the_slope_by_its_length_of_the_forces():
    given, program = _inputs(3, seed=4), _program(0.5)
    given[-1][:, 0] = 0.0  # before the window of the push
    outputs = program.forward(given)
    adjoints = weights(outputs, seed=5)
    gradient = program.backward(given, outputs, adjoints)
    tangent = lambda x, v: [t for _, t in program.tangent(x, v)]
    assert gradient[-1][:, 0].all()
    assert max(dot_product_errors(tangent, gradient, given, adjoints, seed=6)) < 1e-9


def test_a_world_of_a_batch_moves_as_it_does_alone():
    given, program = _inputs(3, seed=13), _program(0.5)
    together, alone = program.forward(given), program.forward([y[1:2] for y in given])
    assert max(error(a[1:2], b) for a, b in zip(together, alone, strict=True)) < 1e-12
