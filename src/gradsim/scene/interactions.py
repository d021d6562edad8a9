"""How the bodies of a scene act on one another: contact between two of them, and vertices held by a rigid body."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from gradsim.scene.body import Rigid
from gradsim.scene.contact import DISSIPATION, FRICTION, FRICTION_STIFFNESS, STIFFNESS
from gradsim.scene.node import Node, Place, did_you_mean
from gradsim.scene.quantity import Quantity
from gradsim.scene.region import AnyRegion, without_vertices
from gradsim.scene.soft_body import Soft

SELF_ONLY = "one name for a body that touches itself, or two"
EVERY = "all"  # rigid bodies


class Meeting(Node):
    """Contact between bodies of a scene; the law is `continuous`.

    A soft body touches itself, another, or a rigid ball or box. Rigid bodies touch one another, any number of them, if
    they are convex, or by their convex hull (`collision: hull`).

    Attributes:
        between: Names of the two bodies, or of one soft body that touches itself; of two or more rigid bodies, of which
            every two touch; or `all` rigid bodies of the scene but those of `collision: none`.
        thickness: The surfaces keep this far from one another [m], if one is soft. Rigid bodies may do without; but only
            vertices touch, and with thickness the triangles between them stay outside too.
        stiffness: k_e [N/m], of each vertex or, between rigid bodies, corner or crossing of edges; so the next three.
            Between rigid bodies it has to be given.
        dissipation: a [s/m].
        friction_stiffness: k_f [N s/m].
        friction: μ.
    """

    between: tuple[str, ...] = Field(description=f"{SELF_ONLY}; any number of rigid bodies, or `{EVERY}` of them")
    thickness: Annotated[float | None, Quantity("m", lower=0.0, above=True, positive=True)] = None
    stiffness: Annotated[float, STIFFNESS] = 1000.0
    dissipation: Annotated[float, DISSIPATION] = 0.3
    friction_stiffness: Annotated[float, FRICTION_STIFFNESS] = 1.0
    friction: Annotated[float, FRICTION] = 0.3

    @classmethod
    def prepare(cls, given: dict[str, Any]) -> dict[str, Any]:
        between = given.get("between")
        return {**given, "between": [between]} if isinstance(between, str) else given

    def names(self, bodies: Mapping[str, Node]) -> tuple[str, ...]:
        """The bodies that it is between."""
        if self.between == (EVERY,) and EVERY not in bodies:
            return tuple(n for n, body in bodies.items() if isinstance(body, Rigid) and body.collision != "none")
        return self.between

    def rigid(self, bodies: Mapping[str, Node]) -> bool:
        """Whether it is between rigid bodies alone."""
        return all(isinstance(bodies[name], Rigid) for name in self.names(bodies))

    def among(self, bodies: Mapping[str, Node]) -> Iterator[tuple[Place, str]]:
        """Mistakes that show beside the bodies of a scene."""
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
                    f"`{name}` is neither a soft body nor a rigid ball or box, which alone touch soft ones.",
                )
        if not hard and self.thickness is None:
            yield (
                ("thickness",),
                "is missing; give how far the surfaces keep apart in m, less than an edge of the mesh.",
            )

    def _between_rigid(self, names: tuple[str, ...], bodies: Mapping[str, Node]) -> Iterator[tuple[Place, str]]:
        for name in dict.fromkeys(names):
            node = bodies[name]
            if not isinstance(node, Rigid):
                yield ("between",), f"`{name}` is neither a rigid nor a soft body, which alone touch one another."
            elif node.collision == "none":
                yield ("between",), f"`{name}` has `collision: none`, so it touches nothing; leave one of them out."
            if names.count(name) > 1:
                yield ("between",), f"names `{name}` twice; no rigid body touches itself."
        if len(names) < 2:
            yield ("between",), f"is about {len(names)} rigid bodies; expected at least two."
        if self.thickness is not None:
            yield ("thickness",), "keeps soft bodies apart; between rigid ones leave it out."
        if "stiffness" not in self.model_fields_set:
            yield ("stiffness",), "is missing; give k_e in N/m, such as the 1e5 of a ground."


def twice(contacts: Mapping[str, Meeting], bodies: Mapping[str, Node]) -> Iterator[tuple[str, str]]:
    """Contacts that are about two rigid bodies which one before is about, and what to say of it."""
    found: dict[frozenset[str], str] = {}
    for name, meeting in contacts.items():
        names = meeting.names(bodies)
        if any(not isinstance(bodies.get(body), Rigid) for body in names):
            continue
        for pair in itertools.combinations(names, 2):
            first = found.setdefault(frozenset(pair), name)
            if first != name:
                yield (
                    name,
                    f"`{pair[0]}` and `{pair[1]}` touch by `contacts.{first}` already; take one of them out there.",
                )
                break


def mixed(
    contacts: Mapping[str, Meeting], attachments: Mapping[str, "Attachment"], bodies: Mapping[str, Node]
) -> Iterator[tuple[str, str]]:
    """Contacts of rigid bodies of which one meets a soft body too, and what to say of it."""
    soft = [m.names(bodies) for m in contacts.values() if any(isinstance(bodies.get(n), Soft) for n in m.between)]
    met = {name for names in [*soft, *((a.to,) for a in attachments.values())] for name in names}
    for name, meeting in contacts.items():
        names = meeting.names(bodies)
        both = [body for body in names if body in met]
        if both and all(isinstance(bodies.get(body), Rigid) for body in names):
            yield (
                name,
                f"`{both[0]}` meets a soft body too, and one rollout has either; name the rigid bodies without it.",
            )


class Attachment(Node):
    """Vertices of a soft body held by a rigid one, where they are at the start, with damped springs of no length.

    Attributes:
        body: The soft body.
        to: The rigid body.
        region: Which vertices.
        stiffness: Of each [N/m].
        damping: Of each [N s/m].
    """

    body: str = Field(description="the name of the soft body")
    to: str = Field(description="the name of the rigid body")
    region: AnyRegion
    stiffness: Annotated[float, STIFFNESS] = 1000.0
    damping: Annotated[float, Quantity("N s/m", lower=0.0, positive=True)] = 0.0

    def among(self, bodies: Mapping[str, Node]) -> Iterator[tuple[Place, str]]:
        """Mistakes that show beside the bodies of a scene."""
        for key, name, kind, words in (("body", self.body, Soft, "soft"), ("to", self.to, Rigid, "rigid")):
            if name not in bodies:
                yield (key,), _unknown(name, bodies)
            elif not isinstance(bodies[name], kind):
                yield (
                    (key,),
                    f"`{name}` is no {words} body; an attachment holds vertices of a soft body by a rigid one.",
                )
        soft = bodies.get(self.body)
        if isinstance(soft, Soft):
            yield from without_vertices(("region",), self.region, soft.rest_vertices)


def _unknown(name: str, bodies: Mapping[str, Node]) -> str:
    hint = did_you_mean(name, list(bodies)) or f"; it has {', '.join(bodies)}."
    return f"the scene has no body `{name}`{hint}"
