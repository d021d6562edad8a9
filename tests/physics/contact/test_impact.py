"""Contact never makes energy: the time step is bounded by what the dissipation is at the speed of the impact."""

import math

import numpy as np
import pytest
import torch

from gradsim.physics.contact.impact import fall_speed
from gradsim.physics.model import Model
from gradsim.scene import Scene, restitution

BOX = {"box": {"size": [0.2, 0.2, 0.2]}}
RISE = 1e-3  # of the largest energy; the steps' own error is below


def drop(shape, ground: dict, height: float, seconds: float = 1.5, **body) -> Scene:
    timing = {"fps": 30, "frames": round(30 * seconds), "substeps": "auto"}
    bodies = {"b": {"shape": shape, "mass": 1.0, "position": [0, 0, height], **body}}
    return Scene.parse({"gravity": 9.81, "bodies": bodies, "ground": ground, "timing": timing})


def energies(model: Model) -> torch.Tensor:
    """Kinetic and potential energy of all rigid bodies (frames,) [J]; without that of springs, which is above 0."""
    trajectory, values, total = model.rollout(), model.values(), torch.tensor(0.0)
    for body in model.systems:
        x, q, v, l = (trajectory[body.name][k][0].detach() for k in ("x", "q", "v", "l"))
        spin = body.spin(q[None], l[None], values)[0].detach()
        mass = body.mass(values).item()
        total = total + 9.81 * mass * x[:, 2] + 0.5 * mass * v.square().sum(1) + 0.5 * (spin * l).sum(1)
    return total


def rise(model: Model) -> float:
    e = energies(model)
    return ((e.cummax(0).values.max() - e[0]) / e.abs().max()).item()


@pytest.mark.parametrize(
    ("ground", "height"),
    [
        ({"restitution": 0.05, "impact_speed": 0.3}, 0.4),
        ({"dissipation": 30, "stiffness": 1e5}, 1.1),
        ({"restitution": 0.1, "impact_speed": 1.0}, 5.1),
    ],
)
def test_a_damped_bounce_stays_below_its_start(ground, height):
    """Three drops that rose to 26, 23 and 47 m with the 75 steps that the stiffness alone asks for."""
    x = Model(drop(BOX, ground, height)).rollout()["b"]["x"][0, :, 2].detach()
    assert x[1:].max() < height and x[-1] == pytest.approx(0.1, abs=5e-3)


def random_scene(rng: np.random.Generator) -> Scene:
    """A drop on the ground, or a collision of two bodies above it."""
    contact = {"stiffness": 10 ** rng.uniform(2, 7), "friction": rng.uniform(0, 1)}
    speed = rng.uniform(0, 10)
    contact["dissipation"] = restitution.dissipation(math.exp(rng.uniform(math.log(0.01), 0)), max(speed, 1.0))
    towards = rng.normal(size=3)
    towards[2] = -abs(towards[2])
    towards *= speed / np.linalg.norm(towards)
    ball = {"sphere": {"radius": 0.2}}
    shape = ball if rng.random() < 0.5 else {"box": {"size": rng.uniform(0.1, 0.5, 3).tolist()}}
    turning = {"rotation_vector": rng.normal(size=3).tolist(), "angular_velocity": (5 * rng.normal(size=3)).tolist()}
    if rng.random() < 0.7:
        return drop(shape, contact, 0.6 + rng.uniform(0, 1.5), 0.8, velocity=towards.tolist(), **turning)
    scene = drop(shape, {"stiffness": 1e4}, 3.0, 0.4, velocity=towards.tolist(), **turning).model_dump(
        exclude_unset=True
    )
    where = (np.array([0, 0, 3.0]) + 0.8 * towards / max(speed, 1e-9)).tolist()
    scene["bodies"]["other"] = {"shape": ball, "mass": 10 ** rng.uniform(-1, 1), "position": where}
    return Scene.parse({**scene, "contacts": {"hit": {"between": ["b", "other"], **contact}}})


@pytest.mark.parametrize("count", [10, pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])])
def test_energy_never_rises_in_random_drops_and_collisions(count):
    """Restitution 0.01 to 1, speeds to 10 m/s, stiffness 10² to 10⁷ N/m, `auto` steps."""
    rng = np.random.default_rng(0)
    assert max(rise(Model(random_scene(rng))) for _ in range(count)) < RISE


def test_a_soft_ball_makes_no_energy_on_a_damped_ground():
    bodies = {
        "ball": {
            "kind": "solid", "shape": {"ball": {"radius": 0.15, "cells": 3}}, "position": [0, 0, 0.5], "density": 500,
            "young": 3e4, "poisson": 0.4, "damping": 10, "velocity": [0, 0, -5],
        }
    }  # fmt: skip
    ground = {"stiffness": 1e4, "dissipation": 100}
    scene = Scene.parse({"gravity": 9.81, "bodies": bodies, "ground": ground, "timing": {"fps": 60, "frames": 20}})
    model = Model(scene)
    state, mass = model.rollout()["ball"], model.systems[0].mass(model.values())[0].detach()
    x, v = (state[k][0].detach() for k in ("x", "v"))
    e = (mass * (9.81 * x[..., 2] + 0.5 * v.square().sum(-1))).sum(1)
    assert e.max() - e[0] < RISE * e[0]


def test_speed_of_a_fall_is_that_of_its_time_or_of_its_height():
    gravity = torch.tensor([[0.0, 0.0, -10.0]])
    speed = lambda v, height, time: fall_speed(torch.tensor([v]), torch.tensor([height]), gravity, time).item()
    assert speed(0.0, 5.0, 9.0) == pytest.approx(10) and speed(3.0, 5.0, 0.1) == pytest.approx(4)
    weightless = fall_speed(torch.tensor([3.0]), torch.tensor([math.inf]), torch.zeros(1, 3), 9.0)
    assert weightless.item() == 3
    assert speed(3.0, -1.0, 9.0) == 3 and speed(0.0, math.inf, 2.0) == pytest.approx(20)
