"""Rigid bodies, pendulums and pushes of a scene."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_serializer
from pydantic_core import core_schema

from gradsim.scene.contact import DAMPING, DISSIPATION, FRICTION, FRICTION_STIFFNESS, STIFFNESS
from gradsim.scene.material import COLOR, Material
from gradsim.scene.node import Node, Place, exactly_one, mistake
from gradsim.scene.quantity import Quantity, Tuple, Vector2, Vector3, Vector4, plain, positive, vector
from gradsim.scene.recordings.pose import PoseMotion
from gradsim.scene.shape import Shape

FULL_TURN = 2 * math.pi  # a larger start angle is most likely in degrees
BLUE = (0.2, 0.35, 0.7)
TIME = Quantity("s", lower=0.0)
UPRIGHT = (0.0, 0.0, 0.0, 1.0)
PLACEMENT_KEYS = ("position", "rotation_vector", "velocity", "angular_velocity")  # set by a joint or a recording
INERTIA_TOLERANCE = 1e-6  # relative excess of the triangle inequality of moments of inertia, by rounding of a thin body
QUATERNION_TOLERANCE = 1e-3  # deviation of a quaternion's length from 1: files often keep four digits


class _UnitQuaternion(Tuple):
    """Annotate a unit quaternion; rounding in a file is normalized away, another length is an error."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_after_validator_function(
            self._normalize, super().__get_pydantic_core_schema__(source, handler)
        )

    def _normalize(self, q: Vector4) -> Vector4:
        length = math.hypot(*q)
        if abs(length - 1) <= 1e-12:
            return q
        if length == 0:
            raise mistake("got a quaternion of length 0; the identity is [0, 0, 0, 1].")
        x, y, z, w = (c / length for c in q)
        if abs(length - 1) > QUATERNION_TOLERANCE:
            raise mistake(
                f"got a quaternion of length {length:.6g}; a rotation has length 1. "
                f"If only its length is off, write [{x:.15g}, {y:.15g}, {z:.15g}, {w:.15g}]; the order is x, y, z, w."
            )
        return x, y, z, w


UNIT_QUATERNION = _UnitQuaternion(Quantity(""), 4)


class Push(Node):
    """External impulse or force on a rigid body.

    Attributes:
        impulse: Impulse [N s], world frame; instantaneous, or spread evenly over `window`.
        force: Force [N], world frame; constant over `window`.
        point: Point of application from the center of mass, body frame [m].
        at: Time of an instantaneous impulse [s].
        window: Begin and end [s].
    """

    impulse: Annotated[Vector3 | None, vector("N s")] = None
    force: Annotated[Vector3 | None, vector("N")] = None
    point: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    at: Annotated[float, TIME] = 0.0
    window: Annotated[Vector2 | None, Tuple(TIME, 2, "times")] = None

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        yield from exactly_one(raw, ("impulse", "force"))
        if "force" in raw and "window" not in raw:
            yield (), "got a `force` without a `window`; add window: [begin, end] in s, or give an `impulse`."
        if "window" in raw and raw.get("at"):
            yield (), "got both `at` and `window`; give one of them."

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if self.window and self.window[0] >= self.window[1]:
            yield ("window",), f"got {list(self.window)}; the end must be after the begin."

    @property
    def after_start(self) -> bool:
        """False for an instantaneous impulse at time 0."""
        return self.window is not None or self.at > 0

    @model_serializer(mode="wrap")
    def _one_time(self, content):
        return drop_key(content(self), "at" if self.window else "window")


class BodyNode(Node):
    """Base of all kinds of bodies: what others read of their keys."""

    def part_colors(self, name: str) -> dict[str, Vector3]:
        """RGB of each part of the surface of the body `name`, by the names of `System.parts`."""
        return {name: self.colour}  # pyright: ignore[reportAttributeAccessIssue] -- a key of all bodies that are drawn


class Rigid(BodyNode):
    """A rigid body.

    Attributes:
        shape: Shape, at scale 1.
        mass: Mass [kg], or
        density: density [kg/m³].
        inertia: Principal moments about the center of mass, at scale 1 [kg m²]; by default those of the shape with
            uniform density. They scale with the square of `scale` and do not change with `mass`.
        inertia_quat_xyzw: Orientation of the principal axes in the body frame.
        inertia_log_cholesky: d₁, d₂, d₃, s₁₂, s₂₃, s₁₃ of the log-Cholesky parametrization of the inertia, relative to that of the shape with
            uniform density, for which they are 0: six unknowns that are physical at any value, where `inertia` is not. It changes with `mass`.
        centre_of_mass: Center of mass in the frame of the shape, at scale 1 [m]; by default with uniform density.
        scale: Uniform scale of the shape.
        position: Position of the center of mass [m].
        quat_xyzw: Orientation, body to world, or
        rotation_vector: the same as axis times angle [rad].
        velocity: Velocity of the center of mass [m/s].
        angular_velocity: Angular velocity, world frame [rad/s].
        colour: RGB.
        material: Texture and reflectance; by default plain and matte.
        collision: Collision geometry: `vertices`; `hull`, the vertices of the convex hull, which is also used in
            contacts with other bodies (see `BodyContact`); `sphere` (for the shape sphere, its default); `none`.
        stiffness, dissipation, damping, friction_stiffness, friction: Overrides of the contact parameters of grounds
            and obstacles (see `Contact`).
        drag: Quadratic drag of air d in the force -d |v| v on the center of mass, ½ ρ c_w A [kg/m]; by default none.
        pushes: External impulses and forces.
        motion: Recording that the body follows (see `PoseMotion`). It pushes what it touches and what joints hold at it, and
            nothing pushes it; `position`, orientation and velocities at the start are those of the recording.
    """

    kind: Literal["rigid"] = "rigid"
    shape: Shape = Field(description="one shape, such as {box: {size: [0.1, 0.1, 0.1]}}")
    mass: Annotated[float | None, positive("kg")] = None
    density: Annotated[float | None, positive("kg/m^3")] = None
    inertia: Annotated[Vector3 | None, Tuple(positive("kg m^2"))] = None
    inertia_quat_xyzw: Annotated[Vector4, UNIT_QUATERNION] = UPRIGHT
    inertia_log_cholesky: Annotated[
        tuple[float, float, float, float, float, float] | None, Tuple(Quantity("", -5.0, 5.0), 6)
    ] = None
    centre_of_mass: Annotated[Vector3 | None, vector("m")] = None
    scale: Annotated[float, positive("")] = 1.0
    position: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    quat_xyzw: Annotated[Vector4, UNIT_QUATERNION] = UPRIGHT
    rotation_vector: Annotated[Vector3, vector("rad", lower=-FULL_TURN, upper=FULL_TURN)] = (0.0, 0.0, 0.0)
    velocity: Annotated[Vector3, vector("m/s")] = (0.0, 0.0, 0.0)
    angular_velocity: Annotated[Vector3, vector("rad/s")] = (0.0, 0.0, 0.0)
    colour: Annotated[Vector3, COLOR] = BLUE
    material: Material | None = None
    collision: Literal["vertices", "hull", "sphere", "none"] | None = None
    stiffness: Annotated[float | None, STIFFNESS] = None
    dissipation: Annotated[float | None, DISSIPATION] = None
    damping: Annotated[float | None, DAMPING] = None
    friction_stiffness: Annotated[float | None, FRICTION_STIFFNESS] = None
    friction: Annotated[float | None, FRICTION] = None
    drag: Annotated[float | None, Quantity("kg/m", lower=0.0, positive=True)] = None
    pushes: tuple[Push, ...] = ()
    motion: PoseMotion | None = None

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        yield from exactly_one(raw, ("mass", "density"))
        if len(non_default_keys(cls, raw, ("quat_xyzw", "rotation_vector"))) == 2:
            yield (), "got `quat_xyzw` and `rotation_vector`; give one of them."
        shape = raw.get("shape")
        if raw.get("collision") == "sphere" and isinstance(shape, dict) and "sphere" not in shape:
            yield ("collision",), "got 'sphere' for another shape; expected `vertices`, `hull` or `none`."
        if "inertia" in raw and "density" in raw:
            yield ("inertia",), "is given together with `density`; give `mass` instead of `density`."
        if "inertia" in raw and "inertia_log_cholesky" in raw:
            yield ("inertia_log_cholesky",), "is given together with `inertia`; give one of them."
        if non_default_keys(cls, raw, ("inertia_quat_xyzw",)) and "inertia" not in raw:
            yield ("inertia_quat_xyzw",), "is given without `inertia`; give the moments about these axes."

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if self.inertia and 2 * max(self.inertia) > sum(self.inertia) * (1 + INERTIA_TOLERANCE):
            yield (
                ("inertia",),
                f"got {list(self.inertia)}; a moment of inertia cannot exceed the sum of the other two.",
            )
        ball = self.collision == "sphere" or (self.collision is None and self.shape.sphere)
        if self.centre_of_mass and ball:
            yield (
                ("centre_of_mass",),
                "is given for `collision: sphere`, which rotates about its center; give collision: vertices.",
            )
        if self.motion is not None:
            yield from self._motion_conflicts(self.motion)

    def _motion_conflicts(self, motion: PoseMotion) -> Iterator[tuple[Place, str]]:
        for key in PLACEMENT_KEYS:
            if any(getattr(self, key)):
                yield (key,), "is given together with `motion`, whose first sample is the start; remove it."
        if motion.quats_xyzw is not None and self.quat_xyzw != UPRIGHT:
            yield ("quat_xyzw",), "is given together with `motion.quats_xyzw`; remove one of them."
        if self.pushes:
            yield ("pushes",), "are given together with `motion`, from which nothing pushes the body; remove them."

    @model_serializer(mode="wrap")
    def _one_orientation(self, content):
        content = drop_key(content(self), "quat_xyzw" if any(self.rotation_vector) else "rotation_vector")
        return content if self.inertia else drop_key(content, "inertia_quat_xyzw")


class Pendulum(BodyNode):
    """A solid ball on a massless string that swings in a vertical plane about a fixed pivot.

    Attributes:
        pivot: Position of the pivot [m].
        string_length: Length from the pivot to the surface of the ball [m].
        radius: Radius of the ball [m].
        angle: Initial angle from the downward vertical, positive towards `plane` [rad].
        rate: Initial angular velocity [rad/s].
        damping: Linear damping c in θ'' = … − c θ' [1/s].
        drag: Quadratic drag d in θ'' = … − d |θ'| θ' [1/rad].
        force_per_mass: Constant external force at the center of the ball over its mass [N/kg]; its component across the
            plane of the swing has no effect.
        plane: Horizontal direction of the swing, of any length.
        rod_radius: Radius of the rendered string [m]; 0: not rendered.
        colour: RGB.
        material: Texture and reflectance; by default plain and matte.
    """

    kind: Literal["pendulum"] = Field(description="kind: pendulum")
    pivot: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    string_length: Annotated[float, positive("m")] = Field(description="the length from pivot to ball surface in m")
    radius: Annotated[float, positive("m")] = Field(description="the radius of the ball in m")
    angle: Annotated[float, Quantity("rad", lower=-FULL_TURN, upper=FULL_TURN)] = 0.0
    rate: Annotated[float, Quantity("rad/s")] = 0.0
    damping: Annotated[float, Quantity("1/s", lower=0.0, positive=True)] = 0.0
    drag: Annotated[float, Quantity("1/rad", lower=0.0, positive=True)] = 0.0
    force_per_mass: Annotated[Vector3, vector("m/s^2")] = (0.0, 0.0, 0.0)
    plane: Annotated[Vector3, vector("")] = (1.0, 0.0, 0.0)
    rod_radius: Annotated[float, Quantity("m", lower=0.0)] = 0.0
    colour: Annotated[Vector3, COLOR] = BLUE
    material: Material | None = None

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        yield from still_pivot(raw)

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if not any(self.plane) or abs(self.plane[2]) > 1e-9 * math.hypot(*self.plane):
            yield ("plane",), f"got {list(self.plane)}; expected a horizontal direction, such as [1, 0, 0]."


def still_pivot(raw: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """Report a `motion` of a pendulum, whose equation is that of a fixed pivot."""
    if "motion" in raw:
        yield (
            ("motion",),
            "is of a pendulum, whose pivot is fixed; use a rigid body on a revolute joint to the world, and give the joint the `motion`.",
        )


def non_default_keys(cls: type[Node], raw, keys: Sequence[str]) -> list[str]:
    """Keys whose value in the content differs from the default."""
    defaults = {key: cls.model_fields[key].default for key in keys}
    return [key for key in keys if key in raw and plain(raw[key]) not in (defaults[key], list(defaults[key]))]


def drop_key(content: dict[str, Any], key: str) -> dict[str, Any]:
    """Copy of the content without one key."""
    return {k: v for k, v in content.items() if k != key}
