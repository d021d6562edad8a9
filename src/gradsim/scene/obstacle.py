"""Obstacles: static balls and boxes that bodies collide with. A tilted plane is a `Ground`."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import model_serializer

from gradsim.scene.body import FULL_TURN, UNIT_QUATERNION, drop_key, non_default_keys
from gradsim.scene.contact import Contact
from gradsim.scene.material import COLOR, Material
from gradsim.scene.node import Place, exactly_one
from gradsim.scene.quantity import Tuple, Vector3, Vector4, positive, vector

LENGTH = positive("m")
GREY = (0.55, 0.55, 0.52)


class Obstacle(Contact):
    """A static ball or box with its contact parameters (see `Contact`).

    Attributes:
        radius: Radius of a ball [m], or
        size: edge lengths of a box along its x, y and z [m].
        position: Position of the center [m].
        quat_xyzw: Orientation of a box, box to world, or
        rotation_vector: the same as axis times angle [rad].
        colour: RGB.
        material: Texture and reflectance; by default plain and matte.
    """

    radius: Annotated[float | None, LENGTH] = None
    size: Annotated[Vector3 | None, Tuple(LENGTH)] = None
    position: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    quat_xyzw: Annotated[Vector4, UNIT_QUATERNION] = (0.0, 0.0, 0.0, 1.0)
    rotation_vector: Annotated[Vector3, vector("rad", lower=-FULL_TURN, upper=FULL_TURN)] = (0.0, 0.0, 0.0)
    colour: Annotated[Vector3, COLOR] = GREY
    material: Material | None = None

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        yield from super().faults(raw)
        yield from exactly_one(raw, ("radius", "size"))
        orientation = non_default_keys(cls, raw, ("quat_xyzw", "rotation_vector"))
        if len(orientation) == 2:
            yield (), "got `quat_xyzw` and `rotation_vector`; give one of them."
        if orientation and "size" not in raw:
            yield (orientation[0],), "has no effect on a ball; remove it."

    @model_serializer(mode="wrap")
    def _one_orientation(self, content) -> dict[str, Any]:
        return drop_key(content(self), "quat_xyzw" if any(self.rotation_vector) else "rotation_vector")
