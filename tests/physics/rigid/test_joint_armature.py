"""Armature of joints: closed forms of what a motor speeds up, a linkage in joint space by SciPy, energy, and gradients."""

import numpy as np
import pytest
import torch
from checks import dot_product_errors, error, gradients, weights
from joint_cases import BOX, tree
from scipy.integrate import solve_ivp

from gradsim import Model, Scene

pytestmark = pytest.mark.usefixtures("unoptimized_kernels")

ARMATURE = {"elbow": 0.03, "rail": 0.8}
G = 9.81


def _alone(joint: dict, integrator: str = "rk4") -> Model:
    """One body on a joint to the world, without gravity."""
    body = {"shape": BOX, "mass": 2.0, "inertia": [0.02, 0.02, 0.02]}
    content = {"gravity": 0.0, "bodies": {"block": body}, "joints": {"axle": {"between": ["world", "block"], **joint}}}
    timing = {"fps": 50, "frames": 30, "substeps": 4, "integrator": integrator}
    return Model(Scene.parse({**content, "timing": timing}))


@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit"])
@pytest.mark.parametrize(
    ("joint", "rate", "acceleration"),
    [
        ({"kind": "prismatic", "axis": [1, 2, 2], "force": 3.0, "armature": 1.0}, "speed", 3.0 / (2.0 + 1.0)),
        ({"kind": "revolute", "axis": [1, 2, 2], "torque": 0.1, "armature": 0.03}, "rate", 0.1 / (0.02 + 0.03)),
        ({"kind": "revolute", "axis": [1, 2, 2], "torque": 0.1, "armature": 0.0}, "rate", 0.1 / 0.02),
    ],
    ids=["slide", "hinge", "hinge, none"],
)
def test_a_motor_speeds_up_body_and_rotor(joint, rate, acceleration, integrator):
    """φ″ = T/(I + armature), at a constant rate."""
    now = _alone(joint, integrator).rollout().joint("axle")[rate][0].detach()
    exact = acceleration * torch.arange(30).double() / 50
    assert error(now, exact) < 1e-9


def _two_links(integrator: str, armature: tuple[float, float], substeps: int) -> Model:
    """Two links in a plane, hinged off their centers, each with an armature."""
    link = {"shape": BOX, "mass": 1.5, "inertia": [0.02, 0.03, 0.025]}
    hinge = {"kind": "revolute", "axis": [0, 1, 0]}
    joints = {
        "first": {
            **hinge,
            "between": ["world", "upper"],
            "child_point": [0, 0, 0.2],
            "angle": 1.0,
            "armature": armature[0],
        },
        "second": {
            **hinge,
            "between": ["upper", "lower"],
            "parent_point": [0, 0, -0.25],
            "child_point": [0, 0, 0.3],
            "angle": -0.7,
            "rate": 2.0,
            "armature": armature[1],
        },
    }
    timing = {"fps": 20, "frames": 16, "substeps": substeps, "integrator": integrator}
    return Model(
        Scene.parse({"gravity": G, "timing": timing, "bodies": {"upper": link, "lower": link}, "joints": joints})
    )


def _by_lagrange(armature: tuple[float, float]) -> np.ndarray:
    """Angles (frames, 2): of the first from the vertical, of the second against the first, by Lagrange's equations.

    T = ½ (I + m l₁²) α² + ½ m |v|² + ½ I (α + β)²  + ½ A₁ α² + ½ A₂ β², with v of the second center, α and β the rates.
    """
    m, inertia, held, end, arm = 1.5, 0.03, 0.2, 0.45, 0.3

    def slope(_, y):
        p, b, dp, db = y
        c, s = np.cos(b), np.sin(b)
        M11 = 2 * inertia + m * held**2 + m * (end**2 + arm**2 + 2 * end * arm * c) + armature[0]
        M12 = inertia + m * (arm**2 + end * arm * c)
        M22 = inertia + m * arm**2 + armature[1]
        h = m * end * arm * s
        push = [
            h * (2 * dp * db + db**2) - m * G * (held + end) * np.sin(p) - m * G * arm * np.sin(p + b),
            -h * dp**2 - m * G * arm * np.sin(p + b),
        ]
        return [dp, db, *np.linalg.solve([[M11, M12], [M12, M22]], push)]

    times = np.arange(16) / 20
    return solve_ivp(slope, (0, times[-1]), (1.0, -0.7, 0.0, 2.0), "DOP853", times, rtol=1e-11, atol=1e-12).y[:2].T


@pytest.mark.parametrize(("integrator", "substeps", "tolerance"), [("rk4", 32, 1e-6), ("semi-implicit", 256, 1e-2)])
def test_a_linkage_moves_as_in_joint_space(integrator, substeps, tolerance):
    """The mass matrix in joint space plus diag(armature), which couples both bodies; semi-implicit steps are of first order."""
    armature = (0.05, 0.08)
    now = _two_links(integrator, armature, substeps).rollout()
    angles = torch.stack([now.joint(name)["angle"][0] for name in ("first", "second")], -1).detach().numpy()
    exact = _by_lagrange(armature)
    assert np.abs(angles - exact).max() < tolerance
    assert np.abs(_by_lagrange((0.0, 0.0)) - exact).max() > 0.2  # so it is the armature that is seen


def test_energy_is_kept_with_that_of_rotors():
    """Of bodies and weight alone it changes by a tenth of a joule; rk4 keeps the whole to its order."""
    model = _two_links("rk4", (0.05, 0.08), 32)
    now, values = model.rollout(), model.values()
    bodies = [sum(system.energy(now.states[system.name], values))[0] for system in model.systems]
    rotors = model.groups[0].joints.energy(now.states, values)[0]
    total = sum(bodies)
    assert (total - total[0]).abs().max() > 0.1
    assert (total + rotors - total[0] - rotors[0]).abs().max() < 1e-7


def _case(integrator: str, armature=ARMATURE):
    content = tree(fps=60, frames=4, substeps=4, integrator=integrator)
    for name, value in armature.items():
        content["joints"][name]["armature"] = value
    model = Model(Scene.parse(content))
    names = [f"joints.{name}.armature" for name in armature] + [
        "joints.elbow.axis",
        "joints.rail.axis",
        "joints.rail.child_point",
        "joints.elbow.damping",
        "joints.rail.force",
        "gravity",
    ]
    names += [n for n in model.kinds if n.split(".")[-1] in ("mass", "inertia")]

    def states(*given):
        now = model.rollout(dict(zip(names, given, strict=True))).states
        return [y for own in now.values() for y in own.values()]

    given = [model.get_parameter(n).detach()[None].expand(2, *model.get_parameter(n).shape).clone() for n in names]
    return model, names, states, given


@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit"])
def test_adjoint_tangent_and_differences_agree(integrator):
    model, names, states, given = _case(integrator)
    adjoints = weights(states(*given), 1)
    gradient = gradients(states, given, adjoints)
    assert all(gradient[k].abs().max() > 0 for k in range(2))

    def tangent(x, v):
        values = model.values(dict(zip(names, x, strict=True)))
        moving = model.tangent(values, dict(zip(names, v, strict=True)), 4)[1].states
        return [y for own in moving.values() for y in own.values()]

    assert max(dot_product_errors(tangent, gradient, given, adjoints, 2, batched=True)) < 1e-12
    for k, step in ((0, 1e-4), (1, 1e-3)):
        ahead, behind = ([x + sign * step * (j == k) for j, x in enumerate(given)] for sign in (1, -1))
        value = lambda x: sum((a * y).sum() for a, y in zip(adjoints, states(*x), strict=True))
        difference = (value(ahead) - value(behind)) / (2 * step)
        assert gradient[k].sum().item() == pytest.approx(difference.item(), rel=1e-5)


def test_the_derivative_at_no_armature_is_the_limit_from_above():
    """√I has none at 0, what is made of it has."""

    def slope(value: float) -> torch.Tensor:
        _, _, states, given = _case("rk4", {"elbow": value})
        return gradients(states, given, weights(states(*given), 1))[0]

    at, near = slope(0.0), slope(1e-7)
    assert torch.isfinite(at).all() and error(at, near) < 1e-4


def test_a_heavy_rotor_makes_long_steps_stable():
    """A damper of c between a light rod and the world: steps follow from the inertia with the rotor, and the rate decays as exp(−c t/I)."""
    hinge = {
        "kind": "revolute",
        "between": ["world", "rod"],
        "axis": [0, 1, 0],
        "rate": 2.0,
        "damping": 40.0,
        "armature": 80.0,
    }
    content = {
        "gravity": [0, 0, 0],
        "timing": {"fps": 25, "frames": 51},
        "bodies": {"rod": {"shape": {"box": {"size": [0.04, 0.04, 0.4]}}, "mass": 0.5}},
        "joints": {"hinge": hinge},
    }
    model = Model(Scene.parse(content))
    inertia = 0.5 * (0.4**2 + 0.04**2) / 12 + 80.0
    rate = model.rollout().joint("hinge")["rate"][0].detach().numpy()
    assert model.substeps < 8  # 3 000 without the rotor
    assert np.abs(rate - 2.0 * np.exp(-40.0 / inertia * np.arange(51) / 25)).max() < 1e-6
