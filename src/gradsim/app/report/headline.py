"""Headline of a fit: what it says, in one or two sentences.

The cube weighs 7.2139 ± 0.0012 kg; friction of the ground 0.5768 ± 0.0019. The video cannot tell the stiffness of the ground.
"""

from collections.abc import Mapping, Sequence

from gradsim.app.report.sections import Section, estimate, has_error
from gradsim.errors import UNTRUSTED, Status

NUMBERS = 4  # at most in the headline; the table has all
OWNERS = {"timing": "clock"}
OPENINGS = {
    Status.APPROXIMATE: "To the accuracy of this model: ",
    Status.UNCONVERGED: "One of several answers: ",
}


def headline(section: Section) -> str:
    """Headline of a fit; "" where it has no answer yet.

    Args:
        section: The fit.
    """
    names = [name for name, u in section.unknowns.items() if u["value"] is not None]
    if section.status in UNTRUSTED:
        return "Not a measurement: the numbers below are those of a model that does not explain the video."
    if section.status is None or section.status == Status.INTERRUPTED or not names:
        return ""
    known = [name for name in names if section.unknowns[name]["identifiable"] and has_error(section.unknowns[name])]
    texts = []
    if known:
        numbers = "; ".join(_number(name, section.unknowns[name]) for name in known[:NUMBERS])
        more = f"; and {len(known) - NUMBERS} more below" if len(known) > NUMBERS else ""
        opening = OPENINGS.get(Status(section.status), "")
        numbers = numbers if opening else numbers[0].upper() + numbers[1:]
        texts.append(f"{opening}{numbers}{more}.")
    if unknown := [quantity(name) for name in names if name not in known]:
        texts.append(f"The video cannot tell {_listed(unknown)}.")
    return " ".join(texts)


def quantity(name: str) -> str:
    """Name of an unknown in words: `ground.friction` is the friction of the ground.

    Args:
        name: Dotted name.
    """
    parts = [part for part in name.split(".") if part not in ("joints", "channels")]
    if len(parts) == 1 or parts[0] in ("gravity", "camera_pose"):
        return " ".join(parts).replace("_", " ")
    owner = OWNERS.get(parts[0], parts[0]).replace("_", " ")
    return f"{' '.join(parts[1:]).replace('_', ' ')} of the {owner}"


def _number(name: str, unknown: Mapping) -> str:
    value = f"{estimate(unknown)} {unknown['unit']}".rstrip()
    owner, _, key = name.rpartition(".")
    if key == "mass" and "." not in owner and owner:
        return f"the {owner.replace('_', ' ')} weighs {value}"
    return f"{quantity(name)} {value}"


def _listed(words: Sequence[str]) -> str:
    first = [f"the {word}" for word in words[:NUMBERS]]
    rest = [f"{len(words) - NUMBERS} more"] if len(words) > NUMBERS else []
    *head, last = [*first, *rest]
    return f"{', '.join(head)} and {last}" if head else last
