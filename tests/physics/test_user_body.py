"""Kinds of bodies that are registered by a user: a mass on a spring, in closed form."""

import math
from typing import Annotated, Literal

import pytest
import torch
from pydantic import Field

from gradsim.errors import InputError
from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Part
from gradsim.identification.sensitivity.lyapunov import growth
from gradsim.physics import Model
from gradsim.physics import model as models
from gradsim.physics.system import System
from gradsim.physics.user_body import TorchProgram, register_body
from gradsim.scene import Scene
from gradsim.scene import scene as scenes
from gradsim.scene.node import Node
from gradsim.scene.parameters import KEYS
from gradsim.scene.quantity import positive


class Bob(Node):
    """z(t) = a cos(ω t)."""

    kind: Literal["bob"] = Field(description="kind: bob")
    amplitude: Annotated[float, positive("m")] = 0.5
    frequency: Annotated[float, positive("rad/s")] = 3.0


class BobSystem(System):
    states = ("height",)

    def __init__(self, name, body, scene, first, dtype, device):
        self.name, self.ball = name, torch.tensor(mesh.sphere(0.1, 1).vertices, dtype=dtype, device=device)
        faces = torch.tensor(mesh.sphere(0.1, 1).faces, device=device)
        self.part = Part(name, slice(first, first + len(self.ball)), faces, True, Appearance())

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


@pytest.fixture
def model(monkeypatch):
    for registry in (models.KINDS, scenes.KINDS, KEYS):
        for key, value in list(registry.items()):
            monkeypatch.setitem(registry, key, value)
    register_body("bob", Bob, ("amplitude", "frequency"), BobSystem)
    yield Model(Scene.parse({"bodies": {"bob": {"kind": "bob"}}, "timing": {"fps": 20, "frames": 9}}))
    del models.KINDS["bob"], scenes.KINDS["bob"], KEYS[Bob]


def test_its_trajectory_is_its_formula(model):
    """Float64 rounding alone is between them."""
    t = torch.arange(9) / 20
    torch.testing.assert_close(model.rollout()["bob"]["height"][0], 0.5 * torch.cos(3.0 * t.double()))


def test_tangents_and_gradients_are_those_of_the_formula(model):
    """dz/dω = -a t sin(ω t), by forward and by reverse mode."""
    t = torch.arange(9).double() / 20
    slope = -0.5 * t * torch.sin(3.0 * t)
    _, moving = model.tangent(model.values(), {"bob.frequency": torch.ones(1, dtype=torch.float64)}, 9)
    torch.testing.assert_close(moving["bob"]["height"][0], slope)
    model.rollout()["bob"]["height"][0, 5].backward()
    torch.testing.assert_close(model.get_parameter("bob.frequency").grad, slope[5])


def test_no_error_of_a_start_grows_where_there_is_none(model):
    assert growth(model).growth.tolist() == [1.0] * 9


def test_a_kind_that_exists_and_numbers_that_do_not_are_refused(model):
    with pytest.raises(InputError, match="there is a kind of body 'rigid' already"):
        register_body("rigid", Bob, (), BobSystem)
    with pytest.raises(InputError, match="Bob has no key 'mass'"):
        register_body("bob", Bob, ("mass",), BobSystem)
