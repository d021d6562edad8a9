"""Masks by point samples: areas, agreement with exact coverage, bad input."""

import numpy as np
import pytest
import torch

from gradsim import InputError
from gradsim.geometry import mesh
from gradsim_reproduction.images.falls import CAMERA, SIZE, exact_coverage, heights, surface_at
from gradsim_reproduction.images.supersampled import masks

PLAIN = np.eye(3), np.eye(3), np.zeros(3)  # a camera whose pixels are x/z and y/z
BALL = mesh.sphere(0.35, 2)


def triangle(*corners: tuple[float, float]) -> np.ndarray:
    """(1, 3, 3) on the plane z = 1 of `PLAIN`."""
    return np.array([[(*c, 1.0) for c in corners]])


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)])
def test_a_right_triangle_on_the_corners_of_pixels_has_its_samples(order):
    """Corners (1, 1), (5, 1), (1, 5): in a cell row k of 64 the middles left of the diagonal, which counts."""
    image = masks(triangle((1, 1), (5, 1), (1, 5)), [order], *PLAIN, (7, 6))[0]
    assert image.shape == (6, 7)
    assert image.sum() * 256 == sum(64 - k for k in range(64))
    assert (image[1, 1:4] == 1).all() and image[1, 4] == image[4, 1] == 136 / 256 and image[3, 3] == 0


def test_bodies_that_reach_off_the_image_are_cut_there():
    image = masks(triangle((-9, 2), (20, 2), (-9, 31)), [(0, 1, 2)], *PLAIN, (4, 4))[0]
    assert (image[:2] == 0).all() and (image[2:] == 1).all()
    assert (masks(triangle((9, 9), (20, 9), (9, 31)), [(0, 1, 2)], *PLAIN, (4, 4)) == 0).all()


@pytest.mark.parametrize("random", [False, True])
def test_pixels_are_those_of_exact_coverage_to_the_spread_of_samples(random):
    """An edge crosses 16 columns of cells; in each it hides a share of one with a variance of at most 1/12 (grid) or 1/6
    (random) of it: in all √(16/6)/256 = 0.0064 RMS."""
    surface = surface_at(BALL, heights(torch.tensor([[1.2, 0.0, 9.81]]).double()))
    rng = np.random.default_rng(1) if random else None
    image = masks(surface.vertices[0].numpy(), BALL.faces, CAMERA.K, CAMERA.R, CAMERA.t, (SIZE, SIZE), rng=rng)
    exact = exact_coverage(surface, surface.vertices.new_empty(1, 0, *surface.vertices.shape[1:]))[0][0].numpy()
    edge = (exact > 0) & (exact < 1)
    assert (image[exact == 1] == 1).all() and (image[exact == 0] == 0).all()
    assert np.sqrt(np.mean((image - exact)[edge] ** 2)) < 0.0064
    assert abs((image - exact).sum() / exact.sum()) < 1e-3


def test_a_body_behind_the_camera_is_refused():
    with pytest.raises(InputError, match="in front of the camera"):
        masks(-triangle((1, 1), (5, 1), (1, 5)), [(0, 1, 2)], *PLAIN, (7, 6))
