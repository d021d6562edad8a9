"""Numbers of a scene that have a place of their own in MuJoCo's model: worlds that differ in these alone share one model.

To build a model takes longer than to move it through a short clip. Damping, dry friction and armature of joints, masses without contact,
and friction of surfaces are set in a copy; for anything else a model is built anew.
"""

from collections.abc import Callable, Iterable
from typing import Any

from gradsim.scene.body import Rigid
from gradsim.scene.exporters.twin import Hinge, Twin
from gradsim.scene.scene import Scene

# Attributes of joints, and arrays of MuJoCo's model by degree of freedom
OF_JOINTS = {"damping": "dof_damping", "friction": "dof_frictionloss", "armature": "dof_armature"}
INERTIAL = ("armature", "mass")  # after which MuJoCo derives other numbers anew

Setter = Callable[[Any, float], None]


def setters(scene: Scene, twin: Twin, names: Iterable[str]) -> dict[str, Setter] | None:
    """Functions that put these numbers into MuJoCo's model; None where one of them has no place of its own.

    Args:
        scene: The scene.
        twin: Its twin, of which the model is.
        names: Names of parameters.
    """
    table = {name: _setter(scene, twin, name) for name in names}
    return None if None in table.values() else table  # pyright: ignore[reportReturnType]


def changes_inertia(names: Iterable[str]) -> bool:
    """True if MuJoCo's model has to be made consistent (`mj_setConst`) after these numbers are set."""
    return any(name.endswith(INERTIAL) for name in names)


def _setter(scene: Scene, twin: Twin, name: str) -> Setter | None:
    owner, _, key = name.rpartition(".")
    joints = {f"joints.{joint.name}": joint for joint in twin.tree.values()}
    if key in INERTIAL and _has_coupled_inertia(scene, twin):
        return None
    if owner in joints and key in OF_JOINTS:
        return _of_joint(joints[owner], key)
    body = scene.bodies.get(owner)
    if isinstance(body, Rigid) and key == "mass" and body.mass is not None and not _touches(scene, twin, owner):
        return _of_mass(owner, body.inertia is None)
    if owner in scene.surfaces and key == "friction" and not any(key in link.contact for link in twin.links.values()):
        return _of_friction(owner, getattr(scene.surfaces[owner], key))
    return None


def _has_coupled_inertia(scene: Scene, twin: Twin) -> bool:
    """True if other numbers of the model come from inertias: velocities after impulses, springs of limits."""
    pushed = any(body.pushes for body in scene.bodies.values() if isinstance(body, Rigid))
    return pushed or any(joint.has_limits for joint in (*twin.tree.values(), *twin.loops))


def _touches(scene: Scene, twin: Twin, body: str) -> bool:
    collides = any(form.collides for form in twin.links[body].forms)
    return collides and bool(scene.surfaces or any(body in pair[:2] for pair in twin.pairs))


def _of_joint(joint: Hinge, key: str) -> Setter | None:
    if joint.kind == "fixed" or (joint.kind == "ball" and key == "armature"):
        return None
    dofs = 3 if joint.kind == "ball" else 1

    def put(model: Any, value: float) -> None:
        first = int(model.joint(joint.name).dofadr[0])
        getattr(model, OF_JOINTS[key])[first : first + dofs] = value

    return put


def _of_mass(body: str, of_shape: bool) -> Setter:
    def put(model: Any, value: float) -> None:
        k = model.body(body).id
        if of_shape:
            model.body_inertia[k] *= value / model.body_mass[k]
        model.body_mass[k] = value

    return put


def _of_friction(surface: str, of_scene: float) -> Setter | None:
    if not of_scene:
        return None

    def put(model: Any, value: float) -> None:
        touching = (model.pair_geom1 == (k := model.geom(surface).id)) | (model.pair_geom2 == k)
        model.pair_friction[touching, :2] *= value / of_scene

    return put
