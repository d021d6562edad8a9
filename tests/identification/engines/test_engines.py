"""Fits in which a function of the user, or MuJoCo, moves the bodies."""

from pathlib import Path

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.errors import InputError, Status
from gradsim.identification.engines import EngineModel, Motion, engine_named, register_engine
from gradsim.identification.engines.mujoco import MuJoCo, continuous
from gradsim.identification.synthetic import float_masks, noisy_masks
from gradsim.physics.model import Model
from gradsim.scene import Scene
from gradsim.scene.exporters.substitution import with_values

CONTENT = {
    "bodies": {
        "ball": {
            "shape": {"sphere": {"radius": 0.2}},
            "mass": 1.0,
            "position": [0, 0, 1.5],
            "velocity": [0.4, 0, 0],
            "collision": "none",
        }
    },
    "camera": {"look_at": {"eye": [0, -5, 1.2], "target": [0, 0, 1.0], "fov": "40 deg"}, "size": [48, 48]},
    "timing": {"fps": 20, "frames": 10},
}


def flight(scene, times: np.ndarray) -> dict[str, Motion]:
    """Free flight of the ball in closed form."""
    ball, t = scene.bodies["ball"], times[:, None]
    place = np.array(ball.position) + t * np.array(ball.velocity) + t**2 / 2 * np.array(scene.gravity)
    return {"ball": Motion(place, np.tile([0.0, 0.0, 0.0, 1.0], (len(times), 1)))}


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene.parse(CONTENT)


def test_function_of_a_user_moves_the_bodies_of_a_fit(scene):
    truth = {"ball.velocity.x": 0.62, "gravity.z": -8.9}
    masks = float_masks(scene, EngineModel(with_values(scene, truth), flight).rollout())
    fit = gs.identify(scene, ["ball.velocity.x:0:1", "gravity.z:-12:-7"], observation=masks, starts=2, engine=flight)
    assert fit.status == Status.OK and fit.evidence["engine"] == "flight"
    assert all(abs(fit.values[name] / value - 1) < 1e-6 for name, value in truth.items())


def test_derivatives_by_differences_are_those_of_the_closed_form(scene):
    model = EngineModel(scene, flight)
    values = model.values({"gravity": torch.tensor([[0.0, 0.0, -9.0], [0.0, 0.0, -7.0]]).double()})
    direction = {"gravity": torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]]).double()}
    _, tangent = model.tangent(values, direction, 10)
    t = torch.arange(10).double() / 20
    expected = torch.stack([t**2 / 2, t**2])
    assert torch.allclose(tangent["ball"]["x"][..., 2], expected, atol=1e-9)  # rounding over the step of 1e-4 m/s²
    assert tangent["ball"]["x"][..., :2].abs().max() < 1e-9


def test_clock_of_the_video_is_that_of_the_fit(scene):
    model = EngineModel(scene, flight)
    late = model.rollout({"timing.rate": 2.0, "timing.offset": 0.1})
    t = 0.1 + 2.0 * torch.arange(10).double() / 20
    assert torch.allclose(late["ball"]["x"][0, :, 2], 1.5 - 9.81 * t**2 / 2, atol=1e-12)


def test_worlds_that_fail_are_not_numbers_and_cost_infinity(scene):
    def broken(scene, times):
        if scene.gravity[2] < -10:
            raise FloatingPointError("unstable")
        return flight(scene, times)

    model = EngineModel(scene, broken)
    trajectory = model.rollout({"gravity": torch.tensor([[0.0, 0.0, -9.0], [0.0, 0.0, -11.0]]).double()})
    assert trajectory["ball"]["x"][0].isfinite().all() and trajectory["ball"]["x"][1].isnan().all()


def test_an_engine_that_refuses_every_world_says_why(scene):
    def unable(scene, times):
        raise InputError("this engine has no balls.")

    with pytest.raises(InputError, match="unable moves no world of this scene: this engine has no balls"):
        EngineModel(scene, unable).rollout()


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (lambda scene, times: {}, "not `ball`"),
        (lambda scene, times: {"ball": Motion(np.zeros((3, 3)), np.zeros((3, 4)))}, r"shape \(3, 3\)"),
    ],
)
def test_engine_that_gives_something_else_is_refused(scene, engine, words):
    with pytest.raises(InputError, match=words):
        EngineModel(scene, engine).rollout()


def test_scenes_that_an_engine_does_not_move_are_refused():
    push = {"pushes": [{"impulse": [1, 0, 0], "at": 0.2}]}
    ball = {"ball": CONTENT["bodies"]["ball"] | push}
    for content, words in (
        ({**CONTENT, "bodies": ball}, "push after"),
        ({**CONTENT, "camera": CONTENT["camera"] | {"readout": 0.01}}, "shutter"),
    ):
        with pytest.raises(InputError, match=words):
            EngineModel(Scene.parse(content), flight)
    with pytest.raises(InputError, match="rigid bodies"):
        EngineModel(Scene.library("pendulum"), flight)


def test_what_an_engine_cannot_do_is_refused(scene):
    for options, words in (
        ({"engine": "havok"}, "choose one of gradsim, mujoco"),
        ({"engine": flight, "estimator": "gradient-descent"}, "least squares"),
        ({"engine": flight, "shooting": gs.MultipleShooting(window=4)}, "shooting"),
    ):
        with pytest.raises(InputError, match=words):
            gs.identify(scene, ["gravity.z:-12:-7"], observation=float_masks(scene, Model(scene).rollout()), **options)


def test_registered_engine_has_a_name(monkeypatch):
    from gradsim.identification.engines import registry

    monkeypatch.setattr(registry, "_ENGINES", dict(registry._ENGINES))
    register_engine("flight", lambda: flight)
    assert engine_named("flight") is flight and engine_named("gradsim") is None
    with pytest.raises(InputError, match="already"):
        register_engine("flight", lambda: flight)


def test_quaternions_keep_their_sign():
    q = np.array([[0.0, 0.0, 0.6, 0.8], [0.0, 0.0, -0.61, -0.79], [0.0, 0.0, 0.62, 0.78]])
    assert (continuous(q)[:, 2] > 0).all()


class TestMuJoCo:
    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("mujoco", reason='MuJoCo is not installed: pip install "gradsim[engines]"')

    def test_an_arm_moves_as_in_our_engine(self):
        scene = Scene.library("arm")
        with torch.no_grad():
            ours = Model(scene).rollout(frames=20)
        theirs = EngineModel(scene, MuJoCo()).rollout(frames=20)
        for body in ours.states:
            assert (ours[body]["x"] - theirs[body]["x"]).norm(dim=-1).max() < 1e-5  # of links of 0.4 m
            assert (ours[body]["q"] - theirs[body]["q"]).abs().max() < 1e-5

    def test_an_unstable_simulation_is_not_a_number_and_leaves_no_log(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        scene = Scene.library("cube")
        motion = MuJoCo(timestep=0.03, integrator="Euler")(scene, np.arange(30) / 30)["cube"]
        assert not (Path.cwd() / "MUJOCO_LOG.TXT").exists()
        stable = MuJoCo()(scene, np.arange(30) / 30)["cube"]
        assert np.isfinite(stable.position).all() and not np.isfinite(motion.position).all()

    def test_a_backlash_is_refused(self):
        content = Scene.library("arm").model_dump(exclude_unset=True)
        name = next(n for n, joint in content["joints"].items() if joint["kind"] == "revolute")
        content["joints"][name] |= {"stiffness": 1.0, "backlash": 0.1}
        with pytest.raises(InputError, match=f"`joints.{name}` has a backlash"):
            MuJoCo()(Scene.parse(content), np.array([0.0, 0.1]))

    def test_bad_settings_are_refused(self):
        for options in ({"integrator": "leapfrog"}, {"timestep": 0.0}, {"timestep": float("nan")}):
            with pytest.raises(InputError):
                MuJoCo(**options)


def test_starts_that_came_to_one_place_go_on_as_one_and_all_count(scene):
    truth = {"ball.velocity.x": 0.62, "gravity.z": -8.9}
    motion = EngineModel(with_values(scene, truth), flight).rollout()
    masks = noisy_masks(scene, motion, "ball", 0)
    names = ["ball.velocity.x:0:1", "gravity.z:-12:-7"]
    fit = gs.identify(scene, names, observation=masks, starts=8, engine=flight, known_numbers=False)
    assert [stage["population"] for stage in fit.history][-1] == 1
    assert fit.status == Status.OK and fit.starts == {"count": 8, "converged": 8}
