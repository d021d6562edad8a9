"""Volumes against closed forms, neighbours that fit, closed surfaces, and no thin tetrahedra."""

import math

import numpy as np
import pytest
from tolerances import ULPS, near

from gradsim.errors import InputError
from gradsim.geometry import mesh as meshes
from gradsim.geometry import tet_grid, tet_mesh
from gradsim.geometry.mesh import Mesh

GRIDS = {  # mesh, the worst mean ratio of its tetrahedra that we accept
    "box of 5": (tet_grid.box((1.0, 2.0, 3.0), (3, 4, 5)), 0.75),
    "box of 6": (tet_grid.box((1.0, 2.0, 3.0), (3, 4, 5), per_cell=6), 0.64),
    "one brick of 5": (tet_grid.box((1.0, 1.0, 1.0), (1, 1, 1)), 0.83),
    "beam": (tet_grid.box((0.1, 0.03, 0.03), (7, 2, 2)), 0.8),
    "cylinder": (tet_grid.cylinder(0.5, 1.0, (6, 6)), 0.55),
    "odd cylinder": (tet_grid.cylinder(0.5, 0.3, (5, 2)), 0.5),
    "ball": (tet_grid.ball(0.7, 6), 0.76),
    "odd ball": (tet_grid.ball(0.7, 5), 0.7),
    "gear": (tet_grid.gear(), 0.49),
    "fine gear": (tet_grid.gear(8, 2.0, 1.5, 0.5, 1.0, (3, 2, 3)), 0.55),
}


@pytest.fixture(params=GRIDS)
def grid(request):
    return GRIDS[request.param]


def outside(mesh):
    """The surface as a triangle mesh without the vertices inside."""
    used, faces = np.unique(tet_mesh.surface(mesh), return_inverse=True)
    return Mesh(mesh.vertices[used], faces.reshape(-1, 3))


def test_neighbours_fit_and_every_volume_is_positive(grid):
    """Were one face cut in two ways, its halves would be faces of one tetrahedron only, and part of the surface."""
    mesh, _ = grid
    tet_mesh.check(mesh, "grid")
    faces = np.sort(mesh.tets[:, tet_mesh.SIDES].reshape(-1, 3), 1)
    _, count = np.unique(faces, axis=0, return_counts=True)
    assert set(count) <= {1, 2}
    assert (mesh.volumes > 0).all()


def test_the_surface_is_closed_faces_outwards_and_holds_the_volume(grid):
    """Also against doubled faces inside: they would hold no volume, but have an area."""
    mesh, _ = grid
    surface = outside(mesh)
    meshes.check(surface, "surface")
    assert surface.volume == pytest.approx(mesh.volumes.sum(), rel=1e-13)


def test_no_tetrahedron_is_thin(grid):
    mesh, worst = grid
    assert mesh.quality.min() > worst


@pytest.mark.parametrize("per_cell", [5, 6])
def test_a_box_has_its_volume_and_its_area(per_cell):
    mesh = tet_grid.box((0.3, 1.7, 2.9), (2, 5, 3), per_cell)
    assert mesh.tets.shape == (2 * 5 * 3 * per_cell, 4)
    assert mesh.volumes.sum() == near(0.3 * 1.7 * 2.9, ULPS)
    a, b, c = np.moveaxis(mesh.vertices[tet_mesh.surface(mesh)], 1, 0)
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2
    assert area == pytest.approx(2 * (0.3 * 1.7 + 1.7 * 2.9 + 2.9 * 0.3), rel=1e-13)  # no crack inside
    assert mesh.vertices.min(0) == pytest.approx([-0.15, -0.85, -1.45])


@pytest.mark.parametrize("per_cell", [5, 6])
def test_a_box_of_even_cells_is_its_own_mirror_image(per_cell):
    """So that a symmetric load bends it symmetrically."""
    mesh = tet_grid.box((1.0, 1.0, 1.0), (2, 4, 2), per_cell)
    tets = {tuple(sorted(map(tuple, corners.round(9)))) for corners in mesh.vertices[mesh.tets] + 0.0}
    for axis in range(3):
        mirror = np.where(np.arange(3) == axis, -1.0, 1.0)
        image = {tuple(sorted(map(tuple, c.round(9) + 0.0))) for c in mesh.vertices[mesh.tets] * mirror}
        assert image == tets


@pytest.mark.parametrize(
    "volume, exact",
    [
        (lambda n: tet_grid.ball(0.7, n).volumes.sum(), 4 / 3 * math.pi * 0.7**3),
        (lambda n: tet_grid.cylinder(0.7, 0.4, (n, 2)).volumes.sum(), math.pi * 0.7**2 * 0.4),
    ],
    ids=["ball", "cylinder"],
)
def test_round_solids_reach_their_volume_with_the_square_of_the_brick(volume, exact):
    errors = [1 - volume(n) / exact for n in (4, 8, 16)]
    assert errors[0] < 0.11
    slopes = np.log2(np.divide(errors[:-1], errors[1:]))
    assert slopes == pytest.approx([2, 2], abs=0.15)  # chords: O(h²); the next term is O(h⁴)


def test_every_vertex_of_a_round_surface_is_at_the_radius():
    ball = tet_grid.ball(0.7, 6)
    skin = np.unique(tet_mesh.surface(ball))
    assert np.linalg.norm(ball.vertices[skin], axis=1) == pytest.approx(0.7)
    inner = np.setdiff1d(np.arange(len(ball.vertices)), skin)
    assert np.linalg.norm(ball.vertices[inner], axis=1).max() < 0.6


def test_the_gear_is_that_of_the_control_task():
    gear = tet_grid.gear()
    assert (len(gear.tets), len(gear.vertices)) == (1152, 480)
    assert np.linalg.norm(gear.vertices[:, :2], axis=1).max() == pytest.approx(1.84)
    assert np.ptp(gear.vertices[:, 2]) == pytest.approx(2.28)
    assert gear.volumes.sum() == pytest.approx(9.677, rel=1e-3)  # [m³]: its mass at 1 kg/m³


def test_a_gear_has_the_volume_of_its_ring_and_teeth():
    teeth, radius, root, bore, thickness = 7, 2.0, 1.4, 0.6, 0.9
    step = math.pi / teeth  # from ray to ray
    ring = teeth * math.sin(step) * (root**2 - bore**2)
    foot, tip = 2 * root * math.sin(step / 2), 2 * radius * math.sin(step / 4)  # parallel edges of a tooth
    tooth = (foot + tip) / 2 * (radius * math.cos(step / 4) - root * math.cos(step / 2))
    gear = tet_grid.gear(teeth, radius, root, bore, thickness, (2, 3, 2))
    assert gear.volumes.sum() == pytest.approx(thickness * (ring + teeth * tooth), rel=1e-13)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: tet_grid.box((1, 2), (1, 1, 1)), r"size: got \(1, 2\); expected 3 lengths above 0 \[m\]"),
        (lambda: tet_grid.box((1, 2, 0), (1, 1, 1)), "size: got .* expected 3 lengths above 0"),
        (
            lambda: tet_grid.box((1, 2, 3), (1, 1.5, 1)),  # pyright: ignore[reportArgumentType]
            "cells: got .* expected 3 whole numbers of at least 1",
        ),
        (
            lambda: tet_grid.box((1, 2, 3), (1, 1, 1), 7),  # pyright: ignore[reportArgumentType]
            "per_cell is 7; expected 5 or 6",
        ),
        (lambda: tet_grid.ball(1.0, 1), "cells: got 1; expected a whole number of at least 2"),
        (lambda: tet_grid.ball(math.nan, 4), "radius: got nan; expected a length above 0"),
        (lambda: tet_grid.gear(teeth=2), "teeth: got 2; expected a whole number of at least 3"),
        (lambda: tet_grid.gear(root=2.0), "expected each above the one before"),
    ],
)
def test_sizes_that_make_no_solid_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
