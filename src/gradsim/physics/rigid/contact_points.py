"""Contact points of a rigid body, in plain PyTorch: vertices, or the centre of a ball, that its pose carries."""

from collections.abc import Callable, Sequence

from torch import Tensor, linalg

from gradsim.numerics import rotation
from gradsim.physics.rigid.rollout import INPUTS
from gradsim.physics.system import State, Values


class RigidContactPoints:
    """`ContactPoints` of a rigid body.

    Args:
        surfaces: Names of the planes and obstacles that it meets.
        law: Contact law.
        count: Number of points.
        inputs: Inputs of the rollout from the values of all parameters, in the order of `INPUTS`.
    """

    def __init__(self, surfaces: Sequence[str], law: str, count: int, inputs: Callable[[Values], Sequence[Tensor]]):
        self.surfaces, self.law, self.count, self.inputs = surfaces, law, count, inputs

    def label(self, index: int) -> str:
        return f"vertex {index}" if self.count > 1 else "ball"

    def parameters(self, values: Values) -> dict[str, Tensor]:
        return dict(zip(INPUTS, self.inputs(values), strict=False))

    def positions(self, state: State, parameters: dict[str, Tensor]) -> Tensor:
        return state["x"][:, None, None] + self._arms(state, parameters)

    def velocities(self, state: State, parameters: dict[str, Tensor], normal: Tensor) -> Tensor:
        """v + ω × r with r from the center of mass to the surface of the ball about each point."""
        q, l = state["q"], state["l"]
        spin = rotation.apply_turned(q, parameters["inertia_inverse"], l)
        arm = self._arms(state, parameters) - parameters["radius"][:, None] * normal
        return state["v"][:, None, None] + linalg.cross(spin[:, None, None].expand_as(arm), arm)

    def _arms(self, state: State, parameters: dict[str, Tensor]) -> Tensor:
        """From the center of mass to the points (steps, 1, points, 3)."""
        return rotation.rotate(state["q"][:, None, None], parameters["points"])
