"""Bodies of a scene: rigid ones with a shape, and pendulums."""

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_serializer
from pydantic_core import core_schema

from gradsim.scene.contact import DAMPING, DISSIPATION, FRICTION, FRICTION_STIFFNESS, STIFFNESS
from gradsim.scene.material import COLOUR, Material
from gradsim.scene.node import Node, Place, exactly_one, mistake
from gradsim.scene.quantity import Quantity, Tuple, Vector2, Vector3, Vector4, plain, positive, vector
from gradsim.scene.shape import Shape

TURN = 2 * math.pi  # a start angle beyond a whole turn is one in degrees
BLUE = (0.2, 0.35, 0.7)
TIME = Quantity("s", lower=0.0)
FLAT = 1e-6  # how far moments of inertia of a thin body may be beyond the triangle inequality, by rounding
UNIT = 1e-3  # how far the length of a quaternion may be from 1: files often keep four digits


class _Unit(Tuple):
    """A quaternion; digits lost in a file are restored, another length is a mistake."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_after_validator_function(
            self._normalised, super().__get_pydantic_core_schema__(source, handler)
        )

    def _normalised(self, q: Vector4) -> Vector4:
        length = math.hypot(*q)
        if abs(length - 1) <= 1e-12:
            return q
        if length == 0:
            raise mistake("got a quaternion of length 0; no rotation is [0, 0, 0, 1].")
        x, y, z, w = (c / length for c in q)
        if abs(length - 1) > UNIT:
            raise mistake(
                f"got a quaternion of length {length:.6g}; a rotation has length 1. "
                f"If only its length is off, write [{x:.15g}, {y:.15g}, {z:.15g}, {w:.15g}]; the order is x, y, z, w."
            )
        return x, y, z, w


UNIT_QUATERNION = _Unit(Quantity(""), 4)


class Push(Node):
    """A known force on a body.

    Attributes:
        impulse: [N s], in the world frame; at one instant, or spread evenly over `window`.
        force: [N], in the world frame; constant over `window`.
        point: Where, in the body's frame, from the centre of mass [m].
        at: The instant [s].
        window: Begin and end [s].
    """

    impulse: Annotated[Vector3 | None, vector("N s")] = None
    force: Annotated[Vector3 | None, vector("N")] = None
    point: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    at: Annotated[float, TIME] = 0.0
    window: Annotated[Vector2 | None, Tuple(TIME, 2, "times")] = None

    @classmethod
    def faults(cls, given) -> Iterator[tuple[Place, str]]:
        yield from exactly_one(given, ("impulse", "force"))
        if "force" in given and "window" not in given:
            yield (), "got a `force` without a `window`; add window: [begin, end] in s, or give an `impulse`."
        if "window" in given and given.get("at"):
            yield (), "got both `at` and `window`; give one of them."

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if self.window and self.window[0] >= self.window[1]:
            yield ("window",), f"got {list(self.window)}; it has to end after it begins."

    @property
    def late(self) -> bool:
        """Whether it is more than a blow at the start of the motion."""
        return self.window is not None or self.at > 0

    @model_serializer(mode="wrap")
    def _one_time(self, content):
        return without(content(self), "at" if self.window else "window")


class Rigid(Node):
    """A rigid body.

    Attributes:
        shape: Its shape, at scale 1.
        mass: [kg], or
        density: [kg/m³].
        inertia: Principal moments about the centre of mass, at scale 1 [kg m²]; by default those of the shape at equal
            density. They go with the square of `scale`, and stay when `mass` changes.
        inertia_quat_xyzw: Orientation of the principal axes in the body's frame.
        centre_of_mass: In the frame of the shape, at scale 1 [m]; by default that of the shape at equal density.
        scale: Of the shape, the same in all directions.
        position: Of the centre of mass [m].
        quat_xyzw: Orientation: body to world, or
        rotation_vector: the same as axis times angle [rad].
        velocity: Of the centre of mass [m/s].
        angular_velocity: In the world frame [rad/s].
        colour: Red, green and blue.
        material: Its texture, and how it answers light; by default plain and matte.
        collision: What touches the ground: the vertices, those of its convex hull (which then touches other bodies for
            it, see `Meeting`), the ball itself (shape sphere only, its default), nothing.
        stiffness, dissipation, damping, friction_stiffness, friction: Where given, they replace those of the grounds
            and obstacles that this body touches (see `Contact`).
        pushes: Known forces.
    """

    kind: Literal["rigid"] = "rigid"
    shape: Shape = Field(description="one shape, such as {box: {size: [0.1, 0.1, 0.1]}}")
    mass: Annotated[float | None, positive("kg")] = None
    density: Annotated[float | None, positive("kg/m^3")] = None
    inertia: Annotated[Vector3 | None, Tuple(positive("kg m^2"))] = None
    inertia_quat_xyzw: Annotated[Vector4, UNIT_QUATERNION] = (0.0, 0.0, 0.0, 1.0)
    centre_of_mass: Annotated[Vector3 | None, vector("m")] = None
    scale: Annotated[float, positive("")] = 1.0
    position: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    quat_xyzw: Annotated[Vector4, UNIT_QUATERNION] = (0.0, 0.0, 0.0, 1.0)
    rotation_vector: Annotated[Vector3, vector("rad", lower=-TURN, upper=TURN)] = (0.0, 0.0, 0.0)
    velocity: Annotated[Vector3, vector("m/s")] = (0.0, 0.0, 0.0)
    angular_velocity: Annotated[Vector3, vector("rad/s")] = (0.0, 0.0, 0.0)
    colour: Annotated[Vector3, COLOUR] = BLUE
    material: Material | None = None
    collision: Literal["vertices", "hull", "sphere", "none"] | None = None
    stiffness: Annotated[float | None, STIFFNESS] = None
    dissipation: Annotated[float | None, DISSIPATION] = None
    damping: Annotated[float | None, DAMPING] = None
    friction_stiffness: Annotated[float | None, FRICTION_STIFFNESS] = None
    friction: Annotated[float | None, FRICTION] = None
    pushes: tuple[Push, ...] = ()

    @classmethod
    def faults(cls, given) -> Iterator[tuple[Place, str]]:
        yield from exactly_one(given, ("mass", "density"))
        if len(given_otherwise(cls, given, ("quat_xyzw", "rotation_vector"))) == 2:
            yield (), "got `quat_xyzw` and `rotation_vector`; the orientation is given by one of them."
        shape = given.get("shape")
        if given.get("collision") == "sphere" and isinstance(shape, dict) and "sphere" not in shape:
            yield ("collision",), "got 'sphere' for another shape; expected `vertices`, `hull` or `none`."
        if "inertia" in given and "density" in given:
            yield ("inertia",), "stands beside `density`; give `mass` with it."
        if given_otherwise(cls, given, ("inertia_quat_xyzw",)) and "inertia" not in given:
            yield ("inertia_quat_xyzw",), "stands without `inertia`; give the moments about these axes."

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if self.inertia and 2 * max(self.inertia) > sum(self.inertia) * (1 + FLAT):
            yield (
                ("inertia",),
                f"got {list(self.inertia)}; no body has one moment larger than the other two together.",
            )
        ball = self.collision == "sphere" or (self.collision is None and self.shape.sphere)
        if self.centre_of_mass and ball:
            yield ("centre_of_mass",), "a ball that collides as one turns about its middle; give collision: vertices."

    @model_serializer(mode="wrap")
    def _one_orientation(self, content):
        content = without(content(self), "quat_xyzw" if any(self.rotation_vector) else "rotation_vector")
        return content if self.inertia else without(content, "inertia_quat_xyzw")


class Pendulum(Node):
    """A solid ball on a massless string that swings in a vertical plane about a fixed pivot.

    Attributes:
        pivot: [m].
        string_length: From the pivot to the surface of the ball [m].
        radius: Of the ball [m].
        angle: At the start, from hanging straight down, positive towards `plane` [rad].
        rate: At the start [rad/s].
        damping: Linear, c in θ'' = … − c θ' [1/s].
        drag: Quadratic, d in θ'' = … − d |θ'| θ' [1/rad].
        force_per_mass: A constant external force at the centre of the ball, over its mass [N/kg]; what of it is across the
            plane of the swing, the pivot takes up.
        plane: Horizontal direction of the swing, of any length.
        rod_radius: Of the string as drawn [m]; 0: not drawn.
        colour: Red, green and blue.
        material: Its texture, and how it answers light; by default plain and matte.
    """

    kind: Literal["pendulum"] = Field(description="kind: pendulum")
    pivot: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    string_length: Annotated[float, positive("m")] = Field(description="the length from pivot to ball surface in m")
    radius: Annotated[float, positive("m")] = Field(description="the radius of the ball in m")
    angle: Annotated[float, Quantity("rad", lower=-TURN, upper=TURN)] = 0.0
    rate: Annotated[float, Quantity("rad/s")] = 0.0
    damping: Annotated[float, Quantity("1/s", lower=0.0, positive=True)] = 0.0
    drag: Annotated[float, Quantity("1/rad", lower=0.0, positive=True)] = 0.0
    force_per_mass: Annotated[Vector3, vector("m/s^2")] = (0.0, 0.0, 0.0)
    plane: Annotated[Vector3, vector("")] = (1.0, 0.0, 0.0)
    rod_radius: Annotated[float, Quantity("m", lower=0.0)] = 0.0
    colour: Annotated[Vector3, COLOUR] = BLUE
    material: Material | None = None

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if not any(self.plane) or abs(self.plane[2]) > 1e-9 * math.hypot(*self.plane):
            yield ("plane",), f"got {list(self.plane)}; expected a horizontal direction, such as [1, 0, 0]."


def given_otherwise(cls: type[Node], given, keys: Sequence[str]) -> list[str]:
    """Those of the keys that are given, and not as their defaults."""
    standard = {key: cls.model_fields[key].default for key in keys}
    return [key for key in keys if key in given and plain(given[key]) not in (standard[key], list(standard[key]))]


def without(content: dict[str, Any], key: str) -> dict[str, Any]:
    """The content but for one key."""
    return {k: v for k, v in content.items() if k != key}
