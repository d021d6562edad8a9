"""Ropes and nets have the springs they are said to have."""

import math

import numpy as np
import pytest
from tolerances import ULPS, near

from gradsim.errors import InputError
from gradsim.geometry import network
from gradsim.geometry.network import Net


def made(vertices, edges):
    return Net(np.array(vertices), np.array(edges))


def lengths(mesh):
    return np.linalg.norm(np.diff(mesh.vertices[mesh.edges], axis=1)[:, 0], axis=1)


def test_a_rope_has_its_length_in_equal_parts():
    rope = network.rope(1.7, 5)
    network.check(rope, "rope")
    assert lengths(rope) == near(np.full(5, 1.7 / 5), ULPS)
    assert rope.vertices[[0, -1]] == pytest.approx(np.array([[-0.85, 0, 0], [0.85, 0, 0]]))


@pytest.mark.parametrize("diagonals", [True, False])
def test_a_net_has_springs_along_its_rows_its_columns_and_both_diagonals(diagonals):
    mesh = network.grid((0.9, 2.0), (3, 4), diagonals)
    network.check(mesh, "net")
    along, counts = np.unique(lengths(mesh).round(12), return_counts=True)
    expected = {0.3: 3 * 5, 0.5: 4 * 4} | ({round(math.hypot(0.3, 0.5), 12): 2 * 12} if diagonals else {})
    assert dict(zip(along.tolist(), counts.tolist(), strict=True)) == expected


def test_what_is_no_net_is_refused_by_index():
    x, e = network.rope(1.0, 3).vertices, network.rope(1.0, 3).edges
    for bad, message in [
        (made(x, np.zeros((0, 2), int)), "yarn has no spring"),
        (made([*x[:3], [math.nan, 0, 0]], e), r"vertex 3 is \[nan, 0.0, 0.0\]"),
        (made(x, [*e, [0, 4]]), r"spring 3 names vertices \[0, 4\]; there are 4"),
        (made(x, [*e, [2, 2]]), "spring 3 names a vertex twice"),
        (made([*x, [0, 0, 0]], e), "vertex 4 belongs to no spring"),
        (made([*x, x[0]], [*e, [4, 0]]), r"spring 3 has no length: its ends \[4, 0\] are at one place"),
        (made(x, [*e, [2, 1]]), "springs 1 and 3 join the same vertices; keep one"),
    ]:
        with pytest.raises(InputError, match=message):
            network.check(bad, "yarn")


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: network.rope(0.0, 3), "length: got 0.0; expected a length above 0"),
        (lambda: network.rope(1.0, 0), "segments: got 0; expected a whole number of at least 1"),
        (lambda: network.grid((1.0, 1.0), (3,)), "cells: got .* expected 2 whole numbers"),
        (lambda: made(np.zeros((3, 2)), [[0, 1]]), r"vertices of a net have shape \(3, 2\); expected \(n, 3\)"),
    ],
)
def test_sizes_that_make_no_net_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
