from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull
from tolerances import ROUNDING, near

from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim_reproduction.foreign.area_coverage import coverage, project

SIZE = (13, 11)


def solid(corners):
    """A thin closed body over convex corners (n, 2) [px], the front counter-clockwise as seen (rows count down)."""
    n, order = len(corners), ConvexHull(corners).vertices[::-1]
    fan = np.array([[order[0], order[k], order[k + 1]] for k in range(1, n - 1)])
    return np.concatenate([corners, corners]), np.concatenate([fan, fan[:, ::-1] + n])


def test_coverage_sums_to_the_area_of_a_polygon():
    """Shoelace formula, for a polygon of random corners that lies on the image."""
    rng = np.random.default_rng(0)
    corners = rng.uniform(1, 10, (9, 2))
    corners = corners[ConvexHull(corners).vertices]
    points, faces = solid(corners)
    assert coverage(points, faces, SIZE).sum() == near(ConvexHull(corners).volume, ROUNDING, scale=1.0)


def test_what_two_bodies_cover_counts_once():
    """|A ∪ B| = |A| + |B| − |A ∩ B| for squares, one of them turned by 45°: half of it is within the other."""
    square = np.array([[2.0, 2], [2, 8], [8, 8], [8, 2]]) + 0.3
    turned = np.array([[8.3, 2.3], [5.3, 5.3], [8.3, 8.3], [11.3, 5.3]])
    (a, f), (b, g) = solid(square), solid(turned)
    image = coverage(np.concatenate([a, b]), np.concatenate([f, g + len(a)]), SIZE)
    assert image.sum() == near(36 + 18 - 9, ROUNDING, scale=1.0)
    assert image.max() <= 1 + 1e-12


def test_what_is_off_the_image_is_cut_off():
    points, faces = solid(np.array([[-5.0, -5], [-5, 4], [6, 4], [6, -5]]))
    assert coverage(points, faces, SIZE).sum() == near(6 * 4, ROUNDING, scale=1.0)


@pytest.mark.parametrize("name", ["cube", "arm", "soft_ball"])
def test_two_renderers_that_share_no_code_agree(name):
    """Rounding of areas that are sums of some hundred terms of at most 1 px²: below 1e-10."""
    scene: Any = Scene.library(name)
    with torch.no_grad():
        surface = Model(scene).rollout(frames=2).surface
        theirs = Silhouettes.of(scene).union(surface)[0, -1].numpy()
    look = scene.camera.look_at
    points = project(surface.vertices[0, -1].numpy(), look.eye, look.target, look.fov, scene.camera.size)
    assert np.abs(coverage(points, surface.faces.numpy(), scene.camera.size) - theirs).max() < 1e-10


def test_a_body_out_of_view_covers_nothing():
    """Beside, above and below the image."""
    for where in ([30.0, 4.0], [4.0, -30.0], [4.0, 30.0]):
        points = np.array([[0.0, 0.0], [0.0, 2.0], [2.0, 0.0]]) + where
        assert not coverage(points, np.array([[0, 1, 2], [0, 2, 1]]), (12, 8)).any()
