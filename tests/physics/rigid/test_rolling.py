"""Rolling and spinning friction of rigid bodies against closed forms."""

import numpy as np
import pytest
import torch

from gradsim.physics import Model
from gradsim.scene import Scene
from gradsim.scene.exporters import export

RADIUS, MASS, G, FPS, FRAMES = 0.1, 0.5, 9.81, 30, 31
TIMES = np.arange(FRAMES) / FPS
GROUND = {"stiffness": 1e5, "friction": 0.6, "friction_stiffness": 300.0}
SINK = MASS * G / GROUND["stiffness"]
COMPANY = {
    "alone": {},
    "rigid": {"far": {"shape": {"sphere": {"radius": RADIUS}}, "mass": 1, "position": [50, 0, RADIUS]}},
}


def scene(ground: dict, company: str = "alone", **ball) -> Scene:
    sphere = {
        "shape": {"sphere": {"radius": RADIUS, "subdivisions": 5}},
        "mass": MASS,
        "position": [0, 0, RADIUS - SINK],
    }
    others = COMPANY[company]
    return Scene.parse(
        {
            "gravity": G,
            "timing": {"fps": FPS, "frames": FRAMES, "substeps": 400},
            "bodies": {"ball": sphere | ball, **others},
            "grounds": {"floor": GROUND | ground},
            "contacts": {"meeting": {"between": ["ball", *others], "stiffness": 1e4}} if others else {},
        }
    )


def rolled(lever: float) -> np.ndarray:
    """Way of a ball that rolls without slip from 1 m/s: x = v t - ½ a t², a = δ g/(r (1 + 2/5))."""
    return TIMES - 0.5 * lever * G / (1.4 * RADIUS) * TIMES**2


@pytest.mark.parametrize("company", COMPANY)
def test_a_rolling_ball_slows_down_by_the_lever(company):
    moving = {"velocity": [1, 0, 0], "angular_velocity": [0, 1 / RADIUS, 0]}
    model = Model(scene({"rolling_friction": 0.004}, company, **moving))
    values = {"floor.rolling_friction": torch.tensor([0.004, 0.0, 0.008], dtype=torch.float64)}
    with torch.no_grad():
        x = model.rollout(values)["ball"]["x"][..., 0].numpy()
    for way, lever in zip(x, values["floor.rolling_friction"].tolist(), strict=True):
        assert np.abs(way - rolled(lever)).max() < 2e-3  # it creeps by F/k_f, and sinks in


def test_a_ball_at_the_end_of_its_way_rests():
    model = Model(scene({"rolling_friction": 0.02}, velocity=[0.3, 0, 0], angular_velocity=[0, 3, 0]))
    with torch.no_grad():
        ball = model.rollout()["ball"]
    assert ball["v"][0, -1, 0].abs() < 2e-3 and ball["x"][0, -1, 0].item() == pytest.approx(
        0.3**2 / 2 / (0.02 * G / 0.14), rel=0.05
    )


def test_a_spinning_ball_slows_down_by_the_lever():
    """Iω' = -σ m g about the normal."""
    model = Model(scene({"spinning_friction": 0.002}, angular_velocity=[0, 0, 8]))
    with torch.no_grad():
        trajectory = model.rollout()
    ball = trajectory["ball"]
    spin = ball["l"][0, :, 2].numpy() / (0.4 * MASS * RADIUS**2)
    assert np.abs(spin - (8 - 0.002 * G / (0.4 * RADIUS**2) * TIMES)).max() < 0.03  # the inertia of the faceted ball


@pytest.mark.parametrize("key", ["rolling_friction", "spinning_friction", "friction_stiffness"])
def test_derivatives_are_those_of_differences(key):
    lever = {"rolling_friction": 0.004, "spinning_friction": 0.001}
    model = Model(scene(lever, velocity=[1, 0.2, 0], angular_velocity=[1, 9, 6]))
    name, at = f"floor.{key}", model.get_parameter(f"floor.{key}").item()
    end = lambda y: model.rollout({name: y})["ball"]
    value = torch.tensor([at], dtype=torch.float64, requires_grad=True)
    ball = end(value)
    (ball["x"][0, -1, 0] + 3 * ball["l"][0, -1, 2] + ball["x"][0, -1, 1]).backward()
    with torch.no_grad():
        ends = [end(torch.tensor([at * (1 + h)], dtype=torch.float64)) for h in (1e-3, -1e-3)]
        up, down = (b["x"][0, -1, 0] + 3 * b["l"][0, -1, 2] + b["x"][0, -1, 1] for b in ends)
        _, change = model.tangent(model.values(), {name: torch.ones(1, dtype=torch.float64)}, FRAMES)
        along = change["ball"]["x"][0, -1, 0] + 3 * change["ball"]["l"][0, -1, 2] + change["ball"]["x"][0, -1, 1]
    assert value.grad.item() == pytest.approx(((up - down) / (2e-3 * at)).item(), rel=1e-4)
    assert along.item() == pytest.approx(value.grad.item(), rel=1e-8)


def test_friction_against_rolling_and_spinning_only_takes_energy():
    trajectories = []
    for lever in ({}, {"rolling_friction": 0.005, "spinning_friction": 0.005}):
        moving = {"velocity": [1, 0.3, 0], "angular_velocity": [4, 9, 6]}
        model = Model(scene(lever, **moving))
        with torch.no_grad():
            ball = model.rollout()["ball"]
        I = 0.4 * MASS * RADIUS**2
        trajectories.append((0.5 * MASS * ball["v"].square().sum(-1) + 0.5 * ball["l"].square().sum(-1) / I)[0])
    plain, resisted = trajectories
    assert (resisted.diff() < 1e-9).all() and resisted[-1] < 0.5 * plain[-1]


def test_mujoco_gets_the_levers(tmp_path):
    pytest.importorskip("mujoco", reason='MuJoCo is not installed: pip install "gradsim[engines]"')
    from gradsim.identification.engines import EngineModel
    from gradsim.identification.engines.mujoco import MuJoCo

    moving = {"velocity": [1, 0, 0], "angular_velocity": [0, 1 / RADIUS, 0]}
    rolling = scene({"rolling_friction": 0.004, "law": "paper", "damping": 50.0}, **moving)
    text = export(rolling, "mjcf", tmp_path).files[0].read_text()
    assert 'condim="6"' in text
    way = EngineModel(rolling, MuJoCo()).rollout()["ball"]["x"][0, :, 0].numpy()
    assert abs(way[-1] - rolled(0.004)[-1]) < 0.02 and way[-1] < rolled(0.0)[-1] - 0.1
