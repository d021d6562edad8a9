"""Solid things that stay where they are: balls and boxes that bodies touch. A tilted plane is a `Ground`."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import model_serializer

from gradsim.scene.body import TURN, UNIT_QUATERNION, given_otherwise, without
from gradsim.scene.contact import Contact
from gradsim.scene.material import COLOUR, Material
from gradsim.scene.node import Place, exactly_one
from gradsim.scene.quantity import Tuple, Vector3, Vector4, positive, vector

LENGTH = positive("m")
GREY = (0.55, 0.55, 0.52)


class Obstacle(Contact):
    """A ball or a box, and how it resists (see `Contact`).

    Attributes:
        radius: Of a ball [m], or
        size: edge lengths of a box along its own x, y and z [m].
        position: Of its centre [m].
        quat_xyzw: Orientation of a box: box to world, or
        rotation_vector: the same as axis times angle [rad].
        colour: Red, green and blue.
        material: Its texture, and how it answers light; by default plain and matte.
    """

    radius: Annotated[float | None, LENGTH] = None
    size: Annotated[Vector3 | None, Tuple(LENGTH)] = None
    position: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    quat_xyzw: Annotated[Vector4, UNIT_QUATERNION] = (0.0, 0.0, 0.0, 1.0)
    rotation_vector: Annotated[Vector3, vector("rad", lower=-TURN, upper=TURN)] = (0.0, 0.0, 0.0)
    colour: Annotated[Vector3, COLOUR] = GREY
    material: Material | None = None

    @classmethod
    def faults(cls, given) -> Iterator[tuple[Place, str]]:
        yield from super().faults(given)
        yield from exactly_one(given, ("radius", "size"))
        turned = given_otherwise(cls, given, ("quat_xyzw", "rotation_vector"))
        if len(turned) == 2:
            yield (), "got `quat_xyzw` and `rotation_vector`; the orientation is given by one of them."
        if turned and "size" not in given:
            yield (turned[0],), "a ball looks the same however it is turned; leave it out."

    @model_serializer(mode="wrap")
    def _one_orientation(self, content) -> dict[str, Any]:
        return without(content(self), "quat_xyzw" if any(self.rotation_vector) else "rotation_vector")
