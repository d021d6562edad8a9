"""Small plants for the tests of controllers: a soft beam that bends itself."""

import soft_cases
import torch
from torch import nn

from gradsim.control.plant import Control, Plant
from gradsim.physics.model import Model
from gradsim.scene import Scene


class Table(nn.Module):
    """A number for each interval and output, whatever the state."""

    def __init__(self, u: torch.Tensor, seconds: float, feedback: bool):
        super().__init__()
        self.u, self.seconds, self.feedback = nn.Parameter(u), seconds, feedback

    def forward(self, times, observation):
        assert (observation is not None) == self.feedback
        return self.u[None, (times / self.seconds).round().long()]


class Center:
    """Observes the mean of all vertices."""

    size = 3

    def __call__(self, states, values, plant):
        return states["beam"]["x"].mean(1)


def swinging(interval: int = 2, observation=None) -> Plant:
    """The turned beam of `soft_cases`, which hangs on an edge and swings onto a ground: 6 frames of 20 steps."""
    model = Model(soft_cases.solid())
    return Plant(model, [Control("beam.activation", -0.4, 0.4)], interval, observation(model) if observation else None)


def hanging(frames: int = 21) -> Plant:
    """The same, held by its end face, in heavier damping and without anything to touch: it sags."""
    content = soft_cases.solid().model_dump(exclude_unset=True)
    content["timing"]["frames"] = frames
    still = {"velocity": [0, 0, 0], "angular_velocity": [0, 0, 0], "pushes": []}
    content["bodies"]["beam"] |= {"damping": 30.0, "pinned": ["-x"], **still}
    scene = Scene.parse({**content, "grounds": {}, "obstacles": {}})
    return Plant(Model(scene), [Control("beam.activation", -0.8, 0.8)])


def inputs(plant: Plant) -> int:
    """Size of its observation."""
    assert plant.observation is not None
    return plant.observation.size
