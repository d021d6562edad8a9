"""Drag of rigid bodies, f = -d |v| v, against closed forms, in each kind of rollout."""

import numpy as np
import pytest
import torch

from gradsim.errors import InputError
from gradsim.identification.engines.mujoco import MuJoCo
from gradsim.physics import Model
from gradsim.scene import Scene
from gradsim.scene.exporters.build import twin_of

MASS, DRAG, G = 0.2, 0.05, 9.81
FPS, FRAMES = 30, 31
TIMES = np.arange(FRAMES) / FPS
BALL = {"shape": {"sphere": {"radius": 0.1}}, "mass": MASS, "drag": DRAG, "position": [0, 0, 10]}
# Bodies that the ball never meets, but is moved together with: alone, with a rigid body, with a soft one
COMPANY = {
    "alone": {},
    "rigid": {"bodies": {"far": BALL | {"position": [50, 0, 10]}, "farther": BALL | {"position": [99, 0, 10]}}},
    "soft": {
        "bodies": {
            "far": {
                "kind": "solid",
                "shape": {"box": {"size": [0.2, 0.2, 0.2], "cells": [1, 1, 1]}},
                "density": 1000,
                "young": "10 kPa",
                "poisson": 0.3,
                "position": [50, 0, 10],
            }
        }
    },
}


def scene(company: str = "alone", integrator: str = "rk4", **ball) -> Scene:
    others = COMPANY[company].get("bodies", {})
    return Scene.parse(
        {
            "gravity": G,
            "timing": {"fps": FPS, "frames": FRAMES, "integrator": integrator, "substeps": 64},
            "bodies": {
                "ball": BALL | ball,
                **{n: {k: y for k, y in b.items() if k != "drag"} for n, b in others.items()},
            },
            "contacts": {"meeting": {"between": ["ball", *others], "stiffness": 1e4}} if others else {},
        }
    )


def fallen(drag: float = DRAG, mass: float = MASS) -> np.ndarray:
    """Height from rest: v_t² = m g/d, z = z₀ - v_t²/g log cosh(g t/v_t)."""
    speed = np.sqrt(mass * G / drag)
    return 10 - speed**2 / G * np.log(np.cosh(G * TIMES / speed))


@pytest.mark.parametrize("company", COMPANY)
def test_a_ball_falls_towards_its_terminal_speed(company):
    integrator = "semi-implicit" if company == "soft" else "rk4"
    with torch.no_grad():
        x = Model(scene(company, integrator)).rollout()["ball"]["x"][0].numpy()
    assert np.abs(x[:, 2] - fallen()).max() < (2e-2 if company == "soft" else 1e-9)  # h g t/2 of the first order


def test_a_ball_without_gravity_slows_down():
    """x = m/d log(1 + d v t/m)."""
    flat = scene(velocity=[3, -4, 0]).model_copy(update={"gravity": (0.0, 0.0, 0.0)})
    with torch.no_grad():
        x = Model(flat).rollout()["ball"]["x"][0].numpy()
    way = MASS / DRAG * np.log1p(DRAG * 5 * TIMES / MASS)
    assert np.abs(x - way[:, None] * [0.6, -0.8, 0] - [0, 0, 10]).max() < 1e-9


@pytest.mark.parametrize("company", COMPANY)
def test_derivatives_by_drag_and_mass_are_those_of_the_closed_form(company):
    """By adjoint and by forward sensitivity."""
    integrator = "semi-implicit" if company == "soft" else "rk4"
    model = Model(scene(company, integrator))
    values = {
        f"ball.{key}": torch.tensor([y], dtype=torch.float64, requires_grad=True)
        for key, y in (("drag", DRAG), ("mass", MASS))
    }
    model.rollout(values)["ball"]["x"][0, -1, 2].backward()
    h = 1e-6
    expected = {
        "ball.drag": (fallen(DRAG * (1 + h)) - fallen(DRAG * (1 - h)))[-1] / (2 * h * DRAG),
        "ball.mass": (fallen(mass=MASS * (1 + h)) - fallen(mass=MASS * (1 - h)))[-1] / (2 * h * MASS),
    }
    off = 2e-2 if company == "soft" else 1e-6
    for name, value in values.items():
        assert value.grad.item() == pytest.approx(expected[name], rel=off)
        one = {name: torch.ones(1, dtype=torch.float64)}
        with torch.no_grad():
            _, change = model.tangent(model.values(), one, FRAMES)
        assert change["ball"]["x"][0, -1, 2].item() == pytest.approx(value.grad.item(), rel=1e-9)


def test_a_heavy_ball_in_thick_air_takes_finer_steps():
    thin, thick = (
        Model(scene(drag=d, velocity=[20, 0, 0]).model_copy(update={"timing": _auto()})) for d in (1e-4, 0.5)
    )
    assert thick.substeps > thin.substeps


def _auto():
    return Scene.parse({"timing": {"fps": FPS, "frames": FRAMES}, "bodies": {"ball": BALL}}).timing


def test_a_scene_without_drag_has_no_such_number_and_others_say_what_they_leave_out():
    plain = Scene.parse({"bodies": {"ball": {k: y for k, y in BALL.items() if k != "drag"}}})
    assert "ball.drag" not in Model(plain).kinds and "ball.drag" in Model(scene()).kinds
    assert any("drag of 0.05 kg/m" in note for note in twin_of(scene()).notes)
    pytest.importorskip("mujoco", reason='MuJoCo is not installed: pip install "gradsim[engines]"')
    with pytest.raises(InputError, match="drag"):
        MuJoCo()(scene(), TIMES)
