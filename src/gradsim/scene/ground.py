"""Grounds: planes that bodies collide with."""

import math
from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import model_validator

from gradsim.scene.contact import Contact
from gradsim.scene.material import Visible
from gradsim.scene.node import Place
from gradsim.scene.quantity import Quantity, Vector3, vector


class Ground(Contact):
    """The plane n·x = height, n = normal/|normal|, with its contact parameters (see `Contact`).

    Attributes:
        height: Height along the normal [m], or
        point: any point on the plane [m].
        normal: Direction out of the ground, of any length.
        visible: Rendered part of the plane; by default none.
    """

    height: Annotated[float, Quantity("m")] = 0.0
    point: Annotated[Vector3 | None, vector("m")] = None
    normal: Annotated[Vector3, vector("")] = (0.0, 0.0, 1.0)
    visible: Visible | None = None

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        yield from super().faults(raw)
        if "point" in raw and raw.get("height"):
            yield (), "got `height` and `point`; give one of them."

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if not any(self.normal):
            yield ("normal",), "got a direction of length 0; expected one out of the ground, such as [0, 0, 1]."

    @model_validator(mode="after")
    def _height_from_point(self):
        if self.point is not None and any(self.normal):
            height = float(np.dot(self.normal, self.point)) / math.hypot(*self.normal)
            object.__setattr__(self, "height", height)
            object.__setattr__(self, "point", None)
            self.__pydantic_fields_set__.symmetric_difference_update({"height", "point"})
        return self
