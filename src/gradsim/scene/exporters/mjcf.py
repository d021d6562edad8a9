"""A twin as MJCF, the format of MuJoCo.

Bodies form the tree of the joints; the frame of each has its origin at the center of mass and the axes of the body of the scene.
The keyframe `start` has positions, velocities and controls of the start. Only what collides in the scene collides in the model:
each pair of geoms is a `pair` element with the numbers of `contact.py`. Geoms have bits so that bodies and grounds also collide
with geoms that are added later, by their own numbers, but not with one another.

Coordinates of MuJoCo: a free body has the velocity of its origin in the world and the angular velocity in its own axes; a ball
joint the rotation and angular velocity in the axes of the child. With Q the orientation of the child in the parent at 0, a
rotation vector θ and a rate ω of the scene, in the parent, are Qᵀ θ and (exp(θ) Q)ᵀ ω.
"""

import xml.etree.ElementTree as xml
from collections.abc import Mapping

import numpy as np
from scipy.spatial.transform import Rotation

from gradsim.geometry.mesh import Mesh
from gradsim.scene.exporters.contact import IMPEDANCE, IMPRATIO, contacts
from gradsim.scene.exporters.draft import Draft
from gradsim.scene.exporters.flex import add_pairs, add_solids
from gradsim.scene.exporters.links import at_zero, mass_matrix, rates
from gradsim.scene.exporters.text import document, element, numbers, wxyz
from gradsim.scene.exporters.twin import Form, Hinge, Static, Twin, View

ROUND_SHAPES = ("cylinder", "capsule")
ROUND_SHAPE = "`{}`: a round {}; that of the scene has corners, and its mass and inertia are of those."
OWN_SHAPES = ("box", "sphere", *ROUND_SHAPES)
NO_LIMIT = 1e6  # the other end of a range with one limit
CONVENTIONS = (
    "Units: m, kg, s, rad. z is up; quaternions are w x y z. Frames of bodies: origin at the center of mass, axes as in the scene. "
    "Keyframe `start`: the state at the first frame of the scene; load it before the first step."
)
LOOP_SOLVER = {"solref": "0.002 1", "solimp": "0.9999 0.9999 0.001 0.5 1"}  # of joints that close loops


def mjcf(
    twin: Twin,
    timestep: float,
    provenance: Mapping[str, str],
) -> tuple[str, dict[str, Mesh], list[str]]:
    """MJCF text of a twin, its mesh files by name, and notes on what it cannot say.

    Args:
        twin: The twin.
        timestep: Time step of the model [s].
        provenance: Texts by key, written as comment and custom texts.
    """
    draft = Draft(twin, notes=list(twin.notes), laws=contacts(twin))
    root = xml.Element("mujoco", {"model": twin.name})
    element(root, "compiler", angle="radian", autolimits="true", meshdir="meshes", fusestatic="false")
    hard = {"cone": "elliptic", "impratio": IMPRATIO}
    element(root, "option", timestep=timestep, gravity=twin.gravity, integrator="RK4", **hard)
    _custom(root, provenance)
    assets, world = element(root, "asset"), element(root, "worldbody")
    for static in twin.statics:
        _static(world, static)
    for view in twin.views:
        _camera(world, view, draft)
    if twin.forces or twin.loops:
        element(world, "site", name="world_axes", size=1e-3, group="5")
    limits = _limit_weights(twin)
    for name in twin.children(None):
        _body(world, name, draft, limits)
    draft.notes += [f"`{name}`: a soft body of kind {body.kind}; left out." for name, body in twin.soft.items()]
    add_solids(root, world, draft)
    _contact(root, draft)
    _equality(root, draft)
    _actuators(root, draft)
    if draft.qpos or draft.ctrl:
        keyframe = element(root, "keyframe")
        state = {"qpos": draft.qpos or None, "qvel": draft.qvel or None, "ctrl": draft.ctrl or None}
        element(keyframe, "key", name="start", **state)
    for name in draft.meshes:
        element(assets, "mesh", name=name, file=f"{name}.obj")
    notes = list(dict.fromkeys(draft.notes))
    return document(root, [header(provenance, CONVENTIONS, notes)]), draft.meshes, notes


def header(provenance: Mapping[str, str], conventions: str, notes: list[str]) -> str:
    """Comment at the top of a model."""
    lines = [f"{key}: {text}" for key, text in provenance.items()]
    lines += [conventions]
    if notes:
        lines += ["Not in the model, or approximated:", *(f"  {note}" for note in notes)]
    return "\n".join(["Made by gradsim export.", *lines])


def _custom(root: xml.Element, provenance: Mapping[str, str]) -> None:
    custom = element(root, "custom")
    for key, text in provenance.items():
        element(custom, "text", name=f"gradsim {key}", data=text)


def _body(parent: xml.Element, name: str, draft: Draft, limits: Mapping[str, float]) -> None:
    """Add a link with its joint, its shapes and its children."""
    twin, link = draft.twin, draft.twin.links[name]
    joint = twin.tree.get(name)
    if joint is None:
        body = element(parent, "body", name=name, pos=link.x, quat=wxyz(link.quat_xyzw))
    else:
        Q = Rotation.from_quat(joint.quat_xyzw)
        body = element(
            parent,
            "body",
            name=name,
            pos=joint.parent_point - Q.apply(joint.child_point),
            quat=wxyz(joint.quat_xyzw),
        )
    I = link.inertia
    full = (I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
    element(body, "inertial", pos=np.zeros(3), mass=link.mass, fullinertia=full)
    if joint is None:
        element(body, "freejoint", name=f"{name}_free")
        turn = Rotation.from_quat(link.quat_xyzw)
        draft.qpos += [*link.x, *map(float, wxyz(link.quat_xyzw).split())]
        draft.qvel += [*link.v, *turn.inv().apply(link.w)]
    else:
        _joint(body, joint, draft, limits)
    friction = next((law.friction for (_, other), (law, _) in draft.laws.items() if other == name), None)
    for k, form in enumerate(link.forms):
        _geom(body, geom_name(name, k), form, draft, friction)
    for force in [force for force in twin.forces if force.link == name]:
        element(body, "site", name=force.name, pos=force.point, size=1e-3, group="5")
    for loop in twin.loops:
        for k, (end, points) in enumerate(zip((loop.parent, loop.child), loop_points(loop), strict=True)):
            if end == name:
                for j, point in enumerate(points):
                    element(body, "site", name=f"{loop.name}_{k}{j}", pos=point, size=1e-3, group="5")
    for child in twin.children(name):
        _body(body, child, draft, limits)


def geom_name(link: str, k: int = 0) -> str:
    """Name of the k-th geom of a link."""
    return f"{link}_geom{k}" if k else f"{link}_geom"


def _joint(body: xml.Element, joint: Hinge, draft: Draft, limits: Mapping[str, float]) -> None:
    Q = Rotation.from_quat(joint.quat_xyzw)
    match joint.kind:
        case "fixed":
            return
        case "ball":
            turned = Rotation.from_rotvec(joint.start) * Q
            quat = Rotation.from_rotvec(Q.inv().apply(joint.start)).as_quat()
            draft.qpos += map(float, wxyz(quat).split())
            draft.qvel += turned.inv().apply(joint.rate).tolist()
        case _:
            draft.qpos.append(float(joint.start))
            draft.qvel.append(float(joint.rate))
    damping = numbers((joint.damping, joint.drag)) if joint.drag else joint.damping
    attributes: dict = {"name": joint.name, "pos": joint.child_point, "damping": damping}
    attributes["type"] = {"revolute": "hinge", "prismatic": "slide", "ball": "ball"}[joint.kind]
    if joint.kind != "ball":
        attributes["axis"] = Q.inv().apply(joint.axis)
    if joint.armature:
        attributes["armature"] = joint.armature
    if joint.friction:
        attributes["frictionloss"] = joint.friction
        draft.notes.append(
            f"`{joint.name}`: dry friction is MuJoCo's soft constraint; that of the scene is smooth below its friction_rate or friction_speed."
        )
    if joint.stiffness:
        attributes |= {"stiffness": joint.stiffness, "springref": joint.target}
    if joint.has_limits:
        ends = (-NO_LIMIT if joint.lower is None else joint.lower, NO_LIMIT if joint.upper is None else joint.upper)
        attributes |= {"range": ends, "solreflimit": (-joint.limit_stiffness * limits[joint.name], 0.0)}
        attributes["solimplimit"] = (IMPEDANCE, IMPEDANCE, 1e-3, 0.5, 1.0)
    if joint.drag:
        draft.notes.append(f"`{joint.name}`: its quadratic drag needs MuJoCo 4 (two numbers in `damping`).")
    element(body, "joint", **attributes)


def _geom(body: xml.Element, name: str, form: Form, draft: Draft, friction: float | None) -> None:
    bits = {"contype": "1", "conaffinity": "0"} if form.collides else {"contype": "0", "conaffinity": "0"}
    attributes: dict = {"name": name, "pos": form.centre, "rgba": (*form.color, 1.0), **bits}
    if form.collides and friction is not None:
        attributes["friction"] = (friction, 0.0, 0.0)  # against geoms that are added later
    if tuple(form.quat_xyzw) != (0.0, 0.0, 0.0, 1.0):
        attributes["quat"] = wxyz(form.quat_xyzw)
    if form.kind in OWN_SHAPES:
        element(body, "geom", type=form.kind, size=sizes(form.kind, form.size), **attributes)
        if form.kind in ROUND_SHAPES and form.collides:
            draft.notes.append(ROUND_SHAPE.format(name, form.kind))
        return
    mesh = f"{name.removesuffix('_geom')}"
    draft.meshes[mesh] = form.mesh
    element(body, "geom", type="mesh", mesh=mesh, **attributes)
    if form.collides and not form.mesh.convex:
        draft.notes.append(f"`{name}`: MuJoCo collides with the convex hull of its mesh.")


def sizes(kind: str, size: tuple[float, ...]) -> tuple[float, ...]:
    """Sizes of a geom of MuJoCo: halves of edges and heights."""
    return tuple(s / 2 for s in size) if kind == "box" else (size[0], *(h / 2 for h in size[1:]))


def _static(world: xml.Element, static: Static) -> None:
    bits = {"contype": "0", "conaffinity": "1"}
    place = {"name": static.name, "pos": static.position, "quat": wxyz(static.quat_xyzw)}
    size = (0.0, 0.0, 1.0) if static.kind == "plane" else sizes(static.kind, static.size)
    friction = (static.contact.friction, 0.0, 0.0)
    element(world, "geom", type=static.kind, size=size, rgba=(*static.color, 1.0), friction=friction, **place, **bits)


def _camera(world: xml.Element, view: View, draft: Draft) -> None:
    """A fixed camera, which looks along −z with y up; off its center or with oblong pixels by a sensor of 1 px per unit."""
    (fx, _, cx), (_, fy, cy), _ = view.K
    width, height = view.size
    axes = (*view.R[0], *-view.R[1])
    attributes: dict = {"name": view.name, "pos": view.eye, "xyaxes": axes, "resolution": (width, height)}
    if fx == fy and (cx, cy) == (width / 2, height / 2):
        fovy = 2 * np.degrees(np.arctan(height / 2 / fy))  # in degrees whatever `compiler angle` says
        element(world, "camera", fovy=fovy, **attributes)
        return
    # of MuJoCo: how far the center of the image is to the right of the principal point, and below it
    off = (width / 2 - cx, height / 2 - cy)
    sensor = (width * 1e-5, height * 1e-5)
    element(world, "camera", sensorsize=sensor, focalpixel=(fx, fy), principalpixel=off, **attributes)


def _limit_weights(twin: Twin) -> dict[str, float]:
    """Diagonal of M⁻¹ where all coordinates are 0, by joint: MuJoCo's estimate of A of a limit."""
    if not any(joint.has_limits for joint in twin.tree.values()):
        return {}
    zero = at_zero(twin)
    count = rates(zero)
    first = dict(zip(count, np.cumsum([0, *count.values()]), strict=False))
    inverse = np.linalg.inv(mass_matrix(zero))
    return {
        joint.name: float(inverse[first[child], first[child]])
        for child, joint in zero.tree.items()
        if count[child] == 1
    }


def _contact(root: xml.Element, draft: Draft) -> None:
    twin, section = draft.twin, element(root, "contact")
    statics = {static.name for static in twin.statics}
    for (first, second), (_, soft) in draft.laws.items():
        other = first if first in statics else geom_name(first)
        element(
            section,
            "pair",
            name=f"{first}_{second}",
            geom1=other,
            geom2=geom_name(second),
            condim=soft.dimensions,
            **soft.attributes,
        )
    add_pairs(section, twin)


def loop_points(loop: Hinge) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Points of parent and child that a joint which closes a loop holds together: one, or two along the axis of a hinge."""
    if loop.kind != "revolute":
        return [loop.parent_point], [loop.child_point]
    arm = max(float(np.linalg.norm(loop.child_point)), 0.1)
    along = Rotation.from_quat(loop.quat_xyzw).inv().apply(loop.axis)
    return (
        [loop.parent_point + s * arm * loop.axis for s in (-0.5, 0.5)],
        [loop.child_point + s * arm * along for s in (-0.5, 0.5)],
    )


def _equality(root: xml.Element, draft: Draft) -> None:
    world = root.find("worldbody")
    if not draft.twin.loops or world is None:
        return
    section = element(root, "equality")
    for loop in draft.twin.loops:
        points = loop_points(loop)[0]
        if loop.parent is None:
            for j, point in enumerate(points):
                element(world, "site", name=f"{loop.name}_0{j}", pos=point, size=1e-3, group="5")
        if loop.kind in ("ball", "revolute"):
            for j in range(len(points)):
                ends = {"site1": f"{loop.name}_0{j}", "site2": f"{loop.name}_1{j}"}
                element(section, "connect", name=f"{loop.name}_{j}", **ends, **LOOP_SOLVER)
            draft.notes.append(f"`{loop.name}` closes a loop: a soft constraint of MuJoCo.")
        else:
            draft.notes.append(
                f"`{loop.name}` closes a loop: a {loop.kind} joint is not a constraint of MuJoCo's; left out."
            )
        if loop.stiffness or loop.damping or loop.friction or loop.armature or loop.effort or loop.has_limits:
            draft.notes.append(
                f"`{loop.name}` closes a loop: its spring, damper, friction, armature, motor and limits are left out."
            )


def _actuators(root: xml.Element, draft: Draft) -> None:
    twin = draft.twin
    motors = [joint for joint in twin.tree.values() if joint.effort]
    if not (motors or twin.forces):
        return
    section = element(root, "actuator")
    for joint in motors:
        element(section, "motor", name=f"{joint.name}_motor", joint=joint.name, gear=1.0)
        draft.ctrl.append(joint.effort)
    for force in twin.forces:
        gear = (*force.force, 0.0, 0.0, 0.0)
        element(section, "motor", name=force.name, site=force.name, refsite="world_axes", gear=gear)
        draft.ctrl.append(1.0)
