"""A twin as URDF: one robot for each tree of joints.

A link that a joint holds has its origin at the joint, as URDF demands, and the axes of the body of the scene; the root of a tree has
it at the center of mass. Angles `rpy` are about the fixed axes x, y, z.
"""

import xml.etree.ElementTree as xml
from collections.abc import Mapping

import numpy as np
from scipy.spatial.transform import Rotation

from gradsim.geometry.mesh import Mesh
from gradsim.scene.exporters.contact import in_words
from gradsim.scene.exporters.mjcf import geom_name, header
from gradsim.scene.exporters.text import document, element, numbers
from gradsim.scene.exporters.twin import Form, Hinge, Twin

KINDS = {"prismatic": "prismatic", "ball": "spherical", "fixed": "fixed"}
NO_LIMIT = 1e9  # effort, rate and displacement where the scene has no limit
LOCK = 1e-7  # of cos(pitch), below which roll is 0
CONVENTIONS = (
    "Units: m, kg, s, rad. z is up; rpy about the fixed axes x, y, z. Origin of a link: its joint, of a root its center of mass; "
    "axes as in the scene."
)
WORLD = "world"


def urdf(twin: Twin, provenance: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Mesh], list[str]]:
    """URDF texts of a twin by file name, its mesh files by name, and notes on what they cannot say.

    Args:
        twin: The twin.
        provenance: Texts by key, written as a comment.
    """
    meshes: dict[str, Mesh] = {}
    roots = twin.children(None)
    common = list(twin.notes) + _unsaid(twin)
    texts, notes = {}, list(common)
    for root in roots:
        robot, remarks = xml.Element("robot", {"name": root}), []
        if root in twin.tree:
            element(robot, "link", name=WORLD)
        _link(robot, root, twin, meshes, remarks)
        remarks += _start(root, twin)
        text = document(robot, [header(provenance, CONVENTIONS, list(dict.fromkeys(common + remarks)))])
        texts["model.urdf" if len(roots) == 1 else f"{root}.urdf"] = text
        notes += remarks
    return texts, meshes, list(dict.fromkeys(notes))


def rpy(turn: Rotation) -> np.ndarray:
    """Roll, pitch and yaw about the fixed axes x, y and z [rad]; the roll is 0 where the pitch is a right angle."""
    R = turn.as_matrix()
    level = float(np.hypot(R[0, 0], R[1, 0]))
    pitch = np.arctan2(-R[2, 0], level)
    if level < LOCK:
        return np.array([0.0, pitch, np.arctan2(-R[0, 1], R[1, 1])])
    return np.array([np.arctan2(R[2, 1], R[2, 2]), pitch, np.arctan2(R[1, 0], R[0, 0])])


def _link(robot: xml.Element, name: str, twin: Twin, meshes: dict[str, Mesh], notes: list[str]) -> None:
    """Add a link, the joint that holds it, and its children."""
    link, joint = twin.links[name], twin.tree.get(name)
    origin = joint.child_point if joint else np.zeros(3)
    node = element(robot, "link", name=name)
    inertial = element(node, "inertial")
    element(inertial, "origin", xyz=-origin, rpy=np.zeros(3))
    element(inertial, "mass", value=link.mass)
    I = link.inertia
    entries = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
    element(inertial, "inertia", **{key: I[at] for key, at in entries.items()})
    for k, form in enumerate(link.forms):
        for tag in ("visual", "collision") if form.collides else ("visual",):
            _shape(
                element(node, tag), geom_name(name, k).removesuffix("_geom"), form, form.centre - origin, tag, meshes
            )
    if joint:
        _joint(robot, joint, twin, notes)
    for child in twin.children(name):
        _link(robot, child, twin, meshes, notes)


def _shape(node: xml.Element, name: str, form: Form, place: np.ndarray, tag: str, meshes: dict[str, Mesh]) -> None:
    element(node, "origin", xyz=place, rpy=rpy(Rotation.from_quat(form.quat_xyzw)))
    geometry = element(node, "geometry")
    match form.kind:
        case "box":
            element(geometry, "box", size=form.size)
        case "sphere":
            element(geometry, "sphere", radius=form.size[0])
        case "cylinder":
            element(geometry, "cylinder", radius=form.size[0], length=form.size[1])
        case _:
            meshes[name] = form.mesh
            element(geometry, "mesh", filename=f"meshes/{name}.obj")
    if tag == "visual":
        material = element(node, "material", name=f"{name}_color")
        element(material, "color", rgba=(*form.color, 1.0))


def _joint(robot: xml.Element, joint: Hinge, twin: Twin, notes: list[str]) -> None:
    holder = twin.tree.get(joint.parent or "")
    at = joint.parent_point - (holder.child_point if holder else np.zeros(3))
    limited = joint.has_limits
    kind = KINDS.get(joint.kind, "revolute" if limited else "continuous")
    node = element(robot, "joint", name=joint.name, type=kind)
    element(node, "parent", link=joint.parent or WORLD)
    element(node, "child", link=joint.child)
    Q = Rotation.from_quat(joint.quat_xyzw)
    element(node, "origin", xyz=at, rpy=rpy(Q))
    if joint.kind == "ball":
        notes.append(
            f"`{joint.name}`: URDF has no ball joint; `spherical` is an extension, which MuJoCo and Bullet read."
        )
    if joint.kind in ("revolute", "prismatic"):
        element(node, "axis", xyz=Q.inv().apply(joint.axis))
        ends = {"lower": joint.lower, "upper": joint.upper}
        if limited or joint.kind == "prismatic":
            ends = {k: e if e is not None else (-NO_LIMIT if k == "lower" else NO_LIMIT) for k, e in ends.items()}
            element(node, "limit", **ends, effort=NO_LIMIT, velocity=NO_LIMIT)
    if joint.kind != "fixed" and (joint.damping or joint.friction):
        element(node, "dynamics", damping=joint.damping, friction=joint.friction)
    said = {
        "a spring of {:g} about {:g}": (joint.stiffness, joint.target),
        "a constant force or torque of its motor, {:g}": (joint.effort,),
        "quadratic drag of {:g}": (joint.drag,),
        "an armature of {:g}": (joint.armature,),
        "the stiffness {:g} of its limits": (joint.limit_stiffness,) if limited else (0.0,),
    }
    notes += [f"`{joint.name}`: {words.format(*values)}." for words, values in said.items() if values[0]]


def _start(root: str, twin: Twin) -> list[str]:
    """Sentences on the state of a robot at the start, which URDF has no place for."""
    link = twin.links[root]
    notes = []
    if root not in twin.tree:
        notes.append(
            f"`{root}` at the start: position {numbers(link.x)}, quaternion x y z w {numbers(link.quat_xyzw)}, velocity "
            f"{numbers(link.v)}, angular velocity {numbers(link.w)} (world)."
        )
    joints = [twin.tree[name] for name in twin.below(root) if name in twin.tree]
    for joint in [joint for joint in joints if joint.kind != "fixed"]:
        at, rate = (numbers(np.atleast_1d(value)) for value in (joint.start, joint.rate))
        notes.append(f"`{joint.name}` at the start: {at}, its rate {rate}.")
    return notes


def _unsaid(twin: Twin) -> list[str]:
    """Sentences on what URDF has no place for."""
    notes = [f"gravity {numbers(twin.gravity)} m/s²."]
    for static in twin.statics:
        notes.append(f"`{static.name}`: a {static.kind} at {numbers(static.position)}; {in_words(static.contact)}.")
    notes += [f"`{view.name}`: a camera." for view in twin.views]
    kinds = {name: body.kind for name, body in twin.soft.items()} | {
        name: "cloth" if lumps.is_sheet else "solid" for name, lumps in twin.solids.items()
    }
    notes += [f"`{name}`: a soft body of kind {kind}." for name, kind in kinds.items()]
    notes += [f"`{loop.name}`: a joint that closes a loop." for loop in twin.loops]
    notes += [f"`{force.name}`: a constant force on `{force.link}`." for force in twin.forces]
    notes += [f"contact between `{first}` and `{second}`." for first, second, _ in twin.pairs]
    return notes
