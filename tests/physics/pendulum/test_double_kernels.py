"""The double pendulum against Lagrange's equations, conservation laws and closed forms, and what every rollout must satisfy."""

from functools import cache

import numpy as np
import pytest
import torch
from checks import central_difference, directions, dot_product_errors, error, slope, taylor_slope, weights
from scipy.integrate import solve_ivp
from torch.autograd import grad

from gradsim.physics.pendulum.double import INPUTS, DoublePendulumRollout, acceleration, arms, energy
from gradsim.physics.pendulum.runge_kutta import order_eight

G = 9.81  # [m/s²]
STEPS = DoublePendulumRollout(frames=13, substeps=9, dt=4e-3)  # 108 steps


def drawn(low, high, worlds, seed):
    low, high = torch.tensor(low, dtype=torch.float64), torch.tensor(high, dtype=torch.float64)
    share = torch.rand(worlds, len(low), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return low + (high - low) * share


@pytest.fixture
def generic():
    """Eleven unlike worlds, one register and a part of one, half of them of rods: inputs of a rollout."""
    low = [-2.5, -2.5, -4, -4, 0.3, 0.3, 0.4, 6, 0.02, -2, -2, -3]
    x = drawn(low, [2.5, 2.5, 4, 4, 0.7, 0.7, 1.8, 11, 0.08, 2, 2, 3], 11, 2)
    of = [arms(x[:, 4:6], x[:, 6], -x[:, [11, 7]], x[:, 8], x[:, 9:11], rods) for rods in (False, True)]
    mixed = [torch.cat([a[:6], b[6:]]).contiguous() for a, b in zip(*of, strict=True)]
    return [x[:, :2].contiguous(), x[:, 2:4].contiguous(), *mixed]


# ---- the definition


@cache
def lagrange(rods):
    """θ'' as a function of numbers, by Lagrange's equations of a Lagrangian in Cartesian coordinates."""
    sympy = pytest.importorskip("sympy")
    t, l1, l2, m1, m2, g, b, k, fx, fz = sympy.symbols("t l1 l2 m1 m2 g b k fx fz")
    angles = [sympy.Function(name)(t) for name in ("x", "y")]
    e = [sympy.Matrix([sympy.sin(a), -sympy.cos(a)]) for a in angles]
    share = sympy.Rational(1, 2) if rods else 1
    places = [share * l1 * e[0], l1 * e[0] + share * l2 * e[1]]
    kinetic, potential = 0, -(sympy.Matrix([fx, fz]).T * (l1 * e[0] + l2 * e[1]))[0]
    for m, length, x, a in ((m1, l1, places[0], angles[0]), (m2, l2, places[1], angles[1])):
        v = x.diff(t)
        kinetic += m * (v.T * v)[0] / 2 + (m * length**2 / 12 * a.diff(t) ** 2 / 2 if rods else 0)
        potential += m * (g * x[1] - b * x[0])
    lost = k / 2 * (angles[0].diff(t) ** 2 + (angles[1] - angles[0]).diff(t) ** 2)  # Rayleigh's function
    L = kinetic - potential
    equations = [L.diff(a.diff(t)).diff(t) - L.diff(a) + lost.diff(a.diff(t)) for a in angles]
    state = sympy.symbols("x y u v p q")
    turned = [a.diff(t, n) for n in (2, 1, 0) for a in angles]
    plain = [eq.subs(dict(zip(turned, (*state[4:], *state[2:4], *state[:2]), strict=True))) for eq in equations]
    matrix = sympy.Matrix(plain).jacobian(state[4:])
    rest = sympy.Matrix(plain).subs({state[4]: 0, state[5]: 0})
    of = sympy.lambdify([*state[:4], l1, l2, m1, m2, g, b, k, fx, fz], [matrix, rest], "numpy")

    def rates(state, *numbers):
        M, f = of(*state, *numbers)
        return -np.linalg.solve(np.array(M, float), np.array(f, float))[:, 0]

    return rates


NUMBERS = (0.45, 0.35, 1.3, 0.9, G, 0.6, 0.02, 0.7, -0.4)  # l₁, l₂, m₁, m₂, g, b, damping, force along and up


def of_numbers(rods, l1, l2, m1, m2, g, b, k, fx, fz):
    one = lambda *x: torch.tensor([x] if len(x) > 1 else x, dtype=torch.float64)
    return arms(one(l1, l2), one(m2 / m1), one(b, -g), one(k / m1), one(fx / m1, fz / m1), rods)


@pytest.mark.parametrize("rods", [False, True])
def test_accelerations_are_those_of_lagrange(rods):
    for state in drawn([-3, -3, -5, -5], [3, 3, 5, 5], 20, 1):
        expected = lagrange(rods)(state.tolist(), *NUMBERS)
        got = acceleration(state[None, :2], state[None, 2:], *of_numbers(rods, *NUMBERS))
        assert error(got[0], torch.tensor(expected)) < 1e-12


def test_hinges_take_power_and_nothing_else_does(generic):
    """dE/dt = −k (θ₁'² + (θ₂' − θ₁')²)."""
    angle, rate = (x.clone().requires_grad_() for x in generic[:2])
    by_angle, by_rate = grad(energy(angle, rate, *generic[2:6]).sum(), [angle, rate])
    power = (by_angle * rate + by_rate * acceleration(angle, rate, *generic[2:])).sum(1)
    expected = -generic[6] * (rate[:, 0] ** 2 + (rate[:, 1] - rate[:, 0]) ** 2)
    assert error(power.detach(), expected.detach()) < 1e-12 and (power < 0).all()


# ---- A9


@pytest.mark.parametrize("rods, start", [(False, [-1.5, 2.0, 0.5, 1.0]), (True, [2.2, 1.6, 0.0, 1.0])])
def test_five_seconds_equal_those_of_the_lagrangian_equations(rods, start):
    """To 1e-9, of motions that make 2 000 and 5 000 of a small change, which is what the solver's rtol of 1e-13 allows."""
    right = lambda t, y: [*y[2:], *lagrange(rods)(y, *NUMBERS)]
    exact = solve_ivp(right, (0, 5), start, "DOP853", np.linspace(0, 5, 6), rtol=1e-13, atol=1e-14).y.T
    begin = torch.tensor([start], dtype=torch.float64)
    program = DoublePendulumRollout(frames=6, substeps=480, dt=1 / 480)
    angle, rate = program.run(begin[:, :2], begin[:, 2:], *of_numbers(rods, *NUMBERS))
    np.testing.assert_allclose(torch.cat([angle, rate], 2)[0], exact, rtol=0, atol=1e-9)


def undamped():
    """Twelve worlds without damping."""
    x = drawn([1.5, 1.5, -2, -2, 0.4, 0.3, 0.5], [2.9, 2.9, 2, 2, 0.6, 0.6, 1.0], 12, 5)
    none = torch.zeros(12, 2, dtype=torch.float64)
    g = none - torch.tensor([0, G])
    return [x[:, :2].contiguous(), x[:, 2:4].contiguous(), *arms(x[:, 4:6], x[:, 6], g, none[:, 0], none, False)]


FIVE = DoublePendulumRollout(frames=2, substeps=3000, dt=1 / 600)


def test_motion_is_chaotic():
    """A change of the start by 1e-9 grows a thousandfold in 5 s in some of these worlds, else the next tests ask little."""
    inputs = undamped()
    near = [inputs[0] + 1e-9, *inputs[1:]]
    grown = (FIVE.run(*inputs)[0] - FIVE.run(*near)[0])[:, -1].abs().amax(1) / 1e-9
    assert grown.max() > 1000


def test_energy_is_kept_over_five_seconds():
    inputs = undamped()
    angle, rate = FIVE.run(*inputs)
    e = energy(angle, rate, *(x[:, None] for x in inputs[2:6]))
    assert ((e[:, 1] - e[:, 0]).abs() / e[:, 0]).max() < 1e-8


def test_five_seconds_run_backwards():
    inputs = undamped()
    angle, rate = (y[:, -1].contiguous() for y in FIVE.run(*inputs))
    angle, rate = (y[:, -1] for y in FIVE.run(angle, -rate, *inputs[2:]))
    assert (angle - inputs[0]).abs().max() < 1e-8 and (rate + inputs[1]).abs().max() < 1e-8


def test_small_swing_of_two_equal_points_has_its_two_modes():
    """ω² = (2 ∓ √2) g/l with θ₂ = ±√2 θ₁ (Goldstein §6.4); cubic terms stay below θ₀² = 1e-10."""
    for sign in (1, -1):
        omega = np.sqrt((2 - sign * np.sqrt(2)) * G / 0.5)
        program = DoublePendulumRollout(frames=2, substeps=200, dt=np.pi / omega / 200)
        begin = torch.tensor([[1e-5, sign * np.sqrt(2) * 1e-5]], dtype=torch.float64)
        angle, rate = program.run(begin, 0 * begin, *of_numbers(False, 0.5, 0.5, 1, 1, G, 0, 0, 0, 0))
        assert error(angle[:, -1], -begin) < 1e-9  # half a period on
        assert rate[:, -1].abs().max() < 1e-9 * omega * 1e-5 + 1e-13


# ---- the method


def test_coefficients_meet_the_conditions_of_bushy_trees():
    """Σ b c^(q−1) = 1/q for q ≤ 8, and rows of a that sum to the abscissae of Lobatto's rule."""
    a, b = order_eight()
    c = a.sum(1)
    for q in range(1, 9):
        assert (b * c ** (q - 1)).sum().item() == pytest.approx(1 / q, abs=1e-14)
    assert torch.equal(a.triu(), torch.zeros_like(a))


def test_error_falls_with_the_eighth_power_of_the_step(generic):
    """In the geometric mean over worlds; the order shows before rounding does."""
    end = lambda n: torch.cat([y[:, -1] for y in DoublePendulumRollout(2, n, 0.3 / n).run(*generic)], 1)
    counts, fine = (8, 12, 16), end(640)
    errors = [(end(n) - fine).abs().log().mean().exp().item() for n in counts]
    assert slope([1 / n for n in counts], errors) == pytest.approx(8, abs=0.5)


# ---- derivatives


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_adjoint_is_the_transpose_of_the_tangent(generic, dtype, tolerance):
    inputs = [x.to(dtype) for x in generic]
    values = STEPS.forward(inputs)
    adjoints = weights(values, 3)
    gradient = STEPS.backward(inputs, values, adjoints)
    errors = dot_product_errors(lambda x, v: [t for _, t in STEPS.tangent(x, v)], gradient, inputs, adjoints, 4)
    assert len(errors) == 7 and max(errors) < tolerance


def test_value_beside_the_tangent_is_the_plain_one(generic):
    dual = STEPS.tangent(generic, directions(generic, 5))
    assert all(torch.equal(value, plain) for (value, _), plain in zip(dual, STEPS.forward(generic), strict=True))


def test_adjoint_of_a_rollout_matches_central_differences(generic):
    values = STEPS.forward(generic)
    adjoints = weights(values, 6)
    rows = STEPS.backward(generic, values, adjoints)
    for k, (name, v) in enumerate(zip(INPUTS, directions(generic, 7), strict=True)):
        along = [v if j == k else torch.zeros_like(x) for j, x in enumerate(generic)]
        secants = central_difference(STEPS.run, generic, along, 1e-5)
        slopes = torch.stack([(t * w).flatten(1).sum(1) for t, w in zip(secants, adjoints, strict=True)]).sum(0)
        assert error((rows[k] * v).reshape(11, -1).sum(1), slopes) < 1e-7, name


def test_steps_of_the_clock_have_their_derivative(generic):
    """∂state/∂h of the last interval is `substeps` times the rate of change at its end, to the method's order."""
    steps = torch.full((11, 12), 4e-3, dtype=torch.float64).requires_grad_()
    angle, _ = STEPS.run(*generic, steps)
    (got,) = grad(angle[:, -1, 1].sum(), steps)
    values, before = STEPS.forward(generic), DoublePendulumRollout(12, 9, 4e-3).run(*generic)
    fine = DoublePendulumRollout(2, 1, 0.0).run(*(y[:, -1].contiguous() for y in before), *generic[2:])
    assert torch.equal(fine[0][:, 1], before[0][:, -1])  # a step of no length
    assert error(got[:, -1], 9 * values[1][:, -1, 1]) < 1e-6


def test_taylor_remainder_falls_with_the_square(generic):
    along = directions(generic, 7)
    assert taylor_slope(STEPS.run, generic, along, np.logspace(-7, -4, 7).tolist()) == pytest.approx(2, abs=0.02)


@pytest.mark.parametrize("segment", [2, 5, 100])
def test_checkpointed_gradient_is_the_plain_one(generic, segment):
    values = STEPS.forward(generic)
    adjoints = weights(values, 8)
    checkpointed = DoublePendulumRollout(13, 9, 4e-3, segment=segment).backward(generic, values, adjoints)
    assert all(torch.equal(x, y) for x, y in zip(STEPS.backward(generic, values, adjoints), checkpointed, strict=True))


def everything(program, inputs, along, adjoints):
    """Values, tangents and adjoints of a rollout."""
    values, tangents = zip(*program.tangent(inputs, along), strict=True)
    return [*program.forward(inputs), *tangents, *program.backward(inputs, values, adjoints)]


def test_width_of_the_register_changes_nothing(generic):
    along, adjoints = directions(generic, 9), weights(STEPS.forward(generic), 10)
    results = [everything(DoublePendulumRollout(13, 9, 4e-3, width=w), generic, along, adjoints) for w in (1, None)]
    for narrow, wide in zip(*results, strict=True):
        assert error(narrow, wide) < 1e-12


def test_world_of_a_batch_is_the_same_alone(generic):
    along, adjoints = directions(generic, 11), weights(STEPS.forward(generic), 12)
    batch = everything(STEPS, generic, along, adjoints)
    for world in (0, 10):
        one = slice(world, world + 1)
        alone = everything(STEPS, *([x[one] for x in group] for group in (generic, along, adjoints)))
        assert all(torch.equal(x[one], y) for x, y in zip(batch, alone, strict=True))


def test_start_alone_is_its_own_rollout(generic):
    leaves = [x.requires_grad_() for x in generic]
    angle, rate = DoublePendulumRollout(frames=1, substeps=5, dt=1e-2).run(*leaves)
    assert torch.equal(angle[:, 0], generic[0]) and torch.equal(rate[:, 0], generic[1])
    gradients = grad((angle * 2 + rate * 3).sum(), generic)
    for got, expected in zip(gradients, (2.0, 3.0, 0, 0, 0, 0, 0), strict=True):
        assert (got == expected).all()


def test_any_start_stays_finite():
    """Random worlds, far beyond what scenes say, and arms in line: values and gradients."""
    x = drawn([-9, -9, -20, -20, 0.1, 0.1, 0.05, 0, 0], [9, 9, 20, 20, 2, 2, 20, 20, 0.5], 200, 16)
    x = torch.cat([x, torch.tensor([[0, 0, 0, 0, 1, 1, 1, G, 0], [np.pi, 0, 0, 0, 1, 1, 1, G, 0]]).double()])
    given = arms(x[:, 4:6], x[:, 6], -x[:, [8, 7]], x[:, 8], torch.zeros(len(x), 2).double(), False)
    leaves = [y.contiguous().requires_grad_() for y in (x[:, :2], x[:, 2:4], *given)]
    angle, rate = DoublePendulumRollout(frames=6, substeps=50, dt=5e-4).run(*leaves)
    assert all(torch.isfinite(y).all() for y in (angle, rate, *grad(angle.sum() + rate.sum(), leaves)))


def test_input_of_the_wrong_shape_is_named(generic):
    generic[6] = generic[6][:5]
    with pytest.raises(ValueError, match=r"`damping` has shape \(5,\); 11 worlds need \(11,\)"):
        STEPS.run(*generic)
