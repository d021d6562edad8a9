"""Interactions between the bodies of a scene (contacts, attachments of vertices to rigid bodies), and markers on them."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from gradsim.scene.body import Rigid
from gradsim.scene.contact import DISSIPATION, FRICTION, FRICTION_STIFFNESS, STIFFNESS
from gradsim.scene.double_pendulum import DoublePendulum
from gradsim.scene.node import Node, Place, did_you_mean
from gradsim.scene.quantity import Count, Quantity, Vector3, vector
from gradsim.scene.region import AnyRegion, region_errors
from gradsim.scene.soft_body import Soft

SELF_ONLY = "one name for self-contact, or two"
ALL_BODIES = "all"  # rigid bodies


class BodyContact(Node):
    """Contact between bodies of a scene, with the law `continuous`.

    Soft bodies: self-contact, contact with another soft body, or with a rigid ball or box. Rods: with rigid balls and boxes,
    solids and cloth. Rigid bodies: contact between
    any number of convex bodies, or of convex hulls (`collision: hull`).

    Attributes:
        between: Names of two bodies; of one soft body for self-contact; of two or more rigid bodies for contact between
            all pairs; or `all` for all rigid bodies of the scene except those with `collision: none`.
        thickness: Distance kept between the surfaces [m], with soft bodies. Required between soft bodies, optional with
            rigid ones, where only vertices collide, and a thickness keeps the triangles between them outside, too.
        stiffness: Normal force per depth, k_e [N/m], per vertex or, between rigid bodies, per corner or crossing of edges,
            as the next three. Required between rigid bodies.
        dissipation: Loss of a bounce, a [s/m].
        friction_stiffness: Regularization of Coulomb friction: viscous coefficient up to the limit by `friction`, the
            paper's k_f [N s/m].
        friction: Coefficient of friction, μ.
    """

    between: tuple[str, ...] = Field(description=f"{SELF_ONLY}; any number of rigid bodies, or `{ALL_BODIES}` of them")
    thickness: Annotated[float | None, Quantity("m", lower=0.0, above=True, positive=True)] = None
    stiffness: Annotated[float, STIFFNESS] = 1000.0
    dissipation: Annotated[float, DISSIPATION] = 0.3
    friction_stiffness: Annotated[float, FRICTION_STIFFNESS] = 1.0
    friction: Annotated[float, FRICTION] = 0.3

    @classmethod
    def prepare(cls, raw: dict[str, Any]) -> dict[str, Any]:
        between = raw.get("between")
        return {**raw, "between": [between]} if isinstance(between, str) else raw

    @classmethod
    def shorthands(cls, properties: Mapping[str, Any]) -> dict[str, Any]:
        text, names = {"type": "string"}, {key: properties["between"][key] for key in ("type", "items")}
        return {"between": {"anyOf": [text, names], "description": properties["between"]["description"]}}

    def names(self, bodies: Mapping[str, Node]) -> tuple[str, ...]:
        """Names of the bodies in contact, with `all` expanded."""
        if self.between == (ALL_BODIES,) and ALL_BODIES not in bodies:
            return tuple(n for n, body in bodies.items() if isinstance(body, Rigid) and body.collision != "none")
        return self.between

    def rigid(self, bodies: Mapping[str, Node]) -> bool:
        """True for contact between rigid bodies only."""
        return all(isinstance(bodies[name], Rigid) for name in self.names(bodies))

    def body_conflicts(self, bodies: Mapping[str, Node]) -> Iterator[tuple[Place, str]]:
        """Mistakes with respect to the bodies of the scene."""
        names = self.names(bodies)
        unknown = [name for name in names if name not in bodies]
        for name in unknown:
            yield ("between",), _unknown(name, bodies)
        if unknown:
            return
        soft = [name for name in names if isinstance(bodies[name], Soft)]
        yield from self._with_soft(soft, bodies) if soft else self._between_rigid(names, bodies)

    def _with_soft(self, soft: list[str], bodies: Mapping[str, Node]) -> Iterator[tuple[Place, str]]:
        if len(self.between) > 2:
            yield ("between",), f"got {len(self.between)} names and a soft body; expected {SELF_ONLY}."
        hard = [name for name in self.between if name not in soft]
        for name in hard:
            node = bodies[name]
            if not isinstance(node, Rigid) or not (node.shape.sphere or node.shape.box):
                yield (
                    ("between",),
                    f"`{name}` is not supported; a soft body can touch soft bodies and rigid balls or boxes.",
                )
        if not hard and self.thickness is None:
            yield (
                ("thickness",),
                "is missing; give the distance between the surfaces in m, less than an edge of the mesh.",
            )

    def _between_rigid(self, names: tuple[str, ...], bodies: Mapping[str, Node]) -> Iterator[tuple[Place, str]]:
        for name in dict.fromkeys(names):
            node = bodies[name]
            if not isinstance(node, Rigid):
                yield ("between",), f"`{name}` is neither a rigid nor a soft body; only those can touch one another."
            elif node.collision == "none":
                yield ("between",), f"`{name}` has `collision: none`; remove that key, or the name from `between`."
            if names.count(name) > 1:
                yield ("between",), f"names `{name}` twice; rigid bodies have no self-contact."
        if len(names) < 2:
            yield ("between",), f"names {len(names)} rigid bodies; expected at least two."
        if self.thickness is not None:
            yield ("thickness",), "applies to soft bodies only; remove it between rigid bodies."
        if "stiffness" not in self.model_fields_set:
            yield ("stiffness",), "is missing; give k_e in N/m, such as the 1e5 of a ground."


class Marker(Node):
    """A point fixed on a body, whose track is observed: a sticker, a corner, a marker of motion capture.

    Attributes:
        body: Name of the body.
        point: Place on a rigid body from its center of mass, body frame, at scale 1 [m]. Without `point` and `vertex` it is the
            center of mass of a rigid body, and the middle of a pendulum's bob.
        vertex: Index of a vertex of the surface, counted from 0; required on soft bodies.
    """

    body: str = Field(description="the name of a body")
    point: Annotated[Vector3 | None, vector("m")] = None
    vertex: Annotated[int | None, Count(0, 10_000_000)] = None

    def body_conflicts(self, bodies: Mapping[str, Node]) -> Iterator[tuple[Place, str]]:
        """Mistakes that depend on the scene's bodies."""
        body = bodies.get(self.body)
        if body is None:
            hint = did_you_mean(self.body, list(bodies)) or f"; there are {', '.join(bodies)}."
            yield ("body",), f"the scene has no body `{self.body}`{hint}"
        elif self.point is not None and not isinstance(body, Rigid):
            yield ("point",), f"is for rigid bodies, and `{self.body}` is none; give a `vertex` of its surface."
        elif self.point is not None and self.vertex is not None:
            yield ("vertex",), "is given with `point`; give one of them."
        elif isinstance(body, Soft | DoublePendulum) and self.vertex is None:
            yield ("vertex",), f"is missing: `{self.body}` is not rigid; give the index of a vertex of its surface."


def duplicate_pairs(contacts: Mapping[str, BodyContact], bodies: Mapping[str, Node]) -> Iterator[tuple[str, str]]:
    """Contacts that repeat a pair of rigid bodies of an earlier one, with the message."""
    owners: dict[frozenset[str], str] = {}
    for name, contact in contacts.items():
        names = contact.names(bodies)
        if any(not isinstance(bodies.get(body), Rigid) for body in names):
            continue
        for pair in itertools.combinations(names, 2):
            first = owners.setdefault(frozenset(pair), name)
            if first != name:
                yield (
                    name,
                    f"`{pair[0]}` and `{pair[1]}` are in `contacts.{first}` already; remove the pair from one of them.",
                )
                break


def mixed_systems(
    contacts: Mapping[str, BodyContact], attachments: Mapping[str, "Attachment"], bodies: Mapping[str, Node]
) -> Iterator[tuple[str, str]]:
    """Contacts between rigid bodies of which one also interacts with a soft body, with the message."""
    soft = [m.names(bodies) for m in contacts.values() if any(isinstance(bodies.get(n), Soft) for n in m.between)]
    coupled = {name for names in [*soft, *((a.to,) for a in attachments.values())] for name in names}
    for name, contact in contacts.items():
        names = contact.names(bodies)
        both = [body for body in names if body in coupled]
        if both and all(isinstance(bodies.get(body), Rigid) for body in names):
            yield (
                name,
                (
                    f"`{both[0]}` also interacts with a soft body, which is not supported in one rollout with contact "
                    "between rigid bodies; remove it from `between`."
                ),
            )


class Attachment(Node):
    """Damped springs of rest length 0 between vertices of a soft body and points of a rigid one, coincident at the start.

    An edge of a rod with both ends attached is clamped: a spring holds its axes, too.

    Attributes:
        body: Name of the soft body.
        to: Name of the rigid body.
        region: Attached vertices.
        stiffness: Stiffness of each spring [N/m].
        damping: Damping of each spring [N s/m].
    """

    body: str = Field(description="the name of the soft body")
    to: str = Field(description="the name of the rigid body")
    region: AnyRegion
    stiffness: Annotated[float, STIFFNESS] = 1000.0
    damping: Annotated[float, Quantity("N s/m", lower=0.0, positive=True)] = 0.0

    def body_conflicts(self, bodies: Mapping[str, Node]) -> Iterator[tuple[Place, str]]:
        """Mistakes with respect to the bodies of the scene."""
        for key, name, kind, words in (("body", self.body, Soft, "soft"), ("to", self.to, Rigid, "rigid")):
            if name not in bodies:
                yield (key,), _unknown(name, bodies)
            elif not isinstance(bodies[name], kind):
                yield (
                    (key,),
                    f"`{name}` is not a {words} body; `body` must be a soft body, and `to` a rigid one.",
                )
        soft = bodies.get(self.body)
        if isinstance(soft, Soft):
            yield from region_errors(("region",), self.region, soft.rest_vertices)


def _unknown(name: str, bodies: Mapping[str, Node]) -> str:
    hint = did_you_mean(name, list(bodies)) or f"; it has {', '.join(bodies)}."
    return f"the scene has no body `{name}`{hint}"
