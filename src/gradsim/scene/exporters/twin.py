"""A scene as other engines describe it: links with mass properties, joints in a tree, planes, cameras.

All lengths are in m, at the scale of the body; the frame of a link has its origin at the center of mass and the axes of the
body of the scene. Quaternions are (x, y, z, w).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from gradsim.geometry.mesh import Mesh
from gradsim.scene.contact import Contact
from gradsim.scene.exporters.solids import Lumps
from gradsim.scene.soft_body import Soft

IDENTITY = (0.0, 0.0, 0.0, 1.0)
Vector = np.ndarray


@dataclass(frozen=True)
class Form:
    """A shape of a link.

    Attributes:
        kind: `box`, `sphere`, `cylinder`, `capsule`, `cone` or `mesh`.
        size: Edge lengths of a box; radius; radius and height of the others (of a capsule without its ends); () of a mesh.
        mesh: Surface, about the origin of the shape.
        centre: Origin of the shape in the frame of the link (3,).
        quat_xyzw: Orientation of the shape in the frame of the link.
        color: RGB.
        collides: Whether it collides; else it is only drawn.
    """

    kind: str
    size: tuple[float, ...]
    mesh: Mesh
    centre: Vector
    quat_xyzw: tuple[float, ...] = IDENTITY
    color: tuple[float, ...] = (0.5, 0.5, 0.5)
    collides: bool = True


@dataclass(frozen=True)
class Link:
    """A rigid body.

    Attributes:
        name: Name.
        mass: Mass [kg].
        inertia: About the center of mass, in the axes of the link (3, 3) [kg m²].
        forms: Its shapes.
        x, quat_xyzw: Position of the center of mass and orientation at the start, in the world.
        v, w: Velocity of the center of mass and angular velocity at the start, in the world [m/s], [rad/s].
        contact: Overrides of contact parameters by name.
    """

    name: str
    mass: float
    inertia: Vector
    forms: tuple[Form, ...]
    x: Vector
    quat_xyzw: Vector
    v: Vector
    w: Vector
    contact: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Hinge:
    """A joint between two links, or a link and the world.

    Attributes:
        name: Name.
        kind: `revolute`, `prismatic`, `ball` or `fixed`.
        parent, child: Names of the links; None is the world.
        parent_point, child_point: The joint in the frames of both (3,) [m].
        axis: Unit vector in the frame of the parent (3,).
        quat_xyzw: Orientation of the child in the parent where the coordinate is 0.
        start, rate: Initial coordinate and its rate; of a ball joint, rotation vector and angular velocity in the parent (3,).
        friction: Force or torque of dry friction.
        armature: Inertia or mass of a rotor that moves with the coordinate.
        stiffness, target, damping, effort: Spring, damper, and constant force or torque of its motor.
        drag: Torque over the squared rate [N m s²].
        lower, upper, limit_stiffness: Limits of the coordinate, which are springs.
    """

    name: str
    kind: str
    parent: str | None
    child: str
    parent_point: Vector
    child_point: Vector
    axis: Vector
    quat_xyzw: Vector
    start: Vector | float = 0.0
    rate: Vector | float = 0.0
    stiffness: float = 0.0
    target: float = 0.0
    damping: float = 0.0
    effort: float = 0.0
    drag: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    lower: float | None = None
    upper: float | None = None
    limit_stiffness: float = 0.0

    @property
    def has_limits(self) -> bool:
        """True if a limit acts."""
        return (self.lower is not None or self.upper is not None) and self.limit_stiffness > 0


@dataclass(frozen=True)
class Static:
    """A ground or an obstacle.

    Attributes:
        name: Name.
        kind: `plane`, `box` or `sphere`.
        size: Edge lengths of a box, radius of a ball.
        position: Center; of a plane, its point nearest to the origin (3,).
        quat_xyzw: Orientation; the normal of a plane is the z axis.
        color: RGB.
        contact: Its contact law.
    """

    name: str
    kind: str
    size: tuple[float, ...]
    position: Vector
    quat_xyzw: Vector
    color: tuple[float, ...]
    contact: Contact


@dataclass(frozen=True)
class Force:
    """A constant force [N], in the world, on a point of a link (in its frame)."""

    name: str
    link: str
    force: Vector
    point: Vector


@dataclass(frozen=True)
class View:
    """A camera of OpenCV: intrinsic matrix K [px], and R and t from world to camera."""

    name: str
    size: tuple[int, int]
    K: Vector
    R: Vector
    t: Vector

    @property
    def eye(self) -> Vector:
        """Position (3,) [m]."""
        return -self.R.T @ self.t


@dataclass
class Twin:
    """Everything of a scene that an exporter writes.

    Attributes:
        name: Name of the model.
        gravity: Gravity (3,) [m/s²].
        links: Links by name.
        tree: Joints that place their child, by the name of the child, parents first.
        loops: Joints that close a loop.
        statics: Grounds and obstacles.
        forces: Constant forces.
        views: Cameras.
        pairs: Names of links that collide with one another, and the contact parameters.
        solids: Soft solids and sheets by name.
        soft: Other soft bodies by name.
        contact_factors: Contact numbers of MuJoCo over those of the formula, by pair of names and name (`contact.Soft`).
        fps, frames: Clock of the scene.
        notes: Content of the scene that no format expresses, one sentence each.
    """

    name: str
    gravity: Vector
    links: dict[str, Link] = field(default_factory=dict)
    tree: dict[str, Hinge] = field(default_factory=dict)
    loops: list[Hinge] = field(default_factory=list)
    statics: list[Static] = field(default_factory=list)
    forces: list[Force] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    pairs: list[tuple[str, str, dict[str, float]]] = field(default_factory=list)
    solids: dict[str, Lumps] = field(default_factory=dict)
    soft: dict[str, Soft] = field(default_factory=dict)
    contact_factors: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)
    fps: float = 30.0
    frames: int = 60
    notes: list[str] = field(default_factory=list)

    def children(self, parent: str | None) -> list[str]:
        """Links that a joint places relative to a parent; of None (the world), also those without a joint."""
        held = [child for child, joint in self.tree.items() if joint.parent == parent]
        return held + ([name for name in self.links if name not in self.tree] if parent is None else [])

    def below(self, top: str) -> list[str]:
        """A link and all that joints place below it, parents first."""
        names = [top]
        for name in names:
            names += self.children(name)
        return names


def unused_name(name: str, taken: Collection[str]) -> str:
    """The name, with underscores after it where it is taken."""
    while name in taken:
        name = f"{name}_"
    return name
