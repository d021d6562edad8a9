"""Rods: closed forms of shape, twist and waves, exact gradients, and vertices that follow a recording."""

import math

import numpy as np
import pytest
import torch
from checks import central_difference, dot_product_errors, error, weights
from scipy.integrate import solve_bvp
from scipy.interpolate import CubicHermiteSpline

import gradsim as gs
from gradsim.errors import InputError
from gradsim.physics.forces import rod_bending
from gradsim.physics.soft.driven import follow, slopes

STILL = {"stretching_time": 0.02, "bending_time": 0.3, "twisting_time": 0.05, "bending": 0.2, "twisting": 0.01}


def _scene(gravity=9.81, frames=30, fps=50, substeps=2, integrator="auto", **rod) -> gs.Scene:
    cable = {"kind": "rod", "shape": {"line": {"length": 1, "segments": 10}}, "density": 0.05, "stretching": 500}
    cable |= {"bending": 2e-2, "twisting": 1e-2, "radius": 0.004, **rod}
    timing = {"fps": fps, "frames": frames, "substeps": substeps, "integrator": integrator}
    return gs.Scene.parse({"bodies": {"cable": cable}, "gravity": [0, 0, -gravity], "timing": timing})


def _positions(scene: gs.Scene, **values) -> torch.Tensor:
    """Vertices at all frames (frames, n, 3)."""
    model = gs.Model(scene)
    x = model.rollout({f"cable.{key}": torch.tensor([y]).double() for key, y in values.items()})["cable"]["x"]
    return x[0, :, : len(scene.bodies["cable"].rest_vertices)].detach()


def _clamped(**rod) -> gs.Scene:
    return _scene(frames=200, substeps=4, integrator="implicit", pinned=[{"vertices": [0, 1]}], **STILL, **rod)


@pytest.mark.slow
def test_the_sag_of_a_cantilever_is_that_of_the_elastica_and_converges():
    """B θ'' = ρ g (L - s) cos θ with θ(0) = 0 and θ'(L) = 0, by SciPy; the clamp ends at the second vertex."""
    weight, bending = 0.05 * 9.81, 0.2
    tips = []
    for segments in (5, 10):
        line = {"line": {"length": 1 + 1 / segments, "segments": segments + 1}}
        x = _positions(_clamped(shape=line))[-1]
        tips.append((x[-1] - x[1]).numpy())
    s = np.linspace(0, 1, 101)
    bend = solve_bvp(
        lambda s, y: [y[1], weight / bending * (1 - s) * np.cos(y[0])],
        lambda a, b: [a[0], b[1]],
        s,
        np.zeros((2, 101)),
        tol=1e-8,
    )
    theta = bend.sol(np.linspace(0, 1, 4001))[0]
    exact = np.array([np.trapezoid(np.cos(theta), dx=1 / 4000), 0, np.trapezoid(np.sin(theta), dx=1 / 4000)])
    errors = [np.linalg.norm(tip - exact) for tip in tips]
    assert abs(exact[2]) > 0.2, "a bend that is small"
    assert (
        errors[0] < 0.13 and errors[1] < 0.6 * errors[0]
    )  # the clamp has a first-order error: half an edge of bending


def test_a_rod_with_little_bending_hangs_in_a_catenary():
    """z = a cosh(x/a) with 2 a sinh(w/(2 a)) = L for a span w."""
    segments, span = 40, 0.7
    shape = np.stack([np.linspace(-span / 2, span / 2, segments + 1), *np.zeros((2, segments + 1))], 1)
    shape[:, 2] = -0.3 * np.cos(np.pi * shape[:, 0] / span)
    lengths = np.linalg.norm(np.diff(shape, axis=0), axis=1)
    ends = [{"vertices": [0]}, {"vertices": [segments]}]
    bodies = {"shape": {"points": shape.tolist()}, "bending": 1e-5, "twisting": 1e-5, "stretching": 5e3}
    x = _positions(_scene(frames=150, substeps=4, integrator="implicit", pinned=ends, **{**STILL, **bodies}))[
        -1
    ].numpy()
    low, high = 0.05, 5.0
    for _ in range(100):
        a = (low + high) / 2
        low, high = (a, high) if 2 * a * math.sinh(span / (2 * a)) > lengths.sum() else (low, a)
    sag = a * (math.cosh(span / (2 * a)) - 1)
    middle = shape[0, 2] - x[segments // 2, 2]
    assert abs(middle - sag) < 2e-3 * sag


def test_twist_spreads_evenly_along_a_straight_rod_and_bends_nothing():
    """The angle of each frame is that of the ends, linear between them: τ = Δ/L."""
    n = 11
    scene = _scene(0.0, 200, integrator="implicit", pinned=[{"vertices": [0, 1, 9, 10]}], **STILL)
    model = gs.Model(scene)
    program = model.systems[0].program(200, 4, 0.005)
    inputs = model.systems[0].inputs(model.values())
    x, angle = inputs[0].clone(), 0.4
    arm = x[0, n] - (x[0, 0] + x[0, 1]) / 2
    x[0, -1] += (
        math.cos(angle) * arm + math.sin(angle) * torch.linalg.cross(torch.tensor([1.0, 0, 0]).double(), arm) - arm
    )
    out = program.forward([x, *inputs[1:], x.new_zeros(1, 0)])[0][0, -1]
    k = torch.arange(n - 2)
    strains = rod_bending.strains(out[torch.stack([k, k + 1, k + 2, n + k, n + k + 1], 1)])
    assert (strains[:, 2] - 2 * math.tan(angle / 9 / 2)).abs().max() < 1e-4  # nine vertices bend and twist
    assert strains[:, :2].abs().max() < 1e-6


def test_a_naturally_curved_rod_takes_its_radius():
    x = _positions(_scene(0.0, 200, integrator="implicit", pinned=[{"vertices": [0, 1]}], curvature1=2.0, **STILL))[-1]
    e = x.diff(dim=0)
    e = e / e.norm(dim=-1, keepdim=True)
    turn = torch.acos((e[1:] * e[:-1]).sum(-1).clamp(-1, 1))
    assert (2 * (turn / 2).tan() / 0.1 - 2.0).abs().max() < 1e-3  # |κb| is l κ
    assert x[-1, 1].abs() > 0.3, "the first axis is horizontal"


def test_a_wave_runs_along_a_string_at_the_speed_of_its_tension():
    """The first mode of a string has the frequency √(T/ρ)/(2 L), of n segments 2 n sin(π/(2 n))/π times that."""
    n, strain, speed = 10, 0.02, 0.02
    tension = 500 * strain / (1 + strain)  # the stiffness of edges is that of their lengths in the shape
    shape = np.stack([np.linspace(0, 1 + strain, n + 1), *np.zeros((2, n + 1))], 1)
    scene = _scene(
        *(0.0, 201, 200, 8),
        shape={"points": shape.tolist()},
        bending=1e-9,
        twisting=1e-9,
        pinned=[{"vertices": [0]}, {"vertices": [n]}],
        rest_length_factor=1 / (1 + strain),
    )
    start = torch.zeros(1, 2 * n + 1, 3, dtype=torch.float64)
    start[0, : n + 1, 1] = speed * torch.sin(math.pi * torch.arange(n + 1) / n)
    start[0, n + 1 :, 1] = (start[0, :n, 1] + start[0, 1 : n + 1, 1]) / 2
    y = gs.Model(scene).rollout({"cable.vertex_velocity": start})["cable"]["x"][0, :, n // 2, 1].detach().numpy()
    omega = math.sqrt(tension / 0.05) * 2 * n / (1 + strain) * math.sin(math.pi / (2 * n))
    times = np.arange(201) / 200
    assert (
        np.abs(y - speed / omega * np.sin(omega * times)).max() < 0.03 * speed / omega
    )  # frame points add 1/2000 to the period, over 43 rad


def test_midpoint_steps_keep_the_energy_of_a_swing_and_backward_euler_loses_it():
    drift = {}
    for integrator in ("midpoint", "implicit"):
        scene = _scene(9.81, 51, 50, 4, integrator, pinned=[{"vertices": [0]}], twisting_time=0.1, stretching_time=1e-3)
        trajectory = gs.Model(scene).rollout()["cable"]
        mass = gs.Model(scene).systems[0].mass(gs.Model(scene).values())
        kinetic = 0.5 * (mass[:, None] * trajectory["v"].square().sum(-1)).sum(-1)
        height = (mass[:, None] * trajectory["x"][..., 2]).sum(-1) * 9.81
        drift[integrator] = ((kinetic + height)[0, -1] / kinetic.max()).item()
    assert abs(drift["midpoint"]) < 0.3 * abs(drift["implicit"])


def _driven_scene(frames: int = 8) -> gs.Scene:
    shift = lambda s: [[-0.5 + s, 0, 0], [-0.4 + s, 0.1 * s, s / 3], [0.4 - s, s, s / 2], [0.5 - s, s, s]]
    motion = {"vertices": [0, 1, 9, 10], "times": [0, 0.05, 0.12], "positions": [shift(s) for s in (0, 0.05, 0.08)]}
    return _scene(frames=frames, motion=motion, bending_time=0.02, curvature1=0.5)


def test_vertices_follow_the_recording():
    scene = _driven_scene()
    x = _positions(scene)
    (motion,) = scene.bodies["cable"].motion
    table, times = torch.tensor(motion.positions, dtype=torch.float64), torch.tensor(motion.times, dtype=torch.float64)
    spline = CubicHermiteSpline(times.numpy(), table.numpy(), slopes(table[None], times)[0].numpy())
    for frame in range(8):
        wanted = torch.tensor(spline(min(frame / 50, 0.12)))
        assert error(x[frame, list(motion.vertices)], wanted) < 1e-12


def test_a_start_with_prescribed_motion_is_refused():
    model = gs.Model(_driven_scene(2))
    states = {key: y[:, -1] for key, y in model.rollout()["cable"].items() if key in ("x", "v")}
    with pytest.raises(InputError, match="`cable` has a `motion`, whose times count from the scene's start"):
        model.rollout(start={"cable": states})


@pytest.mark.slow  # kernels with contact compile in 40 s
def test_a_rod_at_rest_on_the_ground_carries_its_weight_evenly_and_slides_as_friction_says():
    """Each vertex is its radius less m g/k above it; a rod that slides along itself stops after v²/(2 μ g)."""
    stiffness, friction, speed, radius = 500.0, 0.3, 0.5, 0.004
    rod = {**STILL, "bending": 2e-3, "position": [0, 0, radius]}
    content = _scene(frames=150, fps=100, substeps=4, **rod).model_dump(exclude_unset=True, by_alias=True)
    contact = {"stiffness": stiffness, "friction_stiffness": 200.0, "friction": friction, "dissipation": 2.0}
    content["ground"] = {"height": 0.0, **contact}
    model = gs.Model(gs.Scene.parse(content))
    mass = model.systems[0].mass(model.values())[0, :11]
    sunk = mass * 9.81 / stiffness
    start = torch.zeros(1, 21, 3, dtype=torch.float64)
    start[..., 0] = speed
    x = model.rollout({"cable.vertex_velocity": start})["cable"]["x"][0, :, :11].detach()
    depth, slid = radius - x[-1, :, 2], (x[-1, :, 0] - x[0, :, 0]).mean()
    weight = mass.sum() * 9.81
    assert abs(stiffness * depth.sum() / weight - 1) < 2e-3  # frame points add 1/1000
    assert (depth / sunk - 1).abs().max() < 0.03  # bending shares a little of it among neighbors
    assert abs(slid / (speed**2 / (2 * friction * 9.81)) - 1) < 0.01  # friction grows from 0 over 1/1000 of the speed


def test_a_rod_starts_its_radius_above_an_obstacle():
    content = _scene().model_dump(exclude_unset=True, by_alias=True)
    content["obstacles"] = {"ball": {"radius": 0.1, "position": [0, 0, -0.104]}}
    model = gs.Model(gs.Scene.parse(content))
    rounding = model.systems[0].contact.parameters(model.values())[7]
    assert abs(rounding.item() - 0.104) < 1e-15
    content["obstacles"]["ball"]["position"] = [0, 0, -0.102]
    with pytest.raises(InputError, match="`cable` starts 0.002 m inside `ball`"):
        gs.Model(gs.Scene.parse(content))


def test_a_parabola_is_followed_exactly():
    times = torch.tensor([0.0, 0.1, 0.25, 0.3]).double()
    curve = lambda t: torch.stack([1 + t, t - 3 * t**2, 2 * t**2], -1)
    at = torch.linspace(0, 0.3, 31).double()[None]
    p, v = follow(curve(times)[None], times, at)
    assert error(p, curve(at)) < 1e-12
    assert error(v, torch.stack([torch.ones_like(at), 1 - 6 * at, 4 * at], -1)) < 1e-12


@pytest.mark.slow
def test_gradients_by_law_and_recording_are_those_of_differences_and_of_the_tangent():
    model = gs.Model(_driven_scene(4))
    system = model.systems[0]
    program = system.program(4, 2, 0.01)
    inputs = [y.clone() for y in system.inputs(model.values())]
    generator = torch.Generator().manual_seed(1)
    inputs[0] += 1e-3 * torch.randn(inputs[0].shape, generator=generator, dtype=torch.float64)
    inputs.append(torch.full((1, 3), 0.011).double())
    leaves = [y.requires_grad_() for y in inputs]
    outputs = program.run(*leaves)
    adjoints = weights([y.detach() for y in outputs], seed=5)
    gradient = torch.autograd.grad(outputs, leaves, adjoints)
    given = [y.detach() for y in leaves]
    tangent = lambda x, v: [t for _, t in program.tangent(x, v)]
    assert all(y.any() for y in gradient[-2:])
    assert (
        max(dot_product_errors(tangent, gradient, given, adjoints, seed=6)) < 1e-7
    )  # of twisting, to which little is due
    along = [1e-3 * y.abs().mean() * torch.randn(y.shape, generator=generator, dtype=torch.float64) for y in given]
    found = tangent(given, along)
    wanted = central_difference(lambda *y: program.forward(y), given, along, 1e-2)
    assert max(error(a, b) for a, b in zip(found, wanted, strict=True)) < 1e-6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bodies": {"cable": {"motion": {"vertices": [0, 99], "times": [0, 1], "positions": [[[0, 0, 0]] * 2] * 2}}}}, "has 11 vertices"),
        ({"bodies": {"cable": {"motion": {"vertices": [0], "times": [0, 1], "positions": [[[0, 0, 0]]] * 3}}}}, "given at 3 times"),
        ({"bodies": {"cable": {"shape": {"points": [[0, 0, 0], [0, 0, 0], [1, 0, 0]]}}}}, "points 0 and 1 are in one place"),
    ],
)  # fmt: skip
def test_rods_that_cannot_be_are_refused(change, words):
    content = _scene().model_dump(exclude_unset=True, by_alias=True)
    for group, entries in change.items():
        for key, value in entries.items():
            content[group][key] = {**content[group][key], **value} if isinstance(value, dict) else value
    with pytest.raises(InputError, match=words):
        gs.Scene.parse(content)
