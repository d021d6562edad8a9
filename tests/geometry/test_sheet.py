"""Sheets are flat, whole and turned upwards; hinges have one sign however they are numbered."""

import math

import numpy as np
import pytest
from tolerances import ROUNDING, ULPS, near

from gradsim.errors import InputError
from gradsim.geometry import mesh as meshes
from gradsim.geometry import sheet
from gradsim.geometry.mesh import Mesh

SHEETS = {
    "alternating": (sheet.grid((1.5, 2.0), (3, 4)), 3.0),
    "diagonal": (sheet.grid((1.5, 2.0), (3, 4), "diagonal"), 3.0),
    "hexagon": (sheet.disc(0.5, 1), 3 * math.sqrt(3) / 2 * 0.25),
    "disc": (sheet.disc(0.5, 6), 18 * math.sin(math.pi / 18) * 0.25),  # a regular polygon with 36 corners
}
TENT = [
    [-1.0, 0.0, 0.0],
    [1.0, 0.0, 0.0],
    [0.0, -1.0, 0.0],
    [0.0, 1.0, 0.0],
]  # opposite, opposite, and the edge along y


def made(vertices, faces):
    return Mesh(np.array(vertices), np.array(faces))


def dihedral(x, hinges):
    """φ as the module states it (k)."""
    a, b, i, j = np.moveaxis(x[hinges], 1, 0)
    e = (j - i) / np.linalg.norm(j - i, axis=1, keepdims=True)
    n_a, n_b = np.cross(i - a, j - a), np.cross(j - b, i - b)
    return np.arctan2((np.cross(n_a, n_b) * e).sum(1), (n_a * n_b).sum(1))


def relabelled(mesh, rng):
    """With other numbers of vertices and triangles, and other first corners."""
    new = rng.permutation(len(mesh.vertices))
    vertices = np.empty_like(mesh.vertices)
    vertices[new] = mesh.vertices
    faces = [np.roll(new[face], rng.integers(3)) for face in mesh.faces[rng.permutation(len(mesh.faces))]]
    return made(vertices, faces), new


@pytest.fixture(params=SHEETS)
def flat(request):
    return SHEETS[request.param]


def test_a_sheet_has_its_area_and_looks_up(flat):
    mesh, area = flat
    sheet.check_sheet(mesh, "sheet")
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces], 1, 0)
    normals = np.cross(b - a, c - a) / 2
    assert (normals[:, 2] > 0).all()
    assert normals.sum(0) == near([0, 0, area], ROUNDING)


def test_a_sheet_is_a_disc_to_the_topologist(flat):
    """Vertices − edges + triangles = 1, and each edge has one triangle or a hinge."""
    mesh, _ = flat
    edges, hinges = sheet.edges(mesh.faces), sheet.hinges(mesh.faces)
    assert len(mesh.vertices) - len(edges) + len(mesh.faces) == 1
    assert 3 * len(mesh.faces) == len(edges) + len(hinges)


def test_the_texture_lies_on_a_sheet_as_it_is(flat):
    mesh, _ = flat
    x = mesh.vertices[:, :2]
    assert mesh.uv == pytest.approx((x - x.min(0)) / np.ptp(x, 0), abs=0.2)  # a hexagon is less high than wide
    assert (mesh.uv_faces == mesh.faces).all()


def test_diagonals_alternate_or_do_not():
    """Edges at the inner vertices: 4 and 8 by turns, or 6 at all."""
    for pattern, valences in (
        (sheet.grid((1.0, 1.3), (4, 5)), {4, 8}),
        (sheet.grid((1.0, 1.3), (4, 5), "diagonal"), {6}),
    ):
        inside = (abs(pattern.vertices[:, :2]) < (0.49, 0.64)).all(1)
        assert inside.sum() == 3 * 4
        assert set(np.bincount(sheet.edges(pattern.faces).ravel())[inside].tolist()) == valences


def test_a_ridge_seen_from_its_normals_has_a_positive_angle_and_a_valley_a_negative_one():
    """The two triangles bent down by 0.3 rad each: φ = 0.6. The closed form of the statement in the module."""
    faces = np.array([[0, 2, 3], [1, 3, 2]])  # both look along +z while flat
    for bend in (0.3, -0.2, 1.3, -1.5):
        x = np.array(TENT)
        x[:2, 0] *= math.cos(bend)
        x[:2, 2] = -math.sin(bend)
        assert dihedral(x, sheet.hinges(faces)) == pytest.approx([2 * bend])
        assert dihedral(x, sheet.hinges(faces[:, ::-1])) == pytest.approx([-2 * bend])


def test_a_convex_solid_has_positive_angles_only():
    for mesh in (meshes.sphere(1.0, 2), meshes.box((1.0, 2.0, 3.0)), meshes.cone(1.0, 1.0, 7)):
        hinges = sheet.hinges(mesh.faces)
        assert len(hinges) == 3 * len(mesh.faces) / 2
        assert dihedral(mesh.vertices, hinges).min() > -1e-12
        assert dihedral(mesh.vertices, hinges).max() > 0.1


def test_angles_do_not_depend_on_how_things_are_numbered():
    rng = np.random.default_rng(4)
    mesh = sheet.grid((1.0, 1.3), (4, 3))
    mesh = made(mesh.vertices + 0.1 * rng.normal(size=mesh.vertices.shape), mesh.faces)
    expected = {
        tuple(sorted(edge)): angle
        for edge, angle in zip(
            sheet.hinges(mesh.faces)[:, 2:].tolist(), dihedral(mesh.vertices, sheet.hinges(mesh.faces)), strict=True
        )
    }
    assert min(expected.values()) < -0.1 and max(expected.values()) > 0.1
    for _ in range(5):
        other, new = relabelled(mesh, rng)
        hinges = sheet.hinges(other.faces)
        old = np.argsort(new)
        assert (hinges[:, 2] < hinges[:, 3]).all()
        assert hinges[:, 2:].tolist() == sorted(hinges[:, 2:].tolist())
        for row, angle in zip(old[hinges], dihedral(other.vertices, hinges), strict=True):
            assert angle == near(expected[tuple(sorted(row[2:].tolist()))], ULPS, scale=1.0)


def test_opposite_vertices_are_those_of_the_two_triangles():
    mesh, _ = relabelled(sheet.disc(1.0, 3), np.random.default_rng(6))
    triangles = {tuple(np.roll(face, k)) for face in mesh.faces.tolist() for k in range(3)}
    for a, b, i, j in sheet.hinges(mesh.faces):
        assert (i, j, a) in triangles and (j, i, b) in triangles


def test_what_is_no_sheet_is_refused_by_index():
    mesh = sheet.grid((1.0, 1.0), (2, 2))
    x, f, n = mesh.vertices, mesh.faces, len(mesh.vertices)
    line = x.copy()
    line[f[5]] = [[0, 0, 0], [1, 1, 0], [2, 2, 0]]
    for bad, message in [
        (made(x, np.zeros((0, 3), int)), "flag has no triangle"),
        (made([*x[:-1], [0, 0, math.inf]], f), rf"vertex {n - 1} is \[0.0, 0.0, inf\]"),
        (made([*x, [9, 9, 9]], f), rf"vertex {n} belongs to no triangle; drop it"),
        (made(x, [*f, [0, 1, n]]), rf"triangle 8 names vertices \[0, 1, {n}\]; there are {n}"),
        (made(x, [*f, [0, 1, 1]]), r"triangle 8 names a vertex twice, \[0, 1, 1\]"),
        (made(line, f), r"triangle \d has no area \(.* m²\)"),
        (
            made([*x, [0, 0, 1]], [*f, [*f[0, :2], n]]),
            rf"the edge from vertex {f[0, 0]} to {f[0, 1]} belongs to triangles 0, 8; which",
        ),
        (
            made([*x, [0, 0, 1]], [*f, [f[0, 2], f[0, 0], n]]),
            rf"edge from vertex 0 to {f[0, 2]} belongs to triangles 0, 1, 8; two can",
        ),
        (
            made(x, [f[0, ::-1], *f[1:]]),
            r"the edge from vertex 0 to \d belongs to triangles 0, \d.*face opposite ways; turn one over",
        ),
    ]:
        with pytest.raises(InputError, match=message):
            sheet.check_sheet(bad, "flag")


def test_a_moebius_strip_has_no_hinges():
    strip = [[0, 1, 2], [1, 3, 2], [2, 3, 4], [3, 5, 4], [4, 5, 1], [5, 0, 1]]
    with pytest.raises(InputError, match="face opposite ways"):
        sheet.hinges(np.array(strip))


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: sheet.grid((1.0, -1.0), (2, 2)), "size: got .* expected 2 lengths above 0"),
        (lambda: sheet.grid((1.0, 1.0), (2, 0)), "cells: got .* expected 2 whole numbers of at least 1"),
        (lambda: sheet.grid((1.0, 1.0), (2, 2), "crossed"), "pattern is 'crossed'"),  # pyright: ignore[reportArgumentType]
        (lambda: sheet.disc(0.0, 2), "radius: got 0.0; expected a length above 0"),
        (lambda: sheet.disc(1.0, 0), "rings: got 0; expected a whole number of at least 1"),
    ],
)
def test_sizes_that_make_no_sheet_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_sheet_that_bends_little_looks_smooth_and_a_creased_one_does_not():
    hat = sheet.disc(1.0, 1)
    hat = Mesh(hat.vertices + np.where(np.arange(7)[:, None] == 0, (0, 0, 0.5), 0), hat.faces[[1, 0, 5, 2, 3, 4]])
    assert hat.smooth  # across its edges by 29°; triangles that face each other differ by 60°
    for bend, smooth in ((0.2, True), (0.5, False)):  # the normals turn by twice as much; the limit is 40° = 0.7
        x = np.array(TENT)
        x[:2, 0] *= math.cos(bend)
        x[:2, 2] = -math.sin(bend)
        assert Mesh(x, np.array([[0, 2, 3], [1, 3, 2]])).smooth == smooth
