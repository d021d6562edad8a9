"""The state of a rigid body as parameters of a start: s = (x, θ, v, ω), q = exp(θ) q_scene."""

from typing import Protocol

import torch
from torch import Tensor

from gradsim.numerics import rotation
from gradsim.physics.system import State, Values
from gradsim.scene.body import Rigid


class Spinning(Protocol):
    """Body with the numbers that its start reads."""

    body: Rigid
    name: str
    rest: Tensor
    start_keys: tuple[str, ...]

    def spin(self, q: Tensor, momentum: Tensor, values: Values) -> Tensor:
        """Angular velocity (worlds, 3) [rad/s] from the angular momentum."""
        ...


class RigidStart:
    """`StartState` of a rigid body; the gap of orientations is log(q q'⁻¹)."""

    size = 12

    def __init__(self, body: Spinning):
        self.body, self.base = body, torch.tensor(body.body.quat_xyzw).double()
        self.parts = dict.fromkeys(("position", "angle", "velocity", "angular_velocity"), 3)

    def units(self, rate: float) -> Tensor:
        size = torch.linalg.vector_norm(self.body.rest, dim=-1).max().item() * self.body.body.scale
        return torch.tensor([size, 1.0, size * rate, rate]).double().repeat_interleave(3)

    def instant(self, state: State, values: Values) -> dict[str, Tensor]:
        spin = self.body.spin(state["q"], state["l"], values)
        return {"x": state["x"], "q": state["q"], "v": state["v"], "w": spin}

    def numbers(self, instant: State) -> Tensor:
        turned = rotation.multiply(instant["q"], rotation.conjugate(self.base.expand_as(instant["q"])))
        return torch.cat([instant["x"], rotation.logarithm(turned), instant["v"], instant["w"]], 1)

    def gap(self, old: State, new: State) -> Tensor:
        turned = rotation.logarithm(rotation.multiply(new["q"], rotation.conjugate(old["q"])))
        return torch.cat([new["x"] - old["x"], turned, new["v"] - old["v"], new["w"] - old["w"]], 1)

    def parameters(self, numbers: Tensor) -> Values:
        keys = self.body.start_keys
        return {f"{self.body.name}.{key}": y for key, y in zip(keys, numbers.split(3, 1), strict=True)}
