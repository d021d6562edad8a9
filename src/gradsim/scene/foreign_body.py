"""Bodies and planes of a Newton builder in the words of a scene.

Newton's body has a frame, a centre of mass in it, and shapes with frames in it. A body of gradsim is its shape: its
position is the shape's centre of mass, and its inertia that of the shape at equal density.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from gradsim import mesh as meshes
from gradsim.errors import InputError
from gradsim.scene.shape import Shape

INERTIA = 0.01  # relative: from here on, a difference to the shape's own is reported
TINY = 1e-7  # what is below this beside the largest component of a float32 vector is rounding


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
    def quat_xyzw(self) -> list[float]:
        """The same turn with w ≥ 0."""
        q = Rotation.from_matrix(self.R).as_quat()
        return vector(q if q[3] >= 0 else -q)


@dataclass
class Body:
    """A body in the words of a scene, or the fault that keeps it out.

    Attributes:
        content: As in a scene file; the shape of a mesh is filled in when its file is written.
        mesh: Its mesh, if the shape is one.
        fault: Why gradsim cannot represent it.
        notes: What was approximated.
    """

    content: dict[str, Any] = field(default_factory=dict)
    mesh: meshes.Mesh | None = None
    fault: str = ""
    notes: list[str] = field(default_factory=list)


def body_of(builder, body: int, name: str) -> Body:
    """One free body of a Newton builder."""
    import newton

    shapes = builder.body_shapes[body]
    solid = [s for s in shapes if builder.shape_flags[s] & newton.ShapeFlags.COLLIDE_SHAPES]
    drawn = [s for s in shapes if s not in solid]
    chosen = solid or drawn
    if len(chosen) != 1:
        labels = ", ".join(plain_name(builder.shape_label[s]) for s in chosen)
        has = f"is made of {len(chosen)} shapes ({labels})" if chosen else "has no shape"
        return Body(fault=f"body `{name}` {has}; gradsim's bodies have one shape. Merge them into one mesh.")
    (shape,) = chosen
    try:
        given, mesh, shift = _shape_of(builder, shape)
        own = mesh or Shape.model_validate(given).mesh()
        meshes.check(own, f"the mesh of `{name}`")
    except InputError as error:
        return Body(fault=f"body `{name}`: {error}")
    if builder.body_mass[body] <= 0:
        return Body(fault=f"body `{name}` has no mass; give it one in the file.")
    found = Body(mesh=mesh)
    if solid and drawn:
        found.notes.append(f"`{name}` is shown as its collision shape; {len(drawn)} visual shapes are left out.")
    pose, inner = Frame.of(builder.body_q[body]), Frame.of(builder.shape_transform[shape])
    centre, inertia = _weighed(own, float(builder.body_mass[body]))
    centre = centre + (0.0, 0.0, shift)
    place = pose @ inner
    found.content = {
        "shape": given,
        "mass": number(builder.body_mass[body]),
        "position": vector(place.R @ centre + place.p),
        "quat_xyzw": place.quat_xyzw,
        "colour": vector(builder.shape_color[(drawn or chosen)[0]]) if builder.shape_color[shape] else None,
        "collision": None if solid else "none",
        **_motion(builder, body, pose, inner.R @ centre + inner.p),
    }
    found.notes += _differences(
        builder, body, name, inner.R @ centre + inner.p, inner.R @ inertia @ inner.R.T, own.size
    )
    return found


def ground_of(plane: Frame, friction: float) -> dict[str, Any]:
    """A plane through the frame's origin, its normal the frame's z."""
    return {"point": vector(plane.p), "normal": vector(plane.R[:, 2]), "friction": number(friction)}


def number(value: float) -> float:
    """A float32 of Newton as the shortest decimal that means it: 0.1, not 0.10000000149."""
    return float(str(np.float32(value)))


def vector(values) -> list[float]:
    """The same for vectors, without the dust of turned axes."""
    array = np.array([float(v) for v in values])
    array[np.abs(array) <= TINY * max(np.abs(array).max(), 1.0)] = 0.0
    return [number(v) for v in array]


def plain_name(label: str, taken: Iterable[str] = ()) -> str:
    """The last part of a path as a name that a scene allows, with a number behind it where it is taken."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", label.rsplit("/", 1)[-1])
    name = name if re.match(r"[A-Za-z_]", name) else f"_{name}"
    known, count = set(taken), 2
    base = name
    while name in known:
        name, count = f"{base}_{count}", count + 1
    return name


def _shape_of(builder, shape: int) -> tuple[dict[str, Any], meshes.Mesh | None, float]:
    """A shape as in a scene file, its mesh if it is one, and where on z Newton has the origin of gradsim's [m]."""
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
    """Readers split vertices where normals differ; a solid has each place once."""
    unique, where = np.unique(vertices + 0.0, axis=0, return_inverse=True)
    faces = where.ravel()[indices.reshape(-1, 3)]
    faces = faces[(faces != np.roll(faces, 1, 1)).all(1)]
    used, faces = np.unique(faces, return_inverse=True)
    return meshes.Mesh(unique[used], faces.reshape(-1, 3))


def _weighed(mesh: meshes.Mesh, mass: float) -> tuple[np.ndarray, np.ndarray]:
    """Centre of mass (3) [m] and inertia (3, 3) [kg m²] about it, of equal density."""
    import torch

    solid = meshes.mass_properties(torch.tensor(mesh.vertices), torch.tensor(mesh.faces), torch.tensor(1.0).double())
    return solid.centre.numpy(), (solid.inertia / solid.mass * mass).numpy()


def _motion(builder, body: int, pose: Frame, centre: np.ndarray) -> dict[str, list[float]]:
    """Velocities at the start; Newton's linear one is that of the file's centre of mass."""
    twist = np.array([float(v) for v in builder.body_qd[body]])
    arm = pose.R @ (centre - np.array([float(v) for v in builder.body_com[body]]))
    found = {"velocity": vector(twist[:3] + np.cross(twist[3:], arm)), "angular_velocity": vector(twist[3:])}
    return {key: value for key, value in found.items() if any(value)}


def _differences(builder, body: int, name: str, centre: np.ndarray, inertia: np.ndarray, size: float) -> list[str]:
    """Notes on a centre of mass or inertia in the file that is not the shape's; all in the body's frame."""
    notes = []
    off = float(np.linalg.norm(np.array([float(v) for v in builder.body_com[body]]) - centre))
    if off > INERTIA * size:
        notes.append(f"`{name}`: the file's centre of mass is {off:.3g} m from that of the shape, which gradsim takes.")
    given = np.array([float(v) for v in np.array(builder.body_inertia[body]).ravel()]).reshape(3, 3)
    error = float(np.linalg.norm(given - inertia) / np.linalg.norm(inertia))
    if error > INERTIA:
        moments = [", ".join(f"{m:.4g}" for m in np.linalg.eigvalsh(i)) for i in (given, inertia)]
        notes.append(
            f"`{name}`: the file's inertia ({moments[0]}) kg m² is {error:.1%} off that of the shape at equal density "
            f"({moments[1]}), which gradsim takes."
        )
    return notes
