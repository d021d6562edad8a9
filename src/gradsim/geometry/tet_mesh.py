"""Tetrahedral meshes: volumes, quality, boundary surface, refinement, validation.

With edges e = (b − a, c − a, d − a) of a tetrahedron (a, b, c, d),

    V = det e / 6,   q = 12 (3 V)^⅔ / Σ l²      (l: the six edge lengths)

V > 0 where a, b, c turn counter-clockwise seen from d, and the mean ratio q is 1 for a regular tetrahedron
and 0 for a flat one (Liu and Joe 1994). `refine` cuts each tetrahedron into 8; `quadratic` adds a node in the middle of
every edge, for quadratic elements.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gradsim.errors import InputError
from gradsim.geometry import validation
from gradsim.geometry.validation import of, read_only

SIDES = ((0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2))  # corners of the faces, counter-clockwise from outside
EDGES = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
MIN_VOLUME_RATIO = 1e-9  # of the longest edge cubed: a smaller volume is rounding


@dataclass(frozen=True, eq=False)
class TetMesh:
    """Tetrahedral mesh of a solid.

    Attributes:
        vertices: (n, 3) float64 [m], read-only.
        tets: (m, 4) int64, each of positive volume if `check` passes, read-only.
    """

    vertices: np.ndarray
    tets: np.ndarray

    def __post_init__(self):
        for name, width, dtype in (("vertices", 3, np.float64), ("tets", 4, np.int64)):
            array = read_only(f"{name} of a tet mesh", getattr(self, name), width, dtype)
            object.__setattr__(self, name, array)

    @cached_property
    def volumes(self) -> np.ndarray:
        """Rest volumes (m) [m³]; negative for inverted tetrahedra."""
        corners = self.vertices[self.tets]
        return np.linalg.det(corners[:, 1:] - corners[:, :1]) / 6

    @cached_property
    def quality(self) -> np.ndarray:
        """Mean ratios q (m): 1 for a regular tetrahedron, 0 for a flat one, negative for an inverted one."""
        return np.sign(self.volumes) * 12 * np.abs(3 * self.volumes) ** (2 / 3) / (self.edge_lengths**2).sum(1)

    @cached_property
    def edge_lengths(self) -> np.ndarray:
        """Lengths of the six edges of each tetrahedron, in the order of `EDGES` (m, 6) [m]."""
        first, second = np.transpose(EDGES)
        corners = self.vertices[self.tets]
        return np.linalg.norm(corners[:, second] - corners[:, first], axis=-1)


def surface(mesh: TetMesh) -> np.ndarray:
    """Boundary triangles (k, 3), by vertex, counter-clockwise from outside."""
    faces = mesh.tets[:, SIDES].reshape(-1, 3)
    _, first, count = np.unique(np.sort(faces, 1), axis=0, return_index=True, return_counts=True)
    return faces[np.sort(first[count == 1])]


def check(mesh: TetMesh, name: str) -> None:
    """Check that a mesh fills a solid.

    Args:
        mesh: The mesh.
        name: Name for error messages, such as "bodies.beam.shape".

    Raises:
        InputError: If it has no tetrahedra, numbers that are not finite, two vertices at one place, vertices without a
            tetrahedron, tetrahedra of no or negative volume (by index, with the volume), or faces of more than two.
    """
    vertices = mesh.vertices
    validation.check(vertices, mesh.tets, "tetrahedron", name)
    _, first, where = np.unique(vertices + 0.0, axis=0, return_index=True, return_inverse=True)  # + 0.0: no −0
    doubled = np.flatnonzero(first[where.ravel()] != np.arange(len(vertices)))
    if len(doubled):
        raise InputError(
            f"{name}: vertices {first[where.ravel()[doubled[0]]]} and {doubled[0]} are at one place{of(doubled)}; "
            "the solid would come apart there: merge them."
        )
    _check_volumes(mesh, name)
    _check_faces(mesh, name)


def _check_volumes(mesh: TetMesh, name: str) -> None:
    bad = np.flatnonzero(mesh.volumes <= MIN_VOLUME_RATIO * mesh.edge_lengths.max(1) ** 3)
    if len(bad):
        worst = mesh.volumes[bad[0]]
        flat = abs(worst) <= MIN_VOLUME_RATIO * mesh.edge_lengths[bad[0]].max() ** 3
        what = "degenerate; remesh" if flat else "inside out; swap two of its vertices or remesh"
        raise InputError(f"{name}: tetrahedron {bad[0]} has rest volume {worst:.4g} m³{of(bad)}: it is {what}.")


def _check_faces(mesh: TetMesh, name: str) -> None:
    faces = np.sort(mesh.tets[:, SIDES].reshape(-1, 3), 1)
    unique, where, count = np.unique(faces, axis=0, return_inverse=True, return_counts=True)
    bad = np.flatnonzero(count > 2)
    if len(bad):
        sharers = np.flatnonzero(where.ravel() == bad[0]) // 4
        raise InputError(
            f"{name}: the face {unique[bad[0]].tolist()} belongs to tetrahedra {', '.join(map(str, sharers))}"
            f"{of(bad)}; two can share a face: remove doubled or overlapping ones."
        )


# of an element with corners 0 to 3 and middles 4 to 9 (01 02 03 12 13 23): what is left around the corners, and the
# octahedron of the middles, cut around its diagonal from 01 to 23
PARTS = ((0, 4, 5, 6), (4, 1, 7, 8), (5, 7, 2, 9), (6, 8, 9, 3), (4, 9, 7, 5), (4, 9, 8, 7), (4, 9, 6, 8), (4, 9, 5, 6))
OPPOSITE_EDGES = ((0, 5), (1, 4), (2, 3))  # edges that share no vertex; the middles of each pair end a diagonal
TURNED_CORNERS = np.array(
    ((0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2))
)  # corners, so that this diagonal becomes the first


class Quadratic(NamedTuple):
    """Quadratic tetrahedra of ten nodes.

    Attributes:
        vertices: (n, 3) [m]: those of the mesh, then the middles of its edges, each once.
        tets: (m, 10): the four corners, then the middles of the edges 01, 02, 03, 12, 13 and 23.
    """

    vertices: np.ndarray
    tets: np.ndarray


def quadratic(mesh: TetMesh) -> Quadratic:
    """Add a node in the middle of every edge, shared by all tetrahedra with that edge."""
    ends = np.sort(mesh.tets[:, EDGES].reshape(-1, 2), 1)
    edges, where = np.unique(ends, axis=0, return_inverse=True)
    middles = mesh.vertices[edges].mean(1)
    return Quadratic(
        np.concatenate([mesh.vertices, middles]), np.hstack([mesh.tets, len(mesh.vertices) + where.reshape(-1, 6)])
    )


def refine(mesh: TetMesh) -> TetMesh:
    """Cut each tetrahedron into 8 of equal volume; number i becomes numbers 8 i to 8 i + 7.

    Four are similar to it; the octahedron between them is cut around its shortest diagonal.
    """
    vertices, tets = quadratic(mesh)
    diagonals = np.stack([vertices[tets[:, 4 + a]] - vertices[tets[:, 4 + b]] for a, b in OPPOSITE_EDGES])
    shortest = np.linalg.norm(diagonals, axis=-1).argmin(0)
    turned = TetMesh(mesh.vertices, np.take_along_axis(mesh.tets, TURNED_CORNERS[shortest], 1))
    vertices, tets = quadratic(turned)
    return TetMesh(vertices, tets[:, PARTS].reshape(-1, 4))
