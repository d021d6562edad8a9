"""How a ground or an obstacle resists what touches it; numbers are per contact point."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from gradsim.scene.node import Node, Place
from gradsim.scene.quantity import Quantity

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
        margin: Contact begins this far from the surface [m] (d of the paper, C.2).
    """

    law: Literal["continuous", "paper", "paper-adhesive"] = "continuous"
    stiffness: Annotated[float, STIFFNESS] = 1e5
    dissipation: Annotated[float | None, DISSIPATION] = None
    damping: Annotated[float | None, DAMPING] = None
    friction_stiffness: Annotated[float, FRICTION_STIFFNESS] = 50.0
    friction: Annotated[float, FRICTION] = 0.5
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


def _is_paper(given) -> bool:
    return str(given.get("law", "")).startswith("paper")
