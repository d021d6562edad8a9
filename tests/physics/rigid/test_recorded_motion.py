"""Joints whose world's side follows a recording, and bodies that follow one, against closed equations."""

import math

import numpy as np
import pytest
import torch
from recorded_cases import gripper, recording
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline

from gradsim import Model, Scene
from gradsim.errors import InputError
from gradsim.numerics import rotation
from gradsim.physics.energy import energy_increases

G = 9.81
ROUNDING = 1e-13  # of positions of 1 m after some hundred steps


def rollout(content, overrides=None):
    """Model and trajectory without gradients."""
    model = Model(Scene.parse(content))
    with torch.no_grad():
        return model, model.rollout(overrides)


def shaken(amplitude: float, rate: float, integrator: str = "rk4", **timing) -> dict:
    """A pendulum of 0.5 m that is 0.3 rad from upright, on a pivot that is shaken up and down, sampled 40 times a period."""
    end = 1.0
    times = np.linspace(0, end, round(40 * end * rate / (2 * math.pi)) + 1)
    positions = np.stack([0 * times, 0 * times, amplitude * np.sin(rate * times)], 1)
    pivot = {"kind": "revolute", "between": ["world", "bob"], "axis": [0, 1, 0], "child_point": [0, 0, 0.5]}
    motion = {"times": times.tolist(), "positions": positions.tolist()}
    return {
        "gravity": G,
        "timing": {"fps": 60, "frames": 61, "substeps": 32, "integrator": integrator, **timing},
        "bodies": {"bob": {"shape": {"sphere": {"radius": 0.05}}, "mass": 1.0, "collision": "none"}},
        "joints": {"pivot": {**pivot, "angle": math.pi - 0.3, "motion": motion}},
    }


def swings(content, model) -> np.ndarray:
    """Angles (frames,) of I θ'' = -m ℓ (g + z'') sin θ, with z'' of the spline through the samples."""
    motion = content["joints"]["pivot"]["motion"]
    lift = CubicSpline(motion["times"], np.array(motion["positions"])[:, 2]).derivative(2)
    inertia = model.systems[0].inertia(model.values())[0, 1, 1].item() + 0.25
    bent = lambda t, y: [y[1], -0.5 / inertia * (G + lift(t)) * math.sin(y[0])]
    frames = np.arange(61) / 60
    start = [math.pi - 0.3, 0.0]
    return solve_ivp(bent, [0, 1], start, t_eval=frames, max_step=1e-3, rtol=1e-10, atol=1e-12).y[0]


def angles(trajectory) -> np.ndarray:
    return trajectory.joint("pivot")["angle"][0].detach().numpy()


def test_a_shaken_pendulum_swings_as_its_equation_says():
    content = shaken(0.04, 150.0)
    model, trajectory = rollout(content)
    truth = swings(content, model)
    coarse = np.abs(angles(rollout(shaken(0.04, 150.0, substeps=16))[1]) - truth).max()
    fine = np.abs(angles(trajectory) - truth).max()
    assert fine < 1e-5 and fine < coarse / 8  # of fourth order, but for samples within steps
    semi = [angles(rollout(shaken(0.04, 150.0, "semi-implicit", substeps=n))[1]) for n in (100, 200)]
    errors = [np.abs(y - truth).max() for y in semi]
    assert errors[1] < 0.03 and errors[1] < 0.6 * errors[0]  # of first order


def test_kapitza_pendulum_stays_upright_above_the_critical_rate():
    """It does where (A ω)² > 2 g ℓ', with ℓ' = I/(m ℓ): at A = 0.04 m from 79 rad/s on.

    The mean angle from upright moves in the potential g/ℓ' cos φ + (A ω/(2 ℓ'))² sin² φ, from 0.3 rad at A ω/ℓ' sin 0.3: at 150 rad/s up to 0.62 rad, about
    which it shakes by A/ℓ' sin φ = 0.05 rad.
    """
    fast, slow = (np.abs(angles(rollout(shaken(0.04, rate))[1]) - math.pi) for rate in (150.0, 30.0))
    assert 0.55 < fast.max() < 0.7
    assert slow.max() > 3.0


@pytest.mark.parametrize(("integrator", "turn_error"), [("rk4", 1e-8), ("semi-implicit", ROUNDING)])
def test_a_recorded_body_is_where_its_recording_says(integrator, turn_error):
    """Also through contact and with what it carries; places to rounding, orientations by rk4 to the error of its steps."""
    content = gripper(integrator=integrator, substeps=16, frames=5)
    motion = content["bodies"]["hand"]["motion"]
    _, trajectory = rollout(content)
    times = trajectory.times.numpy()
    path = CubicSpline(motion["times"], motion["positions"])
    hand = {key: y[0].numpy() for key, y in trajectory["hand"].items()}
    assert np.abs(hand["x"] - path(times)).max() < ROUNDING
    q = CubicSpline(motion["times"], motion["quats_xyzw"])(times)
    assert np.abs(hand["q"] - q / np.linalg.norm(q, axis=1, keepdims=True)).max() < turn_error
    if integrator == "rk4":
        assert np.abs(hand["v"] - path.derivative()(times)).max() < 1e-12
    pushed = trajectory["ball"]["v"][0]
    assert (pushed[-1] - pushed[0] - torch.tensor([0, 0, -G]) * times[-1]).norm() > 0.05


def test_joints_hold_at_recorded_frames():
    model, trajectory = rollout(gripper(substeps=16))
    joints, times = model.groups[0].joints, trajectory.times[None]
    gap, rate = joints.residual(trajectory.states, trajectory.values, times)
    assert gap.abs().max() < 1e-7 and rate.abs().max() < 5e-6  # of steps of fourth order in a violent recording
    wrong, _ = joints.residual(trajectory.states, trajectory.values, times + 0.02)
    assert wrong.abs().max() > 1e-3


def moving_table(acceleration: float) -> dict:
    """A box on a table that speeds up, friction 0.5."""
    times = np.linspace(0, 0.5, 11)
    positions = np.stack([0.5 * acceleration * times**2, 0 * times, 0 * times - 0.05], 1)
    table = {"shape": {"box": {"size": [3, 1, 0.1]}}, "mass": 1.0}
    depth = 0.2 * G / (4 * 2e4)  # at which four corners carry it
    return {
        "gravity": G,
        "timing": {"fps": 40, "frames": 21, "integrator": "rk4"},
        "bodies": {
            "table": {**table, "motion": {"times": times.tolist(), "positions": positions.tolist()}},
            "box": {"shape": {"box": {"size": [0.2, 0.2, 0.1]}}, "mass": 0.2, "position": [0, 0, 0.05 - depth]},
        },
        "contacts": {
            "stand": {
                "between": ["table", "box"],
                "stiffness": 2e4,
                "dissipation": 0.5,
                "friction": 0.5,
                "friction_stiffness": 200.0,
            }
        },
    }


@pytest.mark.parametrize(("acceleration", "carried"), [(3.0, 3.0), (8.0, 0.5 * G)])
def test_a_table_carries_what_lies_on_it_until_it_slips(acceleration, carried):
    """With μ g = 4.9 m/s², at 3 m/s² the box goes along; at 8 m/s² it slides, and friction drives it."""
    _, trajectory = rollout(moving_table(acceleration))
    v = trajectory["box"]["v"][0, :, 0]
    times = trajectory.times
    gained = (v[-1] - v[4]) / (times[-1] - times[4])
    assert abs(gained - carried) < 0.03 * carried
    assert abs(trajectory["table"]["v"][0, -1, 0] - acceleration * times[-1]) < 1e-6


def test_a_paddle_gives_a_ball_twice_its_speed():
    """Without dissipation the ball leaves a heavy moving wall at v' = 2 u - v."""
    times = np.linspace(0, 0.2, 5)
    paddle = {"shape": {"box": {"size": [0.1, 0.4, 0.4]}}, "mass": 0.01}
    motion = {"times": times.tolist(), "positions": np.stack([2.0 * times, 0 * times, 0 * times], 1).tolist()}
    content = {
        "gravity": 0.0,
        "timing": {"fps": 50, "frames": 11},
        "bodies": {
            "paddle": {**paddle, "motion": motion},
            "ball": {
                "shape": {"sphere": {"radius": 0.05}},
                "mass": 0.1,
                "position": [0.3, 0, 0],
                "velocity": [-1, 0, 0],
            },
        },
        "contacts": {"hit": {"between": ["paddle", "ball"], "stiffness": 1e4, "dissipation": 0.0, "friction": 0.0}},
    }
    model, trajectory = rollout(content)
    assert abs(trajectory["ball"]["v"][0, -1, 0] - 5.0) < 1e-3
    assert abs(trajectory["paddle"]["x"][0, -1, 0] - 0.4) < 1e-9
    assert not energy_increases(model, trajectory)  # the paddle supplies it


def test_after_the_last_sample_velocities_stay():
    content = gripper(frames=16, substeps=16)
    del content["bodies"]["ball"], content["contacts"]
    _, trajectory = rollout(content)
    v = trajectory["hand"]["v"][0]
    late = trajectory.times > 0.08
    assert (v[late] - v[-1]).abs().max() < 1e-12
    x = trajectory["hand"]["x"][0, late]
    assert (x.diff(dim=0) - v[-1] / 60).abs().max() < ROUNDING


def test_offsets_and_turns_are_added_to_the_recording():
    content = gripper(substeps=16)
    model, before = rollout(content)
    shift, turn = torch.tensor([0.1, 0.2, 0.3]).double(), torch.tensor([0.0, 0.0, 0.4]).double()
    samples = len(content["bodies"]["hand"]["motion"]["times"])
    with torch.no_grad():
        after = model.rollout(
            {"hand.motion_offset": shift.expand(1, samples, 3), "hand.motion_rotation": turn.expand(1, samples, 3)}
        )
    assert (after["hand"]["x"] - before["hand"]["x"] - shift).abs().max() < 1e-6
    turned = rotation.multiply(rotation.exponential(turn), before["hand"]["q"])
    assert ((turned * after["hand"]["q"]).sum(-1).abs() - 1).abs().max() < 1e-6


def test_worlds_follow_their_own_recordings():
    model = Model(Scene.parse(gripper()))
    generator = torch.Generator().manual_seed(3)
    offsets = 0.01 * torch.randn(3, 5, 3, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        together = model.rollout({"hand.motion_offset": offsets})
        for k in range(3):
            alone = model.rollout({"hand.motion_offset": offsets[k : k + 1]})
            for name, state in alone.states.items():
                for key, y in state.items():
                    assert (together[name][key][k] - y[0]).abs().max() < 1e-12


def test_mistakes_in_scenes_are_named():
    def message(change) -> str:
        content = gripper()
        change(content)
        with pytest.raises(InputError) as error:
            Model(Scene.parse(content))
        return str(error.value)

    def set_in(*path_and_value):
        def change(content):
            *path, last, value = path_and_value
            for key in path:
                content = content[key]
            content[last] = value

        return change

    hand = "bodies", "hand"
    assert "first sample is the start" in message(set_in(*hand, "position", [1, 0, 0]))
    assert "from which nothing pushes" in message(set_in(*hand, "pushes", [{"impulse": [1, 0, 0]}]))
    assert "given at 5 times; expected 2" in message(set_in(*hand, "motion", "times", [0, 1]))
    assert "has length 2" in message(set_in(*hand, "motion", "quats_xyzw", 2, [0, 0, 0, 2]))
    turned = [[0, 0, 0, 1], [0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]]
    assert "give more samples" in message(set_in(*hand, "motion", "quats_xyzw", turned))
    assert "not above the one before" in message(set_in(*hand, "motion", "times", [0, 2, 1, 3, 4]))
    assert "write between: [world, tool]" in message(set_in("joints", "wrist", "motion", recording(4)))
    assert "make it the parent" in message(set_in("joints", "wrist", "between", ["tool", "hand"]))


def test_pendulums_point_to_joints():
    for kind in ("pendulum", "double_pendulum"):
        with pytest.raises(InputError, match="revolute joint"):
            Scene.parse({"bodies": {"bob": {"kind": kind, "motion": recording(1)}}})


def test_a_start_from_a_state_is_refused():
    content = gripper(substeps=8)
    del content["bodies"]["tool"]["pushes"]
    model, trajectory = rollout(content)
    start = {name: {key: y[:, 1] for key, y in state.items()} for name, state in trajectory.states.items()}
    with pytest.raises(InputError, match="count from the scene's start"):
        model.rollout(start=start)
    del content["bodies"]["hand"]["motion"]
    model = Model(Scene.parse(content))
    with pytest.raises(InputError, match="`shoulder` has a `motion`"):
        model.rollout(start=start)
