"""Shape of a rigid body in contact with others: a convex core, a point, a segment or a polytope, with a round skin.

    body = core ⊕ ball(radius)

A ball is a point with its radius, a capsule a segment. Of a box or another convex solid the core lies `SKIN` of its inner
radius below every face: faces stay where they are, edges and corners are rounded. What is round has one normal that turns
steadily, wherever it is touched, as long as cores stay apart: contact forces are continuous, and so are gradients.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy

from gradsim.errors import InputError
from gradsim.geometry.mesh import Mesh

SKIN = 0.1  # of the distance from the middle of the corners to the nearest face
COINCIDENCE_TOLERANCE = 1e-9  # of the size: planes and corners nearer than that are one


@dataclass(frozen=True, eq=False)
class Core:
    """Geometry about the centre of mass, at scale 1, in the axes of the body; lengths in m.

    Attributes:
        corners: (n, 3).
        ends: The two corners of each edge (m, 2); a point has one edge without length.
        outward: Mean normal of the two faces at each edge (m, 3); zero where there are no faces.
        normals: Normals of the faces (k, 3).
        levels: Offsets of the faces along their normals (k,).
        radius: Radius of the skin.
    """

    corners: np.ndarray
    ends: np.ndarray
    outward: np.ndarray
    normals: np.ndarray
    levels: np.ndarray
    radius: float

    @property
    def reach(self) -> float:
        """Radius of the ball about the centre of mass that holds the body."""
        return float(np.linalg.norm(self.corners, axis=1).max()) + self.radius

    def translated(self, by: np.ndarray) -> "Core":
        """The same shape, translated."""
        return replace(self, corners=self.corners + by, levels=self.levels + self.normals @ by)


def point_core(radius: float) -> Core:
    """A ball."""
    return Core(np.zeros((1, 3)), np.zeros((1, 2), int), np.zeros((1, 3)), np.zeros((0, 3)), np.zeros(0), radius)


def segment_core(half: float, radius: float) -> Core:
    """A capsule along z."""
    corners = np.array([[0, 0, -half], [0, 0, half]], float)
    return Core(corners, np.array([[0, 1]]), np.zeros((1, 3)), np.zeros((0, 3)), np.zeros(0), radius)


def hull_core(points: np.ndarray) -> Core:
    """Convex hull of points (n, 3) around the origin."""
    normals, levels = _planes(scipy.spatial.ConvexHull(points).equations)
    radius = SKIN * float(levels.min())
    spaces = np.concatenate([normals, radius - levels[:, None]], 1)
    corners = _apart(scipy.spatial.HalfspaceIntersection(spaces, np.zeros(3)).intersections)
    hull = scipy.spatial.ConvexHull(corners)
    face = np.argmax(hull.equations[:, :3] @ normals.T, axis=1)
    pairs = [(k, other) for k, near in enumerate(hull.neighbors) for other in near if k < other]
    pairs = [(k, other) for k, other in pairs if face[k] != face[other]]
    ends = np.array([sorted(set(hull.simplices[k]) & set(hull.simplices[other])) for k, other in pairs])
    outward = np.array([normals[face[k]] + normals[face[other]] for k, other in pairs]) / 2
    used = np.unique(face)
    return Core(corners, ends, outward, normals[used], levels[used] - radius, radius)


def make_core(shape, mesh: Mesh, centre: np.ndarray, hull: bool, name: str) -> Core:
    """The core of a body about its centre of mass.

    Args:
        shape: The scene's description of its shape.
        mesh: Its surface.
        centre: The centre of mass in the mesh's coordinates (3,).
        hull: Whether to take the convex hull of a solid that is not convex.
        name: For the message.

    Raises:
        InputError: If the solid is not convex and `hull` is False.
    """
    if shape.sphere:
        return point_core(shape.sphere.radius).translated(-centre)
    if shape.capsule:
        return segment_core(shape.capsule.height / 2, shape.capsule.radius).translated(-centre)
    if not mesh.convex and not hull:
        raise InputError(
            f"`{name}` is not convex, and only convex bodies touch one another; give it `collision: hull` to take its "
            "convex hull, or put it together from convex bodies."
        )
    middle = mesh.vertices[scipy.spatial.ConvexHull(mesh.vertices).vertices].mean(0)
    return hull_core(mesh.vertices - middle).translated(middle - centre)


def _planes(equations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Normals and levels of the planes of a hull, each once."""
    size = np.abs(equations[:, 3]).max()
    scaled = equations / [1, 1, 1, size]
    unique: list[np.ndarray] = []
    for plane in scaled:
        if not any(np.abs(plane - other).max() < 1e3 * COINCIDENCE_TOLERANCE for other in unique):
            unique.append(plane)
    planes = np.array(unique) * [1, 1, 1, size]
    return planes[:, :3], -planes[:, 3]


def _apart(points: np.ndarray) -> np.ndarray:
    """Points without those that repeat one before."""
    size = np.abs(points).max()
    unique: list[np.ndarray] = []
    for point in points:
        if not any(np.abs(point - other).max() < 1e3 * COINCIDENCE_TOLERANCE * size for other in unique):
            unique.append(point)
    return np.array(unique)
