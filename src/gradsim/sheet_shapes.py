"""Sheets with an outline or a curve of their own: figures of cells, and bells."""

from collections.abc import Sequence

import numpy as np

from gradsim.errors import InputError
from gradsim.mesh import Mesh
from gradsim.sizes import counts, lengths

EVEN = np.pi * 3**0.5 / 2  # half the length of a circle of radius 1, times the height of a regular triangle of side 1
LEAST = 3  # vertices of a ring
RINGS = (5, 11, 20, 33, 53)


def cells(pattern: Sequence[str], cell: float) -> Mesh:
    """Square cells of two triangles each, standing upright in y = 0 around the origin, x to the right and z up.

    All y are exactly 0, and the forces of a sheet leave them so: it moves in its plane. Normals are along −y, towards
    who reads the pattern. The diagonals of neighbouring cells turn, and are mirrored to the right of the middle; where
    the number of columns is even, so is the whole mesh. Vertices row by row from below, x running faster.

    Args:
        pattern: Rows of text from the top: `#` is a cell, `.` or a space none.
        cell: Edge length [m].

    Raises:
        InputError: If the pattern has no cell, or another sign.
    """
    if isinstance(pattern, str) or not all(isinstance(row, str) for row in pattern):
        raise InputError(f"pattern: got {pattern!r}; expected rows of text, such as ['###', '#.#'].")
    for sign in "".join(pattern):
        if sign not in "#. ":
            raise InputError(f"pattern: got the sign {sign!r}; expected `#` for a cell, and `.` for none.")
    (cell,) = lengths("cell", cell)
    columns = max(map(len, pattern), default=0)
    there = np.array([[sign == "#" for sign in row.ljust(columns)] for row in reversed(pattern)])
    if not there.any():
        raise InputError(f"pattern: got {list(pattern)}, without a cell; put a `#` where one is.")
    row, column = np.nonzero(there)
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

    The numbers of vertices in its rings make its V = 1 + Σ n vertices and 2 (V − 1) − n_last triangles: as they stand,
    123 and 191, those of the paper's jellyfish. The rings lie where neighbouring triangles are nearly regular.

    Args:
        radius: Of the rim [m].
        height: From the rim to the apex [m]; that of half a sphere is its radius.
        rings: Vertices of each ring from the apex to the rim, at least 3.
    """
    (radius,), (height,) = lengths("radius", radius), lengths("height", height)
    rings = counts("rings", rings, max(1, np.size(rings)), LEAST)
    n = np.array(rings)
    # in the plane, gaps are the height of a regular triangle on the mean edge: r' − r = √3/2 (2π r/n + 2π r'/n')/2 ...
    flat = np.cumprod([1.0, *(1 + EVEN / n[:-1]) / (1 - EVEN / n[1:])])
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
