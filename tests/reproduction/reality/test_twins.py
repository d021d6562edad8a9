"""Synthetic twins of the rows: numbers of tosses that the row's own law moved come back to 1e-6, from the whole ranges."""

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.identification.observation.base import States
from gradsim_reproduction.reality import cube, hinge

CONTACT = {
    "ground.stiffness": 3000.0,
    "ground.dissipation": 0.6,
    "ground.friction_stiffness": 12.0,
    "ground.friction": 0.19,
}
EXACT = 1e-6


def _recovered(scenes, unknowns, truth, body, frames) -> dict[str, float]:
    """Relative errors of a fit to poses of a body without noise."""
    observations = []
    for scene in scenes:
        model = gs.Model(scene, dtype=torch.float64)
        values = model.values({name: torch.tensor([y], dtype=torch.float64) for name, y in truth.items()})
        with torch.no_grad():
            state = model.rollout_unchecked(values, frames)[body]
        observations.append(States(body, state["x"][0], state["q"][0], 1e-4, 1e-3, exact=True))
    fit = gs.identify_many(scenes, unknowns, observations=observations, starts=8)
    return {name: abs(fit.values[name] / y - 1) for name, y in truth.items()}


@pytest.mark.slow
def test_numbers_of_the_cube_come_back():
    """Friction, loss, stiffness and friction stiffness of the contact, over the ranges that the row searches."""
    rng, frames = np.random.default_rng(0), 40
    base = cube.model("continuous", frames).scene
    scenes = []
    for _ in range(3):
        body = {
            "position": [0.0, 0.0, 0.16],
            "rotation_vector": rng.normal(0, 0.3, 3).tolist(),
            "velocity": [rng.uniform(0.5, 1.0), rng.uniform(-0.3, 0.3), -0.8],
            "angular_velocity": rng.normal(0, 2, 3).tolist(),
        }
        content = base.model_dump(exclude_unset=True)
        content["bodies"]["cube"] |= body
        scenes.append(gs.Scene.parse(content))
    truth = CONTACT
    ranges = {**cube.RANGES, "ground.dissipation": cube.LAWS["continuous"][1:]}
    unknowns = [f"{name}:{ranges[name][0]}:{ranges[name][1]}" for name in truth]
    assert max(_recovered(scenes, unknowns, truth, "cube", frames).values()) < EXACT


@pytest.mark.slow
def test_numbers_of_the_hinge_come_back():
    """Those of the contact, and damping, dry friction and an inertia of the hinge's links."""
    rng, frames = np.random.default_rng(1), 40
    base = hinge.model(frames).scene
    scenes = []
    for _ in range(3):
        content = base.model_dump(exclude_unset=True)
        content["bodies"]["one"] |= {
            "position": [0.0, 0.0, 0.2],
            "rotation_vector": rng.normal(0, 0.3, 3).tolist(),
            "velocity": [rng.uniform(0.5, 1.0), 0.0, -0.8],
            "angular_velocity": rng.normal(0, 2, 3).tolist(),
        }
        content["joints"]["hinge"] |= {"angle": rng.uniform(-1, 1), "rate": rng.uniform(4, 8)}
        scenes.append(gs.Scene.parse(content))
    truth = {
        **CONTACT,
        "joints.hinge.damping": 2e-3,
        "joints.hinge.friction": 5e-3,
    }
    unknowns = [f"{name}:{hinge.RANGES[name][0]}:{hinge.RANGES[name][1]}" for name in truth]
    assert max(_recovered(scenes, unknowns, truth, "one", frames).values()) < EXACT
