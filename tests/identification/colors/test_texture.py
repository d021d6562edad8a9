"""Textures by linear least squares: what they recover, and what they follow of a change."""

from dataclasses import replace

import numpy as np
import pytest
from tolerances import SINGLE, assert_near

from gradsim.identification.colors.texture import Texture, harmonics
from gradsim.identification.colors.texture_equations import Equations
from gradsim.identification.colors.texture_parts import Exposure, Grid, Pixels

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


def test_textures_settle_at_one_minimum_wherever_they_start(colored):
    grid, points, pixels, exposure = colored
    costs = []
    for start in (None, Exposure(1.2 * exposure.gain, exposure.offset + 0.05, 0 * exposure.light)):
        texture = Texture(grid, points, pixels, start=start, steps=1)
        texture.settle()
        costs.append(texture.cost)
        factor = texture.exposure.factor(pixels)
        assert np.abs(factor.mean(0) - 1).max() < 0.02  # smoothness alone would let it grow to twice that
    # sums of 9000 squares; each pixel has a noise of 0.02 in the mind of the priors, so a cost of 4e-4 is a unit
    assert abs(costs[0] - costs[1]) < 1e-3 * costs[0]


def test_the_equations_at_a_minimum_are_solved_at_once(colored):
    """There the preconditioner is the inverse, but for the damping of the exposure; with other nodes it goes the long way."""
    grid, points, pixels, _ = colored
    texture = Texture(grid, points, pixels, steps=3)
    texture.settle()
    system = Equations(texture)
    rng = np.random.default_rng(3)
    nodes, exposure = rng.standard_normal((int(texture.used.sum()), 3, 2)), rng.standard_normal((2 * FRAMES + 8, 3, 2))
    profiled = system.profiled(0.0)
    texture.profiled = profiled
    right = system._matrix(nodes, exposure)
    for one, other in zip(system.preconditioned(*right), (nodes, exposure), strict=True):
        assert_near(one, other, SINGLE)
    texture.profiled = replace(profiled, follow=profiled.follow[:, :-1])
    for one, other in zip(system.preconditioned(*right), (nodes, exposure), strict=True):
        assert_near(one, other, SINGLE)


def test_steps_from_the_minimum_nearby_reach_that_of_other_points(colored):
    grid, points, pixels, _ = colored
    first = Texture(grid, points, pixels)
    minimum = first.settle()
    turned = points @ np.array([[1, 0.02, 0], [-0.02, 1, 0], [0, 0, 1]])
    rng = np.random.default_rng(4)
    start = Exposure(
        first.exposure.gain + 0.02 * rng.standard_normal((FRAMES, 3)), first.exposure.offset, first.exposure.light
    )
    near = Texture(grid, turned, pixels, steps=2, near=replace(minimum, exposure=start))
    exact = Texture(grid, turned, pixels)
    exact.settle()
    assert near.cost == pytest.approx(exact.cost, rel=2e-3)
    assert Texture(grid, turned, pixels, start=start, steps=0).cost > 1.05 * exact.cost


def test_what_smoothness_costs_does_not_jump_with_the_nodes_that_pixels_show():
    """A shaded sphere that is turned little by little: with all nodes of the surface, second differences of the cost are small."""
    rng = np.random.default_rng(3)
    normals = rng.standard_normal((4000, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    front = normals[normals[:, 1] < -0.4]
    count = len(front)
    pixels = Pixels(
        np.repeat(0.5 + 0.4 * np.sin(3 * front[:, :1]), 3, 1),
        np.ones(count),
        np.zeros(count, int),
        np.zeros((count, 8)),
        1,
    )
    ripples = []
    bare = Grid.around(np.full(3, -1.0), np.full(3, 1.0), 0.15)
    for grid in (bare, bare.with_surface(normals)):
        costs = []
        for angle in np.linspace(0, 0.1, 21):
            turn = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
            texture = Texture(grid, front @ turn, pixels, steps=0)
            costs.append(texture.cost)
        ripples.append(np.abs(np.diff(costs, 2)).mean())
    assert not (texture.shown & ~texture.used).any() and texture.used.sum() > texture.shown.sum()
    assert ripples[1] < 0.2 * ripples[0]
