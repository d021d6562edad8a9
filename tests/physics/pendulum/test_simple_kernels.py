"""The pendulum against its definition, closed forms and invariances, and what every rollout must satisfy."""

import math

import numpy as np
import pytest
import torch
from checks import central_difference, directions, dot_product_errors, error, taylor_slope, weights
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicHermiteSpline
from scipy.special import ellipj, ellipk, ellipkm1
from torch.autograd import grad, gradcheck

from gradsim.physics.pendulum.simple import INPUTS, PendulumRollout, acceleration, energy

G = 9.81  # [m/s²]
STEPS = PendulumRollout(frames=26, substeps=6, dt=4e-3)  # 150 steps: a swing or two of the worlds below


def tensors(*values, side=0.0):
    """Inputs of a rollout from numbers or lists, one entry per world."""
    every = (torch.atleast_1d(torch.tensor(v, dtype=torch.float64)) for v in (*values, side))
    return list(torch.broadcast_tensors(*every))


@pytest.fixture
def generic():
    """Eleven unlike worlds, one register and a part of one: swinging and spinning, damped and dragged."""
    low = torch.tensor([-3.0, -6.0, 0.3, 0.02, 5.0, 0.05, 0.05, -4.0], dtype=torch.float64)
    high = torch.tensor([3.0, 6.0, 1.0, 0.3, 12.0, 0.5, 0.5, 4.0], dtype=torch.float64)
    share = torch.rand(11, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return list((low + (high - low) * share).T.contiguous())


def small_frequency(string_length, radius, gravity=G):
    """w = √(g L / (L² + 2/5 r²)) [1/s] of a small swing."""
    length = string_length + radius
    return (gravity * length / (length**2 + 0.4 * radius**2)) ** 0.5


# ---- the definition


def test_force_is_minus_the_gradient_of_the_energy(generic):
    angle, rate, s, r, g, _, _, b = generic
    angle = angle.clone().requires_grad_()
    (slope,) = grad(energy(angle, rate, s, r, g, b).sum(), angle)
    inertia = (s + r) ** 2 + 0.4 * r**2
    force = inertia * acceleration(angle, rate, s, r, g, torch.zeros(()), torch.zeros(()), b)
    assert error(force.detach(), -slope) < 1e-12


def test_damping_and_drag_take_power(generic):
    angle, rate, s, r, g, c, d, b = (x.clone().requires_grad_() for x in generic)
    by_angle, by_rate = grad(energy(angle, rate, s, r, g, b).sum(), [angle, rate])
    power = by_angle * rate + by_rate * acceleration(angle, rate, s, r, g, c, d, b)
    inertia = (s + r) ** 2 + 0.4 * r**2
    assert error(power.detach(), -(inertia * (c * rate**2 + d * rate.abs() ** 3)).detach()) < 1e-12
    assert (power < 0).all()


def runge_kutta(inputs, steps, h):
    """The classical method on the plain definition."""
    x, v, *parameters = inputs
    for _ in range(steps):
        a1 = acceleration(x, v, *parameters)
        a2 = acceleration(x + h / 2 * v, v + h / 2 * a1, *parameters)
        a3 = acceleration(x + h / 2 * (v + h / 2 * a1), v + h / 2 * a2, *parameters)
        a4 = acceleration(x + h * (v + h / 2 * a2), v + h * a3, *parameters)
        x, v = x + h * v + h * h / 6 * (a1 + a2 + a3), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    return x, v


def test_rollout_and_its_adjoint_are_those_of_the_definition(generic):
    leaves = [x.requires_grad_() for x in generic]
    program = PendulumRollout(frames=4, substeps=10, dt=5e-3)
    expected = runge_kutta(leaves, 30, 5e-3)
    got = [y[:, -1] for y in program.run(*leaves)]
    adjoints = weights(expected, 0)
    for y, z in zip(got, expected, strict=True):
        assert error(y.detach(), z.detach()) < 1e-13
    for y, z in zip(grad(got, leaves, adjoints), grad(expected, leaves, adjoints), strict=True):
        assert error(y, z) < 1e-12


# ---- closed forms


def period(start, s, r, duration):
    """Twice the time between two passages of the lowest point, from the frames by Hermite interpolation."""
    program = PendulumRollout(frames=math.ceil(duration / 4e-3), substeps=4, dt=1e-3)
    angle, rate = (y[0].numpy() for y in program.run(*tensors(start, 0.0, s, r, G, 0.0, 0.0)))
    passages = CubicHermiteSpline(4e-3 * np.arange(program.frames), angle, rate).roots(extrapolate=False)
    return 2 * (passages[1] - passages[0])


@pytest.mark.parametrize("s, r", [(1.0, 0.0), (0.5, 0.035), (0.2, 0.3)])
@pytest.mark.parametrize("degrees, ratio", [(10, None), (90, 1.1803406), (170, 2.4393627), (179.9, None)])
def test_period_is_an_elliptic_integral(degrees, ratio, s, r):
    """A8: T / T₀ = 2/π K(sin² θ₀/2), T₀ = 2π √((L² + 2/5 r²) / (g L)), for a point mass and for solid balls."""
    start = math.radians(degrees)
    exact = 2 / math.pi * ellipkm1(math.cos(start / 2) ** 2)
    small = 2 * math.pi / small_frequency(s, r)
    got = period(start, s, r, 0.8 * exact * small) / small
    assert got == pytest.approx(exact, rel=1e-8)
    assert ratio is None or got == pytest.approx(ratio, rel=1e-6)


def test_gradient_of_the_period_is_that_of_the_closed_form():
    """θ(T/4) = 0, so ∂(T/4)/∂p = −∂θ/∂p / θ̇; by start, string, radius and gravity."""
    start, _, s, r, g, *_ = leaves = tensors(2.0, 0.0, 0.5, 0.1, G, 0.0, 0.0)
    quarter = (ellipk(math.sin(1.0) ** 2) / small_frequency(s, r)).item()
    unknowns = [x.requires_grad_() for x in (start, s, r, g)]
    angle, rate = PendulumRollout(frames=2, substeps=1000, dt=quarter / 1000).run(*leaves)
    got = torch.cat(grad(angle[0, 1], unknowns)) / -rate[0, 1].detach()

    def time(start, s, r, g):
        """K by the arithmetic–geometric mean: K(k²) = π / (2 agm(1, √(1 − k²)))."""
        a, b = torch.ones_like(start), torch.cos(start / 2)
        for _ in range(6):
            a, b = (a + b) / 2, (a * b).sqrt()
        return math.pi / (2 * a) / small_frequency(s, r, g)

    expected = torch.cat(grad(time(*unknowns).sum(), unknowns))
    assert abs(angle[0, 1].item()) < 1e-10
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("bottom", [9.0, -20.0])
def test_turn_over_the_top_takes_its_time(bottom):
    """One revolution from the lowest point at θ̇ = Ω takes 4 K(4 w²/Ω²)/|Ω|; the angle counts the turns."""
    w = small_frequency(0.5, 0.035)
    turn = 4 * ellipk((2 * w / bottom) ** 2) / abs(bottom)
    program = PendulumRollout(frames=4, substeps=2000, dt=turn / 2000)
    angle, rate = program.run(*tensors(0.0, bottom, 0.5, 0.035, G, 0.0, 0.0))
    turns = math.copysign(2 * math.pi, bottom) * torch.arange(4, dtype=torch.float64)
    torch.testing.assert_close(angle[0], turns, rtol=1e-9, atol=0)
    torch.testing.assert_close(rate[0], torch.full_like(rate[0], bottom), rtol=1e-9, atol=0)


def test_energy_is_kept_without_damping():
    """Swinging, almost upside down, and spinning; RK4 loses about (w h)⁶/72 of it a step."""
    inputs = tensors([0.3, 2.0, 3.141, 0.0], [0.0, -1.0, 0.0, 9.5], 0.5, 0.1, G, 0.0, 0.0)
    angle, rate = PendulumRollout(frames=101, substeps=50, dt=1e-3).run(*inputs)
    e = energy(angle, rate, *(x[:, None] for x in inputs[2:5]))
    assert ((e - e[:, :1]).abs() / e[:, :1]).max() < 1e-11


@pytest.mark.parametrize("damping", [0.4, 2.0, 20.0])
def test_small_swing_is_the_damped_oscillator(damping):
    """θ = θ₀ e^(−ct/2) (cos Ωt + c/(2Ω) sin Ωt), Ω² = w² − c²/4; the sine is straight to θ₀²/6 = 2e-11."""
    start = 1e-5
    inputs = tensors(start, 0.0, 0.5, 0.1, G, damping, 0.0)
    angle, _ = PendulumRollout(frames=31, substeps=100, dt=1e-3).run(*inputs)
    t = 0.1 * np.arange(31)
    omega = np.emath.sqrt(small_frequency(0.5, 0.1) ** 2 - damping**2 / 4)  # imaginary where overdamped
    expected = np.exp(-damping * t / 2) * (np.cos(omega * t) + damping / (2 * omega) * np.sin(omega * t)).real
    np.testing.assert_allclose(angle[0].numpy() / start, expected, atol=1e-9)


def turning_points(start, drag, count):
    """Amplitudes after each half swing, from the frames by Hermite interpolation of the rate."""
    inputs = tensors(start, 0.0, 0.5, 0.1, G, 0.0, drag)
    w = small_frequency(0.5, 0.1)
    program = PendulumRollout(frames=int(count * 350 / w) + 1, substeps=4, dt=2.5e-3)
    angle, rate = (y[0] for y in program.run(*inputs))
    by_definition = acceleration(angle, rate, *(x for x in inputs[2:]))
    t = 0.01 * np.arange(program.frames)
    turns = CubicHermiteSpline(t, rate, by_definition).roots(extrapolate=False)
    return np.abs(CubicHermiteSpline(t, angle, rate)(turns[turns > 0.01]))[:count]


def test_drag_shrinks_the_swing_by_its_exact_law():
    """From A to A' in a half swing: e^(−2dA) (cos A + 2d sin A) = e^(2dA') (cos A' − 2d sin A').

    With u = θ̇², the equation is du/dθ = −2 w² sin θ ± 2 d u, linear, and u vanishes at both ends.
    """
    drag = 0.3
    amplitudes = np.array([2.0, *turning_points(2.0, drag, 6)])
    assert len(amplitudes) == 7
    before, after = amplitudes[:-1], amplitudes[1:]
    left = np.exp(-2 * drag * before) * (np.cos(before) + 2 * drag * np.sin(before))
    right = np.exp(2 * drag * after) * (np.cos(after) - 2 * drag * np.sin(after))
    np.testing.assert_allclose(left, right, rtol=0, atol=1e-7)  # a turn leaves d α² h³/81 = 2e-8 in the rate


def test_small_drag_takes_four_thirds_of_the_squared_amplitude():
    """The work of the drag over a half swing of amplitude A, 4/3 d w² A³, over w² A: A − A' = 4/3 d A² (1 + O(d A, A²))."""
    start = 0.02
    (after,) = turning_points(start, 0.1, 1)
    assert (start - after) / (0.1 * start**2) == pytest.approx(4 / 3, rel=5e-3)


def test_spin_without_gravity_decays_by_damping_and_drag():
    """θ̇ = c Ω e^(−ct) / (c + d |Ω| (1 − e^(−ct))), with its derivatives by Ω, c and d."""
    leaves = tensors(0.3, [8.0, -5.0], 0.5, 0.1, 0.0, [0.7, 0.2], [0.4, 0.9])
    leaves = [x.clone().requires_grad_() for x in leaves]
    start, (spin, c, d), t = leaves[0], (leaves[k] for k in (1, 5, 6)), 2.0
    angle, rate = (y[:, -1] for y in PendulumRollout(frames=3, substeps=1000, dt=1e-3).run(*leaves))
    fading = torch.exp(-c * t)
    spin_now = c * spin * fading / (c + d * spin.abs() * (1 - fading))
    angle_now = start + spin.sign() * torch.log1p(d * spin.abs() * (1 - fading) / c) / d
    for got, expected in ((rate, spin_now), (angle, angle_now)):
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=0)
        pairs = (grad(y.sum(), [spin, c, d], retain_graph=True) for y in (got, expected))
        for x, y in zip(*pairs, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-9, atol=0)


def test_drag_has_no_derivative_at_rest():
    """∂(d |θ̇| θ̇)/∂θ̇ = 0 at θ̇ = 0: hanging at rest, the gradient by the start is that of the damped oscillator."""
    leaves = [x.clone().requires_grad_() for x in tensors(0.0, 0.0, 0.5, 0.1, G, 0.4, 5.0)]
    angle, _ = PendulumRollout(frames=2, substeps=500, dt=1e-3).run(*leaves)
    got = grad(angle[0, -1], leaves)
    omega = math.sqrt(small_frequency(0.5, 0.1) ** 2 - 0.2**2)
    fading = math.exp(-0.2 * 0.5)
    by_angle = fading * (math.cos(omega * 0.5) + 0.2 / omega * math.sin(omega * 0.5))
    assert got[0].item() == pytest.approx(by_angle, rel=1e-9)
    assert got[1].item() == pytest.approx(fading * math.sin(omega * 0.5) / omega, rel=1e-9)
    assert all(g.item() == 0 for g in got[2:7])


def test_pull_to_the_side_is_gravity_turned():
    """A ball hangs at rest along gravity and force together, and swings about there as it would about straight down."""
    lean = 0.4
    turned = tensors(1.1 + lean, -2.0, 0.5, 0.1, G * math.cos(lean), 0.2, 0.3, side=G * math.sin(lean))
    plain = STEPS.run(*tensors(1.1, -2.0, 0.5, 0.1, G, 0.2, 0.3))
    angle, rate = STEPS.run(*turned)
    torch.testing.assert_close(angle - lean, plain[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(rate, plain[1], rtol=0, atol=1e-12)


# ---- order


def test_error_falls_with_the_fourth_power_of_the_step():
    """Against sin(θ/2) = k cd(w t, k²), k = sin(θ₀/2), of the undamped swing from rest."""
    start, k = 1.5, math.sin(0.75)
    inputs = tensors(start, 0.0, 0.5, 0.1, G, 0.0, 0.0)
    _, cn, dn, _ = ellipj(small_frequency(0.5, 0.1) * np.linspace(0, 2, 11), k**2)
    errors = []
    for substeps in (20, 40, 80):
        angle, _ = PendulumRollout(11, substeps, 0.2 / substeps).run(*inputs)
        errors.append(abs(angle[0].numpy() - 2 * np.arcsin(k * cn / dn)).max())
    slopes = np.log2(np.divide(errors[:-1], errors[1:]))
    np.testing.assert_allclose(slopes, 4, atol=0.05)


def test_step_over_a_turning_point_costs_the_third_power():
    """At most d α² h³/81 in the rate, as `pendulum/simple_kernels.py` says; h⁴ is far below at these steps."""
    drag, w2 = 0.5, small_frequency(0.5, 0.1) ** 2
    inputs = tensors(0.0, 3.0, 0.5, 0.1, G, 0.0, drag)

    def rates(_, y):
        return [y[1], -w2 * math.sin(y[0]) - drag * abs(y[1]) * y[1]]

    turn = solve_ivp(rates, (0, 1), [0.0, 3.0], method="DOP853", rtol=1e-13, atol=1e-14, events=lambda _, y: y[1])
    time, (peak, _) = turn.t_events[0][0], turn.y_events[0][0]
    n, h = 256, time / (256 - 2 / 3)  # the step that crosses begins a third of h before the turning point
    past = solve_ivp(rates, (time, n * h), [peak, 0.0], method="DOP853", rtol=1e-13, atol=1e-14)
    _, rate = PendulumRollout(frames=2, substeps=n, dt=h).run(*inputs)
    bound = drag * (w2 * math.sin(peak)) ** 2 * h**3 / 81
    assert abs(rate[0, -1].item() - past.y[1, -1]) == pytest.approx(bound, rel=0.1)


# ---- invariances


def test_mirrored_start_swings_mirrored(generic):
    mirrored = STEPS.run(-generic[0], -generic[1], *generic[2:7], -generic[7])
    assert all(torch.equal(y, -z) for y, z in zip(STEPS.run(*generic), mirrored, strict=True))


def test_full_turn_changes_nothing_but_the_count(generic):
    turned = STEPS.run(generic[0] + 4 * math.pi, *generic[1:])
    plain = STEPS.run(*generic)
    torch.testing.assert_close(turned[0] - 4 * math.pi, plain[0], rtol=0, atol=1e-11)
    torch.testing.assert_close(turned[1], plain[1], rtol=0, atol=1e-11)


def test_undamped_swing_runs_backwards(generic):
    """θ̇ → −θ̇ returns to the start, to the method's error: the truncation of 3 000 steps stays below 1e-9."""
    parameters = [*generic[2:5], *torch.zeros(2, 11, dtype=torch.float64), generic[7]]
    program = PendulumRollout(frames=2, substeps=1500, dt=4e-4)
    angle, rate = (y[:, -1] for y in program.run(*generic[:2], *parameters))
    angle, rate = (y[:, -1] for y in program.run(angle, -rate, *parameters))
    torch.testing.assert_close(angle, generic[0], rtol=0, atol=1e-9)
    torch.testing.assert_close(-rate, generic[1], rtol=0, atol=1e-9)


# ---- derivatives


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_adjoint_is_the_transpose_of_the_tangent(generic, dtype, tolerance):
    inputs = [x.to(dtype) for x in generic]
    values = STEPS.forward(inputs)
    adjoints = weights(values, 3)
    gradient = STEPS.backward(inputs, values, adjoints)
    errors = dot_product_errors(lambda x, v: [t for _, t in STEPS.tangent(x, v)], gradient, inputs, adjoints, 4)
    assert len(errors) == 8 and max(errors) < tolerance


def test_value_beside_the_tangent_is_the_plain_one(generic):
    dual = STEPS.tangent(generic, directions(generic, 5))
    assert all(torch.equal(value, plain) for (value, _), plain in zip(dual, STEPS.forward(generic), strict=True))


def one_by_one(inputs):
    """Directions along each input alone, by name."""
    for name, x in zip(INPUTS, inputs, strict=True):
        yield name, [torch.ones_like(y) if y is x else torch.zeros_like(y) for y in inputs]


def test_jacobian_by_tangents_is_that_by_adjoints(generic):
    plain = STEPS.forward(generic)
    last = [torch.zeros_like(y) for y in plain]
    last[0][:, -1] = 1
    rows = STEPS.backward(generic, plain, last)
    for (name, along), row in zip(one_by_one(generic), rows, strict=True):
        assert error(STEPS.tangent(generic, along)[0][1][:, -1], row) < 1e-12, name


def test_adjoint_of_a_rollout_matches_central_differences(generic):
    values = STEPS.forward(generic)
    adjoints = weights(values, 6)
    rows = STEPS.backward(generic, values, adjoints)
    for (name, along), row in zip(one_by_one(generic), rows, strict=True):
        secants = central_difference(STEPS.run, generic, along, 1e-4)
        slopes = torch.cat([t * w for t, w in zip(secants, adjoints, strict=True)], 1).sum(1)
        assert error(slopes, row) < 1e-7, name


@pytest.mark.parametrize("name", [*INPUTS, None])
def test_taylor_remainder_falls_with_the_square(generic, name):
    """Over three decades, by each input and by all together."""
    along = [v if name in (None, key) else v * 0 for key, v in zip(INPUTS, directions(generic, 7), strict=True)]
    assert taylor_slope(STEPS.run, generic, along, np.logspace(-5, -2, 7).tolist()) == pytest.approx(2, abs=0.02)


def test_gradcheck(generic):
    program = PendulumRollout(frames=3, substeps=5, dt=1e-2)
    assert gradcheck(lambda *x: tuple(program.run(*x)), [x[:3].clone().requires_grad_() for x in generic])


@pytest.mark.parametrize("segment", [2, 7, 100])
def test_checkpointed_gradient_is_the_plain_one(generic, segment):
    values = STEPS.forward(generic)
    adjoints = weights(values, 8)
    checkpointed = PendulumRollout(26, 6, 4e-3, segment=segment).backward(generic, values, adjoints)
    plain = STEPS.backward(generic, values, adjoints)
    assert all(torch.equal(x, y) for x, y in zip(plain, checkpointed, strict=True))


def everything(program, inputs, along, adjoints):
    """Values, tangents and adjoints of a rollout."""
    values, tangents = zip(*program.tangent(inputs, along), strict=True)
    return [*program.forward(inputs), *tangents, *program.backward(inputs, values, adjoints)]


def test_width_of_the_register_changes_nothing(generic):
    along, adjoints = directions(generic, 9), weights(STEPS.forward(generic), 10)
    results = [everything(PendulumRollout(26, 6, 4e-3, width=w), generic, along, adjoints) for w in (1, 8)]
    for narrow, wide in zip(*results, strict=True):
        assert error(narrow, wide) < 1e-12


def test_world_of_a_batch_is_the_same_alone(generic):
    along, adjoints = directions(generic, 11), weights(STEPS.forward(generic), 12)
    batch = everything(STEPS, generic, along, adjoints)
    for world in (0, 7, 10):
        one = slice(world, world + 1)
        alone = everything(STEPS, *([x[one] for x in group] for group in (generic, along, adjoints)))
        assert all(torch.equal(x[one], y) for x, y in zip(batch, alone, strict=True))


def test_single_precision_agrees_with_double(generic):
    along, adjoints = directions(generic, 13), weights(STEPS.forward(generic), 14)
    double = everything(STEPS, generic, along, adjoints)
    single = everything(STEPS, *([x.float() for x in group] for group in (generic, along, adjoints)))
    for x, y in zip(double, single, strict=True):
        assert y.dtype == torch.float32
        assert error(y.double(), x) < 1e-5


def test_compiled_gradient_is_the_eager_one(generic):
    leaves = [x.requires_grad_() for x in generic]

    def loss(*inputs):
        angle, rate = STEPS.run(*inputs)
        return (angle.sin() * rate).sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    expected, got = grad(loss(*leaves), leaves), grad(compiled(*leaves), leaves)
    assert all(torch.equal(x, y) for x, y in zip(expected, got, strict=True))


def test_backward_pass_leaves_what_it_reads(generic):
    """Arrays of width 1 share the memory of the tensors."""
    program = PendulumRollout(frames=5, substeps=2, dt=1e-2, width=1)
    values = program.forward(generic)
    adjoints = weights(values, 15)
    kept = [x.clone() for x in (*generic, *values, *adjoints)]
    program.backward(generic, values, adjoints)
    assert all(torch.equal(x, y) for x, y in zip((*generic, *values, *adjoints), kept, strict=True))


# ---- any start


def test_any_start_stays_finite():
    """Random worlds, and starts at rest, upside down, fast, without gravity, ball or damping: values and gradients."""
    share = torch.rand(1000, 8, generator=torch.Generator().manual_seed(16), dtype=torch.float64)
    random = share * torch.tensor([20.0, 100.0, 2.0, 1.0, 20.0, 3.0, 1.0, 20.0])
    random = random - torch.tensor([10.0, 50.0, 0, 0, 0, 0, 0, 10.0])
    choices = [[0.0, math.pi], [0.0, -30.0], [0.5, 2.0], [0.0, 0.1], [0.0, G], [0.0, 0.5], [0.0, 0.5], [0.0, 3.0]]
    edges = torch.cartesian_prod(*torch.tensor(choices, dtype=torch.float64))
    leaves = [x.contiguous().requires_grad_() for x in torch.cat([random, edges]).T]
    angle, rate = PendulumRollout(frames=11, substeps=20, dt=1e-3).run(*leaves)
    gradients = grad(angle.sum() + rate.sum(), leaves)
    assert all(torch.isfinite(x).all() for x in (angle, rate, *gradients))


@pytest.mark.parametrize("width", [1, 8])
def test_start_alone_is_its_own_rollout(generic, width):
    leaves = [x.requires_grad_() for x in generic]
    angle, rate = PendulumRollout(frames=1, substeps=5, dt=1e-2, width=width).run(*leaves)
    assert torch.equal(angle[:, 0], generic[0]) and torch.equal(rate[:, 0], generic[1])
    gradients = grad((angle * 2 + rate * 3).sum(), generic)
    for got, expected in zip(gradients, (2.0, 3.0, 0, 0, 0, 0, 0, 0), strict=True):
        assert (got == expected).all()


def test_input_of_the_wrong_shape_is_named(generic):
    generic[6] = generic[6][:5]
    with pytest.raises(ValueError, match=r"`drag` has shape \(5,\); 11 worlds need \(11,\)"):
        STEPS.run(*generic)
