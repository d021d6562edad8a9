"""Volumes and qualities of known tetrahedra, and what is no mesh of them, by index."""

import math

import numpy as np
import pytest

from gradsim.errors import InputError
from gradsim.geometry import tet_grid, tet_mesh
from gradsim.geometry.tet_mesh import TetMesh

CORNER = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
REGULAR = [[1.0, 1.0, 1.0], [-1.0, 1.0, -1.0], [1.0, -1.0, -1.0], [-1.0, -1.0, 1.0]]  # around the origin


def made(vertices, tets):
    return TetMesh(np.array(vertices), np.array(tets))


@pytest.fixture
def grid():
    """A box of 40 tetrahedra, squeezed, turned and moved."""
    box = tet_grid.box((0.4, 0.3, 0.2), (2, 2, 2))
    rng = np.random.default_rng(5)
    return made(box.vertices @ (np.eye(3) + 0.2 * rng.normal(size=(3, 3))) + rng.normal(size=3), box.tets)


def changed(mesh, row, tet):
    tets = mesh.tets.copy()
    tets[row] = tet
    return made(mesh.vertices, tets)


def test_volumes_and_qualities_of_known_tetrahedra():
    """A corner of a cube: V = 1/6, Σ l² = 3 + 6. A regular one of edge √8: V = 8/3, q = 1."""
    both = made([*CORNER, *REGULAR], [[0, 1, 2, 3], [0, 2, 1, 3], [4, 5, 6, 7], [0, 1, 2, 2]])
    assert both.volumes == pytest.approx([1 / 6, -1 / 6, 8 / 3, 0])
    corner = 12 * 0.5 ** (2 / 3) / 9
    assert both.quality == pytest.approx([corner, -corner, 1, 0])
    assert both.edge_lengths[2] == pytest.approx(np.full(6, math.sqrt(8)))


def test_the_mesh_is_read_only(grid):
    with pytest.raises(ValueError, match="read-only"):
        grid.vertices[0] = 0
    assert not grid.tets.flags.writeable


def test_the_surface_of_a_tetrahedron_faces_outwards():
    faces = tet_mesh.surface(made(REGULAR, [[0, 1, 2, 3]]))
    assert len(faces) == 4
    a, b, c = np.moveaxis(np.array(REGULAR)[faces], 1, 0)
    assert (np.einsum("fi,fi->f", np.cross(b - a, c - a), a) > 0).all()


def test_an_inverted_tetrahedron_is_named_with_its_volume(grid):
    tets = grid.tets.copy()
    tets[17] = tets[17][[0, 2, 1, 3]]
    with pytest.raises(
        InputError, match=rf"beam: tetrahedron 17 has rest volume -{grid.volumes[17]:.4g} m³: it is inside"
    ):
        tet_mesh.check(made(grid.vertices, tets), "beam")


def test_a_degenerate_tetrahedron_is_named_at_any_scale_and_place():
    for scale in (1e-6, 1.0, 1e6):
        flat = [*CORNER[:3], [0.3, 0.4, 0.0], *(np.array(CORNER) + 2)]
        mesh = made(
            (np.array(flat) @ np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]) * scale,
            [[4, 5, 6, 7], [0, 1, 2, 3]],
        )
        mesh = made(mesh.vertices, np.where((mesh.volumes < 0)[:, None], mesh.tets[:, [0, 2, 1, 3]], mesh.tets))
        with pytest.raises(InputError, match=r"tetrahedron 1 has rest volume .* m³: it is degenerate; remesh"):
            tet_mesh.check(mesh, "beam")


def test_what_is_no_mesh_of_tetrahedra_is_refused_by_index(grid):
    n, last = len(grid.vertices), grid.vertices[-1]
    for mesh, message in [
        (made(grid.vertices, np.zeros((0, 4), int)), "beam has no tetrahedron"),
        (
            made([*grid.vertices[:-1], [0, math.nan, 0]], grid.tets),
            rf"vertex {n - 1} is \[0.0, nan, 0.0\]; expected numb",
        ),
        (
            changed(grid, 3, [0, 1, 2, n]),
            rf"tetrahedron 3 names vertices \[0, 1, 2, {n}\]; there are {n}, counted from 0",
        ),
        (changed(grid, 3, [0, 1, -1, 2]), "tetrahedron 3 names vertices .*counted from 0"),
        (changed(grid, 3, [0, 1, 2, 1]), r"tetrahedron 3 names a vertex twice, \[0, 1, 2, 1\]"),
        (
            made([*grid.vertices, [9, 9, 9], [8, 8, 8]], grid.tets),
            rf"vertex {n} belongs to no tetrahedron \(the first of 2",
        ),
        (
            made([*grid.vertices, last], np.where((np.arange(40) == 39)[:, None] & (grid.tets == n - 1), n, grid.tets)),
            rf"vertices {n - 1} and {n} are at one place; the solid would come apart",
        ),
        (changed(grid, 4, grid.tets[3]), "belongs to tetrahedra 0, 3, 4"),
    ]:
        with pytest.raises(InputError, match=message):
            tet_mesh.check(mesh, "beam")


def test_arrays_of_other_shapes_are_refused():
    with pytest.raises(InputError, match=r"tets of a tet mesh have shape \(1, 3\); expected \(n, 4\)"):
        made(CORNER, [[0, 1, 2]])
