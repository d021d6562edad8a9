"""Steps that end at touch and release: bounces of high order, in value and derivatives, and where there is nothing to find."""

import math

import bounce_reference
import numpy as np
import pytest
import torch
from checks import central_difference, directions, dot_product_errors, error, gradients, slope, weights
from rigid_cases import Case, among_obstacles, body, simulate, tumbling, with_clock
from scipy.spatial.transform import Rotation
from tolerances import ROUNDING, SOLVED, near

from gradsim.physics.rigid.rollout import INPUTS, RigidRollout
from gradsim_reproduction.foreign.rigid_trajectory import Body, Ground, trajectory

FPS, FRAMES, RADIUS, MASS, G = 30, 12, 0.1, 0.4, 9.81
BALL = {"z": 0.5, "w": -0.3, "height": 0.01, "stiffness": 4e5}  # contact of 3 ms; touches in frame 8 of 11
DAMPING = {"continuous": 0.05, "constant-restitution": 200.0}  # bounces of 0.91 and 0.48 of the speed
RK4 = {"integrator": "rk4"}


def ball(numbers: dict[str, float]) -> Case:
    n = numbers
    return body(
        x=[0, 0, n["z"]], v=[0, 0, n["w"]], mass=MASS, gravity=[0, 0, -G], points=[[0, 0, 0.0]], radius=[RADIUS],
        normal=[[0, 0, 1.0]], height=[n["height"]], stiffness=n["stiffness"], damping=n["damping"],
    )  # fmt: skip


def after_bounce(
    numbers: dict[str, float], law: str, steps: int, events: bool = True
) -> tuple[float, dict[str, float]]:
    """Height of the ball at the last frame, and its derivative by each number."""
    rollout = RigidRollout(FRAMES, steps, 1 / (FPS * steps), (), law, **RK4, events=events)
    inputs = {name: x.clone().requires_grad_() for name, x in ball(numbers).items()}
    z = rollout.run(*inputs.values())[0][0, -1, 2]
    slopes = dict(zip(inputs, torch.autograd.grad(z, list(inputs.values())), strict=True))
    at = {"z": slopes["x"][0, 2], "w": slopes["v"][0, 2]}
    at |= {name: slopes[name].flatten()[0] for name in ("height", "stiffness", "damping")}
    return z.item(), {name: y.item() for name, y in at.items()}


@pytest.mark.parametrize("law", DAMPING)
def test_a_bounce_and_its_derivatives_are_of_fourth_order(law):
    """DOP853 with event location at 1e-13; its secants are good to 1e-8. Steps that end at no event are of order 1 or 2 in
    derivatives by the start and the ground, and off by whole multiples at 240 steps."""
    numbers = {**BALL, "damping": DAMPING[law]}
    args = (law, RADIUS, MASS, G, (FRAMES - 1) / FPS)
    exact = bounce_reference.bounce(numbers, *args)[0]
    slopes = {name: bounce_reference.sensitivity(numbers, name, *args)[0] for name in numbers}
    length = abs(slopes["height"])  # the slopes by z and w are sums of terms of this size that nearly cancel
    size = {name: abs(y) for name, y in slopes.items()} | {"z": length, "w": length * args[-1]}
    counts, off = [240, 340, 480, 680, 960], []
    for steps in counts:
        z, along = after_bounce(numbers, law, steps)
        off.append([abs(z - exact), *(abs(along[n] - slopes[n]) / size[n] for n in numbers)])
    orders = [-slope(counts, each) for each in zip(*off, strict=True)]
    assert max(off[0][1:]) < 1e-3, off[0]
    assert min(orders) > 3, orders
    unlocated = after_bounce(numbers, law, counts[0], events=False)[1]
    assert abs(unlocated["height"] - slopes["height"]) > 100 * off[0][3] * size["height"]


CORNERS = np.array([[a, b, c] for a in (-0.1, 0.1) for b in (-0.075, 0.075) for c in (-0.05, 0.05)])
THROWN = {"x": [0, 0, 0.25], "v": [3.0, 1.0, -0.5]}  # it slides at all its contacts: no switch to sticking
SPIN, TURN = np.array([1.0, 2.0, -1.0]), Rotation.from_rotvec([0.5, 0.3, 0.2])
SURFACE = {"stiffness": 2e4, "friction_stiffness": 1e3, "friction": 0.1, "height": 0.0}


def box(**given) -> Case:
    inertia = 0.5 / 12 * 4 * np.diag((CORNERS[-1] ** 2).sum() - CORNERS[-1] ** 2)
    R = TURN.as_matrix()
    start = {"q": TURN.as_quat(), "l": R @ inertia @ R.T @ SPIN, **THROWN}
    surface = {**SURFACE, "damping": 0.1, "normal": [[0, 0, 1.0]]}
    return body(
        **{
            **start, "mass": 0.5, "inertia_inverse": np.linalg.inv(inertia), "gravity": [0, 0, -G], "points": CORNERS,
            **surface, **given,
        }
    )  # fmt: skip


@pytest.mark.slow
def test_a_box_that_hits_with_several_corners_converges_in_fourth_order():
    """Against DOP853 restarted at every switch of every vertex; its secants over 1e-5 m are good to 1e-9."""
    frames, counts = 7, [24, 34, 48, 68, 96, 136, 192, 272]
    inertia = torch.linalg.inv(box()["inertia_inverse"][0]).numpy()
    start = (THROWN["x"], TURN.as_matrix(), THROWN["v"], SPIN)

    def exact(**changes: float) -> np.ndarray:
        ground = Ground(dissipation=0.1, **{**SURFACE, **changes})
        return trajectory(Body(CORNERS, 0.5, inertia), ground, start, np.arange(frames) / FPS, G)[0][-1]

    secant = lambda name, h: (exact(**{name: SURFACE[name] + h}) - exact(**{name: SURFACE[name] - h})) / (2 * h)
    slopes = {
        name: (4 * secant(name, h) - secant(name, 2 * h)) / 3 for name, h in (("height", 1e-5), ("friction", 1e-4))
    }
    off = []
    for steps in counts:
        rollout = RigidRollout(frames, steps, 1 / (FPS * steps), **RK4)
        case = {name: x.clone() for name, x in box().items()}
        along = [{name: torch.ones_like(case[name])} for name in slopes]
        tangents = [[a.get(name, torch.zeros_like(x)) for name, x in case.items()] for a in along]
        x = [rollout.tangent(list(case.values()), t)[0] for t in tangents]
        errors = [np.abs(y[0, -1].numpy() - slopes[name]).max() for (_, y), name in zip(x, slopes, strict=True)]
        off.append([np.abs(x[0][0][0, -1].numpy() - exact()).max(), *errors])
    assert min(-slope(counts, each) for each in zip(*off, strict=True)) > 3
    assert max(off[2]) < 1e-4  # 0.4 by the height where steps end at no event


def test_a_face_that_lands_with_four_corners_bounces_as_a_ball_of_four_times_the_stiffness():
    numbers, steps = {**BALL, "damping": 0.05}, 240
    flat = {name: np.float64(numbers[name]) for name in ("height", "stiffness", "damping")}
    corners = [[a, b, -RADIUS] for a in (-0.1, 0.1) for b in (-0.1, 0.1)]
    flat |= {"x": [0, 0, numbers["z"]], "v": [0, 0, numbers["w"]], "stiffness": numbers["stiffness"] / 4}
    case = body(**flat, mass=MASS, gravity=[0, 0, -G], points=corners, normal=[[0, 0, 1.0]])
    face = simulate(case, FRAMES, 1 / (FPS * steps), steps, **RK4)["x"][0, -1, 2].item()
    assert face == near(after_bounce(numbers, "continuous", steps)[0], ROUNDING, scale=1.0)


CASES = {
    "ground": lambda worlds: stiff(tumbling(worlds, 1)),
    "obstacles": lambda worlds: stiff(among_obstacles(worlds, 2)),
    "restitution": lambda worlds: stiff(tumbling(worlds, 3, "constant-restitution")),
}
SPAN = {"frames": 7, "substeps": 48, "dt": 1 / (FPS * 48), **RK4}


def stiff(case: Case) -> Case:
    """Without pushes, which steps at events avoid, and with contacts of some 20 steps."""
    none = {"impulse": case["impulse"][:, :0], "push_point": case["push_point"][:, :0]}
    return case | none | {"stiffness": 4 * case["stiffness"]}


def rollout_of(kind: str, **options) -> RigidRollout:
    return RigidRollout(**SPAN, law="constant-restitution" if kind == "restitution" else "continuous", **options)


@pytest.mark.parametrize("kind", CASES)
def test_adjoint_is_the_transpose_of_the_forward_sensitivity(kind):
    rollout = rollout_of(kind, segment=4)
    inputs = list(with_clock(CASES[kind](8), 6, SPAN["dt"], seed=5).values())
    adjoints = weights(rollout.forward(inputs), seed=6)
    gradient = gradients(rollout.run, inputs, adjoints)
    errors = dot_product_errors(lambda x, v: [t for _, t in rollout.tangent(x, v)], gradient, inputs, adjoints, seed=7)
    assert max(errors) < 1e-10, dict(zip(INPUTS, errors, strict=True))


@pytest.mark.parametrize("kind", CASES)
def test_forward_sensitivity_matches_central_differences(kind):
    """Where the secants of two widths agree: else a switch of friction, or a touch beside a step's ends, lies in them."""
    rollout = rollout_of(kind)
    inputs = list(with_clock(CASES[kind](8), 6, SPAN["dt"], seed=8).values())
    compared = 0
    for k, v in enumerate(directions(inputs, seed=10)):
        along = [v if j == k else torch.zeros_like(x) for j, x in enumerate(inputs)]
        coarse, fine = (central_difference(rollout.run, inputs, along, step=h) for h in (3e-8, 1e-8))
        forward = [t for _, t in rollout.tangent(inputs, along)]
        size = torch.stack([y.flatten(1).abs().amax(1) for y in fine]).amax(0).clamp(min=1e-12)
        off = lambda a, b: torch.stack([(x - y).flatten(1).abs().amax(1) for x, y in zip(a, b, strict=True)]).amax(0)
        smooth = off(coarse, fine) < 1e-6 * size
        compared += smooth.sum().item()
        assert (off(forward, fine)[smooth] < 1e-5 * size[smooth]).all(), list(INPUTS)[k]
    assert compared > 60


@pytest.mark.parametrize("kind", CASES)
def test_world_of_a_batch_is_the_world_alone_bit_for_bit(kind):
    case, rollout = CASES[kind](11), rollout_of(kind)
    inputs = list(case.values())
    states = rollout.forward(inputs)
    adjoints = weights(states, seed=28)
    together = [*states, *rollout.backward(inputs, states, adjoints)]
    assert max(map(error, states, rollout_of(kind, events=False).forward(inputs))) > 1e-6  # there are events
    for k in range(11):
        single = [x[k : k + 1] for x in inputs]
        alone = rollout.forward(single)
        alone = [*alone, *rollout.backward(single, alone, [w[k : k + 1] for w in adjoints])]
        assert all(torch.equal(a[k : k + 1], b) for a, b in zip(together, alone, strict=True))


@pytest.mark.parametrize("speed", [0.0, 1e-12, 1e-6, 1e-3])
def test_a_touch_at_no_speed_has_finite_derivatives(speed):
    """A ball that lies on the ground, or comes to it along a parabola that just touches: no root of the gap is simple."""
    worlds = [[0.0, 0.0, RADIUS], [0.0, 0.0, RADIUS + 1e-9], [0.0, 0.0, RADIUS + 0.5 * G * 0.01**2]]
    case = body(
        3, x=worlds, v=[[1.0, 0, -speed], [1.0, 0, speed], [0.0, 0, -G * 0.01]], gravity=[0, 0, -G], points=[[0, 0, 0.0]],
        radius=[RADIUS], normal=[[0, 0, 1.0]], stiffness=1e4, damping=0.1, friction=0.3, friction_stiffness=10.0,
    )  # fmt: skip
    case["gravity"] = case["gravity"] * torch.tensor([1.0, 1.0, -1.0])[:, None]  # the last touches a ceiling's way
    rollout = RigidRollout(4, 40, 1 / 1200, **RK4)
    inputs = list(case.values())
    states = rollout.forward(inputs)
    gradient = gradients(rollout.run, inputs, weights(states, seed=1))
    assert all(y.isfinite().all() and y.abs().max() < 1e4 for y in states)
    assert all(g.isfinite().all() and g.abs().max() < 1e4 for g in gradient if g.numel())


def test_a_ball_comes_to_rest_at_the_depth_of_its_weight():
    """Bounces that grow ever shorter do not stall it: what is left after the events of a stride are steps h."""
    case = ball({**BALL, "z": 0.12, "w": 0.0, "damping": 3.0})
    states = simulate(case, 40, 1 / (FPS * 240), 240, **RK4)
    depth = MASS * G / BALL["stiffness"]
    assert states["x"][0, -1, 2].item() == near(BALL["height"] + RADIUS - depth, SOLVED, scale=1.0)
    assert math.isclose(states["v"][0, -1, 2].item(), 0.0, abs_tol=1e-6)


def test_steps_of_a_pushed_body_end_at_no_event():
    """Windows of a clip have the pushes of all of them in their rows, so they would take other steps than the clip."""
    case = ball({**BALL, "w": 0.0, "damping": 0.05})
    case |= {"impulse": torch.tensor([[[0.0, 0, MASS]]]).double(), "push_point": torch.zeros(1, 1, 3).double()}
    states = lambda **events: simulate(case, FRAMES, 1 / (FPS * 240), 240, windows=((0.0, 0.0),), **RK4, **events)
    assert torch.equal(states()["x"], states(events=False)["x"])
    unpushed = lambda **events: simulate(ball({**BALL, "damping": 0.05}), FRAMES, 1 / (FPS * 240), 240, **RK4, **events)
    assert not torch.equal(unpushed()["x"], unpushed(events=False)["x"])
