"""Finer meshes fill the same solid, and their middles stand where they are said to."""

import numpy as np
import pytest

from gradsim.geometry import tet_grid, tet_mesh
from gradsim.geometry import tet_mesh as tet_refine
from gradsim.geometry.tet_mesh import TetMesh


@pytest.fixture
def mesh():
    """A ball with every vertex moved a little."""
    ball = tet_grid.ball(0.7, 4)
    return TetMesh(ball.vertices + 0.02 * np.random.default_rng(2).normal(size=ball.vertices.shape), ball.tets)


def test_each_tetrahedron_becomes_eight_of_equal_volume_that_fit(mesh):
    fine = tet_refine.refine(mesh)
    tet_mesh.check(fine, "fine")
    assert fine.volumes.reshape(-1, 8) == pytest.approx(np.repeat(mesh.volumes[:, None] / 8, 8, 1), rel=1e-10)
    assert len(tet_mesh.surface(fine)) == 4 * len(tet_mesh.surface(mesh))


def test_the_shape_of_tetrahedra_does_not_decay(mesh):
    """The octahedra are cut around their shortest diagonal, so that the worst quality stays."""
    qualities = [mesh.quality.min()]
    for _ in range(3):
        mesh = tet_refine.refine(mesh if len(mesh.tets) < 5000 else TetMesh(mesh.vertices, mesh.tets[:5000]))
        qualities.append(mesh.quality.min())
    assert min(qualities) > 0.6 * qualities[0]
    assert qualities[3] == pytest.approx(qualities[2], rel=0.1)


def test_middles_stand_between_the_corners_they_are_said_to(mesh):
    fine = tet_refine.quadratic(mesh)
    assert (fine.tets[:, :4] == mesh.tets).all()
    x = fine.vertices[fine.tets]
    for node, (a, b) in enumerate([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)], start=4):
        assert x[:, node] == pytest.approx((x[:, a] + x[:, b]) / 2, abs=1e-15)


def test_middles_are_shared_and_all_used(mesh):
    """Euler's characteristic of a ball: vertices − edges + faces − tetrahedra = 1."""
    fine = tet_refine.quadratic(mesh)
    edges, inner = len(fine.vertices) - len(mesh.vertices), 4 * len(mesh.tets) - len(tet_mesh.surface(mesh))
    faces = inner // 2 + len(tet_mesh.surface(mesh))
    assert len(mesh.vertices) - edges + faces - len(mesh.tets) == 1
    assert set(fine.tets.ravel()) == set(range(len(fine.vertices)))
