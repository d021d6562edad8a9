"""Joints of a scene: what holds two rigid bodies, or one and the world, together, and what acts in between."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from gradsim.scene.body import TURN, Rigid
from gradsim.scene.node import Node, Place, did_you_mean, shown
from gradsim.scene.quantity import Quantity, Vector3, vector
from gradsim.scene.soft_body import Soft

WORLD = "world"  # the parent of a joint that holds a body to the fixed frame
PLACED = (
    "position",
    "rotation_vector",
    "velocity",
    "angular_velocity",
)  # of a child, whose joint says it in their place
HALF_TURN = math.pi  # springs and limits of a hinge see its angle within half a turn of 0


def _scale(unit: str) -> Quantity:
    return Quantity(unit, lower=0.0, positive=True)


class Joint(Node):
    """What all joints share.

    The first joint that names a body as its child places it: at the start the child stands and moves as the joint's own
    coordinates say, and its `quat_xyzw` is its orientation relative to the parent where they are 0. A joint whose child
    is placed already, or carries its parent, closes a loop: it only holds what has to fit at the start.

    Attributes:
        between: Names of parent and child; the parent may be `world`.
        parent_point: Where the parent is held, in its frame, from its centre of mass, at scale 1; of the world, in the
            world [m].
        child_point: Where the child is held, likewise [m].
    """

    start: ClassVar[tuple[str, ...]] = ()  # keys that place and start the child
    forces: ClassVar[tuple[str, ...]] = ()  # keys that may be given for each frame interval

    between: tuple[str, ...] = Field(description="the names [parent, child]; the parent may be world")
    parent_point: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    child_point: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if len(self.between) != 2:
            yield ("between",), f"got {shown(list(self.between))}; expected the names [parent, child]."
        elif self.between[0] == self.between[1]:
            yield ("between",), f"`{self.between[0]}` is both parent and child; a joint holds two."
        elif self.between[1] == WORLD:
            yield ("between",), f"the world is no child; write [world, {self.between[0]}]."

    def among(self, bodies: Mapping[str, Node]) -> Iterator[tuple[Place, str]]:
        """Mistakes that show beside the bodies of a scene."""
        for name in self.between:
            if name == WORLD and name in bodies:
                yield ("between",), "a body is called `world`, as joints call the fixed frame; rename it."
            elif name != WORLD and name not in bodies:
                hint = did_you_mean(name, list(bodies)) or f"; it has {', '.join(bodies)}."
                yield ("between",), f"the scene has no body `{name}`{hint}"
            elif name != WORLD and not isinstance(bodies[name], Rigid):
                yield ("between",), f"`{name}` is no rigid body; joints hold rigid bodies."


class _Along(Joint):
    """A joint with one axis; see `Revolute` and `Prismatic`."""

    axis: Annotated[Vector3, vector("")] = (0.0, 0.0, 1.0)

    @classmethod
    def faults(cls, given) -> Iterator[tuple[Place, str]]:
        ends = [key for key in ("lower", "upper") if key in given]
        if ends and "limit_stiffness" not in given:
            yield ("limit_stiffness",), f"is missing; give how stiff the end at `{ends[0]}` is."
        if "limit_stiffness" in given and not ends:
            yield ("limit_stiffness",), "stands without `lower` or `upper`; give the end that is so stiff."

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        yield from super().conflicts()
        if not any(self.axis):
            yield ("axis",), "got a direction of length 0; expected one such as [0, 0, 1]."
        lower, upper = getattr(self, "lower", None), getattr(self, "upper", None)
        if lower is not None and upper is not None and lower >= upper:
            yield ("lower",), f"got {lower:g}; expected less than `upper`, {upper:g}."


class Revolute(_Along):
    """A hinge: the child turns about one axis.

        torque about the axis on the child = −stiffness (angle − target) − damping rate + torque + limits

    Attributes:
        axis: In the parent's frame, of any length.
        angle: At the start [rad].
        rate: At the start [rad/s].
        stiffness: [N m/rad].
        target: Where that spring is slack [rad].
        damping: [N m s/rad].
        torque: Of a motor [N m].
        lower, upper: Where the ends begin to resist [rad].
        limit_stiffness: How they resist [N m/rad].
    """

    start = ("angle", "rate")
    forces = ("torque", "target")
    kind: Literal["revolute"] = Field(description="kind: revolute")
    angle: Annotated[float, Quantity("rad", lower=-TURN, upper=TURN)] = 0.0
    rate: Annotated[float, Quantity("rad/s")] = 0.0
    stiffness: Annotated[float, _scale("N m/rad")] = 0.0
    target: Annotated[float, Quantity("rad", lower=-HALF_TURN, upper=HALF_TURN)] = 0.0
    damping: Annotated[float, _scale("N m s/rad")] = 0.0
    torque: Annotated[float, Quantity("N m")] = 0.0
    lower: Annotated[float | None, Quantity("rad", lower=-HALF_TURN, upper=HALF_TURN)] = None
    upper: Annotated[float | None, Quantity("rad", lower=-HALF_TURN, upper=HALF_TURN)] = None
    limit_stiffness: Annotated[float | None, _scale("N m/rad")] = None


class Prismatic(_Along):
    """A slide: the child moves along one axis and does not turn against the parent.

        force along the axis on the child = −stiffness (displacement − target) − damping speed + force + limits

    Attributes:
        axis: In the parent's frame, of any length.
        displacement: At the start [m].
        speed: At the start [m/s].
        stiffness: [N/m].
        target: Where that spring is slack [m].
        damping: [N s/m].
        force: Of a motor [N].
        lower, upper: Where the ends begin to resist [m].
        limit_stiffness: How they resist [N/m].
    """

    start = ("displacement", "speed")
    forces = ("force", "target")
    kind: Literal["prismatic"] = Field(description="kind: prismatic")
    displacement: Annotated[float, Quantity("m")] = 0.0
    speed: Annotated[float, Quantity("m/s")] = 0.0
    stiffness: Annotated[float, _scale("N/m")] = 0.0
    target: Annotated[float, Quantity("m")] = 0.0
    damping: Annotated[float, _scale("N s/m")] = 0.0
    force: Annotated[float, Quantity("N")] = 0.0
    lower: Annotated[float | None, Quantity("m")] = None
    upper: Annotated[float | None, Quantity("m")] = None
    limit_stiffness: Annotated[float | None, _scale("N/m")] = None


class Ball(Joint):
    """A ball joint: the child turns freely about one point.

    Attributes:
        rotation_vector: How far the child is turned at the start, in the parent's frame, as axis times angle [rad].
        angular_velocity: At the start, relative to the parent and in its frame [rad/s].
        damping: [N m s/rad].
    """

    start = ("rotation_vector", "angular_velocity")
    kind: Literal["ball"] = Field(description="kind: ball")
    rotation_vector: Annotated[Vector3, vector("rad", lower=-TURN, upper=TURN)] = (0.0, 0.0, 0.0)
    angular_velocity: Annotated[Vector3, vector("rad/s")] = (0.0, 0.0, 0.0)
    damping: Annotated[float, _scale("N m s/rad")] = 0.0


class Fixed(Joint):
    """Child and parent are one body."""

    kind: Literal["fixed"] = Field(description="kind: fixed")


AnyJoint = Revolute | Prismatic | Ball | Fixed
JOINTS: dict[str, type[AnyJoint]] = {"revolute": Revolute, "prismatic": Prismatic, "ball": Ball, "fixed": Fixed}


def placing(joints: Mapping[str, Any]) -> dict[str, str]:
    """Bodies that a joint places, parents first, and the name of that joint."""
    first: dict[str, str] = {}
    for name, joint in joints.items():
        parent, child = joint.between
        if child not in first and child not in _chain(parent, first, joints):
            first[child] = name
    depth = {child: len(_chain(child, first, joints)) for child in first}
    return {child: first[child] for child in sorted(first, key=lambda child: depth[child])}


def _chain(body: str, first: Mapping[str, str], joints: Mapping[str, Any]) -> list[str]:
    """A body, its parent, the parent of that, and so on."""
    found = [body]
    while found[-1] in first:
        found.append(joints[first[found[-1]]].between[0])
    return found


def conflicts_of(joints, bodies, contacts, attachments) -> Iterator[tuple[Place, str]]:
    """Mistakes between the joints of a scene and its other parts, each by name."""
    wrong = [(("joints", name, *at), words) for name, joint in joints.items() for at, words in joint.among(bodies)]
    yield from wrong
    if wrong:
        return
    placed = placing(joints)
    for child, name in placed.items():
        for key in PLACED:
            if any(getattr(bodies[child], key)):
                own = " and ".join(f"`{k}`" for k in joints[name].start)
                instead = f"give {own} there" if own else "leave it out"
                yield ("bodies", child, key), f"the joint `{name}` places `{child}` by its parent; {instead}."
    for name, joint in joints.items():
        if name not in placed.values():
            for key in [k for k in joint.start if np.any(getattr(joint, k))]:
                words = f"closes a loop, so other joints say how `{joint.between[1]}` starts; leave it out."
                yield ("joints", name, key), words
    for key, links in (("contacts", contacts), ("attachments", attachments)):
        for name, link in links.items():
            held = set(link.between if key == "contacts" else (link.to,))
            soft = key == "attachments" or any(isinstance(bodies.get(n), Soft) for n in held)
            for body in sorted(held & {n for joint in joints.values() for n in joint.between} if soft else ()):
                yield (key, name), f"`{body}` has a joint; so far bodies with joints touch no soft body."
