"""Episodes of a small scene, and goals in it."""

import soft_cases
import torch
from torch import Tensor

from gradsim.control.plant import Episode
from gradsim.control.task.setup import place_body
from gradsim.physics.model import Model
from gradsim.scene import Scene

BACKGROUND = (0.9, 0.85, 0.8)
SIDE = {"size": [20, 24], "look_at": {"eye": [1.3, -0.3, 0.2], "target": [0.0, 0, 0.05], "fov": 0.5}}


def scene() -> Scene:
    """The turned beam of `soft_cases`, free, before a post and a ground that is seen, with two cameras."""
    plain = soft_cases.solid(pinned=None, colour=[0.2, 0.3, 0.7]).model_dump(exclude_none=True)
    plain["grounds"]["ground"]["visible"] = {"size": 1.0}
    plain["camera"]["size"] = [48, 40]
    return Scene.parse({**plain, "cameras": {"side": SIDE}, "background": BACKGROUND})


def model() -> Model:
    return Model(scene())


def episode(of: Model, activation: Tensor, frames: int = 4) -> Episode:
    """What the beam does with an activation (worlds,) of all its tetrahedra."""
    return Episode(of.rollout({"beam.activation": activation}, frames), activation[:, None, None])


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def at(of: Model, x: float, y: float, z: float, frame: int = -1):
    """The beam elsewhere: one frame, and its truth."""
    return place_body(of, "beam", (x, y, z), None, (0.1, -0.2, 0.3), frame)
