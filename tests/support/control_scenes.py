"""Plants with goals for the tests of environments: a soft slug on a ground, and a ball to throw."""

import torch

from gradsim.control.goals.image import ImageGoal
from gradsim.control.observations import StateObservation
from gradsim.control.plant import Control, Plant
from gradsim.control.task.setup import place_body
from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene

GROUND = {"law": "paper", "stiffness": 2000, "damping": 5, "friction_stiffness": 20, "friction": 0.6}
CAMERA = {"size": [48, 32], "look_at": {"eye": [0.2, -2.0, 0.5], "target": [0.1, 0, 0.15], "fov": 0.7}}


def slug() -> tuple[Plant, ImageGoal]:
    """Fifteen tetrahedra that swell, 8 frames in 4 intervals, and a picture of them 20 cm to the right."""
    body = {
        "kind": "solid",
        "shape": {"box": {"size": [0.6, 0.3, 0.2], "cells": [3, 1, 1]}},
        "young": 2e4,
        "poisson": 0.3,
        "density": 300,
        "position": [0.02, 0.01, 0.105],
        "velocity": [0.1, 0.05, -0.2],
    }
    return _made("slug", body, 8, Control("slug.activation", -0.3, 0.3), 0.2)


def ball() -> tuple[Plant, ImageGoal]:
    """A ball whose velocity is chosen, and a picture of it 40 cm to the right on the ground."""
    body = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1.0, "position": [0.0, 0.0, 0.3]}
    return _made("ball", body, 10, Control("ball.velocity", -2.0, 2.0), 0.4)


def _made(name: str, body: dict, frames: int, control: Control, right: float) -> tuple[Plant, ImageGoal]:
    timing = {"fps": 24, "frames": frames, "substeps": "auto"}
    scene = Scene.parse({"timing": timing, "bodies": {name: body}, "grounds": {"ground": GROUND}, "camera": CAMERA})
    model, sees = Model(scene), Silhouettes.of(scene)
    seen, truth = place_body(model, name, [right, 0.0, 0.105], None)
    with torch.no_grad():
        image = sees.union(seen.surface, seen.values)[0, 0]
    return Plant(model, [control], 2, StateObservation(model)), ImageGoal(sees, image, truth=truth)
