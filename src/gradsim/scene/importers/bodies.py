"""Bodies and planes of a Newton builder as entries of a scene; merging of links with fixed joints.

Newton's body has a frame (the link's), a centre of mass and moments of inertia in it, and shapes with frames in it. A
body of gradsim has the frame of its shape, and its position is its centre of mass; if the centre and the moments of the
file are not those of the shape at uniform density, the scene gives them explicitly.

`merge` combines links that are fixed to one another.

With T the pose of the child B in the link of its parent A, and r a centre of mass relative to the common one:

    m = m_A + m_B,   m c = m_A c_A + m_B T c_B,   I = Σ R I Rᵀ + m (r² 1 − r rᵀ)

Newton's `collapse_fixed_joints` leaves the inertia of a heavy part of a light link about a different point.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from gradsim.errors import InputError
from gradsim.geometry import mesh as meshes
from gradsim.scene.body import INERTIA_TOLERANCE
from gradsim.scene.shape import Shape

INERTIA = 0.01  # relative difference, above which the mass properties of the file replace those of the shape
MIN_THICKNESS_RATIO = 1e-3  # a box that represents an inertia is at least this thick, relative to its length
ROUNDING_SHARE = 1e-7  # components of a float32 vector below this share of its largest are rounding


@dataclass(frozen=True)
class Frame:
    """A pose: x ↦ R x + p."""

    R: np.ndarray
    p: np.ndarray

    @classmethod
    def of(cls, transform) -> "Frame":
        """From Newton's position and quaternion (x, y, z, w)."""
        values = np.array([float(v) for v in transform])
        return cls(Rotation.from_quat(values[3:]).as_matrix(), values[:3])

    def __matmul__(self, other: "Frame") -> "Frame":
        return Frame(self.R @ other.R, self.R @ other.p + self.p)

    @property
    def inverse(self) -> "Frame":
        return Frame(self.R.T, -self.R.T @ self.p)

    @property
    def values(self) -> np.ndarray:
        """Position and quaternion (x, y, z, w), as in Newton."""
        return np.array([*self.p, *Rotation.from_matrix(self.R).as_quat()])

    @property
    def quat_xyzw(self) -> list[float]:
        """Rotation as a quaternion with w ≥ 0."""
        q = Rotation.from_matrix(self.R).as_quat()
        return vector(q if q[3] >= 0 else -q)


@dataclass
class Body:
    """Body as an entry of a scene, or the reason why it is not supported.

    Attributes:
        content: Entry of a scene file; the shape of a mesh is set when its file is written.
        mesh: Mesh, if the shape is one.
        fault: Why gradsim cannot represent it.
        notes: Approximations made.
        turn: Orientation of the scene's body in the link (3, 3).
        centre: Centre of mass in the link [m].
    """

    content: dict[str, Any] = field(default_factory=dict)
    mesh: meshes.Mesh | None = None
    fault: str = ""
    notes: list[str] = field(default_factory=list)
    turn: np.ndarray = field(default_factory=lambda: np.eye(3))
    centre: np.ndarray = field(default_factory=lambda: np.zeros(3))


def body_of(builder, body: int, name: str, held: bool = False) -> Body:
    """Convert a body of a Newton builder.

    Args:
        builder: Builder.
        body: Index of the body.
        name: Name in the scene.
        held: True if a joint determines its position and velocity.
    """
    import newton

    if builder.body_mass[body] <= 0:
        return Body(fault=f"body `{name}` has no mass; give it one in the file.")
    shapes = builder.body_shapes[body]
    solid = [s for s in shapes if builder.shape_flags[s] & newton.ShapeFlags.COLLIDE_SHAPES]
    visual = [s for s in shapes if s not in solid]
    chosen = solid or visual
    result, inertia = Body(), matrix(builder.body_inertia[body])
    result.centre = np.array([float(v) for v in builder.body_com[body]])
    try:
        result.content["shape"], mesh, inner = _looks(builder, body, chosen, name, result)
    except InputError as error:
        return Body(fault=f"body `{name}`: {error}")
    if solid and visual:
        result.notes.append(f"`{name}` is shown as its collision shape; {len(visual)} visual shapes are omitted.")
    result.content |= {
        "mass": number(builder.body_mass[body]),
        "colour": vector(builder.shape_color[(visual or chosen)[0]]) if chosen else None,
        "collision": None if solid else "none",
    }
    result.turn = inner.R
    centre, moments = _weighed(mesh, float(builder.body_mass[body]))
    shaped = inner.R @ centre + inner.p
    off = float(np.linalg.norm(result.centre - shaped)) > INERTIA * mesh.size
    if off:
        result.content["centre_of_mass"] = vector(inner.R.T @ (result.centre - inner.p))
        ball = "sphere" in result.content["shape"]
        result.content["collision"] = "vertices" if solid and ball else result.content["collision"]
    else:
        result.centre = shaped  # without the rounding of the file
    inertia_in_shape = inner.R.T @ inertia @ inner.R
    if off or np.linalg.norm(inertia_in_shape - moments) > INERTIA * np.linalg.norm(moments):
        principal, axes = np.linalg.eigh(inertia_in_shape)
        axes[:, 2] *= np.sign(np.linalg.det(axes))
        if principal[0] <= 0:
            return Body(fault=f"body `{name}` has an inertia that is not positive; correct it in the file.")
        if 2 * principal[2] > principal.sum() * (1 + INERTIA_TOLERANCE):
            return Body(
                fault=f"body `{name}` has moments of inertia that violate the triangle inequality; correct them in the file."
            )
        result.content |= {"inertia": vector(principal), "inertia_quat_xyzw": Frame(axes, np.zeros(3)).quat_xyzw}
    if not held:
        pose = Frame.of(builder.body_q[body])
        result.content |= {
            "position": vector(pose.R @ result.centre + pose.p),
            "quat_xyzw": (pose @ inner).quat_xyzw,
            **_motion(builder, body, pose, result.centre),
        }
    return result


def ground_of(plane: Frame, friction: float) -> dict[str, Any]:
    """Ground through the origin of a frame, with its z axis as normal."""
    return {"point": vector(plane.p), "normal": vector(plane.R[:, 2]), "friction": number(friction)}


def spring_law(builder, shape: int) -> dict[str, Any]:
    """Contact law of a ground, where the file states one for the shape: Newton's numbers differ from its defaults."""
    import newton

    default = newton.ModelBuilder.ShapeConfig()
    lists = {"ke": builder.shape_material_ke, "kd": builder.shape_material_kd, "kf": builder.shape_material_kf}
    values = {key: number(entries[shape]) for key, entries in lists.items()}
    if all(abs(values[key] - getattr(default, key)) <= ROUNDING_SHARE * getattr(default, key) for key in values):
        return {}
    return {"law": "paper", "stiffness": values["ke"], "damping": values["kd"], "friction_stiffness": values["kf"]}


def number(value: float) -> float:
    """Shortest decimal with the same float32 value: 0.1, not 0.10000000149."""
    return float(str(np.float32(value)))


def vector(values) -> list[float]:
    """The same for vectors, with rounding errors of rotated axes set to 0."""
    array = np.array([float(v) for v in values])
    array[np.abs(array) <= ROUNDING_SHARE * max(np.abs(array).max(), 1.0)] = 0.0
    return [number(v) for v in array]


def plain_name(label: str, taken: Iterable[str] = ()) -> str:
    """Last part of a path as a valid name in a scene, with a numeric suffix if it is taken."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", label.rsplit("/", 1)[-1])
    name = name if re.match(r"[A-Za-z_]", name) else f"_{name}"
    known, count = set(taken), 2
    base = name
    while name in known:
        name, count = f"{base}_{count}", count + 1
    return name


def matrix(values) -> np.ndarray:
    """Newton's 3 × 3 matrix."""
    return np.array([float(v) for v in np.array(values).ravel()]).reshape(3, 3)


def _looks(builder, body: int, chosen: list[int], name: str, result: Body) -> tuple[dict[str, Any], meshes.Mesh, Frame]:
    """Shape of a body as in a scene file, its mesh about the scene's origin, and its frame in the link.

    Several shapes become one mesh; a body without shapes becomes the box with its inertia.
    """
    if len(chosen) == 1:
        content, mesh, shift = _shape_of(builder, chosen[0])
        body_mesh, inner = mesh or Shape.model_validate(content).mesh(), Frame.of(builder.shape_transform[chosen[0]])
        inner = inner @ Frame(np.eye(3), np.array([0.0, 0.0, shift]))
        result.mesh = mesh
    elif chosen:
        parts = []
        for shape in chosen:
            content, mesh, shift = _shape_of(builder, shape)
            part, place = mesh or Shape.model_validate(content).mesh(), Frame.of(builder.shape_transform[shape])
            parts.append(meshes.Mesh((part.vertices + (0, 0, shift)) @ place.R.T + place.p, part.faces))
        content, body_mesh, inner = {}, meshes.joined(parts), Frame(np.eye(3), np.zeros(3))
        result.mesh = body_mesh
    else:
        moments, axes = np.linalg.eigh(matrix(builder.body_inertia[body]))
        axes[:, 2] *= np.sign(np.linalg.det(axes))
        squares = 6 * (moments.sum() - 2 * moments) / float(builder.body_mass[body])
        size = np.sqrt(
            np.maximum(squares, (MIN_THICKNESS_RATIO * np.sqrt(max(squares.max(), MIN_THICKNESS_RATIO))) ** 2)
        )
        content = {"box": {"size": vector(size)}}
        body_mesh, inner = meshes.box(size), Frame(axes, result.centre)
        result.notes.append(f"`{name}` has no shape; it is shown as the box of its mass and inertia.")
    meshes.check(body_mesh, f"the mesh of `{name}`")
    return content, body_mesh, inner


def _shape_of(builder, shape: int) -> tuple[dict[str, Any], meshes.Mesh | None, float]:
    """Shape as in a scene file, its mesh if it is one, and the z coordinate of gradsim's origin in Newton's frame [m]."""
    from newton import GeoType

    a, b, c = (number(s) for s in builder.shape_scale[shape])
    match GeoType(builder.shape_type[shape]):
        case GeoType.BOX:
            return {"box": {"size": [2 * a, 2 * b, 2 * c]}}, None, 0.0
        case GeoType.SPHERE:
            return {"sphere": {"radius": a}}, None, 0.0
        case GeoType.CAPSULE:
            return {"capsule": {"radius": a, "height": 2 * b}}, None, 0.0
        case GeoType.CYLINDER:
            return {"cylinder": {"radius": a, "height": 2 * b}}, None, 0.0
        case GeoType.CONE:
            return {"cone": {"radius": a, "height": 2 * b}}, None, -b / 2  # Newton: half way up; gradsim: a quarter
        case GeoType.ELLIPSOID:
            ball = meshes.sphere(1.0)
            return {}, meshes.Mesh(ball.vertices * (a, b, c), ball.faces), 0.0
        case GeoType.MESH | GeoType.CONVEX_MESH:
            source = builder.shape_source[shape]
            return {}, _merged(np.asarray(source.vertices, np.float64) * (a, b, c), np.asarray(source.indices)), 0.0
        case other:
            raise InputError(f"its shape is a {other.name.lower()}, which gradsim does not have.")


def _merged(vertices: np.ndarray, indices: np.ndarray) -> meshes.Mesh:
    """Merge coincident vertices, which readers duplicate where normals differ."""
    unique, where = np.unique(vertices + 0.0, axis=0, return_inverse=True)
    faces = where.ravel()[indices.reshape(-1, 3)]
    faces = faces[(faces != np.roll(faces, 1, 1)).all(1)]
    used, faces = np.unique(faces, return_inverse=True)
    return meshes.Mesh(unique[used], faces.reshape(-1, 3))


def _weighed(mesh: meshes.Mesh, mass: float) -> tuple[np.ndarray, np.ndarray]:
    """Centre of mass (3) [m] and inertia (3, 3) [kg m²] about it, for uniform density."""
    solid = mesh.solid
    return solid.centre.numpy(), (solid.inertia / solid.mass * mass).numpy()


def _motion(builder, body: int, pose: Frame, centre: np.ndarray) -> dict[str, list[float]]:
    """Initial velocities; Newton's linear velocity is that of the centre of mass in the file."""
    twist = np.array([float(v) for v in builder.body_qd[body]])
    arm = pose.R @ (centre - np.array([float(v) for v in builder.body_com[body]]))
    velocities = {"velocity": vector(twist[:3] + np.cross(twist[3:], arm)), "angular_velocity": vector(twist[3:])}
    return {key: value for key, value in velocities.items() if any(value)}


def merge(builder) -> list[int]:
    """Merge every link that is fixed to another into it, in place; return the indices of the merged links.

    A link fixed to the world stays a separate link, unless it has no mass: then it becomes part of the world.
    """
    import newton

    fixed = [k for k, kind in enumerate(builder.joint_type) if kind == newton.JointType.FIXED]
    holds = {builder.joint_child[k]: k for k in fixed if builder.joint_parent[k] != -1}
    for part in sorted(holds, key=lambda body: -_depth(body, holds, builder)):  # the ends of chains first
        _join(builder, holds[part], part)
    for k in [k for k in fixed if builder.joint_parent[k] == -1 and builder.body_mass[builder.joint_child[k]] <= 0]:
        holds[builder.joint_child[k]] = k
        _join(builder, k, builder.joint_child[k])
    return sorted(holds)


def _join(builder, k: int, part: int) -> None:
    """Merge a link into the one that joint k fixes it to."""
    whole = builder.joint_parent[k]
    place = Frame.of(builder.joint_X_p[k]) @ Frame.of(builder.joint_X_c[k]).inverse
    if whole != -1:
        _weigh(builder, whole, part, place)
    for shape in builder.body_shapes[part]:
        builder.shape_transform[shape] = (place @ Frame.of(builder.shape_transform[shape])).values
        builder.shape_body[shape] = whole
    builder.body_shapes[whole] = [*builder.body_shapes[whole], *builder.body_shapes[part]]
    builder.body_shapes[part] = []
    for j in [j for j, parent in enumerate(builder.joint_parent) if parent == part]:
        builder.joint_parent[j] = whole
        builder.joint_X_p[j] = (place @ Frame.of(builder.joint_X_p[j])).values


def _depth(body: int, holds: dict[int, int], builder) -> int:
    return 1 + _depth(builder.joint_parent[holds[body]], holds, builder) if body in holds else 0


def _weigh(builder, whole: int, part: int, place: Frame) -> None:
    """Mass, centre and inertia of two links together, in the frame of the first."""
    masses = [float(builder.body_mass[body]) for body in (whole, part)]
    centers = [np.array([float(v) for v in builder.body_com[body]]) for body in (whole, part)]
    inertias = [matrix(builder.body_inertia[body]) for body in (whole, part)]
    centers[1], inertias[1] = place.R @ centers[1] + place.p, place.R @ inertias[1] @ place.R.T
    if not sum(masses):
        return
    centre = np.average(centers, axis=0, weights=masses)
    arms = [c - centre for c in centers]
    steiner = [m * (r @ r * np.eye(3) - np.outer(r, r)) for m, r in zip(masses, arms, strict=True)]
    builder.body_mass[whole], builder.body_com[whole] = sum(masses), centre
    builder.body_inertia[whole] = sum(inertias) + sum(steiner)
