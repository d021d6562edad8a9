"""Textures by linear least squares: what they recover, and what they follow of a change."""

import numpy as np
import pytest

from gradsim.identification.colors.texture import Exposure, Grid, Pixels, Texture, harmonics

FRAMES = 4


@pytest.fixture
def colored():
    """Grid, points on a sphere in some frames, pixels of a smooth texture there, and its exposure."""
    rng = np.random.default_rng(0)
    normals = rng.standard_normal((3000, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    frame, shift = np.repeat(np.arange(FRAMES), 750), rng.standard_normal((FRAMES, 3))
    points = normals @ np.linalg.qr(shift[:3])[0]  # turned against the light
    grid = Grid.around(np.full(3, -1.0), np.full(3, 1.0), 0.2)
    smooth = 0.5 + 0.3 * np.sin(2 * points + [0.0, 1.0, 2.0])
    exposure = Exposure(
        1 + 0.05 * rng.standard_normal((FRAMES, 3)), np.zeros((FRAMES, 3)), 0.1 * rng.standard_normal((8, 3))
    )
    pixels = Pixels(smooth, np.ones(3000), frame, harmonics(normals), FRAMES)
    color = smooth * exposure.factor(pixels)
    return grid, points, Pixels(color, pixels.weight, frame, pixels.light, FRAMES), exposure


def test_gradient_of_a_linear_texture_is_exact():
    grid = Grid.around(np.full(3, -1.0), np.full(3, 1.0), 0.3)
    i, j, k = np.meshgrid(*map(np.arange, grid.shape), indexing="ij")
    place = grid.low + grid.cell * np.stack([i, j, k], -1).reshape(-1, 3)
    slope = np.array([[1.0, -2.0, 0.5], [0.3, 0.0, 4.0], [0.0, 1.0, 0.0]])
    points = np.random.default_rng(1).uniform(-1, 1, (50, 3))
    assert np.allclose(grid.interpolate(points, place @ slope.T), points @ slope.T, atol=1e-12)
    assert np.allclose(grid.gradient(points, place @ slope.T), slope, atol=1e-10)


def test_a_texture_explains_colors_with_their_exposure_and_light(colored):
    grid, points, pixels, _ = colored
    off = Texture(grid, points, pixels, steps=6).residual
    # second differences of the texture over a cell, h² f''/8 = 0.2² · 1.2/8 = 0.006 at most
    assert np.abs(off).max() < 0.02 and np.sqrt(np.mean(off**2)) < 0.004


def test_a_known_texture_leaves_its_exposure_to_be_fitted(colored):
    grid, points, pixels, exposure = colored
    plain = Pixels(pixels.color / exposure.factor(pixels), pixels.weight, pixels.frame, 0 * pixels.light, FRAMES)
    nodes = Texture(grid, points, plain, steps=0).all_nodes()
    fit = Texture(grid, points, pixels, nodes, steps=3)
    assert np.abs(fit.exposure.gain - exposure.gain).max() < 0.01
    assert np.abs(fit.exposure.light - exposure.light).max() < 0.01


def test_projection_takes_off_what_exposure_and_texture_follow(colored):
    grid, points, pixels, _ = colored
    texture = Texture(grid, points, pixels, steps=3)
    rng = np.random.default_rng(2)
    brighter = texture.predicted * (pixels.frame == 1)[:, None]  # a gain of one frame
    painted = texture.exposure.factor(pixels) * grid.interpolate(points, rng.uniform(size=(len(texture.used), 3)))
    noise = rng.standard_normal(pixels.color.shape)
    left = texture.project(np.stack([brighter, painted, noise], -1))
    size = lambda x: np.sqrt(np.mean(x**2))
    assert size(left[..., 0]) < 0.15 * size(brighter)  # conjugate gradients end at 20 steps
    assert size(left[..., 1]) < 0.2 * size(painted)  # smoothness resists a texture of noise
    assert size(left[..., 2]) > 0.6 * size(noise)  # 900 nodes of 3000 pixels
