"""A camera that nobody levelled: three small turns about its own axes as unknowns in addition to those of a scene.

    x_c = exp(a) R x + t,   a = (pitch, yaw, roll) [rad]

A camera that is not square to the plane of a swing shows one side of it larger, and a fit that takes it for square
blames the physics for that. Turning the camera is turning the world: the surface gets x' = Rᵀ exp(a) R x, so every
observation and renderer serves as it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.geometry.surface import Surface
from gradsim.identification.unknowns import Ranges, Space, Unknown
from gradsim.physics.model import Model
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory
from gradsim.render.camera import from_scene

ATTITUDE = "world.attitude"
ANGLES = ("pitch", "yaw", "roll")
CROSS = torch.tensor(
    [[0, 0, 0, 0, 0, -1, 0, 1, 0], [0, 0, 1, 0, 0, 0, -1, 0, 0], [0, -1, 0, 1, 0, 0, 0, 0, 0.0]]
)  # a ×


class AttitudeSpace(Space):
    """The unknowns of a scene, and after them the camera's pitch, yaw and roll.

    Args:
        scene: The scene; it has a camera.
        unknowns: As for `Space`.
        spread: Standard deviation of each angle [rad]: how level a camera is before anything is seen. The angles stay
            within three times it.
    """

    def __init__(self, scene, unknowns, spread: float):
        super().__init__(scene, unknowns)
        turns = [Unknown(f"camera.{angle}", -3 * spread, 3 * spread, (0.0, spread)) for angle in ANGLES]
        Ranges.__init__(self, [*self.unknowns, *turns], [*self.logarithmic, *[False] * 3], [*self.units, *["rad"] * 3])

    def values(self, inner: Tensor) -> Values:
        """As of `Space`, and the attitude (worlds, 3)."""
        return {**super().values(inner), ATTITUDE: inner[:, -3:]}


class TurnedModel:
    """A model seen by a camera of some attitude: `Model` as far as a problem needs it.

    Args:
        model: The model.
    """

    is_external = False

    def __init__(self, model: Model):
        self.model, self.scene = model, model.scene
        self.R = from_scene(model.scene.camera).R

    @property
    def unused_parameters(self) -> frozenset[str]:
        """As of `Model`."""
        return self.model.unused_parameters

    def parameters(self) -> Iterator[Tensor]:
        """As of `Model`."""
        return self.model.parameters()

    def values(self, overrides: Values) -> Values:
        """All parameters with a leading dimension of worlds, and the attitude."""
        worlds = len(overrides[ATTITUDE])
        values = self.model.values({name: v for name, v in overrides.items() if name != ATTITUDE})
        values = {name: v.expand(worlds, *v.shape[1:]) for name, v in values.items()}
        return {**values, ATTITUDE: overrides[ATTITUDE].to(self.model.dtype)}

    def rollout_unchecked(self, values: Values, frames: int) -> "TurnedTrajectory":
        """As of `Model`."""
        parameters = {name: v for name, v in values.items() if name != ATTITUDE}
        return TurnedTrajectory(self.model.rollout_unchecked(parameters, frames), values, self.R)

    def tangent(self, values: Values, direction: Values, frames: int) -> tuple["TurnedTrajectory", Trajectory]:
        """As of `Model`."""
        parameters = {name: v for name, v in values.items() if name != ATTITUDE}
        trajectory, tangent = self.model.tangent(parameters, _without(direction), frames)
        return TurnedTrajectory(trajectory, values, self.R), tangent


@dataclass(frozen=True)
class TurnedTrajectory:
    """A trajectory whose surface is turned as the camera sees it: `Trajectory` as far as an observation needs it.

    Args:
        trajectory: The motion.
        values: All parameters and the attitude.
        R: Rotation world → camera of a level camera.
    """

    trajectory: Trajectory
    values: Values
    R: Tensor

    def __getitem__(self, body: str) -> dict[str, Tensor]:
        return self.trajectory[body]

    @property
    def states(self):
        """As of `Trajectory`."""
        return self.trajectory.states

    @property
    def systems(self):
        """As of `Trajectory`."""
        return self.trajectory.systems

    @property
    def parts(self):
        """As of `Trajectory`."""
        return self.trajectory.parts

    @property
    def times(self) -> Tensor:
        """As of `Trajectory`."""
        return self.trajectory.times

    @property
    def surface(self) -> Surface:
        """Vertices (worlds, frames, n, 3) [m]."""
        surface = self.trajectory.surface
        return Surface(surface.vertices @ turn(self.R, self.values[ATTITUDE])[:, None].mT, surface.parts)

    def surface_tangent(self, tangent: Trajectory, direction: Values) -> tuple[Surface, Tensor]:
        """As of `Trajectory`."""
        surface, moving = self.trajectory.surface_tangent(tangent, _without(direction))
        pair = torch.func.jvp(lambda attitude: turn(self.R, attitude), (self.values[ATTITUDE],), (direction[ATTITUDE],))
        turned, turning = (matrix[:, None].mT for matrix in pair)
        return Surface(surface.vertices @ turned, surface.parts), moving @ turned + surface.vertices @ turning


def turn(R: Tensor, attitude: Tensor) -> Tensor:
    """Rotation of the world for attitudes (worlds, 3) of a camera with rotation R: Rᵀ exp(a) R, (worlds, 3, 3)."""
    R = R.to(attitude)
    return R.T @ torch.linalg.matrix_exp((attitude @ CROSS.to(attitude)).unflatten(-1, (3, 3))) @ R


def _without(direction: Values) -> Values:
    return {name: v for name, v in direction.items() if name != ATTITUDE}
