"""The physical parameters of a scene, by dotted name: what a model can differentiate and a fit can solve for."""

import difflib
import math
from dataclasses import dataclass

import numpy as np

from gradsim.errors import InputError

AXES = {"x": 0, "y": 1, "z": 2}


@dataclass(frozen=True)
class Parameter:
    """A number or a vector.

    Args:
        value: The scene's, () or (n,).
        unit: SI.
        positive: Whether it is above 0, so that its logarithm is the natural unknown.
        lower: Least value that is physical.
        upper: Largest.
    """

    value: np.ndarray
    unit: str
    positive: bool = False
    lower: float = -math.inf
    upper: float = math.inf


def parameters(scene) -> dict[str, Parameter]:
    """All parameters of a scene: `cube.mass`, `cube.velocity`, `ground.friction`, `bob.angle`, `camera.focal` …"""
    found = {"gravity": _any(scene.gravity, "m/s²")}
    for name, body in scene.bodies.items():
        own = _pendulum(body) if body.kind == "pendulum" else _rigid(body)
        found |= {f"{name}.{key}": p for key, p in own.items()}
    for name, ground in scene.grounds.items():
        found |= {f"{name}.{key}": p for key, p in _ground(ground).items()}
    if scene.camera is not None:
        found |= {f"camera.{key}": p for key, p in _camera(scene.camera).items()}
    return found


def resolve(scene, dotted: str) -> tuple[str, int | None]:
    """The parameter that a name means, and the component: "cube.position.x" is ("cube.position", 0).

    Raises:
        InputError: If the scene has no such parameter; it suggests one.
    """
    known = parameters(scene)
    if dotted in known:
        return dotted, None
    name, _, axis = dotted.rpartition(".")
    if name in known and known[name].value.ndim and AXES.get(axis, 9) < len(known[name].value):
        return name, AXES[axis]
    every = [*known, *(f"{n}.{a}" for n, p in known.items() if p.value.ndim for a in list(AXES)[: len(p.value)])]
    close = difflib.get_close_matches(dotted, every, 1)
    hint = f"did you mean `{close[0]}`?" if close else f"it has {', '.join(known)}."
    raise InputError(f"the scene has no parameter `{dotted}`; {hint}")


def _rigid(body) -> dict[str, Parameter]:
    inertial = {"mass": _above(body.mass, "kg")} if body.mass is not None else {"density": _above(body.density, "kg/m³")}
    own = {
        **inertial,
        "scale": _above(body.scale, ""),
        "position": _any(body.position, "m"),
        "rotation_vector": _any(body.rotation_vector, "rad"),
        "velocity": _any(body.velocity, "m/s"),
        "angular_velocity": _any(body.angular_velocity, "rad/s"),
    }
    for k, push in enumerate(body.pushes):
        if push.force is not None:
            own[f"pushes.{k}.force"] = _any(push.force, "N")
        else:
            own[f"pushes.{k}.impulse"] = _any(push.impulse, "N s")
    return own


def _pendulum(body) -> dict[str, Parameter]:
    return {
        "pivot": _any(body.pivot, "m"),
        "string_length": _above(body.string_length, "m"),
        "radius": _above(body.radius, "m"),
        "angle": _any(body.angle, "rad"),
        "rate": _any(body.rate, "rad/s"),
        "damping": _least(body.damping, "1/s"),
        "drag": _least(body.drag, "1/rad"),
    }


def _ground(ground) -> dict[str, Parameter]:
    law = {"dissipation": _least(ground.dissipation, "s/m")}
    if ground.law != "continuous":
        law = {"damping": _least(ground.damping, "N s/m")}
    return {
        "height": _any(ground.height, "m"),
        "normal": _any(ground.normal, ""),
        "stiffness": _above(ground.stiffness, "N/m"),
        **law,
        "friction_stiffness": _least(ground.friction_stiffness, "N s/m"),
        "friction": _least(ground.friction, ""),
    }


def _camera(camera) -> dict[str, Parameter]:
    """Focal length and principal point [px], and the translation world → camera [m]."""
    K, _, t = camera.matrices()
    return {"focal": _above(K[1, 1], "px"), "centre": _any(K[:2, 2], "px"), "translation": _any(t, "m")}


def _any(value, unit: str) -> Parameter:
    return Parameter(np.asarray(value, np.float64), unit)


def _above(value: float, unit: str) -> Parameter:
    return Parameter(np.asarray(value, np.float64), unit, positive=True, lower=0.0)


def _least(value: float, unit: str) -> Parameter:
    """At least 0: solved for by its logarithm, in a range above 0."""
    return Parameter(np.asarray(value, np.float64), unit, positive=True, lower=0.0)
