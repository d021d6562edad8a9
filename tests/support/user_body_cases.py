"""A kind of body that a user registers: a mass on a spring, in closed form."""

import contextlib
import math
from collections.abc import Iterator
from typing import Annotated, Literal

import torch
from pydantic import Field

from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Part
from gradsim.physics import Model
from gradsim.physics import model as models
from gradsim.physics.system import System
from gradsim.physics.user_body import TorchProgram, register_body
from gradsim.scene import Scene
from gradsim.scene import scene as scenes
from gradsim.scene.body import BodyNode
from gradsim.scene.parameters import KEYS
from gradsim.scene.quantity import positive


class Bob(BodyNode):
    """z(t) = a cos(ω t)."""

    kind: Literal["bob"] = Field(description="kind: bob")
    amplitude: Annotated[float, positive("m")] = 0.5
    frequency: Annotated[float, positive("rad/s")] = 3.0


class BobSystem(System):
    states = ("height",)

    def __init__(self, name, body, scene, vertex_offset, dtype, device):
        self.name, self.ball = name, torch.tensor(mesh.sphere(0.1, 1).vertices, dtype=dtype, device=device)
        faces = torch.tensor(mesh.sphere(0.1, 1).faces, device=device)
        self.part = Part(name, slice(vertex_offset, vertex_offset + len(self.ball)), faces, True, Appearance())

    def program(self, frames, substeps, dt, segment=1):
        def height(amplitude, frequency, step):
            time = torch.nn.functional.pad(step * substeps, (1, 0)).cumsum(1)
            return [amplitude[:, None] * torch.cos(frequency[:, None] * time)]

        return TorchProgram(height)

    def inputs(self, values):
        return [values[f"{self.name}.{key}"] for key in ("amplitude", "frequency")]

    def vertices(self, states, values):
        z = states[0]
        return self.ball + torch.stack([torch.zeros_like(z), torch.zeros_like(z), z], -1)[:, :, None]

    def stable_step(self, values):
        return math.inf

    recommended_step = stable_step

    def check(self, values):
        pass


@contextlib.contextmanager
def registered() -> Iterator[Model]:
    """A model of one such body; its kind is registered meanwhile."""
    register_body("bob", Bob, ("amplitude", "frequency"), BobSystem)
    try:
        yield Model(Scene.parse({"bodies": {"bob": {"kind": "bob"}}, "timing": {"fps": 20, "frames": 9}}))
    finally:
        del models.KINDS["bob"], scenes.KINDS["bob"], KEYS[Bob]
