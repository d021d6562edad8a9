"""Ropes and nets: points connected by springs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradsim.errors import InputError
from gradsim.geometry import validation
from gradsim.geometry.validation import counts, lengths, read_only


@dataclass(frozen=True, eq=False)
class Net:
    """Points and springs.

    Attributes:
        vertices: (n, 3) float64 [m], read-only.
        edges: End points of each spring (k, 2) int64, read-only.
    """

    vertices: np.ndarray
    edges: np.ndarray

    def __post_init__(self):
        for name, width, dtype in (("vertices", 3, np.float64), ("edges", 2, np.int64)):
            array = read_only(f"{name} of a net", getattr(self, name), width, dtype)
            object.__setattr__(self, name, array)


def rope(length: float, segments: int) -> Net:
    """Rope along x, centered at the origin.

    Args:
        length: Length [m].
        segments: Number of springs, one less than points.
    """
    (span,), (segments,) = lengths("length", length), counts("segments", segments)
    step = np.arange(segments + 1)
    vertices = np.zeros((len(step), 3))
    vertices[:, 0] = (step / segments - 0.5) * span
    return Net(vertices, np.stack([step[:-1], step[1:]], 1))


def grid(size: Sequence[float], cells: Sequence[int], diagonals: bool = True) -> Net:
    """Rectangular net in z = 0, centered at the origin; points row by row, x fastest.

    Args:
        size: Edge lengths [m] along x and y.
        cells: Cells along x and y.
        diagonals: Add both diagonals of every cell as springs; without them nothing resists shear.
    """
    (columns, rows), (width, height) = counts("cells", cells, 2), lengths("size", size, 2)
    node = np.arange((rows + 1) * (columns + 1)).reshape(rows + 1, columns + 1)
    pairs = [(node[:, :-1], node[:, 1:]), (node[:-1], node[1:])]
    if diagonals:
        pairs += [(node[:-1, :-1], node[1:, 1:]), (node[:-1, 1:], node[1:, :-1])]
    row, column = np.indices(node.shape).reshape(2, -1)
    places = np.stack([column / columns - 0.5, row / rows - 0.5], 1) * (width, height)
    return Net(
        np.hstack([places, np.zeros((len(places), 1))]),
        np.concatenate([np.stack([a.ravel(), b.ravel()], 1) for a, b in pairs]),
    )


def check(net: Net, name: str) -> None:
    """Check that points and springs make a net.

    Args:
        net: The net.
        name: Name for error messages, such as "bodies.rope.shape".

    Raises:
        InputError: If it has no springs, numbers that are not finite, points without a spring, or springs that name no
            point, have no length, or join the same two points as another (by index).
    """
    vertices, edges = net.vertices, net.edges
    validation.check(vertices, edges, "spring", name)
    bad = np.flatnonzero((vertices[edges[:, 0]] == vertices[edges[:, 1]]).all(1))
    if len(bad):
        ends = edges[bad[0]].tolist()
        raise InputError(f"{name}: spring {bad[0]} has no length: its ends {ends} are at one place; remove it.")
    _, first, where = np.unique(np.sort(edges, 1), axis=0, return_index=True, return_inverse=True)
    bad = np.flatnonzero(first[where.ravel()] != np.arange(len(edges)))
    if len(bad):
        raise InputError(
            f"{name}: springs {first[where.ravel()[bad[0]]]} and {bad[0]} join the same vertices; keep one."
        )
