"""Vertices of soft bodies that follow recordings: exact places, closed forms, SciPy's motion, exact gradients."""

import math
import re
from itertools import pairwise

import numpy as np
import particle_cases as cases
import pytest
import torch
from checks import central_difference, directions, dot_product_errors, error, gradients, weights
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicHermiteSpline
from scipy.spatial.transform import Rotation

import gradsim as gs
from gradsim.engine.lanes import Lane, native_width
from gradsim.engine.mapping import InElements, Threads, Worlds
from gradsim.errors import InputError
from gradsim.physics.soft.driven import RecordedPoses, RecordedPositions, slopes
from gradsim.physics.soft.rollout_buffers import drive_instants

pytestmark = pytest.mark.usefixtures("unoptimized_kernels")

DRIVEN = (5, 2)  # in an order of its own; 5 is among the vertices that are pinned without a recording, too
PINNED = (0, 5, 2)
WIDE = native_width("float64")
MAPPINGS = [
    InElements(Lane("float64", WIDE)),
    pytest.param(Worlds(Lane("float64", WIDE)), marks=pytest.mark.slow),
    pytest.param(Worlds(Lane("float64", 1)), marks=pytest.mark.slow),
]
EXPLICIT = ("semi-implicit", "verlet", "nystrom")
INTEGRATORS = (*EXPLICIT, "implicit", "midpoint")
name = lambda mapping: f"{mapping.name} {mapping.lane.name}"


def _inputs(integrator: str, worlds: int, seed: int) -> list[torch.Tensor]:
    """Those of the shared case, with a jittery drive of two vertices."""
    given = cases.inputs(worlds, seed)
    count = (cases.FRAMES - 1) * len(drive_instants(integrator, cases.SUBSTEPS))
    generator = torch.Generator().manual_seed(seed + 1)
    jitter = lambda: torch.randn(worlds, count, len(DRIVEN), 3, generator=generator, dtype=torch.float64)
    return [*given[:-1], given[0][:, None, list(DRIVEN)] + 0.003 * jitter(), 0.5 * jitter(), given[-1]]


def _program(integrator: str, mapping=None, **given):
    pins = {"pinned": PINNED, "driven_vertices": DRIVEN}
    return cases.program(mapping, integrator=integrator, **pins, **given)


@pytest.mark.parametrize("integrator", EXPLICIT)
@pytest.mark.parametrize("mapping", MAPPINGS, ids=name)
def test_rollout_and_gradients_are_those_of_the_definitions(monkeypatch, mapping, integrator):
    monkeypatch.setattr(cases, "PINNED", PINNED)
    given = _inputs(integrator, 3, seed=2)
    leaves = [y.clone().requires_grad_() for y in given]
    expected = cases.plain(cases.groups(), leaves, integrator, DRIVEN)
    adjoints = weights(expected, seed=3)
    wanted = torch.autograd.grad(expected, leaves, adjoints)
    run = _program(integrator, mapping).run
    assert max(error(a, b) for a, b in zip(run(*given), expected, strict=True)) < 1e-12
    computed = gradients(run, given, adjoints)
    assert all(g.any() for g in computed[-3:])
    assert max(error(a, b) for a, b in zip(computed, wanted, strict=True)) < 1e-12


@pytest.mark.parametrize("integrator", EXPLICIT)
def test_adjoint_is_the_transpose_of_the_tangent(integrator):
    given, rollout = _inputs(integrator, 2, seed=4), _program(integrator)
    given[-1][0, 0] = 0.0
    adjoints = weights(rollout.forward(given), seed=5)
    gradient = rollout.backward(given, rollout.forward(given), adjoints)
    tangent = lambda x, v: [t for _, t in rollout.tangent(x, v)]
    assert max(dot_product_errors(tangent, gradient, given, adjoints, seed=6)) < 1e-12


def test_other_devices_are_refused_before_any_step():
    with pytest.raises(InputError, match="follow a recording on a CPU only; got tensors on"):
        _program("verlet", Threads(Lane("float64", 1))).forward(_inputs("verlet", 1, seed=1))


def _scene(body: dict, motion, frames=9, fps=20, substeps=40, integrator="auto", gravity=9.81) -> gs.Scene:
    timing = {"fps": fps, "frames": frames, "substeps": substeps, "integrator": integrator}
    return gs.Scene.parse({"bodies": {"it": {**body, "motion": motion}}, "gravity": [0, 0, -gravity], "timing": timing})


ROPE = {"kind": "springs", "shape": {"rope": {"length": 1, "segments": 6}}, "mass": 0.1, "stiffness": 200}
ROPE |= {"damping": 0.05, "radius": 0.01}
CLOTH = {"kind": "cloth", "shape": {"grid": {"size": [0.3, 0.2], "cells": [3, 2]}}, "density": 0.5, "mu": 30}
CLOTH |= {"lam": 40, "damping": 0.05, "bending": 2e-3, "position": [0.05, 0, 0.1], "rotation_vector": [0.2, 0.1, 0.3]}
SOLID = {"kind": "solid", "shape": {"box": {"size": [0.3, 0.12, 0.1], "cells": [2, 1, 1]}}, "density": 900}
SOLID |= {"young": 4000, "poisson": 0.3, "damping": 3.0, "position": [0.02, -0.01, 0.1]}
ROD = {"kind": "rod", "shape": {"line": {"length": 1, "segments": 5}}, "density": 0.05, "stretching": 50}
ROD |= {"bending": 2e-2, "twisting": 1e-2, "radius": 0.004, "bending_time": 0.02}
BODIES = {
    "rope": ROPE,
    "cloth": CLOTH,
    "solid": SOLID,
    "quadratic solid": SOLID | {"elements": "quadratic"},
    "rod": ROD,
}
TIMES = [0, 0.11, 0.2, 0.3]
TURNS = [[0, 0, 0], [0.1, 0.2, 0], [0.2, 0.3, -0.1], [0.1, 0.5, -0.3]]  # [rad]
POSES = [
    {"position": [0.1 + 0.1 * t, 0.02 * t, t * t], "quat_xyzw": (sign * Rotation.from_rotvec(turn).as_quat()).tolist()}
    for t, turn, sign in zip(TIMES, TURNS, (1, 1, -1, 1), strict=True)
]


def _gripped(kind: str, integrator: str = "auto", **more) -> gs.Scene:
    """A body whose side -x moves with a gripper, and one vertex of whose other side follows points."""
    body = BODIES[kind]
    rest = _scene(body, [], integrator=integrator).bodies["it"]
    side, far = rest.rest_vertices[:, 0], int(rest.rest_vertices[:, 0].argmax())
    start = Rotation.from_rotvec(rest.rotation_vector).apply(np.array(rest.rest_vertices[far])) + rest.position
    grip = {"region": "-x", "times": TIMES, "poses": POSES}
    points = [[(start + [-0.1 * t, t**2, 0.2 * t]).tolist()] for t in (0, 0.15, 0.25)]
    assert side.argmax() == far
    return _scene(
        body, [grip, {"vertices": [far], "times": [0, 0.15, 0.25], "positions": points}], integrator=integrator, **more
    )


@pytest.mark.parametrize(
    ("kind", "integrator"),
    [("rope", one) for one in INTEGRATORS]
    + [("cloth", "verlet"), ("solid", "verlet"), ("rod", "verlet")]
    + [pytest.param("quadratic solid", one, marks=pytest.mark.slow) for one in INTEGRATORS],
)
def test_driven_vertices_are_in_place_at_all_frames(kind, integrator):
    """Poses at samples, which are frames here: x = c + R Rᵀ₀ (x₀ - c₀); points by SciPy's cubic of the same slopes."""
    scene = _gripped(
        kind, integrator, frames=6, fps=10, substeps=1200 if kind == "rod" else 300 if integrator in EXPLICIT else 10
    )
    grip, point = scene.bodies["it"].motion
    x = gs.Model(scene).rollout()["it"]["x"][0].detach()
    held = grip.of(scene.bodies["it"].rest_vertices)
    assert len(held) >= 1
    first = Rotation.from_quat(POSES[0]["quat_xyzw"]).inv().apply(x[0, held] - np.array(POSES[0]["position"]))
    for frame, sample in ((2, 2), (3, 3), (4, 3), (5, 3)):
        turned = Rotation.from_quat(POSES[sample]["quat_xyzw"]).apply(first)
        assert error(x[frame, held], torch.tensor(turned + POSES[sample]["position"])) < 1e-12
    table = torch.tensor(point.positions, dtype=torch.float64)
    times = torch.tensor(point.times, dtype=torch.float64)
    spline = CubicHermiteSpline(times.numpy(), table.numpy(), slopes(table[None], times)[0].numpy())
    for frame in range(6):
        assert error(x[frame, list(point.vertices)], torch.tensor(spline(min(frame / 10, 0.25)))) < 1e-12


def test_a_frame_that_turns_steadily_is_followed_to_third_order():
    """x = c + R(ω t) r by SciPy; velocities are derivatives of places."""
    errors = []
    spin, r = np.array([0.3, -1.0, 2.0]), torch.tensor([[[0.2, -0.1, 0.3], [0.0, 0.5, 0.1]]]).double()
    for count in (5, 9):
        times = torch.linspace(0, 1, count).double()
        turns = Rotation.from_rotvec(times.numpy()[:, None] * spin)
        table = torch.cat([times[:, None] * torch.tensor([[0.3, 0.1, 0]]), torch.tensor(turns.as_quat())], 1)[None]
        recording = RecordedPoses(times, (0, 1))
        at = torch.linspace(0, 1, 101).double()[None].requires_grad_()
        p, v = recording.at(table, torch.zeros(1).double(), r, at)
        exact = [
            Rotation.from_rotvec(t * spin).apply(r[0].numpy()) + t * np.array([0.3, 0.1, 0]) for t in at[0].tolist()
        ]
        errors.append(error(p[0], torch.tensor(np.array(exact))))
        rates = [torch.autograd.grad(p[..., k, c].sum(), at, retain_graph=True)[0] for k in range(2) for c in range(3)]
        assert error(v[0].flatten(1).detach(), torch.stack(rates, -1)[0]) < 1e-12
        lengths = (p[:, :, 0] - p[:, :, 1]).norm(dim=-1)
        assert (lengths - lengths[0, 0]).abs().max() < 1e-12, "rigid between samples, too"
    assert errors[0] < 0.02 and math.log2(errors[0] / errors[1]) > 2.7


def test_a_late_recording_is_followed_later_and_vertices_wait_for_it():
    """p(t - delay), and its ends outside; poses keep the arms that their vertices have at the start of the scene."""
    times, delay = (torch.tensor(y, dtype=torch.float64) for y in ([0.0, 0.1, 0.3], [0.05, -0.12]))
    table = torch.stack([1 + times, times - 3 * times**2, 2 * times**2], -1).expand(2, 3, 3)
    at = torch.tensor([[0.0, 0.04, 0.1, 0.2, 0.5]], dtype=torch.float64).expand(2, 5)
    p, v = RecordedPositions(times, (0,)).at(table[:, :, None], delay, table[:, :1], at)
    t = at - delay[:, None]
    held = t.clamp(0.0, 0.3)
    assert error(p[:, :, 0], torch.stack([1 + held, held - 3 * held**2, 2 * held**2], -1)) < 1e-12
    rate = torch.stack([torch.ones_like(t), 1 - 6 * t, 4 * t], -1)
    assert error(v[:, :, 0], torch.where((t == held)[..., None], rate, 0.0)) < 1e-12
    turned = torch.cat(
        [table, torch.nn.functional.normalize(table.new_tensor([0.2, -0.1, 0.3, 1.0]), dim=0).expand(2, 3, 4)], -1
    )
    start = torch.tensor([[[0.3, 0.2, 0.1]]]).double().expand(2, 1, 3)
    p, _ = RecordedPoses(times, (0,)).at(turned, delay, start, at)
    assert (
        error(p[:, 0], start) < 1e-12
        and error(
            p[1, 2, 0] - p[1, 0, 0], table.new_tensor([0.1, 0.1 - 3 * (0.22**2 - 0.12**2), 2 * (0.22**2 - 0.12**2)])
        )
        < 1e-12
    )


def test_a_body_that_moves_with_its_gripper_is_not_deformed():
    """Start and recording share one velocity, and there is no gravity: x = x₀ + v t exactly."""
    v = [0.3, -0.2, 0.1]
    poses = [{"position": [t * c for c in v]} for t in (0, 0.5)]
    motion = {"region": "-x", "times": [0, 0.5], "poses": poses}
    for kind, integrator in (("rope", "nystrom"), ("solid", "verlet"), ("rod", "midpoint")):
        scene = _scene(
            BODIES[kind] | {"velocity": v}, motion, integrator=integrator, gravity=0.0, frames=6, substeps=60
        )
        x = gs.Model(scene).rollout()["it"]["x"][0].detach()
        points = x[:, : len(scene.bodies["it"].rest_vertices)]
        t = torch.arange(6).double()[:, None, None] / 20
        assert error(points - points[:1], (t * torch.tensor(v, dtype=torch.float64)).expand_as(points)) < 1e-11


def test_a_mass_on_a_spring_whose_end_swings_has_the_response_of_the_closed_form():
    """m ẍ = -k (x - p), p = A sin Ω t, x = A/(1 - Ω²/ω²) (sin Ω t - Ω/ω sin ω t), from the start of 1 m.

    The cubic of samples d apart is off by (Ω d)³/72 √3 A at most: 3e-7 of A here.
    """
    k, mass, A, Omega = 40.0, 0.5, 0.05, 5.0
    omega = math.sqrt(k / mass)
    times = np.linspace(0, 1.5, 601)
    points = [[[A * math.sin(Omega * t) - 0.5, 0.0, 0.0]] for t in times]
    body = {"kind": "springs", "shape": {"rope": {"length": 1, "segments": 1}}, "mass": 2 * mass, "stiffness": k}
    motion = {"vertices": [0], "times": times.tolist(), "positions": points}
    scene = _scene(body | {"radius": 0.01}, motion, 31, 20, 20, "nystrom", 0.0)
    x = gs.Model(scene).rollout()["it"]["x"][0, :, 1, 0].detach().numpy() - 0.5
    t = np.arange(31) / 20
    exact = A / (1 - (Omega / omega) ** 2) * (np.sin(Omega * t) - Omega / omega * np.sin(omega * t))
    assert np.abs(exact).max() > 2 * A
    assert np.abs(x - exact).max() < 2e-6 * A


@pytest.mark.parametrize(
    ("integrator", "order", "bound"),
    [("semi-implicit", 1, 1e-3), ("verlet", 2, 1.2e-4), ("nystrom", 3, 2e-7), ("midpoint", 2, 2.7e-4)],
)
def test_a_driven_rope_moves_as_by_scipy(integrator, order, bound):
    """The same equations by DOP853 from sample to sample, where the third derivative of the recording jumps.

    Forces are damped a little, so Nyström's method is of third order in the end. Samples are at ends of steps. Bounds [m] are of
    80 steps a frame, 7 for a period of the fastest vibration in each radian.
    """
    times = np.linspace(0, 0.5, 11)
    points = np.stack([np.stack([-0.5 + 0.1 * np.sin(7 * times), 0.05 * np.sin(11 * times), 0.1 * times], 1),
                       np.stack([0.5 - 0.2 * times, 0 * times, 0.05 * np.sin(9 * times)], 1)], 1)  # fmt: skip
    motion = {"vertices": [0, 6], "times": times.tolist(), "positions": points.tolist()}
    table, instants = torch.tensor(points)[None], torch.tensor(times)
    spline = CubicHermiteSpline(times, points, slopes(table, instants)[0].numpy())
    rate = spline.derivative()
    length, k, c, mass = 1 / 6, 200.0, 0.05, 0.1 / 6

    def motion_of(t, y):
        x, v = np.empty((7, 3)), np.empty((7, 3))
        x[[0, 6]], v[[0, 6]] = spline(t), rate(t)
        x[1:6], v[1:6] = y.reshape(2, 5, 3)
        d = np.diff(x, axis=0)
        l = np.linalg.norm(d, axis=1, keepdims=True)
        f = d / l * (k * (l - length) + c * (np.diff(v, axis=0) * d / l).sum(1, keepdims=True))
        return np.concatenate([v[1:6].ravel(), ((f[1:] - f[:-1]) / mass - [0, 0, 9.81]).ravel()])

    y = np.concatenate([np.stack([np.linspace(-0.5, 0.5, 7)[1:6], *np.zeros((2, 5))], 1).ravel(), np.zeros(15)])
    exact = [y]
    for first, last in pairwise(times):
        y = solve_ivp(motion_of, (first, last), y, "DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
        exact.append(y)
    wanted = torch.tensor(np.array(exact)[:, :15].reshape(11, 5, 3))
    errors = []
    for substeps in (40, 80):
        scene = _scene(ROPE, motion, 11, 20, substeps, integrator)
        x = gs.Model(scene).rollout()["it"]["x"][0, :, 1:6].detach()
        errors.append((x - wanted).abs().max().item())
    assert errors[1] < bound
    assert -0.1 < math.log2(errors[0] / errors[1]) - order < 0.5


@pytest.mark.parametrize(
    ("kind", "integrator"),
    [
        ("rope", "nystrom"),
        ("rope", "midpoint"),
        pytest.param("cloth", "verlet", marks=pytest.mark.slow),
        pytest.param("quadratic solid", "verlet", marks=pytest.mark.slow),
        pytest.param("quadratic solid", "implicit", marks=pytest.mark.slow),
        pytest.param("rod", "midpoint", marks=pytest.mark.slow),
    ],
)
def test_gradients_by_recordings_and_laws_are_those_of_differences_and_tangents(kind, integrator):
    """Of two worlds, one of which has a fast clock and a late gripper."""
    scene = _gripped(kind, integrator, frames=4, substeps=40 if integrator in EXPLICIT else 6)
    model, law = gs.Model(scene), {"rope": "stiffness", "cloth": "mu", "rod": "bending"}.get(kind, "young")
    names = [
        "it.motion_offset",
        "it.motion_rotation",
        f"it.{law}",
        "it.position",
        "timing.rate",
        "it.motion.0.offset",
        "it.motion.0.delay",
    ]
    at = [model.values()[key].detach().repeat(2, *[1] * model.values()[key][0].ndim) for key in names]
    generator = torch.Generator().manual_seed(1)
    at[0] = 1e-3 * torch.randn(at[0].shape, generator=generator, dtype=torch.float64)
    at[1] = 0.02 * torch.randn(at[1].shape, generator=generator, dtype=torch.float64)
    at[2] = at[2] * torch.tensor([1.0, 1.3]).double()
    at[4] = torch.tensor([1.0, 1.05]).double()
    at[5], at[6] = at[5] + 0.01, torch.tensor([-0.0313, -0.0117]).double()  # no sample at the end of a step

    def run(*values: torch.Tensor) -> list[torch.Tensor]:
        trajectory = model.rollout(dict(zip(names, values, strict=True)))["it"]
        return [trajectory["x"], trajectory["v"]]

    def tangent(values, along) -> list[torch.Tensor]:
        whole = model.values(dict(zip(names, values, strict=True)))
        states = model.tangent(whole, dict(zip(names, along, strict=True)), 4)[1]["it"]
        return [states["x"], states["v"]]

    adjoints = weights(run(*at), seed=2)
    gradient = gradients(run, at, adjoints)
    assert all(g.any() for g in gradient)
    assert max(dot_product_errors(tangent, gradient, at, adjoints, seed=3)) < 1e-8
    along = [1e-3 * d for d in directions(at, seed=4)]
    wanted = central_difference(run, at, along, 1e-1)
    assert max(error(a, b) for a, b in zip(tangent(at, along), wanted, strict=True)) < 1e-6


def _moved(**changes) -> dict:
    motion = {"vertices": [0], "times": [0, 1], "positions": [[[-0.5, 0, 0]], [[-0.4, 0, 0]]]} | changes
    return {key: value for key, value in motion.items() if value is not None}


@pytest.mark.parametrize(
    ("motion", "words"),
    [
        (_moved(region="-x"), "`vertices` and `region`"),
        (_moved(poses=[{}, {}]), "`positions` and `poses`"),
        (_moved(positions=None, poses=[{}] * 3), "given at 3 times; expected 2"),
        (_moved(positions=[[[0, 0, 0]], [[0, 0, 0]]]), r"begin 0.5 m from the start of vertex 0, \(-0.5, 0, 0\)"),
        (_moved(vertices=None, region={"vertices": [0, 1]}), "have 1 points each; expected 2, as in its region"),
        (_moved(vertices=[9]), "has 7 vertices"),
        ([_moved(), _moved()], "got vertex 0, which is in another motion"),
        (_moved(vertices=None, region={"box": [[3, 3, 3], [4, 4, 4]]}), "contains no vertex"),
        (_moved(angle_noise=0.1), "it is that of `poses`"),
    ],
)
def test_motions_that_cannot_be_are_refused(motion, words):
    with pytest.raises(InputError, match=words):
        _scene(ROPE, motion)


def test_a_recording_of_much_noise_may_begin_off_the_start():
    motion = _moved(noise=0.1, positions=[[[-0.2, 0, 0]], [[-0.4, 0, 0]]])
    model = gs.Model(_scene(ROPE, motion))
    assert (
        error(model.rollout(frames=1)["it"]["x"][0, 0, 0].detach(), torch.tensor([-0.2, 0, 0], dtype=torch.float64))
        < 1e-15
    )


@pytest.mark.parametrize("turn", [{"quat_xyzw": [0.5, -0.1, 0.7, 0.5]}, {"rotation_vector": [0.2, 1.5, -0.4]}])
def test_recordings_are_compared_with_the_start_of_a_turned_body(turn):
    """Any farther than a tenth of its size is refused, with the place that the vertex has in a rollout."""
    sheet = {key: value for key, value in CLOTH.items() if key != "rotation_vector"} | turn | {"scale": 1.3}
    x = gs.Model(_scene(sheet, [])).rollout(frames=1)["it"]["x"][0, 0, 7].tolist()
    for off, is_refused in ((0.035, False), (0.045, True)):  # of 0.3 m · 1.3
        motion = {"vertices": [7], "times": [0, 1], "positions": [[[x[0], x[1] + off, x[2]]]] * 2}
        if not is_refused:
            _scene(sheet, motion)
            continue
        place = ", ".join(f"{c:.4g}" for c in x)
        with pytest.raises(
            InputError, match=re.escape(f"begin 0.045 m from the start of vertex 7, ({place}); expected")
        ):
            _scene(sheet, motion)


def test_a_driven_body_that_meets_others_is_refused():
    content = _scene(ROPE, _moved()).model_dump(exclude_unset=True, by_alias=True)
    content["bodies"]["box"] = {"shape": {"box": {"size": [0.1] * 3}}, "mass": 1, "position": [0, 0, -1]}
    content["contacts"] = {"touch": {"between": ["it", "box"], "stiffness": 100}}
    with pytest.raises(InputError, match="links to `box`; bodies with a motion meet grounds and obstacles only"):
        gs.Scene.parse(content)
