"""Values of parameters written into a scene."""

from collections.abc import Mapping
from typing import Any

from gradsim.identification.unknowns import Unknown
from gradsim.scene import Scene, resolve
from gradsim.scene.node import Node

OWNERS = ("bodies", "grounds", "obstacles")  # whose names begin the names of parameters


def placed(scene: Scene, numbers: Mapping[str, float]) -> Scene:
    """The scene with values of its parameters, of their components ("body.velocity.x") or of several tied.

    Args:
        scene: Stays as it is.
        numbers: By name, within the ranges of the parameters [SI units].

    Raises:
        InputError: On a name that the scene lacks.
    """
    for tied, number in numbers.items():
        for dotted in Unknown(tied).names:
            name, component = resolve(scene, dotted)
            path = name.split(".")
            owner = [key for key in OWNERS if path[0] in getattr(scene, key)]
            scene = _put(scene, [*owner[:1], *path, *([] if component is None else [component])], number)
    return scene


def _put(node: Any, path: list, number: float) -> Any:
    """A copy of a node, mapping or tuple with the number at the end of the path."""
    if not path:
        return number
    key, *rest = path
    if isinstance(node, Node):
        return node.model_copy(update={key: _put(getattr(node, key), rest, number)})
    if isinstance(node, Mapping):
        return {**node, key: _put(node[key], rest, number)}
    key = int(key)
    return (*node[:key], _put(node[key], rest, number), *node[key + 1 :])
