"""Logs of joints: what sensors read, motors that a log drives, and fits of both."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from gradsim.errors import InputError, Status
from gradsim.identification.api import identify
from gradsim.identification.observation.base import Sensitivity
from gradsim.identification.observation.joint_log import JointLog, noise_of
from gradsim.physics.model import Model
from gradsim.scene import Scene
from gradsim.scene.channels.log_file import Signal

MASS, LENGTH, DAMPING, ARMATURE, DELAY = 0.8, 0.6, 0.05, 0.02, 0.013  # of the rod that the log is of
COLUMN = "time,position,speed,current\n"


def current(t):
    """Motor current [A] at the samples of a controller, which holds it; the motor's torque constant is 0.5 N m/A."""
    return 3.0 * np.sin(4.0 * t) + 1.5 * np.sin(9.0 * t + 1.0)


def swing(times: np.ndarray) -> np.ndarray:
    """Angle and rate (2, n) of a rod on a hinge, by SciPy, from sample to sample of the controller."""
    inertia, weight = MASS * (LENGTH**2 / 3 + 0.04**2 / 12) + ARMATURE, MASS * 9.81 * LENGTH / 2
    start, states = [0.3, 0.0], np.empty((2, len(times)))
    for k in range(int(times[-1] * 100) + 2):
        rate = lambda t, y, k=k: [y[1], (0.5 * current(k / 100) - DAMPING * y[1] - weight * np.sin(y[0])) / inertia]
        interval = solve_ivp(rate, (k / 100, (k + 1) / 100), start, "DOP853", dense_output=True, rtol=1e-10, atol=1e-12)
        within = (times >= k / 100) & (times < (k + 1) / 100)
        states[:, within] = interval.sol(times[within]) if within.any() else np.empty((2, 0))
        start = interval.y[:, -1]
    return states


def write_log(path, noise=1e-3, seconds=3.0, seed=0):
    """A log of that rod: angle in degrees, rate, and motor current, at 100 Hz; sensors are late."""
    rng, times = np.random.default_rng(seed), np.arange(0, seconds, 0.01)
    late = np.clip(times - DELAY, 0, None)
    angle, rate = swing(late)
    angle, rate = (
        np.degrees(angle + noise * rng.standard_normal(len(times))),
        rate + 20 * noise * rng.standard_normal(len(times)),
    )
    rows = np.column_stack([times, angle, rate, current(times)])
    path.write_text(COLUMN + "".join(",".join(f"{x:.9g}" for x in row) + "\n" for row in rows))
    return path


def rod_scene(folder, fps=100, frames=300, **more) -> Scene:
    content = {
        "gravity": 9.81,
        "timing": {"fps": fps, "frames": frames},
        "bodies": {"rod": {"shape": {"box": {"size": [0.04, 0.04, LENGTH]}}, "mass": MASS}},
        "joints": {
            "hinge": {
                "kind": "revolute",
                "between": ["world", "rod"],
                "child_point": [0, 0, LENGTH / 2],
                "axis": [0, 1, 0],
                "angle": 0.3,
                "damping": DAMPING,
                "armature": ARMATURE,
            }
        },
        "channels": {
            "position": {"joint": "hinge", "quantity": "angle", "scale": 180 / math.pi, "delay": DELAY},
            "speed": {"joint": "hinge", "quantity": "rate", "delay": DELAY},
            "motor": {"joint": "hinge", "quantity": "torque", "column": "current", "scale": 0.5, "between": "hold"},
        },
        "log": {"file": str(folder / "log.csv")},
    }
    return Scene.parse({**content, **more})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("log")
    write_log(path / "log.csv")
    return path


@pytest.mark.parametrize("fps, frames", [(100, 300), (25, 75)])
def test_motion_and_readings_are_those_of_scipy(folder, fps, frames):
    """Also where the log is faster than the frames: the motor changes between them, and sensors read between them."""
    scene = rod_scene(folder, fps, frames)
    log, trajectory = JointLog(scene), Model(scene, substeps=400 // fps).rollout()
    for name, factor, k in (("position", 180 / math.pi, 0), ("speed", 1.0, 1)):
        times, reading = log.predict(trajectory)[name]
        error = reading[0].detach().numpy() / factor - swing(times - DELAY)[k]
        assert np.abs(error).max() < (1e-6, 2e-5)[k]


def test_derivatives_of_residuals_are_those_of_differences(folder):
    scene = rod_scene(folder, 25, 40)
    model, names = Model(scene), ["rod.mass", "joints.hinge.armature", "channels.motor.scale", "channels.motor.delay"]
    names += [
        "channels.motor.offset",
        "channels.position.delay",
        "channels.position.offset",
        "channels.speed.scale",
        "timing.rate",
    ]
    log = JointLog(scene).within({"timing.rate": (0.9, 1.1), "channels.position.delay": (0, 0.05)})
    values = model.values({"channels.motor.delay": torch.tensor([0.003], dtype=torch.float64)})
    residuals = lambda values: torch.cat(list(log.residuals(model.rollout_unchecked(values, 40), 40, "pixels")), 1)
    for name in names:
        direction = {name: torch.ones_like(values[name])}
        trajectory, tangent = model.tangent(values, direction, 40)
        ((_, slope),) = log.linearize(Sensitivity(trajectory, tangent, direction, 1), 40, "pixels")
        step = 1e-6  # of a delay it stays within an interval of the controller
        up, down = (residuals({**values, name: values[name] + sign * step}) for sign in (1, -1))
        differences = (up - down)[0] / (2 * step)
        assert (slope[0, :, 0] - differences).abs().max() < 1e-5 * differences.abs().max(), name


@torch.no_grad()  # as in a fit: a parameter with a graph is never replayed
def test_tangents_by_a_motor_and_by_a_body_at_once_are_those_by_one(folder):
    """Inputs of the rollout that are made of a driven motor's parameters have a tangent, also in calls that replay what they recorded."""
    model, names = Model(rod_scene(folder, 25, 20)), ("rod.mass", "channels.motor.scale")
    angle = lambda values, direction: model.tangent(values, direction, 20)[1].states["rod"]["x"]
    values = model.values({"rod.mass": torch.full((2,), MASS, dtype=torch.float64)})
    rows = torch.eye(2, dtype=torch.float64)
    alone = [angle(values, {name: row})[k] for k, (name, row) in enumerate(zip(names, rows, strict=True))]
    for _ in range(3):
        model.rollout_unchecked(values, 20)
        both = angle(values, dict(zip(names, rows, strict=True)))
        for slope, expected in zip(both, alone, strict=True):
            assert expected.abs().max() > 0 and torch.equal(slope, expected)


def test_gradients_of_a_driven_motor_are_those_of_differences(folder):
    model = Model(rod_scene(folder, 25, 20))
    for name in ("channels.motor.scale", "channels.motor.offset", "channels.motor.delay"):
        angle = lambda x, n=name: model.rollout({n: x}).joint("hinge")["angle"][0, -1]
        at = torch.tensor([0.5 if name.endswith("scale") else 0.003], dtype=torch.float64)
        slope = torch.autograd.grad(angle(at.requires_grad_()), at)[0].item()
        differences = (angle(at.detach() + 1e-6) - angle(at.detach() - 1e-6)).item() / 2e-6
        assert slope == pytest.approx(differences, rel=1e-6)


UNKNOWNS = ["rod.mass:0.3:2", "joints.hinge.damping:0.01:0.2", "joints.hinge.armature:0.002:0.1"]
LATE = "channels.position.delay=channels.speed.delay:0:0.05"


def test_fit_of_a_log_that_scipy_made(folder):
    """Mass, friction, armature and the delay of the sensors come out within their error bars."""
    scene = rod_scene(folder)
    fit = identify(scene, [*UNKNOWNS, LATE], observation=JointLog(scene), starts=3, known_numbers=False)
    truth = [MASS, DAMPING, ARMATURE, DELAY]
    assert fit.status == Status.OK
    for estimate, true in zip(fit.unknowns.values(), truth, strict=True):
        assert abs(estimate.value - true) < 4 * estimate.std
        assert estimate.std < 0.02 * true


def test_a_torque_constant_beside_all_that_it_moves_is_not_identifiable(folder):
    """Mass, friction, armature and torque constant are known up to a common factor."""
    scene = rod_scene(folder)
    unknowns = [*UNKNOWNS, "channels.motor.scale:0.2:1"]
    fit = identify(scene, unknowns, observation=JointLog(scene), starts=2, known_numbers=False)
    assert fit.status == Status.UNIDENTIFIABLE
    assert not any(estimate.identifiable for estimate in fit.unknowns.values())


def test_noise_is_told_by_differences(folder):
    log = JointLog(rod_scene(folder))
    assert log.sensors["position"].sd == pytest.approx(math.degrees(1e-3), rel=0.15)
    assert log.sensors["speed"].sd == pytest.approx(0.02, rel=0.15)
    times = np.arange(500) / 100
    steps = np.round(np.sin(times) / 0.01) * 0.01  # an encoder of 0.01 rad
    assert noise_of(Signal(times, steps)) == pytest.approx(0.01 / math.sqrt(12), rel=1e-6)


def test_samples_that_leave_the_motion_for_some_delay_are_not_compared(folder):
    log = JointLog(rod_scene(folder))
    (times, _), late = log.predict(Model(log.scene).rollout())["position"], {"channels.position.delay": (0.0, 0.2)}
    assert times[0] == pytest.approx(0.02)  # the first after the delay of 0.013 s
    within, _ = log.within(late).predict(Model(log.scene).rollout())["position"]
    assert within[0] == pytest.approx(0.2)
    with pytest.raises(InputError, match="narrow it"):
        log.within({"channels.position.delay": (0.0, 5.0)})


def test_what_cannot_be_compared_is_refused(folder):
    scene = rod_scene(folder)
    with pytest.raises(InputError, match="driven by the log"):
        Model(scene).rollout({"joints.hinge.torque": 1.0})
    with pytest.raises(InputError, match="no log"):
        JointLog(rod_scene(folder, log=None))
    with pytest.raises(InputError, match="Set `log.start`"):
        JointLog(rod_scene(folder, log={"file": str(folder / "log.csv"), "start": -50.0}))
    with pytest.raises(InputError, match="drives already"):
        motor = {"joint": "hinge", "quantity": "torque"}
        rod_scene(folder, channels={"one": motor, "two": motor})
    with pytest.raises(InputError, match="no joint `hing`"):
        rod_scene(folder, channels={"one": {"joint": "hing", "quantity": "angle"}})
    with pytest.raises(InputError, match="has displacement|has angle"):
        rod_scene(folder, channels={"one": {"joint": "hinge", "quantity": "speed"}})
