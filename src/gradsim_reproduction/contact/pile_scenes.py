"""Random piles: ten bodies of all kinds that fall into a pit and lie on one another."""

import math

import numpy as np
import torch
from torch import Tensor

from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.scene import Scene

SHAPES = {
    "box0": {"box": {"size": [0.26, 0.2, 0.16]}},
    "box1": {"box": {"size": [0.2, 0.2, 0.2]}},
    "box2": {"box": {"size": [0.34, 0.12, 0.12]}},
    "ball0": {"sphere": {"radius": 0.1, "subdivisions": 2}},
    "ball1": {"sphere": {"radius": 0.13, "subdivisions": 2}},
    "stick0": {"capsule": {"radius": 0.07, "height": 0.16, "segments": 8, "rings": 2}},
    "stick1": {"capsule": {"radius": 0.06, "height": 0.24, "segments": 8, "rings": 2}},
    "rock0": {"tetrahedron": {"vertices": [[0, 0, 0], [0.3, 0.02, 0], [0.1, 0.28, 0], [0.12, 0.1, 0.26]]}},
    "rock1": {"cylinder": {"radius": 0.13, "height": 0.16, "segments": 6}},
    "rock2": {"cone": {"radius": 0.15, "height": 0.24, "segments": 5}},
}
COLORS = [[0.1, 0.35, 0.7], [0.85, 0.45, 0.1], [0.15, 0.55, 0.35], [0.75, 0.2, 0.25], [0.45, 0.35, 0.65]]
FLOOR, SLOPE = 0.12, 0.7  # half of the width of the pit's floor [m], slope of its sides [rad]
CELL = 0.44  # of the grid that bodies start in [m]; each fits into one
STEPS, STEP = 1000, 8e-4  # [s]
MASS, SCALE = (1.0, 2.0), (0.9, 1.1)
CONTACT = {
    "stiffness": (1e4, 2e4),
    "dissipation": (0.2, 0.6),
    "friction_stiffness": (10.0, 30.0),
    "friction": (0.2, 0.8),
}


def scene(frames: int = STEPS + 1, substeps: int = 1, walls: bool = True) -> Scene:
    """The bodies over a pit; `random_pile` draws their start.

    Args:
        frames: Number of frames.
        substeps: Steps per frame.
        walls: Whether there is a pit, and gravity.
    """
    bodies = {
        name: {"shape": shape, "mass": 1.0, "position": place, "colour": COLORS[k % len(COLORS)]}
        for k, ((name, shape), place) in enumerate(zip(SHAPES.items(), cells().tolist(), strict=True))
    }
    hard = {"stiffness": 2e4, "dissipation": 0.4, "friction_stiffness": 20, "friction": 0.5}
    pit = {"obstacles": {name: {**side(turn), **hard} for turn, name in enumerate("enws")}, "ground": hard}
    content = {
        "name": "pile",
        "timing": {"fps": 1 / STEP, "frames": frames, "substeps": substeps, "integrator": "semi-implicit"},
        "bodies": bodies,
        "contacts": {"pile": {"between": "all", **{key: low for key, (low, _) in CONTACT.items()}}},
        "camera": {"size": [320, 320], "look_at": {"eye": [1.5, -2.2, 1.6], "target": [0, 0, 0.3], "fov": "32 deg"}},
        **(pit if walls else {"gravity": 0}),
    }
    return Scene.parse(content)


def side(turn: int) -> dict:
    """A thick board that leans outwards, `turn` quarter turns about z from the one in the east."""
    east = rotation.exponential(torch.tensor([0.0, -SLOPE, 0.0]).double())
    up, out = np.array([math.cos(SLOPE), 0, math.sin(SLOPE)]), np.array([math.sin(SLOPE), 0, -math.cos(SLOPE)])
    about = rotation.exponential(torch.tensor([0.0, 0.0, turn * math.pi / 2]).double())
    place = torch.tensor([FLOOR, 0, 0] + 0.7 * up + 0.2 * out)
    vector = rotation.logarithm(rotation.multiply(about, east)).tolist()
    return {"size": [1.6, 3, 0.4], "position": rotation.rotate(about, place).tolist(), "rotation_vector": vector}


def cells() -> np.ndarray:
    """Middles (10, 3) of the cells that bodies start in: layers of four."""
    sides = np.array([[-0.5, -0.5], [0.5, -0.5], [-0.5, 0.5], [0.5, 0.5]]) * CELL
    rows = [[*side, 0.5 + CELL * layer] for layer in range(3) for side in sides]
    return np.array(rows)[: len(SHAPES)]


def random_pile(model: Model, numbers: list[int], seed: int) -> dict[str, Tensor]:
    """Parameters of scenes, each from its own stream: poses, velocities, masses, sizes, contact."""
    scenes = [_one(model, np.random.default_rng([seed, number])) for number in numbers]
    return {name: torch.tensor(np.stack([one[name] for one in scenes])) for name in scenes[0]}


def _one(model: Model, rng: np.random.Generator) -> dict[str, np.ndarray]:
    places = cells()[rng.permutation(len(SHAPES))] + rng.uniform(-0.01, 0.01, (len(SHAPES), 3))
    values = {}
    for name, place in zip(SHAPES, places, strict=True):
        q = torch.tensor(rng.normal(size=4))
        values[f"{name}.rotation_vector"] = rotation.logarithm(q / q.norm()).numpy()
        values[f"{name}.position"] = place
        values[f"{name}.velocity"] = rng.uniform([-0.5, -0.5, -1.5], [0.5, 0.5, -0.5])
        values[f"{name}.angular_velocity"] = rng.uniform(-3, 3, 3)
        values[f"{name}.mass"] = np.exp(rng.uniform(*np.log(MASS)))
        values[f"{name}.scale"] = rng.uniform(*SCALE)
    for key, (low, high) in CONTACT.items():
        values[f"contacts.pile.{key}"] = rng.uniform(low, high)
    return values
