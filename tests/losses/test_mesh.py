"""Mesh regularizers and the smoothing preconditioner against closed forms, and their derivatives."""

import math

import pytest
import torch
from checks import central_difference, gradients
from tolerances import ROUNDING, ULPS, assert_near, near

from gradsim.geometry import mesh
from gradsim.losses import flatness, laplacian, smoothing
from gradsim.numerics.rotation import exponential, rotate

TURN = exponential(torch.tensor([0.3, -0.5, 0.8], dtype=torch.float64))
UP = rotate(TURN, torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64))  # of the grid
both = pytest.mark.parametrize("rough", [laplacian, flatness])


def grid(n: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    """A flat, regular grid of n by n vertices, turned."""
    x, y = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    vertices = torch.stack([x.flatten(), y.flatten(), 0 * x.flatten()], -1).double() * 0.3
    corner = (torch.arange(n - 1)[:, None] * n + torch.arange(n - 1)).flatten()[:, None]
    faces = torch.cat([corner + torch.tensor([0, n, n + 1]), corner + torch.tensor([0, n + 1, 1])])
    return rotate(TURN, vertices), faces


def ball(subdivisions: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    body = mesh.sphere(1.0, subdivisions)
    return torch.tensor(body.vertices), torch.tensor(body.faces)


@both
def test_a_flat_regular_grid_is_not_rough(rough):
    vertices, faces = grid()
    assert rough(vertices, faces).item() < 1e-28
    lifted = vertices.index_add(0, torch.tensor([12]), 0.1 * UP)
    assert rough(lifted, faces).item() > 1e-4


def test_a_lifted_vertex_of_a_grid_counts_itself_and_a_sixth_in_each_inner_neighbour():
    """9 inner vertices of a 5 × 5 grid: h² for the middle one, (h/6)² for its six neighbours, all inner."""
    vertices, faces = grid()
    value = laplacian(vertices.index_add(0, torch.tensor([12]), 0.01 * UP), faces).item()
    assert value == near(1e-4 * (1 + 6 / 36) / 9, ROUNDING)


def test_edges_of_a_box_are_right_angles_and_its_diagonals_are_flat():
    """12 edges with cos 0 count 1, 6 diagonals 0."""
    box = mesh.box((1.0, 2.0, 3.0))
    assert flatness(torch.tensor(box.vertices), torch.tensor(box.faces)).item() == near(12 / 18, ROUNDING)


def test_a_fold_counts_the_square_of_one_minus_its_cosine():
    fold = 0.7
    vertices = torch.tensor(
        [[0, 0, 0], [0, 1, 0], [1, 0, 0], [-math.cos(fold), 0, -math.sin(fold)]], dtype=torch.float64
    )
    faces = torch.tensor([[0, 2, 1], [0, 1, 3]])
    assert flatness(vertices, faces).item() == near((1 - math.cos(fold)) ** 2, ROUNDING)


@both
def test_roughness_does_not_change_with_place_and_attitude_and_scales_as_it_says(rough):
    vertices, faces = ball()
    value = rough(vertices, faces)
    assert_near(rough(rotate(TURN, vertices) + 5.0, faces), value, ROUNDING)
    assert_near(rough(3 * vertices, faces), value * (9 if rough is laplacian else 1), ROUNDING)


@both
def test_every_world_and_frame_has_its_own(rough):
    vertices, faces = ball()
    many = vertices + 0.1 * torch.randn(2, 3, *vertices.shape, generator=torch.Generator().manual_seed(0)).double()
    values = rough(many, faces)
    assert values.shape == (2, 3)
    assert_near(values[1, 2], rough(many[1, 2], faces), ULPS)


@both
def test_gradient_is_the_central_difference(rough):
    vertices, faces = ball()
    generator = torch.Generator().manual_seed(1)
    vertices = vertices + 0.2 * torch.randn(vertices.shape, generator=generator, dtype=torch.float64)
    along = torch.randn(vertices.shape, generator=generator, dtype=torch.float64)
    function = lambda x: [rough(x, faces)[None]]
    (slope,) = central_difference(function, [vertices], [along], 1e-4)
    (gradient,) = gradients(function, [vertices], [torch.ones(1).double()])
    assert (gradient * along).sum().item() == pytest.approx(slope.item(), rel=1e-8)


@both
def test_faces_without_area_have_finite_derivatives(rough):
    vertices, faces = ball()
    vertices = vertices.clone()
    vertices[faces[0, 1]] = vertices[faces[0, 0]]
    (gradient,) = gradients(lambda x: [rough(x, faces)[None]], [vertices], [torch.ones(1).double()])
    assert gradient.isfinite().all()


@both
def test_what_has_nothing_that_counts_is_not_rough(rough):
    corners = torch.eye(3, dtype=torch.float64)[None].repeat(2, 1, 1).requires_grad_()  # a triangle in two worlds
    value = rough(corners, torch.tensor([[0, 1, 2]]))
    (gradient,) = torch.autograd.grad(value.sum(), corners)
    assert torch.equal(value, torch.zeros(2).double())
    assert torch.equal(gradient, torch.zeros(2, 3, 3).double())


def test_a_shift_stays_a_shift_and_noise_becomes_smooth():
    ball = mesh.sphere(1.0, 2)
    vertices, faces = torch.tensor(ball.vertices), torch.tensor(ball.faces)
    S, inverse = smoothing(faces, len(vertices), 5.0)
    assert_near(S @ inverse, torch.eye(len(S)).double(), ROUNDING, scale=1.0)
    assert_near(S, S.T, ULPS, scale=1.0)
    assert_near(S.sum(1), torch.ones(len(S)).double(), ROUNDING)  # L 1 = 0
    noise = torch.randn(vertices.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert laplacian(S @ noise, faces) < 0.01 * laplacian(noise, faces)


def test_a_step_fades_along_a_strip_as_its_strength_says():
    """Far from the ends of a chain of degree 2, S is a geometric series of ratio r: λ r² − (1 + 2 λ) r + λ = 0."""
    n, strength = 41, 4.0
    along = torch.arange(n - 1)
    strip = torch.stack([along, along + 1, along + 1], 1)  # faces without area leave one chain of edges
    S, _ = smoothing(strip, n, strength)
    ratio = (1 + 2 * strength - (1 + 4 * strength) ** 0.5) / (2 * strength)
    assert (S[20, 24] / S[20, 23]).item() == pytest.approx(ratio, rel=1e-5)  # the ends are 0.6^20 = 4e-5 away, squared


def test_negative_strength_is_refused():
    with pytest.raises(ValueError, match="at least 0"):
        smoothing(torch.tensor([[0, 1, 2]]), 3, -1.0)
