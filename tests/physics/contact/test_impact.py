"""Contact never makes energy: the time step is bounded by what the dissipation is at the speed of the impact."""

import math

import numpy as np
import pytest
import torch

from gradsim.physics.contact.impact import fall_speed
from gradsim.physics.model import Model
from gradsim.scene import Scene, restitution

BALL = {"sphere": {"radius": 0.2}}
BOX = {"box": {"size": [0.2, 0.2, 0.2]}}
RISE = 1e-3  # of the largest energy; the steps' own error is below


def drop(shape, ground: dict, height: float, seconds: float = 1.5, **body) -> Scene:
    timing = {"fps": 30, "frames": round(30 * seconds), "substeps": "auto"}
    bodies = {"b": {"shape": shape, "mass": 1.0, "position": [0, 0, height], **body}}
    return Scene.parse({"gravity": 9.81, "bodies": bodies, "ground": ground, "timing": timing})


def energies(model: Model) -> torch.Tensor:
    """Kinetic and potential energy of all bodies (frames,) [J]; without that of springs, which is above 0."""
    trajectory, values, total = model.rollout(), model.values(), torch.tensor(0.0)
    for body in model.systems:
        state, mass = {k: y[0].detach() for k, y in trajectory[body.name].items()}, body.mass(values)[0].detach()
        each = 9.81 * mass * state["x"][..., 2] + 0.5 * mass * state["v"].square().sum(-1)
        if "l" in state:
            spin = body.spin(state["q"][None], state["l"][None], values)[0].detach()
            total = total + each + 0.5 * (spin * state["l"]).sum(1)
        else:
            total = total + each.sum(1)
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


def law(rng: np.random.Generator, speed: float) -> dict:
    """Restitution 0.01 to 1 at this speed, or at 1 m/s if that is more; stiffness 10² to 10⁷ N/m."""
    loss = restitution.dissipation(math.exp(rng.uniform(math.log(0.01), 0)), max(speed, 1.0))
    return {"stiffness": 10 ** rng.uniform(2, 7), "friction": rng.uniform(0, 1), "dissipation": loss}


def thrown(rng: np.random.Generator, speed: float) -> dict:
    """A start that goes down and turns."""
    towards = rng.normal(size=3)
    towards[2] = -abs(towards[2])
    turning = {"rotation_vector": rng.normal(size=3).tolist(), "angular_velocity": (5 * rng.normal(size=3)).tolist()}
    return {"velocity": (towards * (speed / np.linalg.norm(towards))).tolist(), **turning}


def random_shape(rng: np.random.Generator) -> dict:
    return BALL if rng.random() < 0.5 else {"box": {"size": rng.uniform(0.1, 0.5, 3).tolist()}}


def random_drop(rng: np.random.Generator) -> Scene:
    speed = rng.uniform(0, 10)
    return drop(random_shape(rng), law(rng, speed), 0.6 + rng.uniform(0, 1.5), 0.8, **thrown(rng, speed))


def random_slide(rng: np.random.Generator) -> Scene:
    """A box that slides on a tilted ground, from where it touches it."""
    size = rng.uniform(0.1, 0.5, 3)
    velocity = [*rng.uniform(-7, 7, 2).tolist(), 0.0]
    ground = {**law(rng, 1.0), "normal": [*rng.uniform(-0.3, 0.3, 2).tolist(), 1.0]}
    return drop({"box": {"size": size.tolist()}}, ground, 0.3 * size[:2].sum() + size[2] / 2, 0.6, velocity=velocity)


def random_collision(rng: np.random.Generator) -> Scene:
    """Two bodies in the air."""
    speed = rng.uniform(0, 10)
    start = thrown(rng, speed)
    scene = drop(random_shape(rng), {"stiffness": 1e4}, 3.0, 0.4, **start).model_dump(exclude_unset=True)
    where = (np.array([0, 0, 3.0]) + 0.8 * np.array(start["velocity"]) / max(speed, 1e-9)).tolist()
    scene["bodies"]["other"] = {"shape": BALL, "mass": 10 ** rng.uniform(-1, 1), "position": where}
    return Scene.parse({**scene, "contacts": {"hit": {"between": ["b", "other"], **law(rng, speed)}}})


def random_arm(rng: np.random.Generator) -> Scene:
    """A block on a hinge that falls onto the ground with its end."""
    length = rng.uniform(0.4, 0.8)
    rod = {"shape": {"box": {"size": [length, 0.2, 0.2]}}, "mass": 1.0}
    hinge = {"kind": "revolute", "between": ["world", "b"], "axis": [0, 1, 0], "rate": rng.uniform(-5, 10)}
    hinge |= {"parent_point": [0, 0, 0.6 * length], "child_point": [-length / 2, 0, 0]}
    scene = {"gravity": 9.81, "bodies": {"b": rod}, "ground": law(rng, rng.uniform(0, 10)), "joints": {"hinge": hinge}}
    return Scene.parse({**scene, "timing": {"fps": 30, "frames": 15, "substeps": "auto"}})


def random_soft(rng: np.random.Generator, matter: dict) -> Scene:
    """A soft body that falls on the ground; its vertices are light, so contact is soft."""
    speed = rng.uniform(0, 10)
    ground = {**law(rng, speed), "stiffness": 10 ** rng.uniform(1, 3.5)}
    body = {**matter, "position": [0, 0, 0.5], **thrown(rng, speed)}
    scene = {"gravity": 9.81, "bodies": {"b": body}, "ground": ground}
    return Scene.parse({**scene, "timing": {"fps": 30, "frames": 10, "substeps": "auto"}})


SOLID = {
    "kind": "solid", "shape": {"box": {"size": [0.2, 0.15, 0.1], "cells": [2, 1, 1]}}, "density": 800, "young": 3e4,
    "poisson": 0.3, "damping": 5,
}  # fmt: skip
CLOTH = {
    "kind": "cloth", "shape": {"grid": {"size": [0.3, 0.2], "cells": [3, 2]}}, "density": 0.5, "mu": 300, "lam": 400,
    "damping": 0.05,
}  # fmt: skip
NET = {
    "kind": "springs",
    "shape": {"net": {"size": [0.3, 0.2], "cells": [3, 2]}},
    "mass": 0.1,
    "stiffness": 200,
    "radius": 0.01,
}
FALLS = {
    "drop": random_drop,
    "slide": random_slide,
    "collision": random_collision,
    "arm": random_arm,
    "solid": lambda rng: random_soft(rng, SOLID),
    "cloth": lambda rng: random_soft(rng, CLOTH),
    "springs": lambda rng: random_soft(rng, {**NET, "damping": rng.uniform(0, 0.3)}),
}
MANY = {"drop": 600, "slide": 400, "collision": 450, "arm": 100, "solid": 150, "cloth": 150, "springs": 150}
SLOW = [pytest.mark.slow, pytest.mark.timeout(7200)]


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        *((kind, count // 30) for kind, count in MANY.items()),
        *(pytest.param(*many, marks=SLOW) for many in MANY.items()),
    ],
)
def test_energy_never_rises_in_random_falls_slides_and_collisions(kind, count):
    """Of every kind of body, 2 000 in all: restitution 0.01 to 1, speeds to 10 m/s, stiffness 10² to 10⁷ N/m, `auto` steps."""
    rng = np.random.default_rng(0 if count == MANY[kind] else 1)  # few of these have ten thousands of steps in a frame
    assert max(rise(Model(FALLS[kind](rng))) for _ in range(count)) < RISE


def test_an_arm_that_a_joint_places_counts_the_speed_of_its_fall():
    """Its end is faster than what falls as far, by 3/2 squared at most; steps for a body at rest would be longer."""
    rod = {"shape": {"box": {"size": [0.9, 0.05, 0.05]}}, "mass": 1.0}
    hinge = {"kind": "revolute", "between": ["world", "b"], "axis": [0, 1, 0]}
    hinge |= {"parent_point": [0, 0, 0.6], "child_point": [-0.45, 0, 0]}
    timing = {"fps": 30, "frames": 20, "substeps": "auto"}
    ground = {"stiffness": 1e3, "dissipation": 30}
    scene = {"gravity": 9.81, "bodies": {"b": rod}, "ground": ground, "joints": {"hinge": hinge}, "timing": timing}
    model = Model(Scene.parse(scene))
    values, (body,) = model.values(), model.systems
    start = [y.detach() for y in body.start(values)]
    start[0] = torch.tensor([[0.45, 0, 0.6]]).double()
    spin = body.spin(*(model.rollout()["b"][k] for k in "ql"), values)[0].detach()
    fastest = 0.9 * torch.linalg.vector_norm(spin, dim=1).max().item()
    assert fastest < body.swing_speed(start, 0.45, values).item() < 2 * fastest
    still = Model(Scene.parse({**scene, "ground": {**ground, "dissipation": 0}}))
    assert model.substeps > 2 * still.substeps
    assert rise(model) < RISE


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
