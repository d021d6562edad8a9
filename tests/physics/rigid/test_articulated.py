"""Bodies held by joints move as mechanics says: closed forms, Lagrange's equations, momentum and energy."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from checks import slope
from joint_cases import four_bar, tree
from joint_reference import Reference
from scipy.integrate import solve_ivp

from gradsim import Model, Scene
from gradsim.numerics import rotation

ROD = {"box": {"size": [0.06, 0.05, 0.5]}}
G = 9.81


def made(bodies: dict, joints: dict, substeps: int = 8, frames: int = 31, gravity: Any = G, **timing) -> Model:
    clock = {"fps": 30, "frames": frames, "integrator": "rk4", "substeps": substeps, **timing}
    return Model(Scene.parse({"gravity": gravity, "timing": clock, "bodies": bodies, "joints": joints}))


def moved(model: Model):
    model.requires_grad_(False)
    return model.rollout()


def energy(model: Model, trajectory) -> torch.Tensor:
    """Kinetic and potential energy of all bodies and springs (frames,) [J]."""
    group: Any = model.groups[0]
    values = model.values()
    total = group.joints.energy(trajectory.states, values)[0]
    for body in group.systems:
        x, v, l = (trajectory[body.name][key] for key in "xvl")
        spin = body.spin(trajectory[body.name]["q"], l, values)
        mass = body.mass(values)[:, None]
        kinetic = 0.5 * mass * v.square().sum(-1) + 0.5 * (l * spin).sum(-1)
        total = total + (kinetic - mass * (x * values["gravity"][:, None]).sum(-1))[0]
    return total.detach()


@pytest.mark.slow
@pytest.mark.parametrize("content", [tree, four_bar])
def test_a_step_is_that_of_the_definition(content):
    """Multipliers of a dense system in PyTorch: one step of fourth order differs by O(h⁵) of what closes the joints."""
    steps, errors = (2e-3, 5e-4), []
    for h in steps:
        model = Model(Scene.parse(content(fps=1 / h)))
        trajectory, reference = moved(model), Reference(model)
        *_, u = reference.step(h)
        worst = 0.0
        for k, body in enumerate(reference.bodies):
            q, l = (trajectory[body.name][key] for key in "ql")
            own = torch.cat([trajectory[body.name]["v"], body.spin(q, l, reference.values)], -1)[0, 1]
            worst = max(worst, (own - u[k]).abs().max().item())
        errors.append(worst)
    assert errors[1] < 1e-10 and slope(steps, errors) > 4.5


def double_pendulum(first: float, second: float, elbow: float = 0.0) -> np.ndarray:
    """Angles from straight down (31, 2) of two hinged links, by Lagrange's equations.

    M₁₁ θ₁'' + M₁₂ θ₂'' + s θ₂'² + (m₁ c₁ + m₂ L) g sin θ₁ = d (θ₂' − θ₁'),  s = m₂ L c₂ sin(θ₁ − θ₂)
    M₁₂ θ₁'' + M₂₂ θ₂'' − s θ₁'² + m₂ c₂ g sin θ₂ = −d (θ₂' − θ₁')
    """
    m1, m2, L, c1, c2 = 1.0, 0.6, 0.5, 0.25, 0.2
    I1, I2 = (m * (0.06**2 + long**2) / 12 for m, long in ((m1, 0.5), (m2, 0.4)))

    def rate(_, y):
        a, b, u, v = y
        cross, s = m2 * L * c2 * math.cos(a - b), m2 * L * c2 * math.sin(a - b)
        M = [[I1 + m1 * c1**2 + m2 * L**2, cross], [cross, I2 + m2 * c2**2]]
        drag = elbow * (v - u)
        f = [-s * v**2 - (m1 * c1 + m2 * L) * G * math.sin(a) + drag, s * u**2 - m2 * c2 * G * math.sin(b) - drag]
        return [u, v, *np.linalg.solve(M, f)]

    start = [first, first + second, 0.3, 0.3 - 1.0]
    return solve_ivp(rate, (0, 1), start, "DOP853", np.arange(31) / 30, rtol=1e-13, atol=1e-13).y[:2].T


def two_links(elbow: float = 0.0, **options) -> Model:
    lower = {"shape": {"box": {"size": [0.06, 0.05, 0.4]}}, "mass": 0.6}
    shoulder = {"kind": "revolute", "between": ["world", "upper"], "axis": [0, 2, 0], "child_point": [0, 0, 0.25]}
    knee = {"kind": "revolute", "between": ["upper", "lower"], "axis": [0, 1, 0], "parent_point": [0, 0, -0.25]}
    return made(
        {"upper": {"shape": ROD, "mass": 1.0}, "lower": lower},
        {
            "shoulder": {**shoulder, "angle": 1.2, "rate": 0.3},
            "elbow": {**knee, "child_point": [0, 0, 0.2], "angle": 0.8, "rate": -1.0, "damping": elbow},
        },
        **options,
    )


def test_two_links_are_lagranges_double_pendulum():
    trajectory = moved(two_links(elbow=0.05, substeps=64))
    angles = [trajectory.joint(name)["angle"][0] for name in ("shoulder", "elbow")]
    found = torch.stack([angles[0], angles[0] + angles[1]], 1).numpy()
    assert np.abs(found - double_pendulum(1.2, 0.8, 0.05)).max() < 1e-9


@pytest.mark.parametrize(
    ("integrator", "order", "substeps"), [("rk4", 4, (2, 4, 8)), ("semi-implicit", 1, (32, 64, 128))]
)
def test_links_converge_at_the_order_of_the_integrator(integrator, order, substeps):
    expected, errors = double_pendulum(1.2, 0.8), []
    for n in substeps:
        angle = moved(two_links(substeps=n, integrator=integrator)).joint("shoulder")["angle"][0].numpy()
        errors.append(np.abs(angle - expected[:, 0]).max())
    assert abs(slope([1 / n for n in substeps], errors) - order) < 0.2


def test_links_are_the_double_pendulum_of_rods_of_a_scene():
    """Thin rods: m L²/12 across, nothing along."""
    rod = lambda mass, long: {"mass": mass, "inertia": [mass * long**2 / 12] * 2 + [1e-9]}
    hinge = {"kind": "revolute", "axis": [0, -1, 0]}
    model = made(
        {"upper": {"shape": ROD, **rod(1.0, 0.5)}, "lower": {"shape": ROD, **rod(0.7, 0.4)}},
        {
            "a": {**hinge, "between": ["world", "upper"], "child_point": [0, 0, 0.25], "angle": 2.0, "damping": 0.01},
            "b": {
                **hinge,
                "between": ["upper", "lower"],
                "parent_point": [0, 0, -0.25],
                "child_point": [0, 0, 0.2],
                "angle": -0.8,
                "rate": 0.5,
                "damping": 0.01,
            },
        },
        substeps=64,
    )
    arms = {
        "kind": "double_pendulum",
        "masses": "rods",
        "first_length": 0.5,
        "second_length": 0.4,
        "first_mass": 1.0,
        "second_mass": 0.7,
        "first_angle": 2.0,
        "second_angle": 1.2,
        "second_rate": 0.5,
        "damping": 0.01,
    }
    clock = {"fps": 30, "frames": 31, "substeps": 16}
    swing = moved(Model(Scene.parse({"gravity": G, "timing": clock, "bodies": {"arms": arms}})))["arms"]["angle"][0]
    trajectory = moved(model)
    first = trajectory.joint("a")["angle"][0]
    found = torch.stack([first, first + trajectory.joint("b")["angle"][0]], 1)
    assert (found - swing).abs().max() < 1e-8  # 1e-9 kg m² along the rods does not matter: they turn in one plane


def test_a_slide_with_spring_and_damper_is_a_damped_oscillation():
    """m s'' = m g sin α − k (s − s₀) − c s' + F on a rail that falls at α = 30°, under a motor."""
    m, k, c, s0, F = 0.8, 30.0, 0.9, 0.1, 0.5
    model = made(
        {"cart": {"shape": ROD, "mass": m}},
        {
            "rail": {
                "kind": "prismatic",
                "between": ["world", "cart"],
                "axis": [math.cos(0.5), 0, -math.sin(0.5)],
                "stiffness": k,
                "target": s0,
                "damping": c,
                "force": F,
                "displacement": 0.3,
                "speed": -0.4,
            }
        },
        substeps=32,
    )
    rest = s0 + (m * G * math.sin(0.5) + F) / k
    sigma = c / (2 * m)
    omega = math.sqrt(k / m - sigma**2)
    t, a = torch.arange(31).double() / 30, 0.3 - rest
    b = (-0.4 + sigma * a) / omega
    expected = rest + torch.exp(-sigma * t) * (a * torch.cos(omega * t) + b * torch.sin(omega * t))
    found = moved(model)
    assert (found.joint("rail")["displacement"][0] - expected).abs().max() < 1e-9
    assert (found["cart"]["q"][0] - found["cart"]["q"][0, 0]).abs().max() < 1e-14


def test_a_body_without_spin_on_a_ball_joint_is_a_spherical_pendulum():
    """Of length (I + m c²)/(m c), where the body is symmetric and does not turn about its axis: n'' = −g/ℓ (…)."""
    m, c, side = 1.2, 0.3, 0.1
    I = m * (side**2 + 0.5**2) / 12
    length = (I + m * c**2) / (m * c)
    tilt, swing = [0.9, 0.0, 0.0], [0.0, 0.4, 1.3]
    q = rotation.exponential(torch.tensor(tilt, dtype=torch.float64))
    down = rotation.rotate(q, torch.tensor([0.0, 0, -1], dtype=torch.float64))
    spin = torch.tensor(swing, dtype=torch.float64)
    spin = spin - down * (down @ spin)
    model = made(
        {"bob": {"shape": {"box": {"size": [side, side, 0.5]}}, "mass": m}},
        {
            "pivot": {
                "kind": "ball",
                "between": ["world", "bob"],
                "child_point": [0, 0, c],
                "rotation_vector": tilt,
                "angular_velocity": spin.tolist(),
            }
        },
        substeps=64,
    )

    def rate(_, y):
        n, v = y[:3], y[3:]
        pull = np.array([0, 0, -G / length])
        return [*v, *(pull - n * (n @ pull) - n * (v @ v))]

    start = [*down.numpy(), *np.cross(spin.numpy(), down.numpy())]
    expected = solve_ivp(rate, (0, 1), start, "DOP853", np.arange(31) / 30, rtol=1e-13, atol=1e-13).y[:3].T
    assert np.abs(moved(model)["bob"]["x"][0].numpy() / c - expected).max() < 1e-9


def test_two_bodies_that_are_fixed_are_one():
    """The halves of a box, tumbling, move as the box."""
    half = {"shape": {"box": {"size": [0.2, 0.3, 0.1]}}, "mass": 0.5}
    motion = {"velocity": [0.3, 0.1, 2.0], "angular_velocity": [3.0, -2.0, 4.0], "rotation_vector": [0.3, 0.5, -0.2]}
    whole = {"shape": {"box": {"size": [0.4, 0.3, 0.1]}}, "mass": 1.0, **motion}
    arm = rotation.rotate(
        rotation.exponential(torch.tensor(motion["rotation_vector"], dtype=torch.float64)),
        torch.tensor([0.1, 0, 0], dtype=torch.float64),
    )
    away = torch.linalg.cross(torch.tensor(motion["angular_velocity"], dtype=torch.float64), arm)
    left = {
        **half,
        **motion,
        "position": (-arm).tolist(),
        "velocity": (torch.tensor(motion["velocity"], dtype=torch.float64) - away).tolist(),
    }
    weld = {"kind": "fixed", "between": ["left", "right"], "parent_point": [0.1, 0, 0], "child_point": [-0.1, 0, 0]}
    found = moved(made({"left": left, "right": half}, {"weld": weld}, substeps=32))
    clock = {"fps": 30, "frames": 31, "integrator": "rk4", "substeps": 32}
    box = moved(Model(Scene.parse({"gravity": G, "timing": clock, "bodies": {"whole": whole}})))["whole"]
    middle = (found["left"]["x"] + found["right"]["x"]) / 2
    assert (middle - box["x"]).abs().max() < 1e-8
    assert rotation.multiply(found["left"]["q"], rotation.conjugate(box["q"]))[..., :3].abs().max() < 1e-7


def test_a_motor_turns_a_free_wheel_at_a_constant_rate_of_rates():
    """Two free bodies on one axle: φ'' = T (1/I₁ + 1/I₂), and each gets its share."""
    disc = lambda mass: {"shape": {"cylinder": {"radius": 0.2, "height": 0.05}}, "mass": mass}
    model = made(
        {"first": disc(1.0), "second": disc(3.0)},
        {"axle": {"kind": "revolute", "between": ["first", "second"], "torque": 0.02, "rate": 0.5, "angle": 3.0}},
        gravity=0.0,
    )
    found, t = moved(model), torch.arange(31).double() / 30
    I = torch.stack([b.inertia(model.values())[0, 2, 2] for b in model.systems]).detach()  # pyright: ignore
    expected = 3.0 + 0.5 * t + 0.5 * 0.02 * (1 / I).sum() * t**2
    assert (found.joint("axle")["angle"][0] - expected).abs().max() < 1e-9  # goes on beyond half a turn
    assert (found["first"]["l"] + found["second"]["l"])[0].diff(dim=0).abs().max() < 1e-15


def test_a_limit_throws_a_hinge_back_as_a_spring():
    """Without gravity a rotor meets its end at rate ω, stays for π √(I/k), turns by ω √(I/k) more, and comes back at −ω."""
    model = made(
        {"rotor": {"shape": {"cylinder": {"radius": 0.2, "height": 0.05}}, "mass": 1.0}},
        {
            "hub": {
                "kind": "revolute",
                "between": ["world", "rotor"],
                "rate": 2.0,
                "upper": 0.5,
                "limit_stiffness": 20.0,
            }
        },
        gravity=0.0,
        substeps=64,
    )
    found = moved(model).joint("hub")
    I = model.systems[0].inertia(model.values())[0, 2, 2].item()  # pyright: ignore
    dwell = math.sqrt(I / 20.0)
    t = torch.arange(31).double() / 30 - 0.25
    inside = 0.5 + 2.0 * dwell * torch.sin(t / dwell)
    back = 0.5 - 2.0 * (t - math.pi * dwell)
    expected = torch.where(t < 0, 0.5 + 2 * t, torch.where(t < math.pi * dwell, inside, back))
    assert (
        found["angle"][0] - expected
    ).abs().max() < 1e-5  # meeting and leaving an end inside a step: O(h²) of a kink


@pytest.mark.parametrize("integrator", ["semi-implicit", "rk4"])
def test_joints_put_no_net_force_and_torque_on_free_bodies(integrator):
    """Momentum stays to rounding; the moment of it too in semi-implicit steps, and to the order of the method in others."""
    content = tree(integrator=integrator, substeps=16, frames=11, fps=60)
    content["gravity"] = 0.0
    model = Model(Scene.parse(content))
    trajectory = moved(model)
    masses = {b.name: b.mass(model.values())[:, None, None].detach() for b in model.systems}  # pyright: ignore
    momentum = sum(masses[n] * s["v"] for n, s in trajectory.states.items())
    moment = sum(s["l"] + masses[n] * rotation.cross(s["x"], s["v"]) for n, s in trajectory.states.items())
    assert (momentum - momentum[:, :1]).abs().max() < 1e-13  # pyright: ignore
    drift = (moment - moment[:, :1]).abs().max()  # pyright: ignore
    assert drift < (1e-12 if integrator == "semi-implicit" else 1e-6)


def test_joints_do_no_work():
    """Energy of a tree of all joints stays, its springs' included: what is left is of fourth order."""
    drifts, substeps = [], (8, 16, 32)
    for n in substeps:
        content = tree(substeps=n, frames=16, fps=60)
        for joint in content["joints"].values():
            for key in ("damping", "torque", "force", "lower", "upper", "limit_stiffness"):
                joint.pop(key, None)
        model = Model(Scene.parse(content))
        E = energy(model, moved(model))
        drifts.append((E - E[0]).abs().max().item())
    assert drifts[-1] < 1e-7 and slope([1 / n for n in substeps], drifts) > 3.7
