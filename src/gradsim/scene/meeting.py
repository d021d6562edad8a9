"""How the bodies of a scene act on one another: contact between two of them, and vertices held by a rigid body."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from gradsim.scene.body import Rigid
from gradsim.scene.contact import DISSIPATION, FRICTION, FRICTION_STIFFNESS, STIFFNESS
from gradsim.scene.node import Node, Place, did_you_mean
from gradsim.scene.quantity import Quantity
from gradsim.scene.region import AnyRegion, without_vertices
from gradsim.scene.soft import Soft

SELF_ONLY = "one name for a body that touches itself, or two"


class Meeting(Node):
    """Contact of a soft body with itself, with another, or with a rigid ball or box; the law is `continuous`.

    Attributes:
        between: Names of the two bodies, or of one that touches itself.
        thickness: The surfaces keep this far from one another [m]. Rigid bodies may do without; but only vertices touch, and
            with thickness the triangles between them stay outside too.
        stiffness: k_e [N/m], of each vertex; so the next three.
        dissipation: a [s/m].
        friction_stiffness: k_f [N s/m].
        friction: μ.
    """

    between: tuple[str, ...] = Field(description=SELF_ONLY)
    thickness: Annotated[float | None, Quantity("m", lower=0.0, above=True, positive=True)] = None
    stiffness: Annotated[float, STIFFNESS] = 1000.0
    dissipation: Annotated[float, DISSIPATION] = 0.3
    friction_stiffness: Annotated[float, FRICTION_STIFFNESS] = 1.0
    friction: Annotated[float, FRICTION] = 0.3

    @classmethod
    def prepare(cls, given: dict[str, Any]) -> dict[str, Any]:
        between = given.get("between")
        return {**given, "between": [between]} if isinstance(between, str) else given

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if len(self.between) not in (1, 2):
            yield ("between",), f"got {len(self.between)} names; expected {SELF_ONLY}."

    def among(self, bodies: Mapping[str, Node]) -> Iterator[tuple[Place, str]]:
        """Mistakes that show beside the bodies of a scene."""
        unknown = [name for name in self.between if name not in bodies]
        for name in unknown:
            yield ("between",), _unknown(name, bodies)
        if unknown:
            return
        soft = [name for name in self.between if isinstance(bodies[name], Soft)]
        hard = [name for name in self.between if name not in soft]
        if not soft:
            yield ("between",), "names no soft body; rigid bodies pass through one another."
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
