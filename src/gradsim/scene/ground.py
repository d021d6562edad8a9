"""Planes that bodies touch, and the law of the contact."""

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import model_validator

from gradsim.scene.node import Node, Place
from gradsim.scene.quantity import Quantity, Vector3, vector

SCALE = {"lower": 0.0, "positive": True}


class Ground(Node):
    """The plane n·x = height, with n = normal/|normal|, and how it resists; numbers are per contact vertex.

    Attributes:
        law: `continuous` (Hunt–Crossley, damped by `dissipation`), `paper` (damped by `damping`, which jumps at touch),
            or `paper-adhesive` (the paper's formula as printed, which pulls while the body leaves).
        height: [m], or
        point: any point on the plane [m].
        normal: Direction out of the ground, of any length.
        stiffness: k_e [N/m].
        dissipation: a [s/m], law `continuous`.
        damping: k_d [N s/m], laws `paper` and `paper-adhesive`.
        friction_stiffness: k_f [N s/m].
        friction: μ.
        margin: Contact begins this far above the plane [m] (paper C.2).
    """

    law: Literal["continuous", "paper", "paper-adhesive"] = "continuous"
    height: Annotated[float, Quantity("m")] = 0.0
    point: Annotated[Vector3 | None, vector("m")] = None
    normal: Annotated[Vector3, vector("")] = (0.0, 0.0, 1.0)
    stiffness: Annotated[float, Quantity("N/m", lower=0.0, above=True, positive=True)] = 1e5
    dissipation: Annotated[float | None, Quantity("s/m", **SCALE)] = None
    damping: Annotated[float | None, Quantity("N s/m", **SCALE)] = None
    friction_stiffness: Annotated[float, Quantity("N s/m", **SCALE)] = 50.0
    friction: Annotated[float, Quantity("", **SCALE)] = 0.5
    margin: Annotated[float, Quantity("m", lower=0.0)] = 0.0

    @classmethod
    def prepare(cls, given: dict[str, Any]) -> dict[str, Any]:
        if "damping" in given or "dissipation" in given:
            return given
        return {**given, **({"damping": 50.0} if _is_paper(given) else {"dissipation": 0.3})}

    @classmethod
    def faults(cls, given) -> Iterator[tuple[Place, str]]:
        law = given.get("law", "continuous")
        if law == "continuous" and "damping" in given:
            yield (
                ("damping",),
                "the law `continuous` has no `damping` [N s/m]; give `dissipation` [s/m], or law: paper.",
            )
        if _is_paper(given) and "dissipation" in given:
            yield (
                ("dissipation",),
                f"the law `{law}` has no `dissipation` [s/m]; give `damping` [N s/m], or law: continuous.",
            )
        if "point" in given and given.get("height"):
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


def _is_paper(given) -> bool:
    return str(given.get("law", "")).startswith("paper")
