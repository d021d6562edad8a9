"""The rollout of rigid bodies against its definition in plain PyTorch, and what every rollout must satisfy."""

import math

import pytest
import rigid_reference
import torch
from checks import (
    central_difference,
    directions,
    dot_product_errors,
    error,
    gradients,
    slope,
    taylor_slope,
    weights,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from rigid_cases import (
    WINDOWS,
    airborne,
    among_obstacles,
    body,
    in_air,
    random_inertia_inverse,
    resting,
    rolling,
    rolling_over_obstacles,
    simulate,
    tumbling,
    with_clock,
)
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation
from torch.nn.functional import normalize

from gradsim.physics.contact.laws import LAWS
from gradsim.physics.rigid.rollout import CONTACT, INPUTS, ROLLING, RigidRollout

DT = 1e-3  # [s], about 1/25 of the shortest contact period of the cases
LONG = {"frames": 13, "substeps": 10, "dt": DT, "windows": WINDOWS}  # 120 steps
NAMES = list(INPUTS)
PLANES = [(tumbling, law, "semi-implicit") for law in LAWS] + [(tumbling, "continuous", "rk4")]
SOLIDS = [
    (among_obstacles, *mode)
    for mode in (("continuous", "semi-implicit"), ("paper", "semi-implicit"), ("continuous", "rk4"))
]
AIR = [(in_air, "continuous", "semi-implicit"), (in_air, "continuous", "rk4")]
ROUGH = [(rolling, "continuous", "rk4"), (rolling_over_obstacles, "paper", "semi-implicit")]
MODES = PLANES + SOLIDS + AIR + ROUGH


def names(errors):
    return {name: e for name, e in zip(INPUTS, errors, strict=True) if e}


@pytest.mark.slow
@pytest.mark.parametrize(("case", "law", "integrator"), MODES)
def test_rollout_and_its_gradient_are_those_of_the_definition(case, law, integrator):
    case = with_clock(case(11, 1, law), 30, DT, seed=1)
    inputs = list(case.values())
    lanes = RigidRollout(31, 1, DT, WINDOWS, law, integrator, segment=7).run

    def reference(*inputs):
        at = dict(zip(INPUTS, inputs, strict=True))
        return rigid_reference.rollout(at, 31, DT, WINDOWS, law, integrator)

    values, expected = lanes(*inputs), reference(*inputs)
    adjoints = weights(expected, seed=2)
    assert max(map(error, values, expected)) < 1e-12
    pairs = zip(gradients(lanes, inputs, adjoints), gradients(reference, inputs, adjoints), strict=True)
    assert max(error(a, b) for a, b in pairs) < 1e-12


def test_one_step_in_float32_is_that_of_the_definition():
    case = tumbling(16, seed=3)
    singles = [x.float() for x in case.values()]
    exact = [x.double() for x in singles]
    lanes = RigidRollout(2, 1, DT, WINDOWS).run

    def reference(*inputs):
        return rigid_reference.rollout(dict(zip(INPUTS, inputs, strict=True)), 2, DT, WINDOWS)

    values, expected = lanes(*singles), reference(*exact)
    adjoints = [w.float() for w in weights(expected, seed=4)]
    assert all(y.dtype == torch.float32 for y in values)
    assert max(map(error, values, expected)) < 1e-5
    exact_gradients = gradients(reference, exact, [w.double() for w in adjoints])
    assert max(map(error, gradients(lanes, singles, adjoints), exact_gradients)) < 1e-5


@pytest.mark.parametrize(("case", "law", "integrator"), MODES)
def test_adjoint_is_the_transpose_of_the_forward_sensitivity_for_every_input(case, law, integrator):
    rollout = RigidRollout(**LONG, law=law, integrator=integrator)
    inputs = list(with_clock(case(8, 5, law), 12, DT, seed=5).values())
    adjoints = weights(rollout.forward(inputs), seed=6)
    gradient = gradients(rollout.run, inputs, adjoints)
    errors = dot_product_errors(lambda x, v: [t for _, t in rollout.tangent(x, v)], gradient, inputs, adjoints, seed=7)
    # every input matters here, contact and pushes included
    assert all(g.abs().max() > 0 for g in gradient if g.numel())
    assert max(errors) < 1e-12, names(errors)


def test_adjoint_is_the_transpose_of_the_forward_sensitivity_in_float32():
    rollout = RigidRollout(**LONG)
    inputs = [x.float() for x in tumbling(16, seed=5).values()]
    adjoints = weights(rollout.forward(inputs), seed=6)
    gradient = gradients(rollout.run, inputs, adjoints)
    errors = dot_product_errors(lambda x, v: [t for _, t in rollout.tangent(x, v)], gradient, inputs, adjoints, seed=7)
    assert max(errors) < 1e-5, names(errors)


@pytest.mark.parametrize(("case", "law", "integrator"), MODES)
def test_adjoint_and_forward_sensitivity_match_central_differences_for_every_input(case, law, integrator):
    rollout = RigidRollout(**LONG, law=law, integrator=integrator)
    inputs = list(with_clock(case(8, 9, law), 12, DT, seed=8).values())
    adjoints = weights(rollout.forward(inputs), seed=9)
    gradient = gradients(rollout.run, inputs, adjoints)
    for k, v in enumerate(directions(inputs, seed=10)):
        along = [v if j == k else torch.zeros_like(x) for j, x in enumerate(inputs)]
        wide = 30 if NAMES[k] in ROLLING else 1  # their effect is small beside the rounding of states
        expected = central_difference(rollout.run, inputs, along, step=3e-6 * wide)
        smooth = convergent(expected, central_difference(rollout.run, inputs, along, step=1e-6 * wide))
        assert smooth.sum() >= 7, NAMES[k]
        forward = [t for _, t in rollout.tangent(inputs, along)]
        assert max(error(f[smooth], e[smooth]) for f, e in zip(forward, expected, strict=True)) < 1e-7, NAMES[k]
        reverse = (gradient[k] * v).reshape(8, -1).sum(1)
        rate = torch.stack([(y * w).flatten(1).sum(1) for y, w in zip(expected, adjoints, strict=True)]).sum(0)
        assert error(reverse[smooth], rate[smooth]) < 1e-7, NAMES[k]


def convergent(coarse, fine):
    """Worlds whose secants of two widths agree: where a touch of the paper's law, or a switch of the nearest face
    inside a box, lies between the ends of a secant, the force jumps and the secant grows as one over its width."""
    off = [
        (c - f).abs().flatten(1).amax(1) / f.abs().max().clamp(min=1e-300) for c, f in zip(coarse, fine, strict=True)
    ]
    return torch.stack(off).amax(0) < 1e-5


@pytest.mark.parametrize("integrator", ["semi-implicit", "rk4"])
def test_remainder_of_the_loss_falls_with_the_square_of_the_step(integrator):
    inputs = list(resting(8, seed=11).values())
    along = [0.1 * v for v in directions(inputs, seed=12)]
    along[NAMES.index("height")] *= 0.01  # else the body takes off
    along[NAMES.index("x")] *= 0.1
    run = RigidRollout(**LONG, integrator=integrator).run
    steps = [10**-p for p in (2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)]
    assert taylor_slope(run, inputs, along, steps) == pytest.approx(2, abs=0.02)


@pytest.mark.parametrize(
    ("integrator", "order", "counts"), [("semi-implicit", 1, [640, 900, 1280, 1800]), ("rk4", 4, [57, 80, 113, 160])]
)
@pytest.mark.parametrize("case", [resting(8, seed=13), airborne(8, seed=14)], ids=["resting", "airborne"])
def test_error_falls_with_the_order_of_the_integrator(case, integrator, order, counts):
    window = ((0.0, 0.2),)  # ends on a step of every rollout, so that no step is torn
    case = {**case, "impulse": case["impulse"][:, :1], "push_point": case["push_point"][:, :1]}
    exact = simulate(case, 2, 0.2 / 20000, 20000, windows=window, integrator="rk4")
    errors = []
    for steps in counts:
        states = simulate(case, 2, 0.2 / steps, steps, windows=window, integrator=integrator)
        errors.append(math.sqrt(sum((states[n][:, 1] - exact[n][:, 1]).square().sum().item() for n in "xqvl")))
    assert slope(counts, errors) == pytest.approx(-order, abs=0.05)


@pytest.mark.parametrize("integrator", ["semi-implicit", "rk4"])
def test_free_flight_keeps_linear_and_angular_momentum_exactly(integrator):
    case = airborne(8, seed=15)
    case["gravity"], case["impulse"] = 0 * case["gravity"], 0 * case["impulse"]
    states = simulate(case, 101, 0.01, 10, windows=WINDOWS, integrator=integrator)
    assert torch.equal(states["v"], case["v"][:, None].expand_as(states["v"]))
    assert torch.equal(states["l"], case["l"][:, None].expand_as(states["l"]))
    travelled = case["x"][:, None] + case["v"][:, None] * torch.arange(101)[:, None] * 0.1
    assert error(states["x"], travelled) < 1e-13 * 1000  # one rounding for each of 1000 steps
    assert (torch.linalg.vector_norm(states["q"], dim=-1) - 1).abs().max() < 1e-14


def test_tumbling_obeys_eulers_equations_in_the_body_frame():
    """d(I ω)/dt = I ω × ω, integrated by DOP853: without this gyroscopic term the spin would stay constant."""
    case = body(4, inertia_inverse=random_inertia_inverse(4, torch.Generator().manual_seed(16)))
    case["q"] = normalize(torch.randn(4, 4, generator=torch.Generator().manual_seed(17)).double(), dim=-1)
    case["l"] = torch.randn(4, 3, generator=torch.Generator().manual_seed(18)).double()
    states = simulate(case, 2, 5e-5, 20000, integrator="rk4")
    for k in range(4):
        inverse, start = case["inertia_inverse"][k].numpy(), Rotation.from_quat(case["q"][k].numpy())
        momentum = start.inv().apply(case["l"][k].numpy())

        def rate(_, y, inverse=inverse):
            m, axes = y[:3], y[3:].reshape(3, 3)
            w = torch.tensor(inverse @ m)
            m = torch.tensor(m)
            turn = torch.linalg.cross(w.expand(3, 3), torch.tensor(axes))  # columns of R, as rows, in the body's frame
            return torch.cat([torch.linalg.cross(m, w), -turn.flatten()]).numpy()

        end = solve_ivp(rate, (0, 1), [*momentum, *start.inv().as_matrix().T.ravel()], "DOP853", rtol=1e-13, atol=1e-13)
        expected = Rotation.from_matrix(end.y[3:, -1].reshape(3, 3)).as_matrix()  # rows: world axes in the body's frame
        assert abs(Rotation.from_quat(states["q"][k, 1].numpy()).as_matrix() - expected).max() < 1e-10


def test_a_turn_of_up_to_two_radians_in_one_step_is_exact():
    turns = torch.randn(64, 3, generator=torch.Generator().manual_seed(19)).double()
    turns = normalize(turns, dim=-1) * torch.linspace(0, 2, 64)[:, None].double()
    states = simulate(body(64, l=turns), 2, 1.0)
    expected = torch.tensor(Rotation.from_rotvec(turns.numpy()).as_quat(canonical=True))
    assert (states["q"][:, 1] - expected).abs().max() < 1e-13  # the series leaves out 1/16! of 1 rad, 5e-14


@pytest.mark.parametrize("integrator", ["semi-implicit", "rk4"])
@pytest.mark.parametrize("case", [tumbling, among_obstacles])
def test_turning_the_whole_scene_turns_the_result(integrator, case):
    case, within = case(8, seed=20), 1e-11  # 100 steps of a bouncing body amplify the rounding
    turn = torch.tensor([0.3, -0.5, 0.4, 0.7]).double()
    turn = turn / torch.linalg.vector_norm(turn)
    turned = dict(case, q=rigid_reference.product(turn.expand(8, 4), case["q"]))
    R = rigid_reference.matrix(turn)
    for name in ("x", "v", "l", "gravity", "normal", "impulse", "centre", "axis"):
        turned[name] = case[name] @ R.T
    options = {"windows": WINDOWS, "integrator": integrator}
    before, after = simulate(case, 6, DT, 20, **options), simulate(turned, 6, DT, 20, **options)
    for name in "xvl":
        assert error(after[name], before[name] @ R.T) < within
    assert error(after["q"], rigid_reference.product(turn.expand_as(before["q"]), before["q"])) < within


@pytest.mark.parametrize("integrator", ["semi-implicit", "rk4"])
@pytest.mark.parametrize(
    "window", [(0.0, 0.0), (0.0501, 0.0501), (0.0, 0.1), (0.0123, 0.0124), (0.0123, 0.0777), (0.095, 0.1)]
)
@pytest.mark.parametrize("steps", [1, 3, 10, 97])
def test_push_delivers_its_impulse_whatever_its_window_and_the_step(window, steps, integrator):
    case = body(8, impulse=[[0.3, -0.5, 0.2]], mass=torch.linspace(1, 3, 8), l=[0.1, 0.2, 0.3])
    states = simulate(case, 2, 0.1 / steps, steps, windows=(window,), integrator=integrator)
    assert error(case["mass"][:, None] * states["v"][:, 1], case["impulse"][:, 0]) < 1e-13
    assert error(states["l"][:, 1], case["l"]) < 1e-13  # through the centre of mass


def test_an_impulse_long_after_the_end_does_nothing():
    """A step of 1e18 is no 32-bit number."""
    case = body(8, impulse=[[0.3, -0.5, 0.2]])
    states = simulate(case, 2, 0.01, 10, windows=((1e15, 1e15),))
    assert (
        error(states["v"], simulate(case | {"impulse": 0 * case["impulse"]}, 2, 0.01, 10, windows=((1e15, 1e15),))["v"])
        == 0
    )
    assert error(states["v"][:, -1], states["v"][:, 0]) == 0


@pytest.mark.parametrize("integrator", ["semi-implicit", "rk4"])
def test_blow_off_the_centre_turns_the_body_by_arm_times_impulse(integrator):
    generator = torch.Generator().manual_seed(21)
    case = body(
        8, impulse=torch.randn(8, 1, 3, generator=generator), push_point=torch.randn(8, 1, 3, generator=generator)
    )
    case["q"] = normalize(torch.randn(8, 4, generator=generator).double(), dim=-1)
    states = simulate(case, 2, 1e-6, windows=((0.0, 0.0),), integrator=integrator)
    arm = (rigid_reference.matrix(case["q"]) @ case["push_point"][:, 0, :, None])[..., 0]
    expected = torch.linalg.cross(arm, case["impulse"][:, 0])
    assert error(states["l"][:, 1], expected) < 1e-13


@pytest.mark.parametrize("integrator", ["semi-implicit", "rk4"])
@pytest.mark.parametrize("segment", [2, 5, 12, 100])
def test_checkpoints_do_not_change_the_gradient_by_a_bit(segment, integrator):
    inputs = list(tumbling(8, seed=22).values())
    plain = RigidRollout(**LONG, integrator=integrator, segment=1)
    adjoints = weights(plain.forward(inputs), seed=23)
    checkpointed = RigidRollout(**LONG, integrator=integrator, segment=segment)
    pairs = zip(gradients(plain.run, inputs, adjoints), gradients(checkpointed.run, inputs, adjoints), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_frames_do_not_change_the_states_by_a_bit():
    case = tumbling(8, seed=24)
    few, many = simulate(case, 4, DT, 40, windows=WINDOWS), simulate(case, 121, DT, 1, windows=WINDOWS)
    assert all(torch.equal(few[name], many[name][:, ::40]) for name in "xqvl")


def test_second_run_repeats_the_first_bit_for_bit():
    inputs = list(tumbling(13, seed=25).values())
    adjoints = weights(RigidRollout(**LONG).forward(inputs), seed=26)
    first, second = (
        [*r.run(*inputs), *gradients(r.run, inputs, adjoints)] for r in (RigidRollout(**LONG) for _ in "12")
    )
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_world_of_a_batch_is_the_world_alone_bit_for_bit():
    case = tumbling(11, seed=27)
    rollout = RigidRollout(**LONG)
    states = rollout.forward(list(case.values()))
    adjoints = weights(states, seed=28)
    together = [*states, *rollout.backward(list(case.values()), states, adjoints)]
    for k in range(11):
        inputs = [x[k : k + 1] for x in case.values()]
        alone = rollout.forward(inputs)
        alone = [*alone, *rollout.backward(inputs, alone, [w[k : k + 1] for w in adjoints])]
        assert all(torch.equal(a[k : k + 1], b) for a, b in zip(together, alone, strict=True))


def test_width_of_the_registers_changes_no_more_than_rounding():
    inputs = list(tumbling(11, seed=29).values())
    wide, narrow = RigidRollout(**LONG), RigidRollout(**LONG, width=1)
    states = wide.forward(inputs)
    adjoints = weights(states, seed=30)
    assert max(map(error, narrow.forward(inputs), states)) < 1e-12
    pairs = zip(narrow.backward(inputs, states, adjoints), wide.backward(inputs, states, adjoints), strict=True)
    assert max(error(a, b) for a, b in pairs) < 1e-12


@pytest.mark.parametrize(("case", "law", "integrator"), [MODES[0], MODES[-1], SOLIDS[-1]])
def test_one_world_has_the_same_bits_in_a_wide_register(case, law, integrator):
    inputs = [x[:1].clone().requires_grad_() for x in case(2, seed=31, law=law).values()]
    arguments = {**LONG, "law": law, "integrator": integrator}
    narrow, wide = RigidRollout(**arguments), RigidRollout(**arguments, width=8)
    for _ in range(2):  # a rollout before an adjoint was taken, and one after it
        results = []
        for program in (narrow, wide):
            outputs = program.run(*inputs)
            results.append([*outputs, *torch.autograd.grad([y.sum() for y in outputs], inputs)])
        assert all(map(torch.equal, *results))
    assert narrow.narrow and not wide.narrow


@pytest.mark.parametrize("width", [1, None])
def test_rollout_leaves_what_it_is_given_alone(width):
    rollout = RigidRollout(**LONG, width=width)
    inputs = [x.contiguous() for x in tumbling(8, seed=31).values()]
    states = rollout.forward(inputs)
    adjoints = weights(states, seed=32)
    given = [*inputs, *states, *adjoints]
    before = [x.clone() for x in given]
    gradient = rollout.backward(inputs, states, adjoints)
    assert all(torch.equal(a, b) for a, b in zip(given, before, strict=True))
    memory = [x.untyped_storage().data_ptr() for x in given if x.numel()]
    assert len(set(memory)) == len(memory)
    assert not {g.untyped_storage().data_ptr() for g in gradient if g.numel()} & set(memory)


def test_single_frame_is_the_start_and_passes_its_adjoint_on():
    case = tumbling(3, seed=33)
    rollout = RigidRollout(1, 10, DT, WINDOWS)
    states = rollout.forward(list(case.values()))
    adjoints = weights(states, seed=34)
    assert all(torch.equal(y[:, 0], case[name]) for y, name in zip(states, "xqvl", strict=True))
    gradient = rollout.backward(list(case.values()), states, adjoints)
    assert all(torch.equal(g, w[:, 0]) for g, w in zip(gradient[:4], adjoints, strict=True))
    assert not any(g.any() for g in gradient[4:])


def test_body_that_nothing_can_touch_or_push_flies():
    case = body(3, v=[1.0, 2.0, 3.0], gravity=[0.0, 0.0, -9.81])
    states = simulate({k: v.clone().requires_grad_() for k, v in case.items()}, 3, 0.1)
    states["x"].sum().backward()
    assert error(states["x"][0, 2], torch.tensor([0.2, 0.4, 0.6 - 9.81 * 0.03])) < 1e-7


def test_compiled_rollout_has_the_same_value_and_gradient():
    case = tumbling(8, seed=35)
    run = RigidRollout(**LONG).run

    def loss(*inputs):
        x, q, v, l = run(*inputs)
        return (x * x).sum() + q.sum() + v.sum() * l.square().sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    plain, traced = ([x.clone().requires_grad_() for x in case.values()] for _ in "12")
    expected, value = loss(*plain), compiled(*traced)
    assert torch.equal(value, expected)
    pairs = zip(torch.autograd.grad(expected, plain), torch.autograd.grad(value, traced), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


LEVELS = st.sampled_from([0.0, 1e-12, 1e-3, 1.0, 30.0])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**31),
    law=st.sampled_from(["continuous", "paper"]),
    single=st.booleans(),
    speed=LEVELS,
    turning=LEVELS,
    friction=LEVELS,
    drag=LEVELS,
    damping=st.sampled_from([0.0, 0.3, 10.0]),
    stiffness=st.sampled_from([0.0, 1.0, 1e3, 1e6]),
    gravity=LEVELS,
    upright=st.booleans(),
    height=st.sampled_from([0.0, -0.1, 1.0]),
)
def test_random_scenes_give_finite_values_and_gradients(
    seed, law, single, speed, turning, friction, drag, damping, stiffness, gravity, upright, height
):
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(8, *shape, generator=generator, dtype=torch.float64)
    start = torch.tensor([0.0, 0, 0, 1]).double().expand(8, 4) if upright else normalize(normal(4), dim=-1)
    case = body(
        8,
        x=[0.0, 0.0, 0.1],  # upright, the lower corners touch the ground exactly, or start high above or deep inside
        q=start,
        v=speed * normal(3),
        l=turning * normal(3),
        inertia_inverse=random_inertia_inverse(8, generator),
        gravity=[0.0, 0.0, -gravity],
        points=[[a, b, c] for a in (-0.1, 0.1) for b in (-0.1, 0.1) for c in (-0.1, 0.1)],
        normal=[[0.0, 0.0, 1.0], [0.6, 0.0, 0.8]],
        height=height,
        stiffness=stiffness,
        damping=damping,
        friction_stiffness=drag,
        friction=friction,
        impulse=speed * normal(1, 3),
        push_point=0.1 * normal(1, 3),
    )
    # stable: 8 points on each of 2 grounds, arms of 0.17 m, inverse inertia of 20 (see the bound in `RigidBody`)
    rate = 16 * (1 + 0.03 * 20) * (drag + damping * (1 if law == "paper" else stiffness * 0.3))
    dt = 0.2 / (rate + math.sqrt(16 * 1.6 * stiffness) + turning * 20 + 1)
    rollout = RigidRollout(4, 10, dt, ((0.0, 0.0),), law)
    single = single and law == "continuous"  # spares a kernel
    inputs = [x.float() if single else x for x in case.values()]
    states = rollout.run(*inputs)
    assert all(y.isfinite().all() for y in states)
    assert all(g.isfinite().all() for g in gradients(rollout.run, inputs, weights(states, seed)))


def test_steps_of_equal_length_are_those_of_dt_bit_for_bit():
    case = tumbling(8, seed=36)
    steps = {**case, "step": torch.full((8, 12), DT, dtype=torch.float64)}
    plain, clocked = simulate(case, 13, DT, 10, windows=WINDOWS), simulate(steps, 13, DT, 10, windows=WINDOWS)
    assert all(torch.equal(plain[name], clocked[name]) for name in "xqvl")


@pytest.mark.parametrize("integrator", ["semi-implicit", "rk4"])
def test_an_interval_without_length_changes_nothing_but_lets_a_blow_fall(integrator):
    """With h = 0 a blow changes v by J/m and L by r × J, and the derivative by h is finite."""
    case = tumbling(8, seed=37)
    case = {**case, "step": torch.tensor([[0.0, DT]]).double().expand(8, 2)}
    first = {name: case[name][:, :1] for name in ("impulse", "push_point")}
    inputs = [first.get(name, x).clone().requires_grad_() for name, x in case.items()]
    x, q, v, _ = RigidRollout(3, 10, DT, WINDOWS[:1], integrator=integrator).run(*inputs)
    assert torch.equal(x[:, 1], x[:, 0]) and error(q[:, 1], q[:, 0]) < 1e-15
    assert error(v[:, 1], case["v"] + case["impulse"][:, 0] / case["mass"][:, None]) < 1e-15
    (slope,) = torch.autograd.grad(x[:, 1].sum(), inputs[-1])
    assert error(slope[:, 0], 10 * v[:, 1].sum(1)) < 1e-14 and not slope[:, 1].any()


def test_obstacles_that_nothing_touches_change_no_bit():
    case = tumbling(8, seed=38)
    far = {"centre": [[0.0, 0, 90]], "axis": torch.eye(3)[None], "half": [[1.0, 1, 1]], "rounding": [0.1]}
    more = {name: torch.cat([case[name], case[name][:, :1]], 1) for name in CONTACT}
    beside = body(8, **{**{n: x for n, x in case.items() if n not in far}, **more, **far})
    plain, other = simulate(case, 13, DT, 10, windows=WINDOWS), simulate(beside, 13, DT, 10, windows=WINDOWS)
    assert all(torch.equal(plain[name], other[name]) for name in "xqvl")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"rounding": torch.zeros(2, 2).double()}, "rounding` has 2 obstacles, `centre` has 3"),
        ({"friction": torch.zeros(2, 3).double()}, "friction` has 3 entries for 1 grounds and 3 obstacles"),
        ({"step": torch.zeros(2, 3).double()}, "`step` has 3 intervals; 2 frames need 1, or 0"),
    ],
)
def test_counts_that_do_not_agree_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        simulate({**among_obstacles(2, 0), **change}, 2, DT, windows=WINDOWS)


def test_pushes_without_their_windows_are_refused():
    with pytest.raises(ValueError, match="windows"):
        simulate(tumbling(2, 0), 2, DT, windows=((0.0, 0.0),))  # two impulses
