"""Whatever the triangles: pictures and gradients are finite, colours stay in range, and nothing crashes."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradsim.errors import InputError
from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Part, Surface
from gradsim.render import Ambient, Camera, Directional, Point, Renderer, Shading, look_at
from gradsim.render.renderer import RASTERIZERS
from gradsim.render.shading.shading import LAWS

FEW = settings(max_examples=20, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
SIZES = [(1, 1), (1, 9), (7, 1), (11, 8)]  # height and width
LAMPS = (Ambient((0.3, 0.3, 0.3)), Directional((0.2, 1.0, -0.4), (0.4, 0.4, 0.4)), Point((1.0, -1.0, 2.0), (0.3, 0.3, 0.3)))  # fmt: skip


def camera(height, width):
    return look_at((0.0, -2.0, 0.3), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.9, width, height)


@st.composite
def soups(draw):
    """Triangles on few points: in view, through the camera's plane, behind it, on a line, in a point, far away."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    n, scale = draw(st.integers(1, 9)), draw(st.sampled_from([1e-6, 0.3, 1.0, 5.0, 1e6]))
    points = scale * torch.randn(n, 3, generator=generator, dtype=torch.float64)
    kind = draw(st.sampled_from(["any", "flat", "line", "point", "behind", "grid"]))
    if kind == "flat":
        points[:, draw(st.integers(0, 2))] = 0.1
    elif kind == "line":
        points[:, 1:] = 0.0
    elif kind == "point":
        points[:] = points[0]
    elif kind == "behind":
        points[:, 1] = -2.5 - points[:, 1].abs()
    elif kind == "grid":  # on the corners and centres of pixels, and on one another
        points = (points * 2).round() / 2
    faces = torch.randint(0, n, (draw(st.integers(0, 8)), 3), generator=generator)
    first = draw(st.integers(0, len(faces)))
    return points, faces[:first], faces[first:]


def draw(points, tables, rasterizer, law, height, width, dtype):
    """RGB and alpha of two parts, one with a texture and one with colours of vertices, on the same points."""
    generator = torch.Generator().manual_seed(len(points))
    uv, texture = torch.rand(len(points), 2, generator=generator), torch.rand(3, 3, 2, generator=generator)
    shown = Appearance(uv=uv.to(dtype), uv_faces=tables[0], texture=texture.to(dtype), smooth=True, specular=0.0)
    painted = Appearance(vertex_colors=torch.rand(len(points), 3, generator=generator).to(dtype))
    n = len(points)
    parts = Part("shown", slice(0, n), tables[0], False, shown), Part("painted", slice(n, 2 * n), tables[1], False, painted)  # fmt: skip
    vertices = torch.cat([points, points + torch.tensor([0.01, 0.05, 0.02], dtype=dtype)])[None, None]
    renderer = Renderer(camera(height, width), rasterizer, Shading(law, LAMPS), (0.1, 0.5, 0.9))
    rgb, alpha, _ = renderer._draw(Surface(vertices, parts), None, None)
    return rgb, alpha


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rasterizer", RASTERIZERS)
@FEW
@given(soup=soups(), law=st.sampled_from(LAWS), size=st.sampled_from(SIZES))
def test_any_triangles_give_finite_images_and_gradients(rasterizer, dtype, soup, law, size):
    points, *tables = soup
    points = points.to(dtype).requires_grad_()
    rgb, alpha = draw(points, tables, rasterizer, law, *size, dtype)
    rounding = 100 * torch.finfo(dtype).eps
    for image in (rgb, alpha):
        assert bool(image.isfinite().all())
        assert image.min() >= -rounding and image.max() <= 1 + rounding
    total = rgb.square().sum() + alpha.square().sum()
    if total.requires_grad:
        (slope,) = torch.autograd.grad(total, points)
        assert bool(slope.isfinite().all())


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("rasterizer", RASTERIZERS)
def test_vertices_that_are_not_finite_are_named(rasterizer, bad):
    ball = mesh.sphere(0.3, 0)
    vertices = torch.tensor(ball.vertices).expand(2, 3, -1, -1).clone()
    vertices[1, 2, 4, 0] = bad
    part = Part("ball", slice(0, len(ball.vertices)), torch.tensor(ball.faces), True, Appearance())
    with pytest.raises(InputError, match="vertex 4 of `ball` is .* in world 1, frame 2"):
        Renderer(camera(8, 8), rasterizer)(Surface(vertices, (part,)))


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (0, 0)])
def test_images_without_pixels_are_refused(size):
    good = camera(5, 5)
    with pytest.raises(InputError, match="at least one pixel each way"):
        Camera(good.K, good.R, good.t, *size)
