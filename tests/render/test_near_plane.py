"""Bodies that pass under, through and behind the camera."""

import pytest
import torch
from checks import weights

from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Part, Surface
from gradsim.render import Renderer, look_at
from gradsim.render.renderer import RASTERIZERS

HEIGHT, WIDTH = 12, 17
CAMERA = look_at((0.1, -0.2, 1.0), (0.1, 5.0, 0.4), (0.0, 0.0, 1.0), 0.8, WIDTH, HEIGHT)


def ground(far=2000.0):
    """A square under and behind the camera, whose far side is as good as the horizon."""
    corners = torch.tensor([(-9000.0, -7000, 0), (8000, -7000, 0), (8000, far, 0), (-9000, far, 0)]).double()
    part = Part("ground", slice(0, 4), torch.tensor([[0, 1, 2], [0, 2, 3]]), False, Appearance((0.2, 0.7, 0.4)))
    return Surface(corners[None, None], (part,))


def horizon(far):
    """Row of the far side of the ground [px], the same in all columns since the camera is level from left to right."""
    _, R, t = (x.double() for x in (CAMERA.K, CAMERA.R, CAMERA.t))
    seen = R @ torch.tensor([0.0, far, 0.0]).double() + t
    return (CAMERA.K[1, 1] * seen[1] / seen[2] + CAMERA.K[1, 2]).item()


def test_ground_under_the_camera_fills_the_image_up_to_its_horizon():
    surface = ground()
    points = surface.vertices.requires_grad_()
    renderer = Renderer(CAMERA, "aa", background=(0.0, 0.0, 0.0))
    alpha = renderer.alpha(surface)[0, 0]
    row = horizon(2000.0)
    expected = (torch.arange(HEIGHT).double() + 1 - row).clamp(0, 1)[:, None].expand(-1, WIDTH)
    assert (alpha - expected).abs().max() < 1e-8  # corners that the near plane makes lie 1e8 px away
    image = renderer(surface)[0, 0]
    assert (image - torch.tensor([0.2, 0.7, 0.4], dtype=torch.float64)[:, None, None] * alpha).abs().max() < 1e-12
    (slope,) = torch.autograd.grad(alpha.sum(), points)
    moved = WIDTH * (horizon(1999.0) - horizon(2001.0)) / 2  # rows that are gained by a metre
    assert slope[0, 0, 2:, 1].sum().item() == pytest.approx(moved, rel=1e-5)


@pytest.mark.parametrize("rasterizer", RASTERIZERS)
def test_gradients_of_what_passes_the_camera_are_central_differences(rasterizer):
    ring = mesh.torus(0.5, 0.2, 10, 7)
    centre = torch.tensor([0.15, 0.05, 1.0])  # the camera stands inside the ring's hole, near its tube
    points = (torch.tensor(ring.vertices) + centre)[None, None].double()
    part = Part("ring", slice(0, len(ring.vertices)), torch.tensor(ring.faces), False, Appearance((0.8, 0.3, 0.2)))

    def draw(vertices):
        renderer = Renderer(CAMERA, rasterizer, near=0.05)
        surface = Surface(vertices, (part,))
        return torch.cat([renderer(surface), renderer.alpha(surface)[:, :, None]], 2)

    start = points.clone().requires_grad_()
    image = draw(start)
    assert image.min() >= 0 and image.max() <= 1
    assert 0.1 < image[0, 0, 3].mean() < 1  # it is in view
    (weight,) = weights([image.detach()], 3)
    (slope,) = torch.autograd.grad((image * weight).sum(), start)
    assert slope.abs().max() > 0 and bool(slope.isfinite().all())
    way = torch.randn(points.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        high, low = (draw(points + s * way) for s in (1e-7, -1e-7))
    assert (slope * way).sum().item() == pytest.approx((((high - low) * weight).sum() / 2e-7).item(), rel=1e-5)


@pytest.mark.parametrize("rasterizer", RASTERIZERS)
def test_what_is_wholly_behind_the_camera_is_not_seen(rasterizer):
    ball = mesh.sphere(0.5, 1)
    points = (torch.tensor(ball.vertices) + torch.tensor([0.0, -2.0, 1.0]))[None, None].requires_grad_()
    part = Part("ball", slice(0, len(ball.vertices)), torch.tensor(ball.faces), True, Appearance((0.8, 0.3, 0.2)))
    image = Renderer(CAMERA, rasterizer, background=(0.3, 0.2, 0.1))(Surface(points, (part,)))
    assert torch.equal(
        image.detach(), torch.tensor([0.3, 0.2, 0.1], dtype=torch.float64)[:, None, None].expand_as(image)
    )
    if image.requires_grad:
        image.sum().backward()
        assert points.grad is None or points.grad.abs().max() == 0


@pytest.mark.parametrize("behind", [False, True])
def test_road_under_the_camera_has_exact_edges(behind):
    """A strip from behind the camera to its vanishing point, before nothing or before a wall."""
    strip = torch.tensor([(-1.1, -50.0, 0.0), (0.9, -50, 0), (0.7, 60, 0), (-0.8, 60, 0)]).double()
    wall = torch.tensor([(-90.0, 100.0, -90.0), (90, 100, -90), (90, 100, 90), (-90, 100, 90)]).double()
    square = torch.tensor([[0, 1, 2], [0, 2, 3]])
    road = Part("road", slice(0, 4), square, False, Appearance((1.0, 0.0, 0.0)))
    other = Part("wall", slice(4, 8), square, False, Appearance((0.0, 1.0, 0.0)))
    renderer = Renderer(CAMERA, "aa", background=(0.0, 0.0, 0.0))
    own = renderer.alpha(Surface(strip[None, None], (road,)))[0, 0]
    assert 0.2 < own.mean() < 0.8
    vertices = torch.cat([strip, wall])[None, None] if behind else strip[None, None]
    image = renderer(Surface(vertices, (road, other) if behind else (road,)))[0, 0]
    assert (image[0] - own).abs().max() < 1e-7  # corners that the near plane makes lie 1e8 px away
    if behind:
        assert (image[1] - (1 - own)).abs().max() < 1e-7
