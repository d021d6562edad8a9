"""The other renderer: areas in closed form, agreement with exact coverage, the union of bodies, bad input."""

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from gradsim import InputError
from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Part, Surface
from gradsim.render.camera import look_at
from gradsim.render.reference.scanline import masks
from gradsim.render.silhouettes import Silhouettes

SIDE, FRAMES = 48, 4
CAMERA = look_at((0.3, -4.0, 1.2), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.7, SIDE, SIDE)
ARRAYS = CAMERA.K.numpy(), CAMERA.R.numpy(), CAMERA.t.numpy()
CONVEX = {
    "box": mesh.box((1.1, 0.8, 0.6)),
    "sphere": mesh.sphere(0.6),
    "cone": mesh.cone(0.6, 1.2, 16),
    "capsule": mesh.capsule(0.3, 0.7),
}
GENERAL = {"torus": mesh.torus(0.8, 0.25)}


def tumbling(body, seed=0):
    """Vertices (FRAMES, n, 3) in random poses near the origin."""
    rng = np.random.default_rng(seed)
    turn = Rotation.random(FRAMES, rng).as_matrix()
    return np.einsum("fij,nj->fni", turn, body.vertices) + rng.uniform(-0.2, 0.2, (FRAMES, 1, 3))


def ours(body, vertices):
    faces = torch.tensor(body.faces)
    part = Part("body", slice(0, len(body.vertices)), faces, body.convex, Appearance())
    return Silhouettes(CAMERA).masks(Surface(torch.tensor(vertices)[None], (part,)))[0, :, 0].numpy()


@pytest.mark.parametrize("body", CONVEX.values(), ids=CONVEX)
def test_area_of_a_convex_body_is_that_of_the_hull_of_its_projection(body):
    vertices = tumbling(body)
    images = masks([vertices], [body.faces], *ARRAYS, (SIDE, SIDE))
    for x, image in zip(vertices, images, strict=True):
        pixels = CAMERA.project(torch.tensor(x))[0].numpy()
        assert abs(image.sum() / ConvexHull(pixels).volume - 1) < 1e-3


@pytest.mark.parametrize("body", CONVEX.values(), ids=CONVEX)
def test_pixels_are_those_of_exact_coverage_to_half_a_line(body):
    vertices = tumbling(body, 1)
    difference = masks([vertices], [body.faces], *ARRAYS, (SIDE, SIDE)) - ours(body, vertices)
    # an edge that runs along a row is off by up to half a line of 64; two edges may pass one pixel
    assert np.abs(difference).max() < 1 / 64
    assert np.sqrt(np.mean(difference**2)) < 1 / 255


def test_a_body_that_is_not_convex_has_the_area_that_ours_has_to_one_percent():
    body = GENERAL["torus"]
    vertices = tumbling(body, 2)
    areas = masks([vertices], [body.faces], *ARRAYS, (SIDE, SIDE)).sum((1, 2))
    assert np.abs(ours(body, vertices).sum((1, 2)) / areas - 1).max() < 0.01


def test_a_ring_seen_along_its_axis_has_its_hole():
    body = mesh.torus(0.8, 0.25, segments=64, tube_segments=64)
    # farther than 100 tube radii, so that perspective adds less than 1e-3
    camera = look_at((0.0, 0.0, 100.0), (0.0, 0.0, 0.0), (0.0, 1.0, 0.0), 0.03, 64, 64)
    image = masks([body.vertices[None]], [body.faces], camera.K, camera.R, camera.t, (64, 64))[0]
    focal, faceted = float(camera.K[0, 0]) / 100.0, np.sin(2 * np.pi / 64) / (2 * np.pi / 64)
    expected = np.pi * (1.05**2 - 0.55**2) * focal**2 * faceted
    assert abs(image.sum() / expected - 1) < 2e-3
    assert image[31:33, 31:33].max() == 0


def test_a_body_behind_another_adds_nothing():
    body = mesh.box((1.0, 1.0, 1.0))
    near = body.vertices[None]
    far = 0.5 * near - 0.75 * CAMERA.centre.numpy()  # beyond the origin, on the line of sight
    alone = masks([near], [body.faces], *ARRAYS, (SIDE, SIDE))
    both = masks([near, far], [body.faces, body.faces], *ARRAYS, (SIDE, SIDE))
    assert np.abs(both - alone).max() < 1e-12


def test_two_halves_of_a_box_have_no_seam():
    whole, half = mesh.box((1.2, 0.8, 0.6)), mesh.box((0.6, 0.8, 0.6))
    halves = [half.vertices[None] + np.array([x, 0.0, 0.0]) for x in (-0.3, 0.3)]
    together = masks(halves, [half.faces, half.faces], *ARRAYS, (SIDE, SIDE))
    assert np.abs(together - masks([whole.vertices[None]], [whole.faces], *ARRAYS, (SIDE, SIDE))).max() < 1e-9


def test_orientation_of_faces_and_size_of_a_block_change_nothing():
    body = GENERAL["torus"]
    vertices = tumbling(body, 3)
    image = masks([vertices], [body.faces], *ARRAYS, (SIDE, SIDE))
    turned = np.where(np.arange(len(body.faces))[:, None] % 2, body.faces, body.faces[:, ::-1])
    assert np.abs(masks([vertices], [turned], *ARRAYS, (SIDE, SIDE), block=1) - image).max() < 1e-9


def test_what_leaves_the_image_is_cut_off_there():
    body = mesh.box((1.0, 1.0, 1.0))
    vertices = body.vertices[None] + np.array([1.6, 0.0, 0.4])
    small = masks([vertices], [body.faces], *ARRAYS, (SIDE, SIDE))
    K = ARRAYS[0].copy()
    K[:2, 2] += SIDE
    large = masks([vertices], [body.faces], K, *ARRAYS[1:], (3 * SIDE, 3 * SIDE))
    assert large[0].sum() > small[0].sum() > 10
    assert np.abs(large[0, SIDE : 2 * SIDE, SIDE : 2 * SIDE] - small[0]).max() < 1e-9


def test_a_body_behind_the_camera_is_refused_with_its_frame():
    body = mesh.box((1.0, 1.0, 1.0))
    vertices = np.stack([body.vertices, body.vertices + (0.0, -4.0, 0.0)])
    with pytest.raises(InputError, match="body 0 reaches behind the camera.* frame 1"):
        masks([vertices], [body.faces], *ARRAYS, (SIDE, SIDE))
    with pytest.raises(InputError, match=r"bodies have \[1, 2\] frames"):
        masks([vertices[:1], vertices], [body.faces, body.faces], *ARRAYS, (SIDE, SIDE))
