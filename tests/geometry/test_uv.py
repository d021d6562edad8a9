"""Where a texture lies on each primitive."""

import numpy as np
import pytest
from tolerances import SOLVED, near

from gradsim.geometry import mesh as meshes

SHAPES = {
    "box": meshes.box([1.0, 2.0, 3.0]),
    "sphere": meshes.sphere(2.0, 2),
    "icosahedron": meshes.sphere(1.0, 0),
    "cylinder": meshes.cylinder(0.5, 2.0, 12),
    "cone": meshes.cone(0.5, 2.0, 11),
    "capsule": meshes.capsule(0.5, 1.0, 12, 4),
    "torus": meshes.torus(2.0, 0.5, 12, 8),
    "tetrahedron": meshes.tetrahedron([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]),
}


def corners(mesh):
    return mesh.uv[mesh.uv_faces]


def areas(uv):
    a, b, c = np.moveaxis(uv, 1, 0)
    return np.linalg.det(np.stack([b - a, c - a], -1)) / 2


@pytest.mark.parametrize("mesh", SHAPES.values(), ids=SHAPES)
def test_no_face_is_mirrored_or_without_area_in_the_image(mesh):
    """Outward counter-clockwise faces stay so with u to the right and v up; a seam would turn one round."""
    assert corners(mesh).shape == (len(mesh.faces), 3, 2)
    assert (areas(corners(mesh)) > 1e-6).all()


@pytest.mark.parametrize("mesh", SHAPES.values(), ids=SHAPES)
def test_faces_do_not_overlap_and_stay_within_one_turn(mesh):
    """The areas add up to that of the picture at most; at seams, u and v reach beyond 1 by less than a face."""
    uv = corners(mesh)
    assert areas(uv).sum() <= 1 + 1e-9
    assert uv.min() >= 0
    assert (uv.min(1) < 1).all()
    assert (np.ptp(uv, axis=1) <= 0.5 + 1e-9).all()


@pytest.mark.parametrize("name", ["sphere", "capsule", "torus"])
def test_the_whole_image_goes_round_what_has_no_lids(name):
    """But for half of the triangles at the poles: those of m faces that reach a pole cover half of their squares."""
    mesh = SHAPES[name]
    at_pole = np.isclose(np.abs(mesh.vertices[:, 2]), np.abs(mesh.vertices[:, 2]).max())[mesh.faces].any(1)
    missing = 0.0 if name == "torus" else areas(corners(mesh))[at_pole].sum()
    assert areas(corners(mesh)).sum() == near(1 - missing, SOLVED, scale=1.0)


def test_u_of_a_ball_is_its_longitude_and_v_its_latitude():
    mesh = SHAPES["sphere"]
    uv, points = corners(mesh), mesh.vertices[mesh.faces] / 2
    off = np.hypot(points[..., 0], points[..., 1]) > 1e-9
    longitude, latitude = 2 * np.pi * (uv[..., 0] - 0.5), np.pi * (uv[..., 1] - 0.5)
    expected = np.stack([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude)], -1)
    np.testing.assert_allclose(expected[off], points[off][:, :2], atol=1e-10)
    np.testing.assert_allclose(np.sin(latitude), points[..., 2], atol=1e-10)


@pytest.mark.parametrize(
    ("face", "tile", "right", "up"),
    [
        ([1, 0, 0], (0, 1), [0, 1, 0], [0, 0, 1]),
        ([0, -1, 0], (1, 0), [1, 0, 0], [0, 0, 1]),
        ([0, 0, 1], (2, 1), [1, 0, 0], [0, 1, 0]),
        ([0, 0, -1], (2, 0), [1, 0, 0], [0, -1, 0]),
    ],
)
def test_each_face_of_a_box_has_a_tile_and_stands_upright_in_it(face, tile, right, up):
    mesh = SHAPES["box"]
    size = np.array([1.0, 2.0, 3.0])
    on = (mesh.vertices[mesh.faces] @ face > 0.49 * np.abs(face) @ size).all(1)
    points = mesh.vertices[mesh.faces][on] / size
    u = (tile[0] + 0.5 + points @ right) / 3
    v = (tile[1] + 0.5 + points @ up) / 2
    assert on.sum() == 2
    np.testing.assert_allclose(corners(mesh)[on], np.stack([u, v], -1), atol=1e-11)


def test_the_lids_of_a_cylinder_are_discs_in_the_upper_half():
    mesh = SHAPES["cylinder"]
    z = mesh.vertices[mesh.faces][..., 2]
    for end, middle, flip in ((-1.0, 0.25, [1, -1]), (1.0, 0.75, [1, 1])):
        lid = (z == end).all(1)
        flat = corners(mesh)[lid] - [middle, 0.75]
        np.testing.assert_allclose(flat, mesh.vertices[mesh.faces][lid][..., :2] * flip / 2, atol=1e-11)
    assert corners(mesh)[np.ptp(z, axis=1) > 0][..., 1].max() == 0.5
