"""Sparse elimination against a dense factor, and colors of columns by the products they are for."""

import numpy as np
import pytest

from gradsim.geometry import tet_grid
from gradsim.numerics.elimination import Elimination, eliminate

CELLS = (6, 4, 3)
PINNED = [0, 5, 17]


@pytest.fixture(scope="module")
def tets() -> np.ndarray:
    return tet_grid.box((0.3, 0.2, 0.1), CELLS).tets


def _matrix(pattern: Elimination, tets: np.ndarray) -> np.ndarray:
    """A positive definite matrix of that sparsity in the order of the elimination, all else random."""
    n = len(pattern.order)
    place = {int(vertex): c for c, vertex in enumerate(pattern.order)}
    random, matrix = np.random.default_rng(1), np.zeros((n, n))
    for element in tets:
        columns = [place[vertex] for vertex in element.tolist() if vertex in place]
        part = random.normal(size=(len(columns), len(columns)))
        matrix[np.ix_(columns, columns)] += part @ part.T
    return matrix + np.eye(n)


def test_pattern_is_that_of_the_dense_factor(tets):
    pattern = eliminate(tets.max() + 1, [tets], PINNED)
    lower = np.tril(np.linalg.cholesky(_matrix(pattern, tets)), -1)
    columns = np.repeat(np.arange(len(pattern.order)), np.diff(pattern.start))
    assert sorted(pattern.order.tolist()) == sorted(set(range(tets.max() + 1)) - set(PINNED))
    assert sorted(zip(*np.nonzero(lower), strict=True)) == sorted(zip(pattern.row, columns, strict=True))
    assert all(np.all(np.diff(pattern.row[a:b]) > 0) for a, b in zip(pattern.start, pattern.start[1:], strict=False))


def test_order_fills_less_than_that_of_the_grid(tets):
    pattern = eliminate(tets.max() + 1, [tets], [])
    natural = np.argsort(pattern.order)
    lower = np.tril(np.linalg.cholesky(_matrix(pattern, tets)[np.ix_(natural, natural)]), -1)
    assert len(pattern.row) < 0.7 * np.count_nonzero(np.abs(lower) > 0)


def test_products_with_the_colors_give_every_entry(tets):
    """As in `soft/factor_kernels.py`: each entry below the diagonal is met from both of its vertices."""
    count = tets.max() + 1
    pattern = eliminate(count, [tets], PINNED)
    matrix, n = _matrix(pattern, tets), len(pattern.order)
    place = np.full(count, -1)
    place[pattern.order] = np.arange(n)
    met = np.zeros((2, len(pattern.row)))
    for color in range(len(pattern.color_start) - 1):
        ones = pattern.colors[pattern.color_start[color] : pattern.color_start[color + 1]]
        product = matrix[:, place[ones]].sum(1)
        assert np.array_equal(product[place[ones]], np.diag(matrix)[place[ones]])
        for m in range(pattern.neighbor_start[color], pattern.neighbor_start[color + 1]):
            met[pattern.neighbor_below[m], pattern.neighbor_entry[m]] += product[place[pattern.neighbor[m]]]
    columns = np.repeat(np.arange(n), np.diff(pattern.start))
    assert np.array_equal(met[0], matrix[pattern.row, columns])
    assert np.array_equal(met[1], matrix[pattern.row, columns])


def test_vertices_without_elements_have_columns_of_their_own():
    pattern = eliminate(3, [np.array([[0], [2]])], [1])
    assert sorted(pattern.order.tolist()) == [0, 2]
    assert pattern.start.tolist() == [0, 0, 0] and len(pattern.color_start) == 2
    assert eliminate(2, [], [0, 1]).start.tolist() == [0]
