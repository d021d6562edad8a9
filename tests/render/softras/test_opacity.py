"""Soft silhouettes of views in one launch: those of the projected vertices, with gradients by vertices and camera."""

from dataclasses import replace

import pytest
import torch
from checks import error

from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Surface
from gradsim.render import Renderer, SoftRas, look_at
from gradsim.render.silhouettes import Silhouettes
from gradsim.render.softras.faces import blur
from gradsim.render.softras.opacity import opacity
from gradsim.render.view import View

HEIGHT, WIDTH = 21, 37  # no whole number of tiles
CAMERA = look_at((0.3, -3.0, 0.8), (0.2, 0.0, 0.0), (0.0, 0.0, 1.0), 0.5, WIDTH, HEIGHT)
WITHIN = {torch.float64: 1e-11, torch.float32: 1e-4}


def surface(dtype):
    """Two frames of a ball that reaches over the border of the image."""
    ball = mesh.sphere(0.7, 2)
    noise = torch.randn(2, len(ball.vertices), 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    vertices = (torch.tensor(ball.vertices) + 0.02 * noise)[None].to(dtype).requires_grad_()
    return Surface.of(vertices, torch.tensor(ball.faces), Appearance())


@pytest.mark.parametrize("cull", ["none", "back", "front"])
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_one_launch_is_the_silhouette_of_projected_vertices(dtype, cull):
    lens = replace(CAMERA, K=CAMERA.K.clone().requires_grad_(), t=CAMERA.t.clone().requires_grad_())
    for camera in (CAMERA, lens):
        ball, raster = surface(dtype), SoftRas(blur_px=1.3, cull=cull)
        view = View.of(ball, Silhouettes(camera))
        one = opacity(view, blur(raster.sigma, 1e-4, cull))
        separate = raster.silhouette(view.screen, view.faces, HEIGHT, WIDTH)
        assert 0.1 < separate.mean() < 0.9 and (one - separate).abs().max() < WITHIN[dtype]
        weight = torch.randn(one.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        leaves = [ball.vertices, *(x for x in (camera.K, camera.t) if x.requires_grad)]
        slopes, expected = (torch.autograd.grad((a * weight).sum(), leaves, retain_graph=True) for a in (one, separate))
        for slope, true in zip(slopes, expected, strict=True):
            assert true.abs().max() > 0.1 and error(slope.double(), true.double()) < 10 * WITHIN[dtype]


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_large_faces_and_covered_tiles_are_those_of_projected_vertices(dtype):
    """Faces of many blocks of tiles, one far beyond the image, and a fine ball behind them where most tiles are covered."""
    height, width = 61, 90
    camera = look_at((0.3, -3.0, 0.8), (0.2, 0.0, 0.0), (0.0, 0.0, 1.0), 0.6, width, height)
    ball = mesh.sphere(0.5, 3)
    large = torch.tensor(
        [[-0.9, -0.6, -0.7], [0.8, -0.8, -0.2], [-0.1, -0.7, 0.9], [40.0, 20.0, -0.9], [41.0, 20.0, 30.0]]
    )
    n = len(ball.vertices)
    vertices = torch.cat([torch.tensor(ball.vertices), large.double()])[None, None].to(dtype).requires_grad_()
    faces = torch.cat([torch.tensor([[n, n + 1, n + 2], [n, n + 3, n + 4]]), torch.tensor(ball.faces)])
    view = View.of(Surface.of(vertices, faces, Appearance()), Silhouettes(camera))
    one = opacity(view, blur(0.49, 1e-4, "none"))
    separate = SoftRas(blur_px=0.7).silhouette(view.screen, view.faces, height, width)
    covered = one.detach().double() > 1 - 1e-15
    assert 0.1 < covered.float().mean() < 0.8 and (one - separate).abs().max() < WITHIN[dtype]
    weight = torch.randn(one.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    slope, true = (torch.autograd.grad((a * weight).sum(), vertices, retain_graph=True)[0] for a in (one, separate))
    assert true[0, 0, n + 4].abs().max() > 0 and true.abs().max() > 0.1
    assert error(slope.double(), true.double()) < 10 * WITHIN[dtype]


def test_bodies_that_reach_behind_the_camera_are_cut():
    ball = surface(torch.float64)
    inside = Surface(ball.vertices + torch.tensor([0.3, -2.7, 0.8]), ball.parts)
    view = View.of(inside, Silhouettes(CAMERA))
    assert opacity(view, blur(1.0, 1e-4, "none")) is None
    assert Renderer(CAMERA, SoftRas()).alpha(inside).mean() > 0.5
