"""Tetrahedral grids: boxes, beams, cylinders, balls and gears, from bricks cut into 5 or 6.

A brick is an array (2, 2, 2) of its corners. Neighbours must cut the face they share along the same diagonal: bricks of 5
alternate; bricks of 6 may be mirrored along each axis, if that depends on their place along this axis alone.
"""

import itertools
from collections.abc import Sequence
from typing import Literal

import numpy as np

from gradsim.errors import InputError
from gradsim.geometry.tet_mesh import TetMesh
from gradsim.geometry.validation import counts, lengths


def box(size: Sequence[float], cells: Sequence[int], per_cell: Literal[5, 6] = 5) -> TetMesh:
    """A box or, if it is long, a beam. Its centre is the origin, as of all solids here.

    Args:
        size: Edge lengths [m] along x, y and z.
        cells: Bricks along x, y and z.
        per_cell: Tetrahedra of a brick: 5, mirrored from brick to brick, or 6 around a diagonal, which points away from
            the centre (Kuhn 1960).
    """
    places, bricks = _lattice(counts("cells", cells, 3))
    vertices = (places / cells - 0.5) * lengths("size", size, 3)
    if per_cell == 6:
        return _oriented(vertices, _six(_outwards(bricks, places, cells)))
    if per_cell != 5:
        raise InputError(f"per_cell is {per_cell}; expected 5 or 6 tetrahedra.")
    odd = places[bricks[:, 0, 0, 0]].sum(1) % 2 == 1
    return _oriented(vertices, _five(np.where(odd[:, None, None, None], bricks[:, ::-1], bricks)))


def cylinder(radius: float, height: float, cells: Sequence[int]) -> TetMesh:
    """A cylinder along z, of bricks with 6 tetrahedra each, pressed to round from a square bar.

    Args:
        radius: Radius of the boundary vertices [m].
        height: Height [m].
        cells: Bricks across and along the axis; an even number across keeps it symmetric.
    """
    across, along = counts("cells", cells, 2)
    places, bricks = _lattice((across, across, along))
    disc = _rounded(2 * places[:, :2] / across - 1) * lengths("radius", radius)
    z = (places[:, 2:] / along - 0.5) * lengths("height", height)
    return _oriented(np.hstack([disc, z]), _six(_outwards(bricks, places, (across, across, along))))


def ball(radius: float, cells: int) -> TetMesh:
    """A ball, of bricks with 6 tetrahedra each, pressed to round from a cube.

    Args:
        radius: Radius of the surface vertices [m].
        cells: Bricks across it, at least 2; an even number keeps it symmetric.
    """
    across = counts("cells", cells, least=2) * 3
    places, bricks = _lattice(across)
    vertices = _rounded(2 * places / across[0] - 1) * lengths("radius", radius)
    return _oriented(vertices, _six(_outwards(bricks, places, across)))


def gear(
    teeth: int = 12,
    radius: float = 1.84,
    root: float = 1.3,
    bore: float = 0.968,
    thickness: float = 2.28,
    cells: Sequence[int] = (1, 2, 4),
) -> TetMesh:
    """A gear around z: a ring with teeth that are half as wide at the tip, in angle, as at the root.

    The defaults are those of the paper's control task: 1152 tetrahedra, 480 vertices, 9.674 m³ (there,
    9.677 kg at 1 kg/m³), radius and thickness.

    Args:
        teeth: Number of teeth, at least 3.
        radius: Radius of the tips [m].
        root: Radius of the roots [m].
        bore: Radius of the hole [m].
        thickness: Along z [m].
        cells: Bricks across the ring, along a tooth, and along z; between the flanks of a tooth there is one.
    """
    ring, tooth, along = counts("cells", cells, 3)
    (teeth,) = counts("teeth", teeth, least=3)
    bore, root, radius = lengths("bore, root, radius", [bore, root, radius], 3)
    if not bore < root < radius:
        raise InputError(f"bore {bore}, root {root} and radius {radius} m; expected each above the one before.")
    # in the plane: rows of nodes along rays, two rays by tooth; those of a tooth go on from the root to its tip
    ray = np.pi / teeth * (np.arange(2 * teeth) - 0.5)
    lean = np.pi / (4 * teeth) * np.where(np.arange(2 * teeth) % 2, -1, 1)
    foot = root * np.stack([np.cos(ray), np.sin(ray)], 1)
    tip = radius * np.stack([np.cos(ray + lean), np.sin(ray + lean)], 1)
    inner = [foot * (bore / root + (1 - bore / root) * s) for s in np.linspace(0, 1, ring + 1)]
    outer = [foot + (tip - foot) * s for s in np.linspace(0, 1, tooth + 1)[1:]]
    plane = np.concatenate(inner + outer)
    row, side = np.indices((ring + tooth, 2 * teeth)).reshape(2, -1)
    filled = (row < ring) | (side % 2 == 0)
    row, side = row[filled], side[filled]
    beside = (side + 1) % (2 * teeth)
    quads = 2 * teeth * (row[:, None, None] + [[0], [1]]) + np.stack([side, beside], 1)[:, None]
    quads[side % 2 == 1] = quads[side % 2 == 1][..., ::-1]  # mirrored in the gaps: no sense of rotation is preferred
    layers = len(plane) * np.arange(along + 1)
    bricks = np.stack([quads[:, None] + layers[:-1, None, None], quads[:, None] + layers[1:, None, None]], -1)
    bricks[:, : along // 2] = bricks[:, : along // 2, ..., ::-1]
    height = (np.arange(along + 1) / along - 0.5) * lengths("thickness", thickness)
    vertices = np.hstack([np.tile(plane, (along + 1, 1)), np.repeat(height, len(plane))[:, None]])
    return _oriented(vertices, _six(bricks.reshape(-1, 2, 2, 2)))


def _lattice(cells: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Integer places (n, 3) of the nodes of a grid, and its bricks (m, 2, 2, 2) by node."""
    shape = tuple(count + 1 for count in cells)
    places = np.moveaxis(np.indices(shape), 0, -1).reshape(-1, 3)
    nodes = np.arange(len(places)).reshape(shape)
    bricks = np.lib.stride_tricks.sliding_window_view(nodes, (2, 2, 2))
    return places, bricks.reshape(-1, 2, 2, 2)


def _outwards(bricks: np.ndarray, places: np.ndarray, cells: Sequence[int]) -> np.ndarray:
    """Mirror bricks in the lower half of every axis, so that their first corner is the one next to the centre."""
    low = places[bricks[:, 0, 0, 0]] < np.asarray(cells) // 2
    for axis in range(3):
        bricks = np.where(low[:, axis, None, None, None], np.flip(bricks, axis + 1), bricks)
    return bricks


def _six(bricks: np.ndarray) -> np.ndarray:
    """Kuhn's cut of bricks (m, 2, 2, 2): a path along three edges from the first to the last corner makes each of 6."""
    paths = [
        np.cumsum([(0, 0, 0), *np.eye(3, dtype=int)[list(order)]], 0) for order in itertools.permutations(range(3))
    ]
    return np.stack([bricks[:, *path.T] for path in paths], 1).reshape(-1, 4)


def _five(bricks: np.ndarray) -> np.ndarray:
    """The cut of bricks (m, 2, 2, 2) into one tetrahedron of every second corner and the 4 that this cuts off."""
    corner = bricks.reshape(-1, 8)
    return corner[:, [[0, 3, 5, 6], [1, 0, 3, 5], [2, 0, 3, 6], [4, 0, 5, 6], [7, 3, 5, 6]]].reshape(-1, 4)


def _oriented(vertices: np.ndarray, tets: np.ndarray) -> TetMesh:
    """Swap the last two corners where the volume is negative."""
    inverted = TetMesh(vertices, tets).volumes < 0
    tets[inverted] = tets[inverted][:, [0, 1, 3, 2]]
    return TetMesh(vertices, tets)


def _rounded(p: np.ndarray) -> np.ndarray:
    """A square or cube [−1, 1]ᵈ pressed to a disc or ball: its shells become round as they come near the surface."""
    shell = np.abs(p).max(1, keepdims=True)
    return p * (1 - shell + shell**2 / np.maximum(np.linalg.norm(p, axis=1, keepdims=True), 1e-300))
