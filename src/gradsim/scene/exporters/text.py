"""Text of models: numbers that read back bit for bit, XML with comments, OBJ files of meshes."""

import xml.etree.ElementTree as xml
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from gradsim.geometry.mesh import Mesh
from gradsim.runtime.atomic import atomic_write


def number(value: float) -> str:
    """Shortest decimal of a float64; whole numbers without a point."""
    value = float(value) + 0.0  # −0 is 0
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def numbers(values: Iterable[float]) -> str:
    """Numbers separated by spaces."""
    return " ".join(number(value) for value in np.asarray(list(values), np.float64).ravel())


def real_first(quat_xyzw: Sequence[float] | np.ndarray) -> np.ndarray:
    """A quaternion as (w, x, y, z), with w not below 0."""
    x, y, z, w = np.asarray(quat_xyzw, np.float64) * (-1 if quat_xyzw[3] < 0 else 1)
    return np.array([w, x, y, z])


def wxyz(quat_xyzw: Sequence[float] | np.ndarray) -> str:
    """Text of a quaternion with the real part first, and not below 0."""
    return numbers(real_first(quat_xyzw))


def element(parent: xml.Element, tag: str, **attributes: object) -> xml.Element:
    """New child of an element; attributes that are None are left out, arrays and numbers are formatted."""
    texts = {}
    for key, value in attributes.items():
        if value is not None:
            key = key.rstrip("_")
            texts[key] = value if isinstance(value, str) else numbers(np.atleast_1d(np.asarray(value, np.float64)))
    return xml.SubElement(parent, tag, texts)


def document(root: xml.Element, comments: Sequence[str]) -> str:
    """Text of an XML file, with comments above its root; two hyphens in a row, which XML forbids, get a space."""
    xml.indent(root)
    texts = [comment.replace("--", "- -") for comment in comments]
    head = "".join(f"<!-- {text.rstrip()} -->\n" for text in texts)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{head}{xml.tostring(root, encoding="unicode")}\n'


def write_obj(path: Path, mesh: Mesh) -> None:
    """Write a mesh as an OBJ file, atomically, with all digits."""
    with atomic_write(path, "w") as file:
        file.write(obj(mesh))


def obj(mesh: Mesh) -> str:
    """Text of a mesh as an OBJ file, with all digits."""
    lines = [f"v {numbers(vertex)}" for vertex in mesh.vertices]
    lines += [f"f {a} {b} {c}" for a, b, c in (np.asarray(mesh.faces) + 1).tolist()]
    return "\n".join(lines) + "\n"
