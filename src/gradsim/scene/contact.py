"""How a ground or an obstacle resists what touches it; numbers are per contact point."""

import difflib
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import model_validator

from gradsim.scene import restitution
from gradsim.scene.node import Node, Place
from gradsim.scene.quantity import Quantity, positive

LAWS = {"continuous": "dissipation", "paper": "damping", "paper-adhesive": "damping"}  # law: its damping number
WITH_RESTITUTION = tuple(LAWS)  # laws whose restitution has a closed form; not those that are registered later
SCALE = {"lower": 0.0, "positive": True}
STIFFNESS = Quantity("N/m", lower=0.0, above=True, positive=True)
DISSIPATION, DAMPING = Quantity("s/m", **SCALE), Quantity("N s/m", **SCALE)
FRICTION_STIFFNESS, FRICTION = Quantity("N s/m", **SCALE), Quantity("", **SCALE)


class Contact(Node):
    """A law and its numbers.

    Attributes:
        law: `continuous` (Hunt–Crossley, damped by `dissipation`), `paper` (damped by `damping`, which jumps at touch),
            or `paper-adhesive` (the paper's formula as printed, which pulls while the body leaves).
        stiffness: k_e [N/m].
        dissipation: a [s/m], law `continuous`.
        damping: k_d [N s/m], laws `paper` and `paper-adhesive`.
        friction_stiffness: k_f [N s/m].
        friction: μ.
        restitution: In place of `dissipation` or `damping`: what a bounce on one contact point leaves of the speed, above
            0 and at most 1. It is turned into those (`gradsim.scene.restitution`), and is not kept.
        impact_speed: With it, law `continuous`: the speed of that bounce [m/s]; a faster one loses more.
        impact_mass: With it, the other laws: the mass that bounces [kg].
        margin: Contact begins this far from the surface [m] (d of the paper, C.2).
    """

    law: str = "continuous"
    stiffness: Annotated[float, STIFFNESS] = 1e5
    dissipation: Annotated[float | None, DISSIPATION] = None
    damping: Annotated[float | None, DAMPING] = None
    friction_stiffness: Annotated[float, FRICTION_STIFFNESS] = 50.0
    friction: Annotated[float, FRICTION] = 0.5
    restitution: Annotated[float | None, Quantity("", lower=0.0, upper=1.0, above=True)] = None
    impact_speed: Annotated[float | None, positive("m/s")] = None
    impact_mass: Annotated[float | None, positive("kg")] = None
    margin: Annotated[float, Quantity("m", lower=0.0)] = 0.0

    @classmethod
    def prepare(cls, given: dict[str, Any]) -> dict[str, Any]:
        if {"damping", "dissipation", "restitution"} & set(given):
            return given
        return {**given, **({"damping": 50.0} if _is_paper(given) else {"dissipation": 0.3})}

    @classmethod
    def faults(cls, given) -> Iterator[tuple[Place, str]]:
        law = given.get("law", "continuous")
        if law not in LAWS:
            near = difflib.get_close_matches(str(law), LAWS, 1)
            hint = f"did you mean `{near[0]}`?" if near else f"choose one of {', '.join(LAWS)}."
            yield ("law",), f"got {law!r}; {hint}"
            return
        if "restitution" in given and law not in WITH_RESTITUTION:
            yield ("restitution",), f"is not known of the law `{law}`; give `{LAWS[law]}`."
        own, needed, other = ("damping", "impact_mass", "impact_speed")
        if not _is_paper(given):
            own, needed, other = ("dissipation", other, needed)
        if "restitution" in given:
            if own in given:
                yield (), f"got `restitution` and `{own}`; give one of them."
            if needed not in given:
                unit, why = ("kg", "the mass that bounces") if _is_paper(given) else ("m/s", "the speed of the impact")
                yield ("restitution",), f"of the law `{law}` goes with `{needed}` [{unit}], {why}; add it."
        for key in {needed, other} & set(given):
            if key == other or "restitution" not in given:
                yield (
                    (key,),
                    f"goes with `restitution` of the law {'`continuous`' if key == 'impact_speed' else '`paper`'}.",
                )
        if not _is_paper(given) and "damping" in given:
            yield (
                ("damping",),
                f"the law `{law}` has no `damping` [N s/m]; give `dissipation` [s/m], or law: paper.",
            )
        if _is_paper(given) and "dissipation" in given:
            yield (
                ("dissipation",),
                f"the law `{law}` has no `dissipation` [s/m]; give `damping` [N s/m], or law: continuous.",
            )

    @model_validator(mode="after")
    def _damping_from_restitution(self):
        e, speed, mass = self.restitution, self.impact_speed, self.impact_mass
        own = "damping" if _is_paper({"law": self.law}) else "dissipation"
        if e is None or getattr(self, own) is not None or (speed, mass)[own == "damping"] is None:
            return self  # `faults` has told
        if mass is not None:
            number = restitution.damping(e, self.stiffness, mass, self.law == "paper-adhesive")
        else:
            number = restitution.dissipation(e, speed or 0.0)
        object.__setattr__(self, own, number)
        for key in ("restitution", "impact_speed", "impact_mass"):
            object.__setattr__(self, key, None)
            self.__pydantic_fields_set__.discard(key)
        self.__pydantic_fields_set__.add(own)
        return self


def _is_paper(given) -> bool:
    return LAWS.get(given.get("law", "continuous")) == "damping"
