import sys

import numpy as np
import pytest
import torch

from gradsim.errors import InputError
from gradsim.identification.scene_models import parameter_values
from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim_reproduction.baselines.bullet import RATE, bullet, squared_error
from gradsim_reproduction.baselines.reinforce import normalized, pybullet_landscape

pytest.importorskip("pybullet")
G = 9.81  # [m/s²]


def scene(mass: float = 3.0, height: float = 0.9, frames: int = 12) -> Scene:
    """A tilted, turning box above the ground, with an off-centre push and a camera whose centre is not the middle."""
    body = {
        "shape": {"box": {"size": [0.5, 0.4, 0.3]}},
        "mass": mass,
        "rotation_vector": [0.4, 0.2, -0.3],
        "position": [-0.2, 0.1, height],
        "velocity": [0.3, 0.1, 0.4],
        "angular_velocity": [1.0, -0.5, 2.0],
        "colour": [0.16, 0.28, 0.62],
        "pushes": [{"impulse": [3.0, 0.5, -0.4], "point": [0.1, -0.08, 0.05], "at": 0}],
    }
    ground = {"law": "paper", "stiffness": 1e5, "damping": 50, "friction_stiffness": 50, "friction": 0.5}
    look = {"eye": [0.3, -4.0, 1.0], "target": [0.3, 0.0, 0.5]}
    return Scene.parse(
        {
            "gravity": G,
            "timing": {"fps": 30, "frames": frames, "substeps": 64},
            "bodies": {"body": body},
            "ground": ground,
            "camera": {"size": [64, 48], "look_at": look, "focal": 60.0, "centre": [30.0, 26.0]},
        }
    )


def places(world, mass: float, frames: int) -> np.ndarray:
    """Centre of mass in each frame (frames, 3)."""
    to = {"physicsClientId": world.client}
    return np.array([world.engine.getBasePositionAndOrientation(b, **to)[0] for b in world.run(mass, frames)])


def test_a_pushed_body_flies_on_the_parabola_of_its_mass():
    # semi-implicit Euler: x_n = x₀ + n h v₀ − g h² n(n+1)/2, with v₀ = v + J/m; PyBullet's states are single precision
    given = scene()
    with bullet(given) as world:
        for mass in (2.0, 7.0):
            n = 8 * np.arange(5)[:, None]
            v = np.add([0.3, 0.1, 0.4], np.divide([3.0, 0.5, -0.4], mass))
            fall = G * n * (n + 1) / 2 / RATE**2 * np.array([0, 0, 1])
            exact = np.array([-0.2, 0.1, 0.9]) + n / RATE * v - fall
            assert np.abs(places(world, mass, 5) - exact).max() < 1e-6


def test_a_pushed_body_turns_as_ours_does_in_the_air():
    # both integrate to first order: angles differ by O(h) of the coarser step, some ω²h t = 20/240 · 0.13 rad
    given = scene()
    with torch.no_grad():
        ours = Model(given).rollout(parameter_values(given, {"body.mass": 2.0}), 5)["body"]["q"][0]
    with bullet(given) as world:
        to = {"physicsClientId": world.client}
        found = [world.engine.getBasePositionAndOrientation(b, **to)[1] for b in world.run(2.0, 5)]
        turns = [np.reshape(world.engine.getMatrixFromQuaternion(q), (3, 3)) @ world.axes.numpy().T for q in found]

    apart = [
        np.arccos(np.clip((np.trace(R.T @ S) - 1) / 2, -1, 1))
        for R, S in zip(turns, rotation.to_matrix(ours).numpy(), strict=True)
    ]
    whole = np.arccos((np.trace(turns[0].T @ turns[4]) - 1) / 2)
    assert whole > 0.3 and max(apart) < 0.01 * (1 + whole)


def test_images_show_the_body_where_our_camera_sees_it():
    given = scene()
    with bullet(given) as world:
        seen = (world.video(3.0, 1)[0] < 1).any(-1)
    with torch.no_grad():
        ours = Silhouettes.of(given).union(Model(given).rollout(frames=1).surface)[0, 0].numpy()
    rows, columns = np.mgrid[0.5:48, 0.5:64]
    for axis in (rows, columns):  # TinyRenderer shows a pixel whole or not at all, and is off by up to one
        assert abs((axis * seen).sum() / seen.sum() - (axis * ours).sum() / ours.sum()) < 1
    assert abs(seen.sum() / ours.sum() - 1) < 0.15


def test_a_video_is_the_same_whatever_was_simulated_before():
    with bullet(scene(height=0.4, frames=30)) as world:
        first, other, again = world.video(3.0), world.video(8.0), world.video(3.0)
    assert (first == again).all()
    assert squared_error(other, first).max() > 1e-3  # and the mass shows


def test_the_landscape_is_zero_at_the_truth_alone_and_its_rewards_have_no_scale():
    found = pybullet_landscape([0.5, 1.0, 3.0], scene(height=0.4, frames=20), truth=1.0, estimates=(0.8, 2.0))
    assert found["mse"][1] == 0 and found["mse"][[0, 2]].min() > 1e-4
    assert found["reward"].argmax() == 1 and found["surrogate"].shape == (2, 3)
    assert np.allclose(found["sample_reward"].std(1), 1) and np.allclose(found["sample_reward"].mean(1), 0)
    nearest = np.abs(found["mass"] - found["estimate"][:, None]).argmin(1)
    assert (found["likelihood"].argmin(1) == nearest).all()


def test_the_reward_of_the_landscape_sums_the_distances_of_frames():
    masses, given = [0.5, 1.0, 3.0, 4.0], scene(height=0.4, frames=20)
    found = pybullet_landscape(masses, given, truth=1.0, estimates=(2.0,))
    with bullet(given) as world:
        target = world.video(1.0)
        apart = [np.sqrt(np.square(world.video(m) - target).mean((1, 2, 3))).sum() for m in masses]
    assert np.allclose(found["reward"], normalized(-np.array(apart)))


def test_what_pybullet_cannot_play_is_refused():
    content = scene().model_dump(exclude_unset=True)
    content["bodies"]["body"]["pushes"][0]["at"] = 0.2
    with pytest.raises(InputError, match="pushes at the start"), bullet(Scene.parse(content)):
        pass
    content = scene().model_dump(exclude_unset=True)
    content["timing"]["fps"] = 25
    with pytest.raises(InputError, match="divisor of 240"), bullet(Scene.parse(content)):
        pass


def test_a_missing_pybullet_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pybullet", None)
    with pytest.raises(InputError, match=r'pip install "gradsim\[baselines\]"'), bullet(scene()):
        pass
