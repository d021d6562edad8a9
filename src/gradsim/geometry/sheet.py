"""Sheets of triangles: grids, discs, cell figures and bells; edges, hinges, validation.

A sheet is a `Mesh` that need not be closed. A hinge is an inner edge with the triangles (i, j, a) and (j, i, b) on both
sides, written (a, b, i, j): the two opposite vertices, then the two on the edge. Its dihedral angle is

    φ = atan2((n_a × n_b)·e, n_a·n_b),   n_a = (x_i − x_a) × (x_j − x_a),   n_b = (x_j − x_b) × (x_i − x_b),

with e the direction from x_i to x_j: 0 where the sheet is flat, above 0 where it is folded away from the side its normals
point to (along every edge of a convex solid seen from outside), below 0 where it is folded towards it. Turning a hinge
around, (b, a, j, i), leaves φ unchanged; turning all triangles over changes its sign.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from gradsim.errors import InputError
from gradsim.geometry import validation
from gradsim.geometry.mesh import Mesh
from gradsim.geometry.validation import counts, lengths, of

MIN_AREA_RATIO = 1e-9  # of the longest edge squared: a smaller area is rounding


def grid(
    size: Sequence[float], cells: Sequence[int], pattern: Literal["alternating", "diagonal"] = "alternating"
) -> Mesh:
    """Rectangle in z = 0, centered at the origin, normals along +z; vertices row by row, x fastest.

    Args:
        size: Edge lengths [m] along x and y.
        cells: Cells along x and y, two triangles each.
        pattern: Diagonals that alternate as on a chessboard, or all run along (1, 1).
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
    """Disc in z = 0, centered at the origin, normals along +z: 6 rings² triangles, nearly regular.

    Args:
        radius: Radius of the boundary vertices [m].
        rings: Number of rings; ring k has 6 k vertices.
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
    """Unique edges (e, 2) of triangles (m, 3), lower vertex first, sorted."""
    return np.unique(np.sort(_sides(faces), 1), axis=0)


def hinges(faces: np.ndarray) -> np.ndarray:
    """Inner edges (k, 4) of triangles (m, 3): two opposite vertices, then the two on the edge, lower first, sorted.

    The first opposite vertex belongs to the triangle that runs along the edge from the lower to the higher vertex.

    Raises:
        InputError: If an edge has more than two triangles, or two with the same direction along it.
    """
    check_edges(faces, "faces")
    sides, opposite = _sides(faces), np.asarray(faces)[:, [2, 0, 1]].T.ravel()
    order = np.lexsort((sides[:, 0] > sides[:, 1], *np.sort(sides, 1).T[::-1]))
    sides, opposite = sides[order], opposite[order]
    inner = np.flatnonzero((sides[:-1] == sides[1:, ::-1]).all(1))
    return np.column_stack([opposite[inner], opposite[inner + 1], sides[inner]])


def check_sheet(mesh: Mesh, name: str) -> None:
    """Check that a mesh is a sheet.

    Args:
        mesh: The mesh.
        name: Name for error messages, such as "bodies.flag.shape".

    Raises:
        InputError: If it has no triangles, numbers that are not finite, vertices without a triangle, triangles without
            an area (by index, with the area), edges with more than two, or neighbours that face opposite ways.
    """
    vertices, faces = mesh.vertices, mesh.faces
    validation.check(vertices, faces, "triangle", name)
    corners = vertices[faces]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
    longest = np.linalg.norm(corners - np.roll(corners, 1, 1), axis=-1).max(1)
    bad = np.flatnonzero(area <= MIN_AREA_RATIO * longest**2)
    if len(bad):
        raise InputError(
            f"{name}: triangle {bad[0]} has no area ({area[bad[0]]:.4g} m²){of(bad)}; merge its vertices or remesh."
        )
    check_edges(faces, name)


def check_edges(faces: np.ndarray, name: str) -> None:
    """Check that no edge has more than two triangles (m, 3), or two with the same direction along it.

    Raises:
        InputError: With the edge and its triangles.
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


# Half the length of a circle of radius 1, times the height of a regular triangle of side 1
EVEN_RING_RATIO = np.pi * 3**0.5 / 2
MIN_RING_VERTICES = 3  # vertices of a ring
RINGS = (5, 11, 20, 33, 53)


def cells(pattern: Sequence[str], cell: float) -> Mesh:
    """Figure of square cells, two triangles each, upright in y = 0 around the origin, x to the right and z up.

    All y are exactly 0, and the forces of a sheet keep them so: it moves in its plane. Normals are along −y, towards a
    reader of the pattern. Diagonals alternate and are mirrored to the right of the middle; with an even number of
    columns the whole mesh is symmetric. Vertices row by row from below, x fastest.

    Args:
        pattern: Rows of text from the top: `#` is a cell, `.` or a space is empty.
        cell: Edge length of a cell [m].

    Raises:
        InputError: If the pattern has no cell, or another character.
    """
    if isinstance(pattern, str) or not all(isinstance(row, str) for row in pattern):
        raise InputError(f"pattern: got {pattern!r}; expected rows of text, such as ['###', '#.#'].")
    for sign in "".join(pattern):
        if sign not in "#. ":
            raise InputError(f"pattern: got the sign {sign!r}; expected `#` for a cell, and `.` for none.")
    (cell,) = lengths("cell", cell)
    columns = max(map(len, pattern), default=0)
    filled = np.array([[sign == "#" for sign in row.ljust(columns)] for row in reversed(pattern)])
    if not filled.any():
        raise InputError(f"pattern: got {list(pattern)}, without a cell; put a `#` where one is.")
    row, column = np.nonzero(filled)
    turned = (row + np.where(2 * column < columns, column, columns - column)) % 2 == 1
    corner = row * (columns + 1) + column
    around = corner[:, None] + np.array([0, 1, columns + 2, columns + 1])  # counter-clockwise
    around = np.where(turned[:, None], np.roll(around, -1, 1), around)
    used, faces = np.unique(around[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3), return_inverse=True)
    faces = faces.reshape(-1, 3)
    place = np.stack([used % (columns + 1), used // (columns + 1)], 1)
    x, z = ((place - (place.min(0) + place.max(0)) / 2) * cell).T
    uv = (place - place.min(0)) / np.ptp(place, 0)
    return Mesh(np.stack([x, np.zeros_like(x), z], 1), faces, uv, faces)


def bell(radius: float, height: float, rings: Sequence[int] = RINGS) -> Mesh:
    """A cap of a sphere, open below, its apex up along z and its normals outwards.

    The numbers of vertices in its rings make its V = 1 + Σ n vertices and 2 (V − 1) − n_last triangles: as given,
    123 and 191, those of the paper's jellyfish. The rings lie where neighbouring triangles are nearly regular.

    Args:
        radius: Radius of the rim [m].
        height: From the rim to the apex [m]; that of half a sphere is its radius.
        rings: Vertices of each ring from the apex to the rim, at least 3.
    """
    (radius,), (height,) = lengths("radius", radius), lengths("height", height)
    rings = counts("rings", rings, max(1, np.size(rings)), MIN_RING_VERTICES)
    n = np.array(rings)
    # in the plane, gaps are the height of a regular triangle on the mean edge: r' − r = √3/2 (2π r/n + 2π r'/n')/2 ...
    flat = np.cumprod([1.0, *(1 + EVEN_RING_RATIO / n[:-1]) / (1 - EVEN_RING_RATIO / n[1:])])
    angle = 2 * np.arctan(flat / flat[-1] * height / radius)  # ... and the stereographic map to the sphere keeps angles
    curve = (radius**2 + height**2) / (2 * height)
    places, faces, first = [(0.0, 0.0, height)], [], 1
    for k, count in enumerate(rings):
        turn = 2 * np.pi * np.arange(count) / count
        across, up = curve * np.sin(angle[k]), curve * (np.cos(angle[k]) - 1) + height
        places += [(across * np.cos(t), across * np.sin(t), up) for t in turn]
        if k == 0:
            faces += [(0, 1 + i, 1 + (i + 1) % count) for i in range(count)]
        else:
            faces += _strip(first - rings[k - 1], rings[k - 1], first, count)
        first += count
    places, faces = np.array(places), np.array(faces)
    return Mesh(places, faces, (places[:, :2] / radius + 1) / 2, faces)


def _strip(a: int, n: int, b: int, m: int) -> list[tuple[int, int, int]]:
    """Triangles between a ring of n vertices from a on and the next one of m from b on, counter-clockwise from outside."""
    faces, i, j = [], 0, 0
    while i < n or j < m:
        if (2 * j + 1) * n <= (2 * i + 1) * m and j < m or i == n:  # the edge whose middle comes first
            faces.append((a + i % n, b + j, b + (j + 1) % m))
            j += 1
        else:
            faces.append((a + i, b + j % m, a + (i + 1) % n))
            i += 1
    return faces
