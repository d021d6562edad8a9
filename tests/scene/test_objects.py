"""The objects that come with gradsim: solids of the paper's classes, coarse, of unit extent, without self-intersection."""

import numpy as np
import pytest

from gradsim.geometry import mesh as meshes
from gradsim.scene.shape import Object, object_names

SYMMETRIC = {"pear", "banana", "pepper", "duck", "cat", "fish", "mug", "stapler", "airplane"}


def intersections(mesh: meshes.Mesh) -> int:
    """Pairs of an edge and a triangle without a common vertex that meet (Möller and Trumbore 1997)."""
    x, faces = mesh.vertices, mesh.faces
    edges = np.unique(np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), 1), axis=0)
    start, along = x[edges[:, 0]][:, None], (x[edges[:, 1]] - x[edges[:, 0]])[:, None]
    a, b, c = np.moveaxis(x[faces], 1, 0)
    u, v = b - a, c - a
    p = np.cross(along, v)
    det = (u * p).sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        s = start - a
        q = np.cross(s, u)
        i, j, t = (s * p).sum(-1) / det, (along * q).sum(-1) / det, (v * q).sum(-1) / det
        hit = (i >= 0) & (j >= 0) & (i + j <= 1) & (t >= 0) & (t <= 1) & (np.abs(det) > 1e-15)
    apart = ~(edges[:, None, :, None] == faces[None, :, None, :]).any((2, 3))
    return int((hit & apart).sum())


@pytest.fixture(params=object_names())
def shape(request):
    return request.param, Object(name=request.param, size=(1.0, 1.0, 1.0)).mesh()


def test_there_are_14_objects_and_most_of_them_are_not_convex():
    solids = [Object(name=name, size=(1.0, 1.0, 1.0)).mesh() for name in object_names()]
    assert len(solids) == 14
    assert sum(not solid.convex for solid in solids) == 10


def test_an_object_is_coarse_and_does_not_cut_itself(shape):
    name, mesh = shape
    assert len(mesh.vertices) <= 250
    assert intersections(mesh) == 0, name


def test_sculpted_objects_are_mirror_images_of_themselves(shape):
    name, mesh = shape
    rows = {tuple(row) for row in mesh.vertices.round(9) + 0.0}
    mirrored = {tuple(row) for row in (mesh.vertices * [1, -1, 1]).round(9) + 0.0}
    assert (rows == mirrored) or name not in SYMMETRIC


def test_a_folded_solid_is_seen_to_cut_itself():
    torus = meshes.torus(0.36, 0.14, 14, 7)
    bent = torus.vertices.copy()
    bent[0] = -bent[0]
    assert intersections(meshes.Mesh(bent, torus.faces)) > 0
