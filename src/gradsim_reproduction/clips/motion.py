"""Vertices and faces of `reproduce clips` over time, from closed forms and the integrators of `foreign`.

flight      x = x₀ + v t + g t²/2;   with linear drag c: x = x₀ + v s + g (t − s)/c,  s = (1 − exp(−c t))/c
incline     the same along the incline from rest, with the acceleration g (sin α − μ cos α)                     (Coulomb)
rebound     flight from impact to impact, each of which leaves −e of the speed across the ground
others      `rigid_trajectory`, `linkage_trajectory`, `soft_trajectory`, `sheet_trajectory`
"""

from collections.abc import Mapping

import numpy as np
from scipy.optimize import brentq

from gradsim.geometry import mesh as meshes
from gradsim.identification.scene_models import model_for
from gradsim.identification.unknowns import Space
from gradsim.scene.restitution import of_damping
from gradsim_reproduction.clips.scenes import GRAVITY, Recording
from gradsim_reproduction.foreign import linkage_trajectory, rigid_trajectory, sheet_trajectory, soft_trajectory
from gradsim_reproduction.foreign.rigid_trajectory import NOWHERE, Body, Ground, cross, rotation_of

FINER = 16  # steps of a soft body over those of the product's default
SIDES = ((0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2))  # of a tetrahedron, outward
Truth = Mapping[str, float]
Motion = tuple[np.ndarray, np.ndarray]  # vertices (frames, n, 3) [m] and outward faces (m, 3)


def surface(one: Recording, truth: Truth, drag: float = 0.0) -> Motion:
    """Vertices and faces of the motion with these values of the unknowns, and perhaps linear drag [1/s]."""
    if one.kind in ("ball", "pair"):
        return _balls(one, truth, drag)
    return {
        "toss": _toss,
        "incline": _incline,
        "bounce": _bounce,
        "pendulum": _pendulum,
        "arm": _arm,
        "beam": _beam,
        "rebound": _rebound,
        "cloth": _cloth,
    }[one.kind](one, truth, drag)


def path(times: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray, drag: float) -> np.ndarray:
    """Displacement (times, 3) [m] under a constant acceleration and linear drag."""
    t = times[:, None]
    if not drag:
        return velocity * t + acceleration * t**2 / 2
    s = (1 - np.exp(-drag * t)) / drag
    return velocity * s + acceleration * (t - s) / drag


def speed(time: float, velocity: np.ndarray, acceleration: np.ndarray, drag: float) -> np.ndarray:
    """Velocity (3,) [m/s] on such a path."""
    fading = np.exp(-drag * time)
    return velocity * fading + acceleration * ((1 - fading) / drag if drag else time)


def _number(node, name: str, key: str, truth: Truth) -> float:
    """Number of a node of the scene, true where it is unknown."""
    dotted = f"{name}.{key}"
    return truth[dotted] if dotted in truth else getattr(node, key)


def _vector(node, name: str, key: str, truth: Truth) -> np.ndarray:
    known = getattr(node, key)
    return np.array([truth.get(f"{name}.{key}.{axis}", known[k]) for k, axis in enumerate("xyz")])


def _balls(one: Recording, truth: Truth, drag: float) -> Motion:
    g = np.array([0.0, 0.0, truth.get("gravity.z", -GRAVITY)])
    vertices, faces, first = [], [], 0
    for name, node in one.scene.bodies.items():
        mesh = node.shape.mesh()
        centre = np.array(node.position) + path(one.times, _vector(node, name, "velocity", truth), g, drag)
        vertices.append(centre[:, None] + mesh.vertices)
        faces.append(mesh.faces + first)
        first += len(mesh.vertices)
    return np.concatenate(vertices, 1), np.concatenate(faces)


def _rebound(one: Recording, truth: Truth, drag: float) -> Motion:
    node, ground = one.scene.bodies["ball"], one.scene.grounds["ground"]
    left = of_damping(truth["ground.damping"], ground.stiffness, node.mass, ground.law)
    g, mesh = np.array([0.0, 0.0, truth["gravity.z"]]), node.shape.mesh()
    lowest = node.shape.sphere.radius + truth.get("ground.height", ground.height)
    begun, place, velocity = 0.0, np.array(node.position), _vector(node, "ball", "velocity", truth)
    centre = np.empty((len(one.times), 3))
    while begun < one.times[-1]:
        after = lambda t, place=place, velocity=velocity: place + path(np.atleast_1d(t), velocity, g, drag)
        rise = velocity[2] / -g[2]  # without drag, at which it ends a little earlier
        fallen = rise + np.sqrt(rise**2 + 2 * max(0.0, place[2] - lowest) / -g[2])
        impact = brentq(lambda t: after(t)[0, 2] - lowest, max(rise / 2, 1e-9), 2 * fallen, xtol=1e-14)  # noqa: B023
        assert isinstance(impact, float)  # without `full_output`
        now = one.times >= begun
        centre[now] = after(one.times[now] - begun)
        place, velocity = after(impact)[0], speed(impact, velocity, g, drag) * [1.0, 1.0, -left]
        begun += impact
    return centre[:, None] + mesh.vertices, mesh.faces


def _box(one: Recording, truth: Truth, ground: Ground) -> tuple[Body, np.ndarray, np.ndarray, np.ndarray]:
    """Body, faces, places and rotations of a box."""
    node = one.scene.bodies["box"]
    mesh = node.shape.mesh()
    body = Body.of_hull(mesh.vertices, node.mass)
    velocity, spin = (_vector(node, "box", key, truth) for key in ("velocity", "angular_velocity"))
    start = np.array(node.position), rotation_of(node.rotation_vector), velocity, spin
    return body, mesh.faces, *rigid_trajectory.trajectory(body, ground, start, one.times, GRAVITY)


def _toss(one: Recording, truth: Truth, drag: float) -> Motion:
    body, faces, x, R = _box(one, truth, NOWHERE)
    node = one.scene.bodies["box"]
    g = np.array([0.0, 0.0, -GRAVITY])
    x = np.array(node.position) + path(one.times, _vector(node, "box", "velocity", truth), g, drag)
    return x[:, None] + body.points @ R.transpose(0, 2, 1), faces


def _bounce(one: Recording, truth: Truth, drag: float) -> Motion:
    ground = one.scene.grounds["ground"]
    keys = ("stiffness", "dissipation", "friction_stiffness", "friction")
    numbers = Ground(*(_number(ground, "ground", key, truth) for key in keys))
    body, faces, x, R = _box(one, truth, numbers)
    return x[:, None] + body.points @ R.transpose(0, 2, 1), faces


def _incline(one: Recording, truth: Truth, drag: float) -> Motion:
    node, up = one.scene.bodies["box"], np.array(one.scene.grounds["ground"].normal)
    mesh, tilt = node.shape.mesh(), np.arctan2(up[0], up[2])
    pull = GRAVITY * (np.sin(tilt) - truth["ground.friction"] * np.cos(tilt))
    down = np.array([np.cos(tilt), 0.0, -np.sin(tilt)])
    x = np.array(node.position) + path(one.times, np.zeros(3), pull * down, drag)
    return x[:, None] + mesh.vertices @ rotation_of(node.rotation_vector).T, mesh.faces


def _pendulum(one: Recording, truth: Truth, drag: float) -> Motion:
    node = one.scene.bodies["bob"]
    number = lambda key: _number(node, "bob", key, truth)
    start = number("angle"), number("rate")
    loss = number("damping"), number("drag")
    angle = linkage_trajectory.pendulum(one.times, *start, number("string_length"), node.radius, *loss, GRAVITY)
    down = np.stack([np.sin(angle), 0 * angle, -np.cos(angle)], -1)
    mesh = meshes.sphere(node.radius, 3)
    centre = np.array(node.pivot) + (number("string_length") + node.radius) * down
    return centre[:, None] + mesh.vertices, mesh.faces


def _arm(one: Recording, truth: Truth, drag: float) -> Motion:
    links, corners, faces = [], [], []
    for name, hinge in (("upper", "shoulder"), ("lower", "elbow")):
        node, joint = one.scene.bodies[name], one.scene.joints[hinge]
        keys = ("angle", "rate", "stiffness", "target", "damping", "torque")
        numbers = {key: _number(joint, f"joints.{hinge}", key, truth) for key in keys}
        mass = _number(node, name, "mass", truth)
        places = joint.parent_point, joint.child_point, joint.axis
        links.append(linkage_trajectory.Link(node.shape.box.size, mass, *places, **numbers))
        mesh = node.shape.mesh()
        faces.append(mesh.faces + sum(map(len, corners)))
        corners.append(mesh.vertices)
    poses = linkage_trajectory.Chain(links, GRAVITY).trajectory(one.times)
    world = [x[:, None] + c @ R.transpose(0, 2, 1) for (x, R), c in zip(poses, corners, strict=True)]
    return np.concatenate(world, 1), np.concatenate(faces)


def _beam(one: Recording, truth: Truth, drag: float) -> Motion:
    """By `FINER` times the steps that the product's default takes over the ranges of the unknowns."""
    node, timing = one.scene.bodies["beam"], one.scene.timing
    rest, tets = node.rest.vertices, node.rest.tets
    sides = tets[:, SIDES].reshape(-1, 3)
    _, which, count = np.unique(np.sort(sides, 1), axis=0, return_index=True, return_counts=True)
    faces = sides[np.sort(which[count == 1])]
    pinned = np.flatnonzero(rest[:, 0] < rest[:, 0].min() + 1e-9)
    numbers = (_number(node, "beam", key, truth) for key in ("mu", "lam", "density", "damping"))
    solid = soft_trajectory.Solid(rest, tets, *numbers, pinned=pinned, touching=pinned[:0])
    arms = rest @ rotation_of(node.rotation_vector).T
    v = np.array(node.velocity) + cross(_vector(node, "beam", "angular_velocity", truth), arms)
    steps = FINER * model_for(one.scene, Space(one.scene, one.unknowns)).substeps
    return soft_trajectory.trajectory(solid, arms + node.position, v, timing.fps, timing.frames, steps), faces


def _cloth(one: Recording, truth: Truth, drag: float) -> Motion:
    """Faces twice, as either side of a sheet may be in front."""
    node = one.scene.bodies["cloth"]
    rest = node.rest.vertices
    pinned = np.flatnonzero(rest[:, 1] > rest[:, 1].max() - 1e-9)
    numbers = (_number(node, "cloth", key, truth) for key in ("mu", "lam", "density", "damping", "bending"))
    sheet = sheet_trajectory.Sheet(rest, node.rest.faces, *numbers, pinned=pinned)
    arms = rest @ rotation_of(node.rotation_vector).T
    v = np.array(node.velocity) + cross(_vector(node, "cloth", "angular_velocity", truth), arms)
    x = sheet_trajectory.trajectory(sheet, arms + node.position, v, one.times)
    return x, np.concatenate([node.rest.faces, node.rest.faces[:, ::-1]])
