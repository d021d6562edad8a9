"""Rigid samples: an object, stretched along its axes, is dropped on a ground with spin and a known push.

Nothing here depends on the truth. What makes a scene tell something about all of mass, stiffness, damping and both
frictions is the recipe, the same for all: a known off-centre push (faults.md: mass shows from a known force only), a
tilted start, a drop from a low height, and spin.
"""

import math

import numpy as np
import torch

from gradsim import mesh as meshes
from gradsim import rotation
from gradsim.dataset.drawn import Drawn
from gradsim.scene import Object, Scene

OBJECTS = ("box", "cylinder", "cone", "capsule", "torus")
SIZES = 0.3, 1.0  # [m] extent along each axis of the object
FPS, FRAMES = 30, 60  # 2 s
PIXELS = 64
DIGITS = 6  # decimals of what is drawn: the last bits of cosines and sums differ between machines
SUBSTEPS = 64  # per frame
UNKNOWNS = (
    "body.mass:2:12",
    "ground.stiffness:2e4:5e5",
    "ground.damping:1:200",
    "ground.friction_stiffness:1:200",
    "ground.friction:0.2:1",
)


def rigid(rng: np.random.Generator, number: int) -> Drawn:
    """The `number`-th rigid scene."""
    name = OBJECTS[rng.integers(len(OBJECTS))]
    size = rng.uniform(*SIZES, 3).round(DIGITS)
    axis = rng.standard_normal(3)
    turn = (axis / np.linalg.norm(axis) * rng.uniform(0.3, 2.5)).round(DIGITS)
    heading = rng.uniform(-0.5, 0.5)
    along = np.array([math.cos(heading), math.sin(heading), 0.0])
    impulse = along * rng.uniform(4, 6) + np.array([0, 0, rng.uniform(-2.0, 0.5)])
    arm = rng.uniform(-0.25, 0.25, 3) * size
    x, drop = rng.uniform(-1.0, -0.6), rng.uniform(0.02, 0.3)
    body = {
        "shape": {"object": {"name": name, "size": size.tolist()}},
        "mass": 7.0,
        "rotation_vector": turn.tolist(),
        "velocity": _rounded(along * rng.uniform(0.0, 1.0)),
        "angular_velocity": _rounded(rng.uniform(-3, 3, 3)),
        "pushes": [{"impulse": _rounded(impulse), "point": _rounded(arm), "at": 0}],
        "colour": [0.16, 0.28, 0.62],
    }
    content = {
        "name": f"rigid {number}, {name}",
        "gravity": 9.81,
        "timing": {"fps": FPS, "frames": FRAMES, "substeps": SUBSTEPS},
        "bodies": {"body": {**body, "position": _rounded([x, 0.0, drop - _lowest(name, size, turn)])}},
        "ground": {
            "law": "paper",
            "stiffness": 2.6e5,
            "damping": 100.5,
            "friction_stiffness": 100.5,
            "friction": 0.6,
        },
        "camera": _camera(float(size.max())),
        "background": [0.88, 0.88, 0.86],
    }
    return Drawn(name, Scene.parse(content), UNKNOWNS)


def _rounded(numbers) -> list[float]:
    return np.asarray(numbers).round(DIGITS).tolist()


def _camera(size: float) -> dict:
    away = round(2.6 + 2.4 * size, DIGITS)
    look = {"eye": [0.3, -away, 0.25 * away], "target": [0.3, 0.0, 0.3 * size + 0.1], "fov": "45 deg"}
    return {"size": [PIXELS, PIXELS], "look_at": look}


def _lowest(name: str, size: np.ndarray, turn: np.ndarray) -> float:
    """Height of the lowest vertex over the centre of mass [m], as the body is turned at the start."""
    mesh = Object(name=name, size=tuple(size.tolist())).mesh()
    one = torch.tensor(1.0).double()
    centre = meshes.mass_properties(torch.tensor(mesh.vertices), torch.tensor(mesh.faces), one).centre
    turned = rotation.exponential(torch.tensor(turn)).expand(len(mesh.vertices), 4)
    return rotation.rotate(turned, torch.tensor(mesh.vertices) - centre)[:, 2].min().item()
