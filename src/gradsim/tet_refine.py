"""Finer tetrahedra: each cut into 8, or with a node in the middle of every edge for quadratic elements."""

from typing import NamedTuple

import numpy as np

from gradsim.tet_mesh import EDGES, TetMesh

# of an element with corners 0 to 3 and middles 4 to 9 (01 02 03 12 13 23): what is left around the corners, and the
# octahedron of the middles, cut around its diagonal from 01 to 23
PARTS = ((0, 4, 5, 6), (4, 1, 7, 8), (5, 7, 2, 9), (6, 8, 9, 3), (4, 9, 7, 5), (4, 9, 8, 7), (4, 9, 6, 8), (4, 9, 5, 6))
OPPOSITE = ((0, 5), (1, 4), (2, 3))  # edges that share no vertex; the middles of each pair end a diagonal
TURNED = np.array(((0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2)))  # corners, so that this diagonal becomes the first


class Quadratic(NamedTuple):
    """Tetrahedra of ten nodes.

    Attributes:
        vertices: (n, 3) [m]: those of the mesh, then the middles of its edges, each once.
        tets: (m, 10): the four corners, then the middles of the edges 01, 02, 03, 12, 13 and 23.
    """

    vertices: np.ndarray
    tets: np.ndarray


def quadratic(mesh: TetMesh) -> Quadratic:
    """The same tetrahedra with a node in the middle of every edge, shared by all that have the edge."""
    ends = np.sort(mesh.tets[:, EDGES].reshape(-1, 2), 1)
    edges, where = np.unique(ends, axis=0, return_inverse=True)
    middles = mesh.vertices[edges].mean(1)
    return Quadratic(
        np.concatenate([mesh.vertices, middles]), np.hstack([mesh.tets, len(mesh.vertices) + where.reshape(-1, 6)])
    )


def refine(mesh: TetMesh) -> TetMesh:
    """Each tetrahedron cut into 8 of an eighth of its volume; those of number i become numbers 8 i to 8 i + 7.

    Four are similar to it; the octahedron between them is cut around its shortest diagonal.
    """
    vertices, tets = quadratic(mesh)
    diagonals = np.stack([vertices[tets[:, 4 + a]] - vertices[tets[:, 4 + b]] for a, b in OPPOSITE])
    shortest = np.linalg.norm(diagonals, axis=-1).argmin(0)
    turned = TetMesh(mesh.vertices, np.take_along_axis(mesh.tets, TURNED[shortest], 1))
    vertices, tets = quadratic(turned)
    return TetMesh(vertices, tets[:, PARTS].reshape(-1, 4))
