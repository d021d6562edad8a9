"""Sheets of triangles: grids and discs, the edges and hinges of any sheet, and what no sheet is.

A sheet is a `Mesh` that need not be closed. A hinge is an inner edge with the triangles (i, j, a) and (j, i, b) on both
sides, written (a, b, i, j): the two opposite vertices, then the two on the edge. Its dihedral angle is

    φ = atan2((n_a × n_b)·e, n_a·n_b),   n_a = (x_i − x_a) × (x_j − x_a),   n_b = (x_j − x_b) × (x_i − x_b),

with e the direction from x_i to x_j: 0 where the sheet is flat, above 0 where it is folded away from the side its normals
point to (along every edge of a convex solid seen from outside), below 0 where it is folded towards it. Turning a hinge
around, (b, a, j, i), leaves φ as it is; turning all triangles over changes its sign.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from gradsim import nodes
from gradsim.errors import InputError
from gradsim.mesh import Mesh
from gradsim.nodes import of
from gradsim.sizes import counts, lengths

FLAT = 1e-9  # of the longest edge squared: a smaller area is rounding


def grid(
    size: Sequence[float], cells: Sequence[int], pattern: Literal["alternating", "diagonal"] = "alternating"
) -> Mesh:
    """A rectangle in z = 0 around the origin, its normals along +z; vertices row by row, x running faster.

    Args:
        size: Edge lengths [m] along x and y.
        cells: Along x and y, of two triangles each.
        pattern: Whether the diagonals of neighbouring cells turn, as on a chessboard, or all run along (1, 1).
    """
    (columns, rows), (width, height) = counts("cells", cells, 2), lengths("size", size, 2)
    if pattern not in ("alternating", "diagonal"):
        raise InputError(f'pattern is {pattern!r}; expected "alternating" or "diagonal".')
    row, column = np.indices((rows + 1, columns + 1)).reshape(2, -1)
    uv = np.stack([column / columns, row / rows], 1)
    row, column = np.indices((rows, columns)).reshape(2, -1)
    corner = row * (columns + 1) + column
    around = corner[:, None] + np.array([0, 1, columns + 2, columns + 1])  # counter-clockwise
    turned = (row + column) % 2 == 1 if pattern == "alternating" else np.zeros(len(around), bool)
    around = np.where(turned[:, None], np.roll(around, -1, 1), around)
    faces = around[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)
    return Mesh(np.hstack([(uv - 0.5) * (width, height), np.zeros((len(uv), 1))]), faces, uv, faces)


def disc(radius: float, rings: int) -> Mesh:
    """A disc in z = 0 around the origin, its normals along +z: 6 rings² triangles, nearly regular.

    Args:
        radius: Of the vertices at its edge [m].
        rings: From the centre to the edge; ring k has 6 k vertices.
    """
    (radius,), (rings,) = lengths("radius", radius), counts("rings", rings)
    ring = np.repeat(np.arange(1, rings + 1), 6 * np.arange(1, rings + 1))
    first = np.concatenate([[0], 1 + 3 * np.arange(rings + 1) * np.arange(1, rings + 2)])  # vertex of each ring
    turn = 2 * np.pi * (np.arange(1, first[-1]) - first[ring]) / (6 * ring)
    places = np.concatenate([[(0.0, 0.0)], (ring / rings)[:, None] * np.stack([np.cos(turn), np.sin(turn)], 1)])
    faces = []
    for k in range(1, rings + 1):
        step, sector = np.arange(k), np.arange(6)[:, None]
        outer = first[k] + (k * sector + np.arange(k + 1)) % (6 * k)
        inner = first[k - 1] + ((k - 1) * sector + step) % max(1, 6 * (k - 1))
        faces += [np.stack([inner, outer[:, :-1], outer[:, 1:]], -1).reshape(-1, 3)]
        faces += [np.stack([inner[:, :-1], outer[:, 1:-1], inner[:, 1:]], -1).reshape(-1, 3)]
    faces = np.concatenate(faces)
    return Mesh(np.hstack([radius * places, np.zeros((len(places), 1))]), faces, (places + 1) / 2, faces)


def edges(faces: np.ndarray) -> np.ndarray:
    """The edges (e, 2) of triangles (m, 3), each once, lower vertex first, sorted."""
    return np.unique(np.sort(_sides(faces), 1), axis=0)


def hinges(faces: np.ndarray) -> np.ndarray:
    """The inner edges (k, 4) of triangles (m, 3): two opposite vertices, then the two on the edge, lower first, sorted.

    The first opposite vertex is that of the triangle that passes the edge from the lower to the higher vertex.

    Raises:
        InputError: If an edge has more than two triangles, or two that pass it in the same direction.
    """
    check_edges(faces, "faces")
    sides, opposite = _sides(faces), np.asarray(faces)[:, [2, 0, 1]].T.ravel()
    order = np.lexsort((sides[:, 0] > sides[:, 1], *np.sort(sides, 1).T[::-1]))
    sides, opposite = sides[order], opposite[order]
    inner = np.flatnonzero((sides[:-1] == sides[1:, ::-1]).all(1))
    return np.column_stack([opposite[inner], opposite[inner + 1], sides[inner]])


def check_sheet(mesh: Mesh, name: str) -> None:
    """Refuse a mesh that is no sheet.

    Args:
        mesh: The mesh.
        name: What to call it in the message, such as "bodies.flag.shape".

    Raises:
        InputError: If it has no triangles, numbers that are not finite, vertices without a triangle, triangles without
            an area (by index, with the area), edges with more than two, or neighbours that face opposite ways.
    """
    vertices, faces = mesh.vertices, mesh.faces
    nodes.check(vertices, faces, "triangle", name)
    corners = vertices[faces]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
    longest = np.linalg.norm(corners - np.roll(corners, 1, 1), axis=-1).max(1)
    bad = np.flatnonzero(area <= FLAT * longest**2)
    if len(bad):
        raise InputError(
            f"{name}: triangle {bad[0]} has no area ({area[bad[0]]:.4g} m²){of(bad)}; merge its vertices or remesh."
        )
    check_edges(faces, name)


def check_edges(faces: np.ndarray, name: str) -> None:
    """Refuse edges with more than two triangles (m, 3), or with two that pass them in the same direction.

    Raises:
        InputError: It names the edge and its triangles.
    """
    sides = _sides(faces)
    ends, where, count = np.unique(np.sort(sides, 1), axis=0, return_inverse=True, return_counts=True)
    forward = np.bincount(where.ravel(), sides[:, 0] < sides[:, 1], len(ends))
    for bad, what in (
        (count > 2, "two can share an edge: remove doubled or inner ones, or cut the sheet there"),
        ((count == 2) & (forward != 1), "which face opposite ways; turn one over (in trimesh: mesh.fix_normals())"),
    ):
        bad = np.flatnonzero(bad)
        if len(bad):
            sharers = np.flatnonzero(where.ravel() == bad[0]) % len(faces)
            raise InputError(
                f"{name}: the edge from vertex {ends[bad[0], 0]} to {ends[bad[0], 1]} belongs to triangles "
                f"{', '.join(map(str, np.sort(sharers)))}{of(bad)}; {what}."
            )


def _sides(faces: np.ndarray) -> np.ndarray:
    """The directed edges (3 m, 2): the first of all triangles, then the second, then the third."""
    return np.asarray(faces)[:, [[0, 1], [1, 2], [2, 0]]].swapaxes(0, 1).reshape(-1, 2)
