"""Figures stand as their rows of text say and exactly upright; bells are regular caps of a sphere."""

import math

import numpy as np
import pytest

from gradsim.errors import InputError
from gradsim.geometry import sheet
from gradsim.geometry import sheet as sheet_shapes

WALKER = ["#########"] * 4 + ["##.....##"] * 4
SYMMETRIC = (6, 12, 24, 30, 48)


def normals(mesh):
    """Twice the area of each triangle, along its normal (m, 3)."""
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces], 1, 0)
    return np.cross(b - a, c - a)


def quality(mesh):
    """4 √3 A / Σ l² of each triangle: 1 if it is regular, 0 if it has no area."""
    corners = mesh.vertices[mesh.faces]
    squares = np.square(corners - np.roll(corners, 1, 1)).sum((1, 2))
    return 2 * math.sqrt(3) * np.linalg.norm(normals(mesh), axis=1) / squares


def boundary(mesh):
    """Vertices of edges with one triangle."""
    sides = np.sort(mesh.faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), 1)
    ends, count = np.unique(sides, axis=0, return_counts=True)
    return np.unique(ends[count == 1])


def test_the_walker_has_the_numbers_of_the_paper():
    mesh = sheet_shapes.cells(WALKER, 0.25)
    sheet.check_sheet(mesh, "walker")
    assert (len(mesh.vertices), len(mesh.faces)) == (74, 104)


def test_a_figure_stands_as_its_text_is_read_from_the_front():
    mesh = sheet_shapes.cells(["#.", "##", " #"], 0.5)
    centers = (mesh.vertices[mesh.faces[::2]].mean(1) + mesh.vertices[mesh.faces[1::2]].mean(1)) / 2
    expected = [(0.25, -0.5), (-0.25, 0), (0.25, 0), (-0.25, 0.5)]
    assert sorted(map(tuple, centers[:, [0, 2]].round(12) + 0.0)) == sorted(expected)
    assert normals(mesh) == pytest.approx(np.tile([0, -0.25, 0], (8, 1)), abs=1e-15)  # cells of 0.25 m², cut in half
    assert (mesh.vertices[:, 1] == 0).all()
    left_out = sheet_shapes.cells(["....", ".#..", ".##.", "..#."], 0.5)
    assert left_out.vertices == pytest.approx(mesh.vertices)


@pytest.mark.parametrize("pattern", [WALKER, ["####", "####", "#..#"], ["#######", ".#...#."]])
def test_a_figure_that_is_symmetric_has_a_mesh_that_is_but_for_a_column_in_the_middle(pattern):
    """So that no sense of walking is preferred."""
    mesh = sheet_shapes.cells(pattern, 1.0)
    corners = mesh.vertices[mesh.faces]
    if len(pattern[0]) % 2:
        corners = corners[abs(corners[..., 0].mean(1)) > 0.5]
    triangles = lambda corners: {tuple(sorted(map(tuple, c + 0.0))) for c in corners}
    assert triangles(corners * (-1.0, 1.0, 1.0)) == triangles(corners)


def test_a_figure_may_have_holes_and_pieces():
    mesh = sheet_shapes.cells(["###", "#.#", "###"], 1.0)
    assert (len(mesh.vertices), len(mesh.faces), len(boundary(mesh))) == (16, 16, 16)
    assert np.abs(normals(mesh)).sum() / 2 == pytest.approx(8)


def test_a_bell_has_the_numbers_of_the_paper():
    """And V − E + F = 1, as of any sheet without holes; its rim is the last ring."""
    mesh = sheet_shapes.bell(0.5, 0.4)
    sheet.check_sheet(mesh, "bell")
    assert (len(mesh.vertices), len(mesh.faces)) == (123, 191)
    assert len(mesh.vertices) - len(sheet.edges(mesh.faces)) + len(mesh.faces) == 1
    assert boundary(mesh).tolist() == list(range(123 - 53, 123))


@pytest.mark.parametrize("rings", [sheet_shapes.RINGS, SYMMETRIC, (6,), (3, 4), (7, 7, 7)])
@pytest.mark.parametrize("height", [0.1, 0.5, 0.9])
def test_a_bell_is_a_cap_of_a_sphere_that_looks_outwards(rings, height):
    mesh = sheet_shapes.bell(0.5, height, rings)
    assert (len(mesh.vertices), len(mesh.faces)) == (1 + sum(rings), 2 * sum(rings) - rings[-1])
    centre = np.array([0, 0, height - (0.5**2 + height**2) / (2 * height)])
    assert np.linalg.norm(mesh.vertices - centre, axis=1) == pytest.approx((0.5**2 + height**2) / (2 * height))
    assert mesh.vertices[0] == pytest.approx([0, 0, height])
    assert np.linalg.norm(mesh.vertices[-rings[-1] :, :2], axis=1) == pytest.approx(0.5)
    assert mesh.vertices[-rings[-1] :, 2] == pytest.approx(0, abs=1e-15)
    assert ((mesh.vertices[mesh.faces].mean(1) - centre) * normals(mesh)).sum(1).min() > 0


@pytest.mark.parametrize("rings", [sheet_shapes.RINGS, SYMMETRIC])
@pytest.mark.parametrize("height", [0.4, 0.9])
def test_the_triangles_of_a_bell_are_nearly_regular(rings, height):
    """Rings of equal distance in the plane have 0.63 at worst, and on the sphere 0.54."""
    assert quality(sheet_shapes.bell(0.5, height, rings)).min() > 0.7


def test_rings_with_a_common_divisor_make_a_bell_that_is_symmetric_about_its_axis():
    mesh = sheet_shapes.bell(0.5, 0.4, SYMMETRIC)
    turn = np.array([[math.cos(math.pi / 3), -math.sin(math.pi / 3), 0], [math.sin(math.pi / 3), math.cos(math.pi / 3), 0], [0, 0, 1]])  # fmt: skip
    triangles = lambda corners: {tuple(sorted(map(tuple, c.round(9) + 0.0))) for c in corners}
    assert triangles(mesh.vertices[mesh.faces] @ turn.T) == triangles(mesh.vertices[mesh.faces])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sheet_shapes.cells(["#o"], 1.0), "pattern: got the sign 'o'; expected `#` for a cell"),
        (lambda: sheet_shapes.cells(["..", ""], 1.0), "without a cell"),
        (lambda: sheet_shapes.cells([], 1.0), "without a cell"),
        (lambda: sheet_shapes.cells("###", 1.0), "pattern: got '###'; expected rows of text"),
        (lambda: sheet_shapes.cells(["#"], 0.0), "cell: got 0.0; expected a length above 0"),
        (lambda: sheet_shapes.bell(0.5, 0.4, (5, 2)), "rings: got .* of at least 3"),
        (lambda: sheet_shapes.bell(0.5, 0.4, ()), "rings: got .* at least 3"),
        (lambda: sheet_shapes.bell(-0.5, 0.4), "radius: got -0.5; expected a length above 0"),
    ],
)
def test_what_makes_no_sheet_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
