"""Joints of a scene, between two rigid bodies or a rigid body and the world, with springs, motors and limits."""

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from gradsim.scene.body import FULL_TURN, PLACEMENT_KEYS, Rigid
from gradsim.scene.node import Node, Place, did_you_mean, quote
from gradsim.scene.quantity import Quantity, Vector3, positive, vector
from gradsim.scene.recordings.pose import PoseMotion
from gradsim.scene.soft_body import Soft

WORLD = "world"  # the parent of a joint to the fixed frame
MOST_PLACEMENTS = 16  # trees of joints whose order is remembered
HALF_TURN = math.pi  # springs and limits of a hinge act on its angle within half a turn of 0


def _scale(unit: str) -> Quantity:
    return Quantity(unit, lower=0.0, positive=True)


class Joint(Node):
    """Base class of joints between two rigid bodies, or a rigid body and the world.

    The first joint with a body as its child places it: the initial state of the child follows from the coordinates of
    the joint, and its `quat_xyzw` is its orientation relative to the parent at coordinates 0. A joint whose child is
    placed by another joint, or is an ancestor of the parent, closes a loop: it is a constraint only, which the initial
    state must satisfy.

    Attributes:
        between: Names of parent and child; the parent may be `world`.
        parent_point: Joint position in the frame of the parent, from its center of mass, at scale 1; for the world, in
            world coordinates [m].
        child_point: Joint position in the frame of the child, from its center of mass, at scale 1 [m].
        points_from: `centre_of_mass`, or `shape`: both points then count from the origin of the shape, and stay on it where a center of
            mass is unknown.
        motion: Recording that the world's side of a joint to the world follows (see `PoseMotion`): the frame of `parent_point` and
            `axis`, as of a pivot that is shaken or a base that drives.
    """

    start: ClassVar[tuple[str, ...]] = ()  # keys of the initial coordinates and rates
    forces: ClassVar[tuple[str, ...]] = ()  # keys with optional values per frame interval

    between: tuple[str, ...] = Field(description="the names [parent, child]; the parent may be world")
    parent_point: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    child_point: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    points_from: Literal["centre_of_mass", "shape"] = "centre_of_mass"
    motion: PoseMotion | None = None

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if len(self.between) != 2:
            yield ("between",), f"got {quote(list(self.between))}; expected the names [parent, child]."
        elif self.between[0] == self.between[1]:
            yield ("between",), f"`{self.between[0]}` is both parent and child; give two different bodies."
        elif self.between[1] == WORLD:
            yield ("between",), f"the world cannot be the child; write [world, {self.between[0]}]."
        elif self.motion is not None and self.between[0] != WORLD:
            parent, child = self.between
            way = f"write between: [world, {child}], or give the `motion` to the body `{parent}`."
            yield ("motion",), f"is of a joint at `{parent}`; the world's side follows a recording: {way}"

    def body_conflicts(self, bodies: Mapping[str, Node]) -> Iterator[tuple[Place, str]]:
        """Mistakes with respect to the bodies of the scene."""
        for name in self.between:
            if name == WORLD and name in bodies:
                yield ("between",), "a body is called `world`, which is the fixed frame in joints; rename the body."
            elif name != WORLD and name not in bodies:
                hint = did_you_mean(name, list(bodies)) or f"; it has {', '.join(bodies)}."
                yield ("between",), f"the scene has no body `{name}`{hint}"
            elif name != WORLD and not isinstance(bodies[name], Rigid):
                yield ("between",), f"`{name}` is not a rigid body; joints support rigid bodies only."


class _Along(Joint):
    """A joint with one axis; see `Revolute` and `Prismatic`."""

    axis: Annotated[Vector3, vector("")] = (0.0, 0.0, 1.0)

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        ends = [key for key in ("lower", "upper") if key in raw]
        if ends and "limit_stiffness" not in raw:
            yield ("limit_stiffness",), f"is missing; give the stiffness of the limit `{ends[0]}`."
        if "limit_stiffness" in raw and not ends:
            yield ("limit_stiffness",), "is given without `lower` or `upper`; give one of the limits."

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        yield from super().conflicts()
        if not any(self.axis):
            yield ("axis",), "got a direction of length 0; expected one such as [0, 0, 1]."
        lower, upper = getattr(self, "lower", None), getattr(self, "upper", None)
        if lower is not None and upper is not None and lower >= upper:
            yield ("lower",), f"got {lower:g}; expected less than `upper`, {upper:g}."


class Revolute(_Along):
    """A hinge: the child rotates about one axis.

        torque about the axis on the child =
            −stiffness z(angle − target) − damping rate − friction rate/√(rate² + friction_rate²) + torque + limits

    Attributes:
        axis: Axis in the frame of the parent, of any length.
        angle: Initial angle [rad].
        rate: Initial angular velocity [rad/s].
        stiffness: Spring stiffness [N m/rad].
        target: Rest angle of the spring [rad].
        backlash: Whole width of a dead zone about `target` [rad], as of a worn gear; the spring acts on z, how far the angle is beyond it,
            and sets in over a tenth of the width at each edge.
        damping: Damping [N m s/rad].
        friction: Torque of dry friction [N m].
        friction_rate: Rate below which friction is that of a damper [rad/s]; a joint at rest creeps.
        armature: Inertia of a rotor that turns with the angle, as that of a motor through its gear [kg m²]; it adds
            −armature · angular acceleration to the torque.
        torque: Motor torque [N m].
        lower, upper: Limits of the angle [rad].
        limit_stiffness: Stiffness of the limits [N m/rad].
    """

    start = ("angle", "rate")
    forces = ("torque", "target")
    kind: Literal["revolute"] = Field(description="kind: revolute")
    angle: Annotated[float, Quantity("rad", lower=-FULL_TURN, upper=FULL_TURN)] = 0.0
    rate: Annotated[float, Quantity("rad/s")] = 0.0
    stiffness: Annotated[float, _scale("N m/rad")] = 0.0
    target: Annotated[float, Quantity("rad", lower=-HALF_TURN, upper=HALF_TURN)] = 0.0
    backlash: Annotated[float, _scale("rad")] = 0.0
    damping: Annotated[float, _scale("N m s/rad")] = 0.0
    friction: Annotated[float, _scale("N m")] = 0.0
    friction_rate: Annotated[float, positive("rad/s")] = 0.1
    armature: Annotated[float | None, _scale("kg m^2")] = None
    torque: Annotated[float, Quantity("N m")] = 0.0
    lower: Annotated[float | None, Quantity("rad", lower=-HALF_TURN, upper=HALF_TURN)] = None
    upper: Annotated[float | None, Quantity("rad", lower=-HALF_TURN, upper=HALF_TURN)] = None
    limit_stiffness: Annotated[float | None, _scale("N m/rad")] = None


class Prismatic(_Along):
    """A slide: the child moves along one axis without rotation relative to the parent.

        force along the axis on the child =
            −stiffness z(displacement − target) − damping speed − friction speed/√(speed² + friction_speed²) + force + limits

    Attributes:
        axis: Axis in the frame of the parent, of any length.
        displacement: Initial displacement [m].
        speed: Initial speed [m/s].
        stiffness: Spring stiffness [N/m].
        target: Rest displacement of the spring [m].
        backlash: Whole width of a dead zone about `target` [m]; the spring acts on z, how far the displacement is beyond it, and sets in
            over a tenth of the width at each edge.
        damping: Damping [N s/m].
        friction: Force of dry friction [N].
        friction_speed: Speed below which friction is that of a damper [m/s]; a joint at rest creeps.
        armature: Mass of a motor that moves with the displacement, through its gear [kg]; it adds −armature · acceleration
            to the force.
        force: Motor force [N].
        lower, upper: Limits of the displacement [m].
        limit_stiffness: Stiffness of the limits [N/m].
    """

    start = ("displacement", "speed")
    forces = ("force", "target")
    kind: Literal["prismatic"] = Field(description="kind: prismatic")
    displacement: Annotated[float, Quantity("m")] = 0.0
    speed: Annotated[float, Quantity("m/s")] = 0.0
    stiffness: Annotated[float, _scale("N/m")] = 0.0
    target: Annotated[float, Quantity("m")] = 0.0
    backlash: Annotated[float, _scale("m")] = 0.0
    damping: Annotated[float, _scale("N s/m")] = 0.0
    friction: Annotated[float, _scale("N")] = 0.0
    friction_speed: Annotated[float, positive("m/s")] = 0.01
    armature: Annotated[float | None, _scale("kg")] = None
    force: Annotated[float, Quantity("N")] = 0.0
    lower: Annotated[float | None, Quantity("m")] = None
    upper: Annotated[float | None, Quantity("m")] = None
    limit_stiffness: Annotated[float | None, _scale("N/m")] = None


class Ball(Joint):
    """A ball joint: the child rotates freely about one point.

    Attributes:
        rotation_vector: Initial rotation of the child in the frame of the parent, axis times angle [rad].
        angular_velocity: Initial angular velocity relative to the parent, in its frame [rad/s].
        damping: Damping [N m s/rad].
        friction: Torque of dry friction against the relative spin [N m].
        friction_rate: Rate below which friction is that of a damper [rad/s].
    """

    start = ("rotation_vector", "angular_velocity")
    kind: Literal["ball"] = Field(description="kind: ball")
    rotation_vector: Annotated[Vector3, vector("rad", lower=-FULL_TURN, upper=FULL_TURN)] = (0.0, 0.0, 0.0)
    angular_velocity: Annotated[Vector3, vector("rad/s")] = (0.0, 0.0, 0.0)
    damping: Annotated[float, _scale("N m s/rad")] = 0.0
    friction: Annotated[float, _scale("N m")] = 0.0
    friction_rate: Annotated[float, positive("rad/s")] = 0.1


class Fixed(Joint):
    """A rigid connection of child and parent."""

    kind: Literal["fixed"] = Field(description="kind: fixed")


AnyJoint = Revolute | Prismatic | Ball | Fixed
JOINTS: dict[str, type[AnyJoint]] = {"revolute": Revolute, "prismatic": Prismatic, "ball": Ball, "fixed": Fixed}


def placing_joints(joints: Mapping[str, Any]) -> dict[str, str]:
    """Name of the joint that places each body, for all placed bodies, parents first."""
    return dict(_placements(tuple((name, joint.between) for name, joint in joints.items())))


@lru_cache(maxsize=MOST_PLACEMENTS)
def _placements(joints: tuple[tuple[str, tuple[str, ...]], ...]) -> dict[str, str]:
    """`placing_joints` from the name of each joint and what it is between."""
    first: dict[str, str] = {}
    parents: dict[str, str] = {}
    holding: set[str] = set()  # of others; a body that holds none has no descendant
    for name, (parent, child) in joints:
        if child in first or parent == child or (child in holding and _descends(parent, child, parents)):
            continue
        first[child], parents[child] = name, parent
        holding.add(parent)
    depth: dict[str, int] = {}
    for body in first:
        path = [body]
        while path[-1] in parents and path[-1] not in depth:
            path.append(parents[path[-1]])
        for ancestor in reversed(path):
            depth.setdefault(ancestor, depth[parents[ancestor]] + 1 if ancestor in parents else 0)
    return {child: first[child] for child in sorted(first, key=lambda child: depth[child])}


def _descends(body: str, ancestor: str, parents: Mapping[str, str]) -> bool:
    """True if a body is another one, or is placed by joints from it."""
    while body != ancestor and body in parents:
        body = parents[body]
    return body == ancestor


def joint_conflicts(joints, bodies, contacts, attachments) -> Iterator[tuple[Place, str]]:
    """Mistakes between the joints and the other parts of a scene."""
    wrong = [
        (("joints", name, *at), words) for name, joint in joints.items() for at, words in joint.body_conflicts(bodies)
    ]
    yield from wrong
    if wrong:
        return
    placements = placing_joints(joints)
    recorded = {name for name, body in bodies.items() if isinstance(body, Rigid) and body.motion is not None}
    for name, joint in joints.items():
        if joint.between[1] in recorded:
            child = joint.between[1]
            yield (
                ("joints", name, "between"),
                f"has the child `{child}`, which follows its `motion`; make it the parent, or remove the `motion`.",
            )
    for child, name in placements.items():
        for key in PLACEMENT_KEYS:
            if any(getattr(bodies[child], key)):
                coordinates = " and ".join(f"`{k}`" for k in joints[name].start)
                instead = f"give {coordinates} of the joint instead" if coordinates else "remove it"
                yield ("bodies", child, key), f"the joint `{name}` places `{child}` relative to its parent; {instead}."
    for name, joint in joints.items():
        if name not in placements.values():
            for key in [k for k in joint.start if np.any(getattr(joint, k))]:
                words = f"is of a joint that closes a loop, where other joints place `{joint.between[1]}`; remove it."
                yield ("joints", name, key), words
    for key, links in (("contacts", contacts), ("attachments", attachments)):
        for name, link in links.items():
            members = set(link.between if key == "contacts" else (link.to,))
            soft = key == "attachments" or any(isinstance(bodies.get(n), Soft) for n in members)
            jointed = {n for joint in joints.values() for n in joint.between}
            for body in sorted(members & (jointed | recorded) if soft else ()):
                what = "a `motion`" if body in recorded else "a joint"
                yield (
                    (key, name),
                    f"`{body}` has {what}; contact of such bodies with soft bodies is not supported yet.",
                )
