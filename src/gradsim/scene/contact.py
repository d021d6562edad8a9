"""Contact parameters of grounds and obstacles, per contact point."""

import difflib
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import model_validator

from gradsim.scene import restitution
from gradsim.scene.node import Node, Place
from gradsim.scene.quantity import Quantity, positive

LAWS = {  # law: its damping number
    "continuous": "dissipation",
    "constant-restitution": "damping",
    "paper": "damping",
    "paper-adhesive": "damping",
}
WITH_RESTITUTION = tuple(LAWS)  # laws whose restitution has a closed form; not those that are registered later
SCALE = {"lower": 0.0, "positive": True}
STIFFNESS = Quantity("N/m", lower=0.0, above=True, positive=True)
DISSIPATION, DAMPING = Quantity("s/m", **SCALE), Quantity("N s/m", **SCALE)
FRICTION_STIFFNESS, FRICTION = Quantity("N s/m", **SCALE), Quantity("", **SCALE)
LEVER = Quantity("m", **SCALE)


class Contact(Node):
    """Contact law and its parameters.

    Attributes:
        law: `continuous` (Hunt–Crossley, with `dissipation`; faster impacts lose more), `constant-restitution` (with
            `damping`; impacts of all speeds lose the same share), `paper` (with `damping`, discontinuous at contact), or
            `paper-adhesive` (the paper's formula as printed, which attracts a separating body).
        stiffness: Normal force per depth of a contact point, k_e [N/m].
        dissipation: Loss of a bounce, a [s/m], law `continuous`; 0.3 if neither it nor `restitution` is given.
        damping: Normal force per speed of approach, k_d [N s/m], laws but `continuous`; 50 if neither it nor `restitution` is given.
        friction_stiffness: Regularization of Coulomb friction: viscous coefficient up to the limit by `friction`, the
            paper's k_f [N s/m].
        friction: Coefficient of friction, μ.
        restitution: Instead of `dissipation` or `damping`: coefficient of restitution of a bounce on one contact point,
            above 0 and at most 1. It is converted (`gradsim.scene.restitution`) and not stored.
        impact_speed: With `restitution` and law `continuous`: speed of that bounce [m/s]; faster ones lose more.
        impact_mass: With `restitution` and the other laws: bouncing mass [kg].
        rolling_friction: Lever of the normal force against rolling, by which a ball on the surface slows down [m]; by default none.
        spinning_friction: The same against spin about the normal [m].
        margin: Distance from the surface at which contact begins [m] (d of the paper, C.2).
    """

    law: str = "continuous"
    stiffness: Annotated[float, STIFFNESS] = 1e5
    dissipation: Annotated[float | None, DISSIPATION] = None
    damping: Annotated[float | None, DAMPING] = None
    friction_stiffness: Annotated[float, FRICTION_STIFFNESS] = 50.0
    friction: Annotated[float, FRICTION] = 0.5
    rolling_friction: Annotated[float | None, LEVER] = None
    spinning_friction: Annotated[float | None, LEVER] = None
    restitution: Annotated[float | None, Quantity("", lower=0.0, upper=1.0, above=True)] = None
    impact_speed: Annotated[float | None, positive("m/s")] = None
    impact_mass: Annotated[float | None, positive("kg")] = None
    margin: Annotated[float, Quantity("m", lower=0.0)] = 0.0

    @classmethod
    def prepare(cls, raw: dict[str, Any]) -> dict[str, Any]:
        if {"damping", "dissipation", "restitution"} & set(raw):
            return raw
        return {**raw, **({"damping": 50.0} if _is_damped(raw) else {"dissipation": 0.3})}

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        law = raw.get("law", "continuous")
        if law not in LAWS:
            near = difflib.get_close_matches(str(law), LAWS, 1)
            hint = f"did you mean `{near[0]}`?" if near else f"choose one of {', '.join(LAWS)}."
            yield ("law",), f"got {law!r}; {hint}"
            return
        if "restitution" in raw and law not in WITH_RESTITUTION:
            yield ("restitution",), f"is not supported by the law `{law}`; give `{LAWS[law]}`."
        loss, required, other = ("damping", "impact_mass", "impact_speed")
        if not _is_damped(raw):
            loss, required, other = ("dissipation", other, required)
        if "restitution" in raw:
            if loss in raw:
                yield (), f"got `restitution` and `{loss}`; give one of them."
            if required not in raw:
                unit, meaning = ("kg", "the bouncing mass") if _is_damped(raw) else ("m/s", "the speed of the impact")
                yield ("restitution",), f"of the law `{law}` needs `{required}` [{unit}], {meaning}; add it."
        for key in {required, other} & set(raw):
            if key == other or "restitution" not in raw:
                matching = "the law `continuous`" if key == "impact_speed" else "the other laws"
                yield (key,), f"is used only with `restitution` and {matching}; remove it."
        if not _is_damped(raw) and "damping" in raw:
            yield (
                ("damping",),
                f"the law `{law}` has no `damping` [N s/m]; give `dissipation` [s/m], or law: constant-restitution.",
            )
        if _is_damped(raw) and "dissipation" in raw:
            yield (
                ("dissipation",),
                f"the law `{law}` has no `dissipation` [s/m]; give `damping` [N s/m], or law: continuous.",
            )

    @model_validator(mode="after")
    def _damping_from_restitution(self):
        e, speed, mass = self.restitution, self.impact_speed, self.impact_mass
        key = "damping" if _is_damped({"law": self.law}) else "dissipation"
        if e is None or getattr(self, key) is not None or (speed, mass)[key == "damping"] is None:
            return self  # reported by `faults`
        if mass is not None:
            number = restitution.damping(e, self.stiffness, mass, self.law)
        else:
            number = restitution.dissipation(e, speed or 0.0)
        object.__setattr__(self, key, number)
        for field in ("restitution", "impact_speed", "impact_mass"):
            object.__setattr__(self, field, None)
            self.__pydantic_fields_set__.discard(field)
        self.__pydantic_fields_set__.add(key)
        return self


def _is_damped(raw) -> bool:
    return LAWS.get(raw.get("law", "continuous")) == "damping"
