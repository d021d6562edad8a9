"""Videos of `reproduce foreign`: trajectories of the references, drawn by areas in slabs. Nothing of the product moves or draws.

The scene gives numbers, and the corners of shapes; equations, integrators, cameras and coverage are those of this folder.
"""

import numpy as np

from gradsim.geometry import mesh as meshes
from gradsim.identification.scene_models import model_for
from gradsim.identification.unknowns import Space
from gradsim.scene import Scene
from gradsim_reproduction.foreign import linkage_trajectory, rigid_trajectory, soft_trajectory
from gradsim_reproduction.foreign.area_coverage import coverage, project
from gradsim_reproduction.foreign.rigid_trajectory import NOWHERE, Body, Ground, rotation_of, struck
from gradsim_reproduction.foreign.scenes import Recording

FINER = 64  # steps of a soft body over those of the product's default
LINKS = (("upper", "shoulder"), ("lower", "elbow"), ("hand", "wrist"))
SIDES = ((0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2))  # of a tetrahedron, outward


def masks(one: Recording, finer: int = FINER) -> np.ndarray:
    """Exact coverage (frames, height, width) of the true motion."""
    vertices, faces = surface(one, finer)
    view = one.scene.camera
    look = view.look_at
    points = project(vertices, look.eye, look.target, look.fov, view.size)
    return np.stack([coverage(frame, faces, view.size) for frame in points])


def frames(scene: Scene, coverage_of_pixels: np.ndarray, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """8-bit frames (frames, height, width, 3): flat color over the background, with noise before rounding."""
    color, background = np.array(next(iter(scene.bodies.values())).colour), np.array(scene.background)
    image = background + coverage_of_pixels[..., None] * (color - background)
    return np.rint((image + sigma * rng.standard_normal(image.shape)) * 255).clip(0, 255).astype(np.uint8)


def surface(one: Recording, finer: int = FINER) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (frames, n, 3) and outward faces (m, 3) of the true motion."""
    kind = next(iter(one.scene.bodies.values())).kind
    if kind == "rigid" and one.scene.joints:
        return _arm(one)
    return {"rigid": _rigid, "solid": lambda one: _soft(one, finer), "pendulum": _pendulum, "double_pendulum": _double}[
        kind
    ](one)


def times_of(one: Recording) -> np.ndarray:
    """Instants of the frames [s]."""
    return np.arange(one.scene.timing.frames) / one.scene.timing.fps


def start_of(node, mass: float) -> tuple[Body, tuple]:
    """A rigid body of a scene, and its start after the blows at time 0."""
    body = Body.of_hull(node.shape.mesh().vertices, mass)
    start = (
        np.array(node.position),
        rotation_of(node.rotation_vector),
        np.array(node.velocity),
        np.array(node.angular_velocity),
    )
    for push in node.pushes:
        start = struck(body, start, push.impulse, push.point)
    return body, start


def ground_of(one: Recording) -> Ground:
    """Its contact numbers, true where they are unknown."""
    keys = ("stiffness", "dissipation", "friction_stiffness", "friction")
    return Ground(*(one.number_of(f"ground.{key}") for key in keys)) if one.scene.grounds else NOWHERE


def _rigid(one: Recording) -> tuple[np.ndarray, np.ndarray]:
    ((name, node),) = one.scene.bodies.items()
    body, start = start_of(node, one.number_of(f"{name}.mass"))
    x, R = rigid_trajectory.trajectory(body, ground_of(one), start, times_of(one))
    return x[:, None] + body.points @ R.transpose(0, 2, 1), node.shape.mesh().faces


def _arm(one: Recording) -> tuple[np.ndarray, np.ndarray]:
    links, corners, faces = [], [], []
    for name, hinge in LINKS:
        node, joint = one.scene.bodies[name], one.scene.joints[hinge]
        keys = ("angle", "rate", "stiffness", "target", "damping", "torque")
        numbers = {key: one.number_of(f"joints.{hinge}.{key}") for key in keys}
        places = joint.parent_point, joint.child_point, joint.axis
        links.append(linkage_trajectory.Link(node.shape.box.size, one.number_of(f"{name}.mass"), *places, **numbers))
        mesh = node.shape.mesh()
        faces.append(mesh.faces + sum(map(len, corners)))
        corners.append(mesh.vertices)
    poses = linkage_trajectory.Chain(links).trajectory(times_of(one))
    world = [x[:, None] + c @ R.transpose(0, 2, 1) for (x, R), c in zip(poses, corners, strict=True)]
    return np.concatenate(world, 1), np.concatenate(faces)


def _pendulum(one: Recording) -> tuple[np.ndarray, np.ndarray]:
    ((name, node),) = one.scene.bodies.items()
    keys = ("angle", "rate", "string_length", "radius", "damping", "drag")
    string, radius = one.number_of(f"{name}.string_length"), node.radius
    angle = linkage_trajectory.pendulum(times_of(one), *(one.number_of(f"{name}.{key}") for key in keys))
    down = np.stack([np.sin(angle), 0 * angle, -np.cos(angle)], -1)
    return _ball(node.pivot + (string + radius) * down, radius, 3)


def _double(one: Recording) -> tuple[np.ndarray, np.ndarray]:
    ((name, node),) = one.scene.bodies.items()
    both = lambda key: np.array([one.number_of(f"{name}.{arm}_{key}") for arm in ("first", "second")])
    lengths = both("length")
    damping = one.number_of(f"{name}.damping")
    angle = linkage_trajectory.double_pendulum(
        times_of(one), both("angle"), both("rate"), lengths, both("mass"), damping
    )
    down = np.stack([np.sin(angle), 0 * angle, -np.cos(angle)], -1)
    pieces, hinge = [], np.tile(np.array(node.pivot, float), (len(angle), 1))
    for k, radius in enumerate((node.first_radius, node.second_radius)):
        hinge = hinge + lengths[k] * down[:, k]
        pieces.append(_ball(hinge, radius, 2))
    return _joined(pieces)


def _ball(centre: np.ndarray, radius: float, subdivisions: int) -> tuple[np.ndarray, np.ndarray]:
    mesh = meshes.sphere(1.0, subdivisions)  # the facets of the product's ball: its shape, which does not turn
    return centre[:, None] + radius * mesh.vertices, mesh.faces


def _joined(pieces: list) -> tuple[np.ndarray, np.ndarray]:
    first = np.cumsum([0, *(vertices.shape[1] for vertices, _ in pieces)])
    faces = [f + k for (_, f), k in zip(pieces, first, strict=False)]
    return np.concatenate([vertices for vertices, _ in pieces], 1), np.concatenate(faces)


def _soft(one: Recording, finer: int) -> tuple[np.ndarray, np.ndarray]:
    """By `finer` times the steps that the product's default takes over the ranges of the unknowns."""
    ((name, node),) = one.scene.bodies.items()
    rest, tets = node.rest.vertices, node.rest.tets
    sides = tets[:, SIDES].reshape(-1, 3)
    _, which, count = np.unique(np.sort(sides, 1), axis=0, return_index=True, return_counts=True)
    faces = sides[np.sort(which[count == 1])]
    pinned = np.flatnonzero(rest[:, 0] < rest[:, 0].min() + 1e-9) if node.pinned else np.zeros(0, int)
    solid = soft_trajectory.Solid(
        rest,
        tets,
        *(one.number_of(f"{name}.{key}") for key in ("mu", "lam", "density", "damping")),
        pinned=pinned,
        touching=np.setdiff1d(np.unique(faces), pinned),
    )
    arms = rest @ rotation_of(node.rotation_vector).T
    v = np.array(node.velocity) + np.cross(node.angular_velocity, arms)
    steps = finer * model_for(one.scene, Space(one.scene, one.unknowns)).substeps
    timing = one.scene.timing
    x = soft_trajectory.trajectory(solid, arms + node.position, v, timing.fps, timing.frames, steps, ground_of(one))
    return x, faces
