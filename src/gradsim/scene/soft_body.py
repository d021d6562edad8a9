"""What all soft bodies share: place and motion at the start, pins, blows, contact, colour."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_serializer

from gradsim.errors import InputError
from gradsim.scene.body import BLUE, TURN, UNIT_QUATERNION, given_otherwise, without
from gradsim.scene.contact import DAMPING, DISSIPATION, FRICTION, FRICTION_STIFFNESS, STIFFNESS
from gradsim.scene.material import COLOUR, Material
from gradsim.scene.node import Node, Place
from gradsim.scene.quantity import Quantity, Vector3, Vector4, positive, vector
from gradsim.scene.region import AnyRegion, without_vertices


class Blow(Node):
    """A known impulse on a soft body at the start.

    Attributes:
        impulse: [N s], in the world frame; its vertices get it in proportion to their masses, so that they start with
            one velocity more.
        point: Where it acts, in the body's frame, from the centre of mass of its vertices [m]. They begin to turn, too,
            as those of a rigid body struck there would, so that nothing is deformed at the start.
        region: Which vertices; by default all that are free.
    """

    late: ClassVar[bool] = False  # as of a `Push`; so the next two
    at: ClassVar[float] = 0.0
    window: ClassVar[None] = None

    impulse: Annotated[Vector3, vector("N s")] = Field(description="the impulse [x, y, z] in N s")
    point: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    region: AnyRegion | None = None


class OwnContact(Node):
    """How a soft body touches: what is given here replaces that of the ground or obstacle, per contact vertex.

    Attributes:
        stiffness: [N/m].
        dissipation: [s/m], law `continuous`.
        damping: [N s/m], the other laws.
        friction_stiffness: [N s/m].
        friction: μ.
    """

    stiffness: Annotated[float | None, STIFFNESS] = None
    dissipation: Annotated[float | None, DISSIPATION] = None
    damping: Annotated[float | None, DAMPING] = None
    friction_stiffness: Annotated[float | None, FRICTION_STIFFNESS] = None
    friction: Annotated[float | None, FRICTION] = None


class Anchor(Node):
    """Springs from vertices to points of the world: where each vertex is at the start, moved by `offset`.

    Attributes:
        region: Which vertices; by default all.
        stiffness: Of each spring [N/m].
        damping: [N s/m].
        offset: [m].
        along: A direction, along which alone the springs pull: they hold vertices in planes across it, as one across y
            holds a two-dimensional body. By default they pull from everywhere.
    """

    region: AnyRegion | None = None
    stiffness: Annotated[float, Quantity("N/m", lower=0.0, positive=True)] = Field(
        description="the stiffness of each spring in N/m"
    )
    damping: Annotated[float, Quantity("N s/m", lower=0.0, positive=True)] = 0.0
    offset: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    along: Annotated[Vector3 | None, vector("")] = None

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if self.along is not None and not any(self.along):
            yield ("along",), "is no direction; give one such as [0, 1, 0]."


class Soft(Node):
    """A body of vertices.

    Attributes:
        position: Of the centre of the rest shape [m].
        quat_xyzw: Orientation: rest shape to world, or
        rotation_vector: the same as axis times angle [rad].
        velocity: Of all vertices [m/s].
        angular_velocity: About the centre of the rest shape, in the world frame [rad/s].
        pinned: Regions whose vertices stay where they are.
        anchors: Springs to points of the world.
        pushes: Blows at the start.
        scale: Of the shape, at rest and at the start. Only where it is given is it a number with gradients, as
            rest_length_factor is: rest lengths over those of the shape, at the same start and mass. Ropes and nets always
            have that.
        contact: Its own numbers of contact.
        collision: What touches grounds and obstacles: its outer vertices, or nothing.
        colour: Red, green and blue.
        material: Its texture, and how it answers light; by default plain and matte.
    """

    by_time: ClassVar[tuple[str, ...]] = ()  # of `by_element`, those that a rollout may be given for each interval

    position: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    quat_xyzw: Annotated[Vector4, UNIT_QUATERNION] = (0.0, 0.0, 0.0, 1.0)
    rotation_vector: Annotated[Vector3, vector("rad", lower=-TURN, upper=TURN)] = (0.0, 0.0, 0.0)
    velocity: Annotated[Vector3, vector("m/s")] = (0.0, 0.0, 0.0)
    angular_velocity: Annotated[Vector3, vector("rad/s")] = (0.0, 0.0, 0.0)
    pinned: tuple[AnyRegion, ...] = ()
    anchors: tuple[Anchor, ...] = ()
    pushes: tuple[Blow, ...] = ()
    scale: Annotated[float | None, positive("")] = None
    rest_length_factor: Annotated[float | None, positive("")] = None
    contact: OwnContact | None = None
    collision: Literal["vertices", "none"] = "vertices"
    colour: Annotated[Vector3, COLOUR] = BLUE
    material: Material | None = None

    @classmethod
    def faults(cls, given) -> Iterator[tuple[Place, str]]:
        if len(given_otherwise(cls, given, ("quat_xyzw", "rotation_vector"))) == 2:
            yield (), "got `quat_xyzw` and `rotation_vector`; the orientation is given by one of them."

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        try:
            rest = self.rest_vertices
        except InputError as error:
            yield ("shape",), str(error)
            return
        regions = [(("pinned", k), region) for k, region in enumerate(self.pinned)]
        regions += [(("pushes", k, "region"), blow.region) for k, blow in enumerate(self.pushes) if blow.region]
        regions += [(("anchors", k, "region"), anchor.region) for k, anchor in enumerate(self.anchors) if anchor.region]
        for place, region in regions:
            yield from without_vertices(place, region, rest)

    @property
    def rest_vertices(self) -> np.ndarray:
        """Its vertices at rest (n, 3) [m], about the centre of the rest shape.

        Raises:
            InputError: If the shape is none.
        """
        raise NotImplementedError

    @property
    def arrays(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Arrays among its parameters by name: shape, and what they have one row for."""
        raise NotImplementedError

    @property
    def by_element(self) -> dict[str, int]:
        """Numbers that a rollout may be given one for each element, and how many elements there are."""
        raise NotImplementedError

    @model_serializer(mode="wrap")
    def _one_orientation(self, content):
        found = without(content(self), "quat_xyzw" if any(self.rotation_vector) else "rotation_vector")
        first = {key: found[key] for key in ("kind", "shape") if key in found}
        return first | {key: value for key, value in found.items() if value not in ((), {}, []) and key not in first}


def one_elasticity(given, pairs: tuple[tuple[str, ...], ...], beside: bool = False) -> Iterator[tuple[Place, str]]:
    """Faults where the elastic moduli are not given as exactly one of some groups of keys.

    Args:
        given: The content.
        pairs: Groups, such as ("mu", "lam") and ("young", "poisson").
        beside: Whether those of a region of a body, which may give some of one group, or none.
    """
    started = [group for group in pairs if any(key in given for key in group)]
    ways = " or ".join(" and ".join(f"`{key}`" for key in group) for group in pairs)
    if len(started) > 1:
        got = " and ".join(f"`{key}`" for group in started for key in group if key in given)
        yield (), f"got {got}; give either {ways}."
    elif not started and not beside:
        yield (), f"got no elastic moduli; give {ways}."
    elif started and not beside:
        missing = [key for key in started[0] if key not in given]
        if missing:
            yield (
                (),
                f"got {' and '.join(f'`{k}`' for k in started[0] if k in given)} without {' and '.join(f'`{k}`' for k in missing)}; give {ways}.",
            )
