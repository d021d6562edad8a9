"""Contact points of a rigid body, in plain PyTorch: vertices, or the centre of a ball, that its pose carries."""

from typing import TYPE_CHECKING

from torch import Tensor, linalg

from gradsim.numerics import rotation
from gradsim.physics.rigid.rollout import INPUTS
from gradsim.physics.system import State, Values

if TYPE_CHECKING:
    from gradsim.physics.rigid.body import RigidBody


class RigidContactPoints:
    """`ContactPoints` of a rigid body."""

    def __init__(self, body: "RigidBody"):
        self.body, self.surfaces, self.law, self.count = body, body.surfaces, body.law, len(body.points)

    def label(self, index: int) -> str:
        return f"vertex {index}" if self.count > 1 else "ball"

    def parameters(self, values: Values) -> dict[str, Tensor]:
        return dict(zip(INPUTS, self.body.inputs(values), strict=False))

    def positions(self, state: State, parameters: dict[str, Tensor]) -> Tensor:
        return state["x"][:, None, None] + self._arms(state, parameters)

    def velocities(self, state: State, parameters: dict[str, Tensor], normal: Tensor) -> Tensor:
        """v + ω × r with r from the center of mass to the surface of the ball about each point."""
        q, l = state["q"], state["l"]
        local = rotation.rotate(rotation.conjugate(q), l)
        spin = rotation.rotate(q, (parameters["inertia_inverse"] @ local[..., None])[..., 0])
        arm = self._arms(state, parameters) - parameters["radius"][:, None] * normal
        return state["v"][:, None, None] + linalg.cross(spin[:, None, None].expand_as(arm), arm)

    def _arms(self, state: State, parameters: dict[str, Tensor]) -> Tensor:
        """From the center of mass to the points (steps, 1, points, 3)."""
        return rotation.rotate(state["q"][:, None, None], parameters["points"])
