"""Links, joints and states at the start of a scene's rigid bodies.

Forward kinematics as in `gradsim.physics.rigid.joint_frames`, in NumPy. An impulse at the start becomes a velocity:

    v = v₀ + J/m,   ω = ω₀ + I⁻¹ (r × J)      of a body without joints
    q̇ = q̇₀ + M⁻¹ Σ Gᵀ J                       of bodies with joints; G: velocity of the point by the rates q̇, M: mass matrix
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.spatial.transform import Rotation

from gradsim.geometry import mesh as meshes
from gradsim.scene.body import Rigid
from gradsim.scene.exporters.orientation import orientation_of
from gradsim.scene.exporters.twin import Form, Hinge, Link, Twin
from gradsim.scene.joint import WORLD, AnyJoint, Ball, Fixed, Prismatic, Revolute, placing_joints
from gradsim.scene.parameters import CONTACT
from gradsim.scene.recordings.pose import PoseMotion
from gradsim.scene.scene import Scene
from gradsim.scene.shape import Shape

PRIMITIVES = ("box", "sphere", "cylinder", "capsule", "cone")
LATER_PUSH = (
    "`{0}`: its push at {1} s is not part of the model; apply {2} {3} at {4} (body frame, from the center of mass)."
)


HELD = "{0}: its motion of {1} samples; the model holds the {2} where it starts (a mocap body of MuJoCo could move it)."


def add_rigid_bodies(scene: Scene, twin: Twin) -> None:
    """Add all rigid bodies and joints of a scene to a twin, at their start, with the impulses at time 0."""
    bodies = {name: body for name, body in scene.bodies.items() if isinstance(body, Rigid)}
    for name, body in bodies.items():
        twin.links[name] = _link(name, body)
        twin.notes += _unsaid(name, body)
    joints = {name: _hinge(name, joint, bodies, twin) for name, joint in scene.joints.items()}
    placements = placing_joints(scene.joints) | {name: f"{name}_motion" for name in scene.recorded}
    for name, motion in scene.recorded.items():
        weld = Fixed(kind="fixed", between=(WORLD, name), motion=motion)
        joints[f"{name}_motion"] = _hinge(f"{name}_motion", weld, bodies, twin)
        twin.notes.append(HELD.format(f"`{name}`", len(motion.times), "body"))
    twin.notes += [
        HELD.format(f"joints.{name}", len(joint.motion.times), "world's side")
        for name, joint in scene.joints.items()
        if joint.motion is not None
    ]
    twin.tree |= {child: joints[name] for child, name in placements.items()}
    place_children(twin)
    for name in [name for name in joints if name not in placements.values()]:
        twin.loops.append(_closed(joints[name], twin))
    _push(bodies, twin)


def place_children(twin: Twin) -> None:
    """Set the initial states of all links that joints place, parents first."""
    for child, joint in twin.tree.items():
        link = twin.links[child]
        R, x, v, w = _moving(twin, joint.parent)
        turn, rate, slide, speed = coordinates(joint)
        turned = Rotation.from_rotvec(turn) * Rotation.from_quat(joint.quat_xyzw)
        R_child = R @ turned.as_matrix()
        spin, arm = w + R @ rate, R_child @ joint.child_point
        at = R @ (joint.parent_point + slide)
        velocity = v + np.cross(w, at) + R @ speed - np.cross(spin, arm)
        quat = Rotation.from_matrix(R_child).as_quat() if joint.parent else turned.as_quat()
        twin.links[child] = replace(link, x=x + at - arm, quat_xyzw=quat, v=velocity, w=spin)


def at_zero(twin: Twin) -> Twin:
    """The twin with all coordinates of joints, and their rates, at 0."""
    still = replace(twin, links=dict(twin.links), tree={})
    for child, joint in twin.tree.items():
        zero = np.zeros(3) if joint.kind == "ball" else 0.0
        still.tree[child] = replace(joint, start=zero, rate=zero)
    place_children(still)
    return still


def coordinates(joint: Hinge) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rotation and its rate, displacement and its speed at the start, in the frame of the parent (3,) each."""
    nothing = np.zeros(3)
    match joint.kind:
        case "ball":
            return np.asarray(joint.start), np.asarray(joint.rate), nothing, nothing
        case "revolute":
            return joint.start * joint.axis, joint.rate * joint.axis, nothing, nothing
        case "prismatic":
            return nothing, nothing, joint.start * joint.axis, joint.rate * joint.axis
    return nothing, nothing, nothing, nothing


def rates(twin: Twin) -> dict[str, int]:
    """Number of degrees of freedom of each link relative to its parent, in the order of the mass matrix."""
    count = {"revolute": 1, "prismatic": 1, "ball": 3, "fixed": 0}
    ordered = [*[name for name in twin.links if name not in twin.tree], *twin.tree]
    return {name: count[twin.tree[name].kind] if name in twin.tree else 6 for name in ordered}


def jacobian(twin: Twin, name: str, point: np.ndarray) -> np.ndarray:
    """Velocity of a point of a link, and its angular velocity, by all rates (6, n), at the start.

    A link without a joint has the rates of its velocity and angular velocity in the world; a ball joint those of the angular
    velocity in the frame of the child.

    Args:
        twin: Links and joints.
        name: Link.
        point: In its frame, from the center of mass (3,).
    """
    count = rates(twin)
    first = dict(zip(count, np.cumsum([0, *count.values()]), strict=False))
    G = np.zeros((6, sum(count.values())))
    link = twin.links[name]
    at = link.x + Rotation.from_quat(link.quat_xyzw).apply(point)
    body: str | None = name
    while body is not None:
        columns = slice(first[body], first[body] + count[body])
        if body not in twin.tree:
            arm = at - twin.links[body].x
            G[:3, columns] = np.hstack([np.eye(3), -_skew(arm)])
            G[3:, columns] = np.hstack([np.zeros((3, 3)), np.eye(3)])
            return G
        joint = twin.tree[body]
        R = Rotation.from_quat(twin.links[body].quat_xyzw).as_matrix()
        pivot = twin.links[body].x + R @ joint.child_point
        axis = _moving(twin, joint.parent)[0] @ joint.axis
        if joint.kind == "revolute":
            G[:, columns] = np.concatenate([np.cross(axis, at - pivot), axis])[:, None]
        elif joint.kind == "prismatic":
            G[:3, columns] = axis[:, None]
        elif joint.kind == "ball":
            G[:, columns] = np.vstack([-_skew(at - pivot) @ R, R])
        body = joint.parent
    return G


def mass_matrix(twin: Twin) -> np.ndarray:
    """M (n, n) at the start, in the order of `rates`: kinetic energy ½ q̇ᵀ M q̇."""
    total = sum(rates(twin).values())
    M = np.zeros((total, total))
    for name, link in twin.links.items():
        G = jacobian(twin, name, np.zeros(3))
        R = Rotation.from_quat(link.quat_xyzw).as_matrix()
        M += link.mass * G[:3].T @ G[:3] + G[3:].T @ (R @ link.inertia @ R.T) @ G[3:]
    count = rates(twin)
    for name, first in zip(count, np.cumsum([0, *count.values()]), strict=False):
        if name in twin.tree and twin.tree[name].armature:
            M[first, first] += twin.tree[name].armature
    return M


def _link(name: str, body: Rigid) -> Link:
    surface = _surface if body.shape.mesh_file is None else _surface.__wrapped__  # a file may have changed
    mesh = surface(body.shape, f"bodies.{name}.shape")  # pyright: ignore[reportArgumentType]  frozen nodes have a hash
    mass, inertia, centre = _mass_properties(body, mesh)
    kind, size = _primitive(body)
    scaled = meshes.Mesh(mesh.vertices * body.scale, mesh.faces)
    form = Form(kind, size, scaled, -centre * body.scale, color=tuple(body.colour), collides=body.collision != "none")
    contact = {key: value for key in CONTACT if (value := getattr(body, key)) is not None}
    v, w = (np.array(vector, np.float64) for vector in (body.velocity, body.angular_velocity))
    return Link(
        name, mass, inertia, (form,), np.array(body.position, np.float64), orientation_of(body).as_quat(), v, w, contact
    )


def _mass_properties(body: Rigid, mesh: meshes.Mesh) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass [kg], inertia about the center of mass (3, 3) [kg m²], and that center in the shape at scale 1 (3,) [m]."""
    import torch

    from gradsim.numerics.pseudo_inertia import inertia_of

    volume, shape_centre, shape_inertia = _solid(mesh.vertices.tobytes(), mesh.faces.tobytes())
    centre = shape_centre if body.centre_of_mass is None else np.array(body.centre_of_mass)
    mass = body.mass if body.mass is not None else (body.density or 0.0) * volume * body.scale**3
    if body.inertia is not None:
        axes = Rotation.from_quat(body.inertia_quat_xyzw).as_matrix()
        return mass, body.scale**2 * (axes * body.inertia) @ axes.T, centre
    off = shape_centre - centre
    per_mass = shape_inertia / volume + off @ off * np.eye(3) - np.outer(off, off)
    if body.inertia_log_cholesky is not None:
        numbers = torch.tensor([body.inertia_log_cholesky]).double()
        per_mass = inertia_of(torch.tensor(per_mass), numbers)[0].numpy()
    return mass, mass * body.scale**2 * per_mass, centre


@lru_cache(maxsize=32)
def _surface(shape: Shape, name: str) -> meshes.Mesh:
    """Mesh of a shape; most worlds of a fit have the same."""
    mesh = shape.mesh()
    meshes.check(mesh, name)
    return mesh


@lru_cache(maxsize=32)
def _solid(vertices: bytes, faces: bytes) -> tuple[float, np.ndarray, np.ndarray]:
    """Volume [m³], center (3,) [m] and inertia (3, 3) of density 1 of a mesh; most worlds of a fit have the same."""
    import torch

    points, corners = (
        np.frombuffer(data, kind).reshape(-1, 3) for data, kind in ((vertices, np.float64), (faces, np.int64))
    )
    solid = meshes.mass_properties(torch.tensor(points), torch.tensor(corners), torch.tensor(1.0).double())
    return solid.mass.item(), solid.centre.numpy(), solid.inertia.numpy()


def _primitive(body: Rigid) -> tuple[str, tuple[float, ...]]:
    """Kind and size of a shape at its scale."""
    for kind in PRIMITIVES:
        node = getattr(body.shape, kind)
        if node is not None:
            lengths = (
                node.size if kind == "box" else [getattr(node, k) for k in ("radius", "height") if hasattr(node, k)]
            )
            return kind, tuple(float(body.scale * length) for length in lengths)
    return "mesh", ()


def _hinge(name: str, joint: AnyJoint, bodies, twin: Twin) -> Hinge:
    parent, child = joint.between
    scale = lambda body: 1.0 if body == WORLD else bodies[body].scale
    on_shape = joint.points_from == "shape"
    origin = lambda body: twin.links[body].forms[0].centre if on_shape and body != WORLD else np.zeros(3)
    axis = np.array(getattr(joint, "axis", (0.0, 0.0, 1.0)), np.float64)
    start: tuple = ()
    acting: dict = {}
    if isinstance(joint, Revolute | Prismatic):
        start = tuple(float(getattr(joint, key)) for key in joint.start)
        limits = {key: getattr(joint, key) for key in ("lower", "upper")}
        acting = {key: getattr(joint, key) for key in ("stiffness", "target", "damping", "friction")} | limits
        acting["armature"] = joint.armature or 0.0
        acting |= {"effort": getattr(joint, joint.forces[0]), "limit_stiffness": joint.limit_stiffness or 0.0}
        if joint.backlash:
            twin.notes.append(f"`{name}`: a backlash of {joint.backlash:g} about the target of its spring.")
    elif isinstance(joint, Ball):
        start = tuple(np.array(getattr(joint, key), np.float64) for key in joint.start)
        acting = {"damping": joint.damping, "friction": joint.friction}
    hinge = Hinge(
        name,
        joint.kind,
        None if parent == WORLD else parent,
        child,
        np.array(joint.parent_point) * scale(parent) + origin(parent),
        np.array(joint.child_point) * scale(child) + origin(child),
        axis / np.linalg.norm(axis),
        np.array(bodies[child].quat_xyzw),
        *start,
        **acting,
    )
    return hinge if joint.motion is None else _at_first_sample(hinge, joint.motion)


def _at_first_sample(hinge: Hinge, motion: PoseMotion) -> Hinge:
    """A joint to the world, with the frame of its parent where a recording begins."""
    turn, at = Rotation.from_quat(motion.unit_quats[0]), np.array(motion.positions[0])
    vectors = {"axis": hinge.axis} | ({"start": hinge.start, "rate": hinge.rate} if hinge.kind == "ball" else {})
    turned = {key: turn.apply(vector) for key, vector in vectors.items()}
    quat = (turn * Rotation.from_quat(hinge.quat_xyzw)).as_quat()
    return replace(hinge, parent_point=at + turn.apply(hinge.parent_point), quat_xyzw=quat, **turned)


def _closed(joint: Hinge, twin: Twin) -> Hinge:
    """A joint that closes a loop, with the orientation of its child relative to the parent at the start."""
    R, *_ = _moving(twin, joint.parent)
    child = Rotation.from_quat(twin.links[joint.child].quat_xyzw).as_matrix()
    return replace(joint, quat_xyzw=Rotation.from_matrix(R.T @ child).as_quat())


def _moving(twin: Twin, name: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Orientation (3, 3), position, velocity and spin of a link, or of the world."""
    if name is None:
        return np.eye(3), np.zeros(3), np.zeros(3), np.zeros(3)
    link = twin.links[name]
    return Rotation.from_quat(link.quat_xyzw).as_matrix(), link.x, link.v, link.w


def _push(bodies: dict[str, Rigid], twin: Twin) -> None:
    """Turn the impulses at the start into velocities, in place."""
    impulses = [
        (name, np.array(push.impulse), np.array(push.point))
        for name, body in bodies.items()
        for push in body.pushes
        if not push.after_start and push.impulse is not None
    ]
    if not impulses:
        return
    count = rates(twin)
    momentum = np.zeros(sum(count.values()))
    for name, impulse, point in impulses:
        momentum += jacobian(twin, name, point)[:3].T @ impulse
    change = np.linalg.solve(mass_matrix(twin), momentum)
    first = 0
    for name, n in count.items():
        step, first = change[first : first + n], first + n
        if n == 6:
            link = twin.links[name]
            twin.links[name] = replace(link, v=link.v + step[:3], w=link.w + step[3:])
        elif n:
            joint = twin.tree[name]
            if joint.kind == "ball":  # rates of a ball joint are in the frame of the child
                child = Rotation.from_rotvec(joint.start) * Rotation.from_quat(joint.quat_xyzw)
                step = child.apply(step)
            rate = joint.rate + (step if joint.kind == "ball" else float(step[0]))
            twin.tree[name] = replace(joint, rate=rate)
    place_children(twin)
    if twin.loops and np.any(change):
        twin.notes.append(
            "impulses at the start: the velocities that they give do not count the joints that close loops."
        )


def _skew(a: np.ndarray) -> np.ndarray:
    """a × b = skew(a) b."""
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def _unsaid(name: str, body: Rigid) -> list[str]:
    """Sentences on what a body has that no format expresses."""
    notes = [f"`{name}`: a drag of {body.drag:g} kg/m by the air."] if body.drag else []
    for push in body.pushes:
        if push.after_start:
            time = f"{push.window[0]:g} to {push.window[1]:g}" if push.window else f"{push.at:g}"
            what, vector = ("a force of", push.force) if push.force is not None else ("an impulse of", push.impulse)
            unit = "N" if push.force is not None else "N s"
            notes.append(LATER_PUSH.format(name, time, what, f"{list(vector or ())} {unit}", list(push.point)))
    if body.material is not None:
        notes.append(f"`{name}`: its texture and reflectance; the model has its color.")
    return notes
