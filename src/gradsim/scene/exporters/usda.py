"""Text of a USD stage (.usda): prims with applied schemas, attributes, relationships and children."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from gradsim.scene.exporters.text import number, real_first
from gradsim.scene.exporters.twin import unused_name

HEAD = "#usda 1.0"
INDENT = "    "


@dataclass
class Prim:
    """A prim of a stage.

    Attributes:
        type: Type, such as `Xform`.
        name: Name; an identifier.
        path: Path, such as `/model/a`.
        schemas: Applied schemas.
        lines: Attributes and relationships.
        children: Prims below it.
    """

    type: str
    name: str
    path: str
    schemas: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    children: list["Prim"] = field(default_factory=list)

    def child(self, type_: str, name: str, schemas: Collection[str] = ()) -> "Prim":
        """New prim below this one; its name becomes an identifier, with underscores after it where it is taken."""
        name = unused_name(identifier(name), [prim.name for prim in self.children])
        prim = Prim(type_, name, f"{self.path}/{name}", list(schemas))
        self.children.append(prim)
        return prim

    def set(self, type_: str, name: str, value: object) -> None:
        """Add an attribute: a number, text, token or truth value, a vector of them, or an array of either."""
        self.lines.append(f"{type_} {name} = {literal(type_.removeprefix('uniform ').removeprefix('custom '), value)}")

    def relate(self, name: str, paths: Collection[str]) -> None:
        """Add a relationship to other prims by path."""
        targets = [f"<{path}>" for path in paths]
        self.lines.append(f"rel {name} = {targets[0] if len(targets) == 1 else '[' + ', '.join(targets) + ']'}")

    def place(self, translation: np.ndarray, quat_xyzw: np.ndarray, scale: np.ndarray | None = None) -> None:
        """Add the transform to the parent: scale, then rotation, then translation."""
        self.set("double3", "xformOp:translate", translation)
        self.set("quatd", "xformOp:orient", real_first(quat_xyzw))
        order = ["xformOp:translate", "xformOp:orient"]
        if scale is not None:
            self.set("double3", "xformOp:scale", scale)
            order.append("xformOp:scale")
        self.set("uniform token[]", "xformOpOrder", order)

    def text(self, depth: int = 0) -> str:
        """Text of the prim and all below it."""
        outer, inner = INDENT * depth, INDENT * (depth + 1)
        head = f'{outer}def {self.type} "{self.name}"'
        if self.schemas:
            head += f" (\n{inner}prepend apiSchemas = {literal('string[]', self.schemas)}\n{outer})"
        body = [inner + line for line in self.lines]
        body += [child.text(depth + 1) for child in self.children]
        return "\n".join([head, f"{outer}{{", *body, f"{outer}}}"])


def stage(root: Prim, doc: str, custom: Mapping[str, str]) -> str:
    """Text of a stage in meters and kilograms with z up, whose default prim is the root.

    Args:
        root: Prim.
        doc: Documentation of the stage.
        custom: Texts by key, of the custom data of its layer under `gradsim`.
    """
    lines = [HEAD, "(", f"{INDENT}doc = {paragraph(doc)}"]
    if custom:
        entries = [f"{INDENT * 3}string {quoted(key)} = {quoted(text)}" for key, text in custom.items()]
        lines += [f"{INDENT}customLayerData = {{", f"{INDENT * 2}dictionary gradsim = {{", *entries]
        lines += [f"{INDENT * 2}}}", f"{INDENT}}}"]
    lines += [f'{INDENT}defaultPrim = "{root.name}"', f"{INDENT}kilogramsPerUnit = 1", f"{INDENT}metersPerUnit = 1"]
    lines += [f'{INDENT}upAxis = "Z"', ")", ""]
    return "\n".join([*lines, root.text(), ""])


def identifier(name: str) -> str:
    """A name with underscores in place of what identifiers of USD cannot have."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return plain if re.match(r"[A-Za-z_]", plain) else f"_{plain}"


def literal(type_: str, value: object) -> str:
    """A value as the text of its type: numbers with all digits, vectors in parentheses, arrays in brackets."""
    if type_.endswith("[]"):
        return "[" + ", ".join(literal(type_.removesuffix("[]"), item) for item in value) + "]"  # pyright: ignore[reportGeneralTypeIssues]
    if type_ == "bool":
        return "true" if value else "false"
    if type_ in ("token", "string"):
        return quoted(str(value))
    entries = [number(entry) for entry in np.atleast_1d(np.asarray(value, np.float64))]
    return entries[0] if len(entries) == 1 else f"({', '.join(entries)})"


def quoted(text: str) -> str:
    """A text in double quotes, on one line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def paragraph(text: str) -> str:
    """A text of several lines in triple quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', "'")
    return f'"""{escaped}"""'
