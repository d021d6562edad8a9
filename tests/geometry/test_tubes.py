"""Tubes around strands: closed, of the right size, untwisted, and finite where points meet."""

import math

import numpy as np
import torch
from tolerances import ROUNDING, assert_near

from gradsim.geometry import mesh as meshes
from gradsim.geometry.tubes import SIDES, Tubes

RADIUS = torch.tensor([0.01], dtype=torch.float64)


def _helix(count: int) -> np.ndarray:
    t = np.linspace(0, 4 * math.pi, count)
    return np.stack([0.2 * np.cos(t), 0.2 * np.sin(t), 0.05 * t], 1)


def test_a_straight_tube_is_a_closed_prism_that_faces_outwards():
    """Volume ½ n r² sin(2π/n) L of the prism with n sides."""
    rest = np.random.default_rng(0).normal(size=3) * np.linspace(0, 1, 5)[:, None]
    mesh = Tubes([np.arange(5)], rest, 0.01).mesh
    meshes.check(mesh, "tube")
    area = 0.5 * SIDES * 0.01**2 * math.sin(2 * math.pi / SIDES)
    assert math.isclose(mesh.volume, area * np.linalg.norm(rest[-1]), rel_tol=1e-12)


def test_rings_stand_across_their_strand_and_do_not_twist():
    points = _helix(60)
    tubes = Tubes([np.arange(60)], points, 0.01)
    meshes.check(tubes.mesh, "tube")
    rings = tubes.mesh.vertices.reshape(60, SIDES, 3)
    np.testing.assert_allclose(rings.mean(1), points, atol=1e-15)
    assert_near(np.linalg.norm(rings - points[:, None], axis=-1), 0.01, ROUNDING)
    along = points[2:] - points[:-2]
    assert np.abs(np.einsum("nsi,ni->ns", (rings - points[:, None])[1:-1], along)).max() < 1e-4 * 0.01
    spokes = (rings - points[:, None])[:, 0] / 0.01
    turned = np.linalg.norm(np.diff(spokes, axis=0), axis=1)
    bent = np.linalg.norm(np.diff(along / np.linalg.norm(along, axis=1, keepdims=True), axis=0), axis=1)
    assert turned.max() < 1.01 * bent.max()  # no more than the strand itself turns


def test_strands_of_a_net_are_tubes_of_their_own():
    rest = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])
    tubes = Tubes([np.array([0, 1]), np.array([2, 3]), np.array([0, 2])], rest, 0.1)
    assert tubes.mesh.vertices.shape == (6 * SIDES, 3)
    moved = torch.tensor(rest + [[0, 0, 0], [0, 0, 0], [0, 0, 5], [0, 0, 5]])[None, None]
    shift = tubes.around(moved, torch.tensor([0.1], dtype=torch.float64))[0, 0].numpy() - tubes.mesh.vertices
    assert_near(shift[2 * SIDES : 4 * SIDES], np.broadcast_to([0, 0, 5], (2 * SIDES, 3)), ROUNDING, scale=1.0)
    np.testing.assert_array_equal(shift[: 2 * SIDES], 0)


def test_derivatives_of_tubes_match_differences_and_are_finite_where_points_meet():
    x = torch.tensor(_helix(7))[None, None].requires_grad_()
    tubes = Tubes([np.arange(7)], x[0, 0].detach().numpy(), 0.01)
    assert torch.autograd.gradcheck(lambda y: tubes.around(y, RADIUS), x, eps=1e-6, atol=1e-7)
    with torch.no_grad():
        x[0, 0, 3] = x[0, 0, 2]
        x[0, 0, 4] = x[0, 0, 2]
    (gradient,) = torch.autograd.grad(tubes.around(x, RADIUS).square().sum(), x)
    assert torch.isfinite(gradient).all()
