# pyright: reportOptionalSubscript=false
"""Sparse symmetric elimination: an order with little fill, the pattern of the factor, and columns to probe together.

The graph of a matrix A has an edge (a, b) where A_ab may be other than 0. L of A = L D Lᵀ has the pattern

    struct(c) = {r > c: A_rc ≠ 0} ∪ ⋃ (struct(k) \\ {c})          over all k < c with min struct(k) = c

(George & Liu, Computer Solution of Large Sparse Positive Definite Systems, 1981, ch. 5). Columns that share no row are
found by one product with A (Curtis, Powell & Reid 1974): they get the same color.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class Elimination:
    """Order, pattern and colors of a sparse symmetric matrix; a column is a place in the order.

    Attributes:
        order: Vertex of each column (columns,).
        start: Where the rows of each column begin (columns + 1,).
        row: Rows below the diagonal of each column, ascending (entries,).
        colors: Vertices by color, one color after another (columns,).
        color_start: Where each color begins (colors + 1,).
        neighbor: By color, the vertices that products with its columns reach, but for these themselves.
        neighbor_entry: Entry of the pair.
        neighbor_below: 1 where the neighbor comes after the vertex of that color in the order, else 0.
        neighbor_start: Where each color begins in these (colors + 1,).
        operations: Products of entries that a factorization takes.
    """

    order: np.ndarray
    start: np.ndarray
    row: np.ndarray
    colors: np.ndarray
    color_start: np.ndarray
    neighbor: np.ndarray
    neighbor_entry: np.ndarray
    neighbor_below: np.ndarray
    neighbor_start: np.ndarray
    operations: int


def eliminate(count: int, elements: list[np.ndarray], left_out: list[int]) -> Elimination:
    """Elimination of the vertices that are not left out.

    Args:
        count: Vertices.
        elements: Arrays (elements, nodes) of vertices; all vertices of an element act on each other.
        left_out: Vertices without a row.
    """
    free = np.setdiff1d(np.arange(count), left_out)
    number = np.full(count, -1)
    number[free] = np.arange(len(free))
    graph = _graph(len(free), [number[index] for index in elements])
    place = _order(graph)
    order = np.argsort(place)
    start, row = _pattern(graph, place, order)
    color = _colors(graph)
    by_color = np.argsort(color, kind="stable")
    below, column = graph.nonzero()
    sorted_by = np.argsort(color[column], kind="stable")
    below, column = below[sorted_by], column[sorted_by]
    first, last = (function(place[below], place[column]) for function in (np.minimum, np.maximum))
    key = np.repeat(np.arange(len(free)), np.diff(start)) * len(free) + row
    beginnings = lambda values: np.searchsorted(values, np.arange(color.max(initial=-1) + 2))
    return Elimination(
        order=free[order],
        start=start,
        row=row,
        colors=free[by_color],
        color_start=beginnings(color[by_color]),
        neighbor=free[below],
        neighbor_entry=np.searchsorted(key, first * len(free) + last),
        neighbor_below=(place[below] > place[column]).astype(np.int32),
        neighbor_start=beginnings(color[column]),
        operations=int((np.diff(start) * (np.diff(start) + 1) // 2).sum()),
    )


def _graph(count: int, elements: list[np.ndarray]) -> "csr_array":
    """Edges between vertices, without loops; numbers below 0 are no vertices."""
    pairs = [np.stack(np.broadcast_arrays(e[:, :, None], e[:, None]), -1).reshape(-1, 2) for e in elements]
    a, b = np.concatenate([np.zeros((0, 2), int), *pairs]).T
    is_edge = (a >= 0) & (b >= 0) & (a != b)
    a, b = np.unique(np.stack([a[is_edge], b[is_edge]]), axis=1)
    return scipy.sparse.csr_array(scipy.sparse.coo_array((np.ones(len(a)), (a, b)), shape=(count, count)))


def _neighbors(graph: "csr_array") -> list[np.ndarray]:
    """Columns with an entry of each row."""
    return np.split(np.asarray(graph.indices), np.asarray(graph.indptr)[1:-1]) if graph.shape[0] else []


def _order(graph: "csr_array") -> np.ndarray:
    """Place of each vertex in an order of minimum degree."""
    if not graph.nnz:
        return np.arange(graph.shape[0])
    matrix = graph + scipy.sparse.eye_array(graph.shape[0]) * (1.0 + graph.sum(1).max())
    factors = scipy.sparse.linalg.splu(
        scipy.sparse.csc_array(matrix),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return factors.perm_c.astype(int)


def _pattern(graph: "csr_array", place: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts of the rows of each column, and the rows."""
    columns: list[list[int]] = []
    children: list[list[int]] = [[] for _ in order]
    neighbors = _neighbors(graph)
    for c, vertex in enumerate(order):
        near = place[neighbors[vertex]]
        rows = set(near[near > c].tolist()).union(*(columns[k] for k in children[c])) - {c}
        columns.append(sorted(rows))
        if rows:
            children[columns[c][0]].append(c)
    start = np.cumsum([0, *map(len, columns)])
    return start, np.array([r for rows in columns for r in rows], int)


def _colors(graph: "csr_array") -> np.ndarray:
    """A color for each vertex, unlike those of all it shares a row with; greedy."""
    loops = scipy.sparse.csr_array(graph + scipy.sparse.eye_array(graph.shape[0])) if graph.shape[0] else graph
    color = np.full(graph.shape[0], -1)
    for vertex, shared in enumerate(_neighbors(scipy.sparse.csr_array(loops @ loops))):
        taken = color[shared]
        color[vertex] = np.setdiff1d(np.arange(len(taken) + 1), taken)[0]
    return color
