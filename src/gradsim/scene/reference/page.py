"""The page docs/reference/scenes.md: introduction and examples of intro.md, then a table of keys for each part of a scene.

python -m gradsim.scene.reference.page > docs/reference/scenes.md
"""

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradsim.scene import (
    body,
    camera,
    cloth,
    contact,
    double_pendulum,
    ground,
    interactions,
    joint,
    light,
    material,
    obstacle,
    region,
    shape,
    soft_body,
    solid,
    solid_shape,
    springs,
)
from gradsim.scene.channels import channel
from gradsim.scene.node import Node
from gradsim.scene.quantity import NUMBER, UNIT
from gradsim.scene.recordings import motion, pose
from gradsim.scene.reference.docstring import paragraphs
from gradsim.scene.reference.schema import model_schema
from gradsim.scene.rods import rod
from gradsim.scene.scene import KINDS, Scene, Timing

HEAD = "| key | type | unit | default | meaning |\n|---|---|---|---|---|"
NONE = "–"
PLURAL = re.compile(r"(?<=number)|(?<=list)")  # where the first noun of a type ends


@dataclass(frozen=True)
class Part:
    """A section of the page.

    Attributes:
        title: Heading.
        model: Model whose keys the table lists.
        level: Level of the heading.
        base: Model whose keys are in another table.
        where: First sentence: where the part appears in a file.
    """

    title: str
    model: type[Node]
    level: int = 3
    base: type[Node] | None = None
    where: str = ""

    @property
    def link(self) -> str:
        """Link to the section."""
        return f"[{self.title.lower()}](#{self.title.lower().replace(' ', '-')})"


KIND, LIGHT = "An entry of `bodies` with `kind: {}`.", "An entry of `lights` with `kind: {}`."
PARTS = (
    Part("Scene", Scene, 2, where="The top level of a file."),
    Part("Timing", Timing, 2, where="The key `timing`."),
    Part("Camera", camera.CameraSpec, 2, where="The key `camera`, or an entry of `cameras`."),
    Part("Look-at", camera.LookAt, where="The key `look_at` of a camera."),
    Part("Rigid body", body.Rigid, 2, where="An entry of `bodies` with `kind: rigid`, or without `kind`."),
    Part("Shape of a rigid body", shape.Shape),
    Part("Recorded pose", pose.PoseMotion, where="The key `motion` of a rigid body, or of a joint to the world."),
    Part("Push", body.Push, where="An entry of `pushes` of a rigid body."),
    Part("Pendulum", body.Pendulum, 2, where=KIND.format("pendulum")),
    Part("Double pendulum", double_pendulum.DoublePendulum, 2, where=KIND.format("double_pendulum")),
    Part("Soft body", soft_body.Soft, 2, where="The keys of all solids, cloths, ropes and nets."),
    Part("Solid", solid.Solid, base=soft_body.Soft, where=KIND.format("solid")),
    Part("Shape of a solid", solid_shape.SolidShape),
    Part("Relaxation", solid.Relaxation, where="An entry of `relaxation` of a solid, cloth or rod."),
    Part("Hysteresis", solid.Hysteresis, where="The key `hysteresis` of a solid, cloth or rod."),
    Part("Material region", solid.SolidRegion, where="An entry of `regions` of a solid."),
    Part("Cloth", cloth.Cloth, base=soft_body.Soft, where=KIND.format("cloth")),
    Part("Shape of a cloth", cloth.ClothShape),
    Part("Plasticity of a cloth", cloth.SheetPlasticity, where="The key `plasticity` of a cloth."),
    Part("Air", cloth.Air, where="The key `air` of a cloth."),
    Part("Rope or net", springs.Springs, base=soft_body.Soft, where=KIND.format("springs")),
    Part("Shape of a rope or net", springs.SpringsShape),
    Part("Rod", rod.Rod, base=soft_body.Soft, where=KIND.format("rod")),
    Part("Shape of a rod", rod.RodShape),
    Part("Plasticity of a rod", rod.RodPlasticity, where="The key `plasticity` of a rod."),
    Part("Line of a rod", rod.Line, where="The key `line` of the shape of a rod."),
    Part("Prescribed motion", motion.Motion, where="The key `motion` of a soft body, or an entry of a list there."),
    Part("Pose", motion.Pose, where="An entry of `poses` of a prescribed motion."),
    Part("Region", region.Region, where="An entry of `pinned`, or a key `region`."),
    Part("Anchor", soft_body.Anchor, where="An entry of `anchors` of a soft body."),
    Part("Impulse on a soft body", soft_body.VertexImpulse, where="An entry of `pushes` of a soft body."),
    Part("Contact overrides", soft_body.ContactOverrides, where="The key `contact` of a soft body."),
    Part("Contact law", contact.Contact, 2, where="The keys of all grounds and obstacles."),
    Part("Ground", ground.Ground, base=contact.Contact, where="The key `ground`, or an entry of `grounds`."),
    Part("Rendered ground", material.Visible, where="The key `visible` of a ground."),
    Part("Obstacle", obstacle.Obstacle, base=contact.Contact, where="An entry of `obstacles`."),
    Part("Contact between bodies", interactions.BodyContact, 2, where="An entry of `contacts`."),
    Part("Attachment", interactions.Attachment, 2, where="An entry of `attachments`."),
    Part("Joint", joint.Joint, 2, where="The keys of all entries of `joints`."),
    Part("Hinge", joint.Revolute, base=joint.Joint, where="`kind: revolute`."),
    Part("Slide", joint.Prismatic, base=joint.Joint, where="`kind: prismatic`."),
    Part("Ball joint", joint.Ball, base=joint.Joint, where="`kind: ball`."),
    Part("Rigid connection", joint.Fixed, base=joint.Joint, where="`kind: fixed`."),
    Part("Marker", interactions.Marker, 2, where="An entry of `markers`."),
    Part("Channel", channel.Channel, 2, where="An entry of `channels`."),
    Part("Log", channel.LogFile, 2, where="The key `log`."),
    Part("Ambient light", light.Ambient, 2, where=LIGHT.format("ambient")),
    Part("Directional light", light.Directional, 2, where=LIGHT.format("directional")),
    Part("Point light", light.Point, 2, where=LIGHT.format("point")),
    Part("Spherical harmonics", light.Harmonics, 2, where=LIGHT.format("harmonics")),
    Part("Material", material.Material, 2, where="The key `material` of a body or obstacle."),
)
SECTIONS = {part.model.__name__: part for part in PARTS}
BY_KIND: dict[str, type[Node]] = {**KINDS, **joint.JOINTS, **light.LIGHTS}


def markdown() -> str:
    """Text of docs/reference/scenes.md."""
    intro = (Path(__file__).parent / "intro.md").read_text(encoding="utf-8")
    return "\n\n".join([intro.strip(), *map(section, PARTS)]) + "\n"


def section(part: Part) -> str:
    """Heading, summary and table of one part."""
    first, *more = paragraphs(part.model)
    blocks = [f"{'#' * part.level} {part.title}", _linked(f"{part.where} {first}".strip())]
    blocks += [f"```text\n{inspect.cleandoc(text)}\n```" if text.startswith(" ") else _linked(text) for text in more]
    if rows := ["| " + " | ".join(row) + " |" for row in _rows(part)]:
        blocks.append("\n".join([HEAD, *rows]))
    return "\n\n".join(blocks)


def _rows(part: Part) -> Iterator[list[str]]:
    schema = model_schema(part.model)
    inherited = model_schema(part.base)["properties"] if part.base else {}
    for key, content in schema["properties"].items():
        if key == "kind" or inherited.get(key) == content:
            continue
        target = _reference(content)
        if target is None or target in SECTIONS:
            yield _row(key, content, key in schema.get("required", ()))
        else:  # a small part, such as a shape: its keys are in the table of the whole
            nested = schema["$defs"][target]
            yield [f"`{key}`", "mapping", NONE, NONE, _cell(content.get("description") or nested["description"])]
            for name, inner in nested["properties"].items():
                yield _row(f"{key}.{name}", inner, name in nested.get("required", ()))


def _row(key: str, content: dict[str, Any], required: bool) -> list[str]:
    units = [form.get(UNIT, "") for form in (content, *content.get("anyOf", ()))]
    unit = _pretty(max(units, key=len))
    meaning = content["description"].replace(f" [{unit}]", "", 1)
    default = "required" if required else _default(content.get("default"))
    return [f"`{key}`", type_text(content), unit or NONE, default, _cell(meaning)]


def type_text(content: dict[str, Any]) -> str:
    """Type of a JSON schema in words, with links to the sections of other parts."""
    match content:
        case {"$ref": ref}:
            return SECTIONS[ref.rpartition("/")[2]].link
        case {"const": value}:
            return f"`{value}`"
        case {"enum": values}:
            return _alternatives([f"`{value}`" for value in values])
        case {"anyOf": forms}:
            return _alternatives([type_text(form) for form in forms if not _is_omitted(form)])
        case {"type": "array", "items": items, "minItems": least, "maxItems": most} if least == most:
            return f"list of {least} {PLURAL.sub('s', type_text(items), 1)}"
        case {"type": "array", "items": items}:
            return f"list: {type_text(items)}"
        case {"type": "object", "additionalProperties": dict(items)}:
            return f"by name: {type_text(items)}"
        case {"type": "object", "properties": {"kind": {"enum": kinds}}}:
            return _alternatives([SECTIONS[BY_KIND[kind].__name__].link for kind in kinds])
        case {"type": "object", "properties": properties}:
            return f"mapping of {' and '.join(f'`{key}`' for key in properties)}"
        case {"type": "number" | "integer" as kind}:
            return {"number": "number", "integer": "whole number"}[kind] + _range(content)
        case {"type": "boolean"}:
            return "`true` or `false`"
        case _:
            return "text"


def _range(content: dict[str, Any]) -> str:
    match content:
        case {"minimum": lower, "maximum": upper}:
            return f" from {_number(lower)} to {_number(upper)}"
        case {"exclusiveMinimum": lower, "maximum": upper}:
            return f" above {_number(lower)} and at most {_number(upper)}"
        case {"minimum": lower}:
            return f" of at least {_number(lower)}"
        case {"exclusiveMinimum": lower}:
            return f" above {_number(lower)}"
        case _:
            return ""


def _is_omitted(form: dict[str, Any]) -> bool:
    """True for null, and for a quantity as text, of which the introduction tells."""
    return form.get("type") == "null" or form.get("pattern") == NUMBER


def _reference(content: dict[str, Any]) -> str | None:
    """Name of the model that a key refers to directly."""
    forms = [form for form in content.get("anyOf", [content]) if not _is_omitted(form)]
    return forms[0]["$ref"].rpartition("/")[2] if len(forms) == 1 and "$ref" in forms[0] else None


def _default(value: Any) -> str:
    match value:
        case None | dict():
            return NONE
        case []:
            return "none"
        case list():
            return f"`[{', '.join(map(_number, value))}]`"
        case str():
            return f"`{value}`"
        case _:
            return f"`{_number(value)}`"


def _number(value: float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if value == int(value) else f"{value:.4g}"


def _alternatives(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _pretty(unit: str) -> str:
    return re.sub(r"\^([23])", lambda match: "²³"[int(match[1]) - 2], unit)


def _cell(text: str) -> str:
    return _linked(text).replace("|", r"\|")


def _linked(text: str) -> str:
    """Text with links in place of the names of models."""
    return re.sub(r"`(\w+)`", lambda name: SECTIONS[name[1]].link if name[1] in SECTIONS else name[0], text)


if __name__ == "__main__":
    sys.stdout.write(markdown())
