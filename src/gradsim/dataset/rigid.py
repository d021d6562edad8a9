"""Rigid samples: an object, stretched along its axes, is dropped on a ground with spin and a known push.

Nothing here depends on the truth. What makes a scene tell something about all of mass, stiffness, damping and both
frictions is the recipe, the same for all: a known off-centre push (mass shows from a known force only), a
tilted start, a drop from a low height, and spin.
"""

import math

import numpy as np
import torch

from gradsim.dataset.drawn import Drawn
from gradsim.dataset.steps import substeps
from gradsim.geometry import mesh as meshes
from gradsim.numerics import rotation
from gradsim.scene import Object, Scene

OBJECTS = (
    *("box", "cylinder", "cone", "capsule", "torus"),
    *("pear", "banana", "pepper"),
    *("duck", "cat", "fish"),
    *("mug", "stapler", "airplane"),
)
SIZES = 0.3, 1.0  # [m] extent along each axis of the object
FPS, FRAMES = 30, 60  # 2 s
PIXELS = 64
DIGITS = 6  # decimals of what is drawn: the last bits of cosines and sums differ between machines
RANGES = {  # the paper prints its ranges without units; these are ours
    "body.mass": (2.0, 12.0),  # [kg]
    "ground.stiffness": (2e4, 5e5),  # of each contact vertex, as the next two [N/m]
    "ground.damping": (1.0, 200.0),  # [N s/m]
    "ground.friction_stiffness": (1.0, 200.0),  # [N s/m]
    "ground.friction": (0.2, 1.0),
}
UNKNOWNS = tuple(f"{name}:{low:g}:{high:g}" for name, (low, high) in RANGES.items())
MIDDLE = {name.partition(".")[2]: (low + high) / 2 for name, (low, high) in RANGES.items()}


def rigid(rng: np.random.Generator, number: int) -> Drawn:
    """The `number`-th rigid scene; objects come in turn."""
    name = OBJECTS[number % len(OBJECTS)]
    size = rng.uniform(*SIZES, 3).round(DIGITS)
    axis = rng.standard_normal(3)
    turn = (axis / np.linalg.norm(axis) * rng.uniform(0.3, 2.5)).round(DIGITS)
    heading = rng.uniform(-0.5, 0.5)
    along = np.array([math.cos(heading), math.sin(heading), 0.0])
    impulse = along * rng.uniform(4, 5.5) + np.array([0, 0, rng.uniform(-2.0, 0.5)])
    arm = rng.uniform(-0.25, 0.25, 3) * size
    x, drop = rng.uniform(-0.8, -0.4), rng.uniform(0.02, 0.3)
    solid, inertia = _centred(name, size)
    low = rotation.rotate(
        rotation.exponential(torch.tensor(turn)).expand(len(solid.vertices), 4), torch.tensor(solid.vertices)
    )
    body = {
        "shape": {"object": {"name": name, "size": size.tolist()}},
        "mass": MIDDLE["mass"],
        "rotation_vector": turn.tolist(),
        "velocity": _rounded(along * rng.uniform(-0.3, 0.5)),
        "angular_velocity": _rounded(rng.uniform(-3, 3, 3)),
        "pushes": [{"impulse": _rounded(impulse), "point": _rounded(arm), "at": 0}],
        "colour": [0.16, 0.28, 0.62],
    }
    content = {
        "name": f"rigid {number}, {name}",
        "gravity": 9.81,
        "timing": {"fps": FPS, "frames": FRAMES, "substeps": _substeps(solid, inertia)},
        "bodies": {"body": {**body, "position": _rounded([x, 0.0, drop - low[:, 2].min().item()])}},
        "ground": {"law": "paper", **{key: middle for key, middle in MIDDLE.items() if key != "mass"}},
        "camera": _camera(float(size.max())),
        "background": [0.88, 0.88, 0.86],
    }
    return Drawn(name, Scene.parse(content), UNKNOWNS)


def _rounded(numbers) -> list[float]:
    return np.asarray(numbers).round(DIGITS).tolist()


def _camera(size: float) -> dict:
    away = round(3.3 + 2.4 * size, DIGITS)
    look = {"eye": [0.45, -away, 0.25 * away], "target": [0.45, 0.0, 0.3 * size + 0.1], "fov": "45 deg"}
    return {"size": [PIXELS, PIXELS], "look_at": look}


def _centred(name: str, size: np.ndarray) -> tuple[meshes.Mesh, np.ndarray]:
    """An object about its centre of mass, and its inertia (3, 3) for a mass of 1 [m²]."""
    mesh = Object(name=name, size=tuple(size.tolist())).mesh()
    one = torch.tensor(1.0).double()
    solid = meshes.mass_properties(torch.tensor(mesh.vertices), torch.tensor(mesh.faces), one)
    return meshes.Mesh(mesh.vertices - solid.centre.numpy(), mesh.faces), (solid.inertia / solid.mass).numpy()


def _substeps(solid: meshes.Mesh, inertia: np.ndarray) -> int:
    """From the worst corner of the ranges."""
    of = lambda key, end: RANGES[key][end]
    return substeps(
        solid,
        inertia,
        of("body.mass", 0),
        of("ground.stiffness", 1),
        of("ground.damping", 1),
        of("ground.friction_stiffness", 1),
        FPS,
    )
