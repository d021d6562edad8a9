"""Long steps where a body touches nothing: the same motion and gradient, at a fraction of the cost."""

import pytest
import torch
from checks import dot_product_errors, error, gradients, weights
from rigid_cases import Case, among_obstacles, body, in_air, simulate, tumbling, with_clock
from torch import Tensor

from gradsim.physics.rigid.rollout import INPUTS, RigidRollout, quiet_strides, strides_of

FPS, SUBSTEPS = 30, 64
DT = 1 / (FPS * SUBSTEPS)
SPAN = {"frames": 13, "substeps": SUBSTEPS, "dt": DT, "integrator": "rk4"}
WINDOWS = ((0.0, 0.0), (0.0117, 0.0253))
BOUND = 1e-9  # 6e-12 rad for each of 192 long steps, which the bounces amplify


def falling(case: Case) -> Case:
    """The bodies half a metre higher, so that they fly before and between bounces; no two alike."""
    worlds = len(case["x"])
    x = case["x"] + torch.tensor([0.0, 0.0, 0.5]) * torch.linspace(0.5, 1.5, worlds).double()[:, None]
    return case | {"x": x, "impulse": 0 * case["impulse"], "stiffness": 20 * case["stiffness"]}


CASES = [
    (lambda worlds: falling(tumbling(worlds, 1)), WINDOWS),
    (lambda worlds: falling(among_obstacles(worlds, 2)), WINDOWS),
    (lambda worlds: {**falling(tumbling(worlds, 3)), "impulse": tumbling(worlds, 3)["impulse"]}, WINDOWS),
    (lambda worlds: {**falling(tumbling(worlds, 4)), "impulse": tumbling(worlds, 3)["impulse"]}, ((0.2, 0.2), (0.1, 0.3))),
    (lambda worlds: {**falling(in_air(worlds, 5)), "drag": 0.01 * in_air(worlds, 5)["drag"]}, WINDOWS),
]  # fmt: skip


def near_worlds(rollout: RigidRollout, case: Case) -> Tensor:
    """Frame intervals (worlds, frames - 1) in which a body touches something, by the change of its velocity."""
    states = dict(zip("xqvl", rollout.forward(list(case.values())), strict=True))
    return (states["v"].diff(dim=1) - case["gravity"][:, None] / FPS).abs().amax(2) > 1e-9


def tangential(gradient: list[Tensor], inputs: list[Tensor]) -> list[Tensor]:
    """Without the part by the length of q, which the first step takes off and no motion has."""
    k = list(INPUTS).index("q")
    q, g = inputs[k], gradient[k]
    return [*gradient[:k], g - q * (g * q).sum(-1, keepdim=True), *gradient[k + 1 :]]


@pytest.mark.parametrize(("case", "windows"), CASES)
def test_motion_and_gradient_are_those_of_short_steps(case, windows):
    inputs = list(with_clock(case(11), 12, DT, seed=1).values())
    long, short = (RigidRollout(**SPAN, windows=windows, strides=strides) for strides in (True, False))
    values, expected = long.run(*inputs), short.run(*inputs)
    adjoints = weights(expected, seed=2)
    off = max(map(error, values, expected))
    assert 0 < off < BOUND  # 0 would mean that no step was long
    actual, reference = (tangential(gradients(r.run, inputs, adjoints), inputs) for r in (long, short))
    pairs = zip(actual, reference, strict=True)
    assert max(error(a, b) for a, b in pairs) < 100 * BOUND  # a gradient through bounces is as much more sensitive


@pytest.mark.parametrize(("case", "windows"), CASES)
def test_adjoint_is_the_transpose_of_the_forward_sensitivity(case, windows):
    rollout = RigidRollout(**SPAN, windows=windows, segment=5)
    inputs = list(with_clock(case(8), 12, DT, seed=5).values())
    adjoints = weights(rollout.forward(inputs), seed=6)
    gradient = gradients(rollout.run, inputs, adjoints)
    errors = dot_product_errors(lambda x, v: [t for _, t in rollout.tangent(x, v)], gradient, inputs, adjoints, seed=7)
    assert max(errors) < 1e-12, dict(zip(INPUTS, errors, strict=True))


@pytest.mark.parametrize("case", [CASES[0][0], CASES[1][0]])
def test_world_of_a_batch_is_the_world_alone_bit_for_bit(case):
    """Its long steps do not depend on what the others of its pack do."""
    case = case(11)
    rollout = RigidRollout(**SPAN, windows=WINDOWS)
    inputs = list(case.values())
    states = rollout.forward(inputs)
    adjoints = weights(states, seed=28)
    together = [*states, *rollout.backward(inputs, states, adjoints)]
    near = near_worlds(rollout, case)
    assert (near.any(0) & ~near.all(0)).any()  # some fly while others touch
    for k in range(11):
        single = [x[k : k + 1] for x in inputs]
        alone = rollout.forward(single)
        alone = [*alone, *rollout.backward(single, alone, [w[k : k + 1] for w in adjoints])]
        assert all(torch.equal(a[k : k + 1], b) for a, b in zip(together, alone, strict=True))


@pytest.mark.parametrize("segment", [2, 12])
def test_checkpoints_do_not_change_the_gradient_by_a_bit(segment):
    inputs = list(falling(tumbling(8, 22)).values())
    plain, checkpointed = (RigidRollout(**SPAN, windows=WINDOWS, segment=s) for s in (1, segment))
    adjoints = weights(plain.forward(inputs), seed=23)
    pairs = zip(gradients(plain.run, inputs, adjoints), gradients(checkpointed.run, inputs, adjoints), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_fast_spin_takes_short_steps():
    case = body(2, x=[0, 0, 9.0], points=[[0.1, 0, 0]], normal=[[0, 0, 1.0]], inertia_inverse=torch.eye(3))
    slow, fast = ({**case, "l": torch.tensor([0.0, 0.0, w]).expand(2, 3).double()} for w in (1.0, 40.0))
    moved = lambda case, strides: simulate(case, 2, DT, SUBSTEPS, integrator="rk4", strides=strides)["q"]
    assert not torch.equal(moved(slow, True), moved(slow, False))
    assert torch.equal(moved(fast, True), moved(fast, False))


def test_a_push_falls_into_no_long_step():
    program = RigidRollout(**SPAN, windows=((0.1, 0.1), (0.2, 0.21)))
    _, layout = program._code(list(body().values()), dual=False, narrow=False)
    quiet = torch.from_numpy(quiet_strides(program, layout, 4, torch.device("cpu")).numpy())
    begin = torch.arange(len(quiet)) * 4 * DT
    inside = ((begin - 1e-9 <= 0.1) & (0.1 <= begin + 4 * DT)) | ((begin < 0.21) & (begin + 4 * DT > 0.2))
    assert not quiet[inside].any() and quiet.sum() > len(quiet) - inside.sum() - 8


@pytest.mark.parametrize(("steps", "strides"), [(8, 1), (31, 1), (37, 1), (32, 4), (64, 8), (300, 20), (900, 20)])
def test_strides_divide_the_steps(steps, strides):
    assert strides_of(steps) == strides
