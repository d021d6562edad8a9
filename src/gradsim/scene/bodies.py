"""Bodies of a scene: rigid bodies and pendula."""

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gradsim.errors import InputError
from gradsim.scene.quantities import Colour, Strict, not_negative, number, positive, vector
from gradsim.scene.shape import Shape


class Push(Strict):
    """A known force on a body.

    Args:
        force: World frame [N], over `window`.
        impulse: World frame [N s], at one instant `at` or spread evenly over `window`.
        point: Where it acts, in the body frame, from the centre of mass [m].
        at: [s].
        window: Begin and end [s].
    """

    force: vector("N") | None = None
    impulse: vector("N s") | None = None
    point: vector("m") = (0.0, 0.0, 0.0)
    at: not_negative("s") | None = None
    window: vector("s", 2) | None = None

    @model_validator(mode="after")
    def _complete(self):
        if (self.force is None) == (self.impulse is None):
            raise InputError("a push is exactly one of force [N] and impulse [N s].")
        if self.force is not None and self.window is None:
            raise InputError("a force acts over a window: [begin, end] [s].")
        if self.window is not None and self.at is not None:
            raise InputError("a push has `at` or `window`, not both.")
        if self.window is None and self.at is None:
            raise InputError("say when the impulse acts: `at` [s] or `window` [begin, end] [s].")
        if self.window is not None and not 0 <= self.window[0] < self.window[1]:
            raise InputError(f"window {list(self.window)} has to begin at 0 s or later, and end after that.")
        return self


class RigidBody(Strict):
    """A rigid body; see the conventions in the docs.

    Args:
        shape: Its solid.
        mass: [kg]; or
        density: [kg/m³].
        scale: Of the shape.
        position: Of the centre of mass at the start [m].
        quat_xyzw: Orientation at the start; or
        rotation_vector: the same as axis times angle [rad].
        velocity: Of the centre of mass [m/s].
        angular_velocity: World frame [rad/s].
        collision: What touches grounds: mesh `vertices`, the analytic `sphere`, or `none`.
        pushes: Known forces.
        colour: RGB in [0, 1].
    """

    kind: Literal["rigid"] = "rigid"
    shape: Shape
    mass: positive("kg") | None = None
    density: positive("kg/m^3") | None = None
    scale: positive() = 1.0
    position: vector("m") = (0.0, 0.0, 0.0)
    quat_xyzw: vector("", 4) = (0.0, 0.0, 0.0, 1.0)
    rotation_vector: vector("rad") = (0.0, 0.0, 0.0)
    velocity: vector("m/s") = (0.0, 0.0, 0.0)
    angular_velocity: vector("rad/s") = (0.0, 0.0, 0.0)
    collision: Literal["vertices", "sphere", "none"] | None = None
    pushes: tuple[Push, ...] = ()
    colour: Colour = (0.2, 0.35, 0.7)

    @model_validator(mode="after")
    def _consistent(self):
        if (self.mass is None) == (self.density is None):
            raise InputError("give exactly one of mass [kg] and density [kg/m³].")
        length = math.sqrt(sum(c * c for c in self.quat_xyzw))
        if abs(length - 1) > 1e-3:
            raise InputError(f"quat_xyzw has length {length:.4g}; a rotation has length 1 (order x, y, z, w).")
        if self.collision == "sphere" and self.shape.sphere is None:
            raise InputError("collision: sphere is for shape: sphere; use vertices.")
        return self


class Pendulum(Strict):
    """A solid ball on a massless string that swings in a vertical plane about a fixed pivot.

    Args:
        pivot: [m].
        string_length: From the pivot to the ball's surface [m].
        radius: Of the ball [m].
        angle: At the start, from hanging straight down, positive towards `plane` [rad].
        rate: Its rate at the start [rad/s].
        damping: Linear, c [1/s].
        drag: Quadratic, d [1/rad].
        plane: Horizontal direction of the swing.
        rod_radius: Of the rod drawn from the pivot to the ball [m]; 0 draws none.
        colour: RGB in [0, 1].
    """

    kind: Literal["pendulum"]
    pivot: vector("m") = (0.0, 0.0, 0.0)
    string_length: positive("m")
    radius: positive("m")
    angle: number("rad") = 0.0
    rate: number("rad/s") = 0.0
    damping: not_negative("1/s") = 0.0
    drag: not_negative("1/rad") = 0.0
    plane: vector() = (1.0, 0.0, 0.0)
    rod_radius: not_negative("m") = 0.0
    colour: Colour = (0.2, 0.35, 0.7)

    @model_validator(mode="after")
    def _horizontal(self):
        if self.plane[2] != 0 or math.hypot(*self.plane[:2]) == 0:
            raise InputError(f"plane {list(self.plane)} has to be a horizontal direction, such as [1, 0, 0].")
        return self


Body = Annotated[RigidBody | Pendulum, Field(discriminator="kind")]
