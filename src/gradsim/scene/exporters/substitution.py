"""New values of parameters, by dotted name such as `cube.mass`, put into a scene."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from gradsim.errors import InputError
from gradsim.scene.camera import CameraSpec
from gradsim.scene.parameters import OPTICS, RESPONSE, component_letters, parameters, resolve
from gradsim.scene.scene import Scene

SECTIONS = ("contacts", "attachments", "markers", "joints", "lights")


def with_values(scene: Scene, values: Mapping[str, float | Sequence[float]]) -> Scene:
    """A scene with other values of some parameters.

    A `rotation_vector` is an additional rotation, as in `gradsim.scene.parameters`: exp(rotation_vector) quat_xyzw becomes
    `quat_xyzw` where the scene gives one. A camera that is moved gets `R` and `t` in place of `look_at`.

    Args:
        scene: The scene.
        values: Numbers and vectors by name; a component has its letter, and A=B sets several parameters: `cube.velocity.x`.

    Raises:
        InputError: If the scene has no such parameter, an array of a soft body is set, or a value is outside its range.
    """
    known = parameters(scene)
    arrays: dict[str, np.ndarray] = {}
    for names, value in values.items():
        for dotted in names.split("="):
            name, index = resolve(scene, dotted, known)
            if known[name].row_of:
                raise InputError(f"`{name}` is an array, for which scene files have no place; leave it out.")
            array = arrays.setdefault(name, np.array(known[name].value, np.float64))
            if np.shape(value) != (array.shape if index is None else ()):
                letters = ", ".join(f"{name}.{letter}" for letter in component_letters(name)[: array.size])
                form = f"a vector of {array.size} numbers; give all, or some of {letters}" if array.ndim else "a number"
                raise InputError(
                    f"`{dotted}` is given as {value!r:.60}; expected {form if index is None else 'a number'}."
                )
            arrays[name] = np.array(value, np.float64) if index is None else _with_component(array, index, value)
    content = scene.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    for name, array in arrays.items():
        _set(content, scene, name, array.tolist())
    return Scene.parse(content, scene.name, Path())


def _with_component(array: np.ndarray, index: int, value: float | Sequence[float]) -> np.ndarray:
    changed = array.copy()
    changed[index] = value
    return changed


def _set(content: dict[str, Any], scene: Scene, name: str, value: Any) -> None:
    """Put one parameter into the content of a scene file, in place."""
    first, *rest = name.split(".")
    if first in ("camera", "cameras"):
        _set_camera(content, scene, name, value)
        return
    groups = [group for group in ("bodies", "grounds", "obstacles") if first in getattr(scene, group)]
    keys = [groups[0], first, *rest] if groups else [first, *rest]
    parent = _at(content, keys[:-1])
    if keys[-1] == "rotation_vector" and groups:
        quat = parent.pop("quat_xyzw", None)
        if quat is not None and np.any(np.array(quat) != (0, 0, 0, 1)):
            turned = Rotation.from_rotvec(value) * Rotation.from_quat(quat)
            parent["quat_xyzw"] = turned.as_quat().tolist()
            parent.pop("rotation_vector", None)
            return
    parent[keys[-1]] = value


def _at(content: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    """The mapping at a path of keys, made where the file has none; sequences become lists of copies."""
    at: Any = content
    for key in keys:
        index: Any = int(key) if isinstance(at, list) else key
        inner = at[index] if isinstance(at, list) else at.get(index, {})
        at[index] = list(inner) if isinstance(inner, list | tuple) else dict(inner)
        at = at[index]
    return at


def _set_camera(content: dict[str, Any], scene: Scene, name: str, value: Any) -> None:
    """Put focal length, principal point, lens, shutter or pose into a camera, in place."""
    prefix, _, key = name.rpartition(".")
    keys = prefix.split(".")
    camera = _at(content, keys)
    if key in (*OPTICS, *RESPONSE):
        camera[key] = value
        return
    node = CameraSpec.model_validate(camera)  # with the values that were put in before
    K, R, t = node.matrices()
    view = dict(camera.get("look_at") or {})
    if key in ("translation", "rotation_vector"):
        if key == "translation":
            t = np.array(value)
        else:
            R = Rotation.from_rotvec(value).as_matrix() @ R
        camera |= {"R": R.tolist(), "t": t.tolist()}
        if view.get("fov"):
            camera["focal"] = float(K[1, 1])
        camera.pop("look_at", None)
        return
    if key == "focal":
        K[0, 0], K[1, 1] = np.broadcast_to(value, 2)
    else:
        K[:2, 2] = value
    view.pop("fov", None)
    for old in ("K", "focal", "centre"):
        camera.pop(old, None)
    if view:
        camera["look_at"] = view
    if K[0, 0] == K[1, 1] and K[0, 1] == 0:
        camera |= {"focal": float(K[0, 0]), "centre": K[:2, 2].tolist()}
    else:
        camera["K"] = K.tolist()
