"""Planes that bodies meet, and the law of their contact."""

import math
from typing import Literal

from pydantic import model_validator

from gradsim.errors import InputError
from gradsim.scene.quantities import Strict, not_negative, number, positive, vector


class Ground(Strict):
    """The half space below a plane n·x = height.

    Args:
        law: "continuous" (Hunt & Crossley), the paper's ("paper"), or the paper's as printed, which also pulls while
            a body leaves ("paper-adhesive").
        height: Of the plane along its normal [m].
        normal: Its direction, out of the ground.
        stiffness: k_e of one contact point [N/m].
        dissipation: a of the continuous law [s/m].
        damping: k_d of the paper's law [N s/m].
        friction_stiffness: k_f [N s/m].
        friction: μ.
        margin: Contact begins this far above the plane [m] (paper C.2).
    """

    law: Literal["continuous", "paper", "paper-adhesive"] = "continuous"
    height: number("m") = 0.0
    normal: vector() = (0.0, 0.0, 1.0)
    stiffness: positive("N/m") = 1e5
    dissipation: not_negative("s/m") | None = None
    damping: not_negative("N s/m") | None = None
    friction_stiffness: not_negative("N s/m") = 50.0
    friction: not_negative() = 0.5
    margin: not_negative("m") = 0.0

    @model_validator(mode="before")
    @classmethod
    def _law(cls, given):
        if not isinstance(given, dict):
            return given
        ours, other, unit = ("dissipation", "damping", "s/m")
        if given.get("law", "continuous") != "continuous":
            ours, other, unit = ("damping", "dissipation", "N s/m")
        if given.get(other) is not None:
            raise InputError(f"`{other}` belongs to another law; with law {given.get('law', 'continuous')} it is `{ours}` [{unit}].")  # fmt: skip
        return {**given, ours: given.get(ours, 0.3 if ours == "dissipation" else 50.0)}

    @model_validator(mode="after")
    def _direction(self):
        if math.hypot(*self.normal) == 0:
            raise InputError("normal is zero; give a direction.")
        return self
