"""Triangles through the camera's plane against triangles cut by hand, and derivatives by central differences."""

import pytest
import torch
from checks import error

from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Part, Surface
from gradsim.render import Renderer, look_at
from gradsim.render.near_clipping import cut_near
from gradsim.render.softras.rasterizer import SoftRas

HEIGHT, WIDTH, NEAR = 20, 26, 0.5
RASTER = SoftRas(blur_px=1.3, gamma=0.05, near=0.5, far=6.0)
FACES = torch.tensor([[0, 2, 1], [1, 3, 2], [4, 6, 5], [7, 8, 9], [10, 11, 12]])
POINTS = [
    *([-1.1, -0.7, 2.0], [1.2, -0.6, 2.6], [0.15, 1.0, 1.4]),  # in front
    [0.8, 0.9, -1.5],  # face 1 has this one behind
    *([-0.6, 0.8, -0.4], [-0.9, -0.2, 1.7], [-0.2, 0.3, 0.1]),  # face 2 has one in front, the second
    *([0.0, 0.1, -1.0], [1.0, 0.2, -2.0], [0.3, 1.0, -0.1]),  # face 3 is behind
    *([0.9, -0.8, 1.6], [0.4, -0.3, 0.5], [0.7, 0.6, 1.1]),  # face 4 touches the plane
]


def pixels(points):
    """Homogeneous, of a camera that looks along +z."""
    K = torch.tensor([[14.0, 0, WIDTH / 2 + 0.3], [0, 15.0, HEIGHT / 2 - 0.2], [0, 0, 1]]).double()
    return points @ K.mT


def looks(images=2):
    random = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.rand(shape, generator=random, dtype=torch.float64)
    rows = torch.randint(8, FACES.shape, generator=random)
    return {"diffuse": draw(images, 13, 3), "specular": draw(13, 3), "uv": draw(8, 2), "texture": draw(3, 5, 4)}, rows


def image(clip, faces, uv_faces, diffuse, specular, uv, texture):
    tables = [(diffuse, faces), (specular[None], faces), (uv[None], uv_faces)]
    cut = cut_near(clip, faces, NEAR, tables)
    (diffuse, rows), (specular, _), (uv, uv_rows) = cut.tables
    more = {"paint_faces": rows, "uv_faces": uv_rows, "uv": uv, "texture": texture}
    return RASTER.color(cut.screen, cut.faces, HEIGHT, WIDTH, diffuse, specular, **more)


def scene():
    """Two images: in the second all is 0.3 m nearer, and face 4 crosses the plane too."""
    first = torch.tensor(POINTS).double()
    return pixels(torch.stack([first, first - torch.tensor([0.0, 0.0, 0.3])]))


def by_hand(corners):
    """Triangles (·, 3, channels) of one (3, channels) of points before K with all they have, clipped side by side."""
    ahead = [bool(c[2] >= NEAR) for c in corners]
    start = ahead.index(False) if not all(ahead) else 0
    polygon = []
    for k in range(start, start + 3):
        a, b = corners[k % 3], corners[(k + 1) % 3]
        if a[2] >= NEAR:
            polygon.append(a)
        if (a[2] >= NEAR) != (b[2] >= NEAR):
            polygon.append(a + (NEAR - a[2]) / (b[2] - a[2]) * (b - a))
    return [torch.stack([polygon[0], polygon[k], polygon[k + 1]]) for k in range(1, len(polygon) - 1)]


@pytest.mark.parametrize("cull", ["none", "back"])
def test_the_image_is_that_of_triangles_cut_by_hand(cull):
    raster = SoftRas(blur_px=1.3, gamma=0.05, near=0.5, far=6.0, cull=cull)
    look, uv_faces = looks()
    clip = scene()
    tables = [(look["diffuse"], FACES), (look["specular"][None], FACES), (look["uv"][None], uv_faces)]
    cut = cut_near(clip, FACES, NEAR, tables)
    (diffuse, rows), (specular, _), (uv, uv_rows) = cut.tables
    more = {"paint_faces": rows, "uv_faces": uv_rows, "uv": uv, "texture": look["texture"]}
    rgb, alpha = raster.color(cut.screen, cut.faces, HEIGHT, WIDTH, diffuse, specular, **more)
    for image in range(2):
        whole = torch.cat([clip[image], look["diffuse"][image], look["specular"]], 1)[FACES]
        whole = torch.cat([whole, look["uv"][uv_faces]], 2)
        pieces = torch.stack([piece for corners in whole for piece in by_hand(corners)])
        assert len(pieces) == (5, 6)[image]
        flat = pieces.flatten(0, 1)
        screen = torch.cat([flat[:, :2] / flat[:, 2:3], flat[:, 2:3]], 1)[None]
        faces = torch.arange(len(flat)).reshape(-1, 3)
        more = {"uv": flat[:, 9:], "texture": look["texture"]}
        wanted, covered = raster.color(screen, faces, HEIGHT, WIDTH, flat[:, 3:6], flat[:, 6:9], **more)
        assert error(rgb[image], wanted[0]) < 1e-12 and error(alpha[image], covered[0]) < 1e-12
    assert 0.2 < alpha.mean() < 0.95


def test_gradients_pass_the_plane():
    look, uv_faces = looks()
    given = [scene(), look["diffuse"], look["specular"], look["uv"]]
    function = lambda clip, diffuse, specular, uv: list(
        image(clip, FACES, uv_faces, diffuse, specular, uv, look["texture"])
    )
    random = torch.Generator().manual_seed(2)
    ways = [torch.randn(x.shape, generator=random, dtype=torch.float64) for x in given]
    ways[0][:, 11] = 0  # on the plane: a kink
    probes = [torch.randn(y.shape, generator=random, dtype=torch.float64) for y in function(*given)]
    inputs = [x.requires_grad_() for x in given]
    found = torch.autograd.grad(function(*inputs), inputs, probes)
    slopes = [(g * w).sum() for g, w in zip(found, ways, strict=True)]
    for k, slope in enumerate(slopes):  # of each input alone
        steps = [w if j == k else torch.zeros_like(w) for j, w in enumerate(ways)]
        values = []
        for h in (1e-6, -1e-6):
            moved = function(*(x.detach() + h * s for x, s in zip(inputs, steps, strict=True)))
            values.append(sum((y * p).sum() for y, p in zip(moved, probes, strict=True)))
        secant = (values[0] - values[1]) / 2e-6
        assert error(slope, secant) < 1e-6, k  # roundings of 1e-16 · 1e3 over 1e-6


def test_faces_in_front_stay_as_they_are():
    clip = scene()
    front = FACES[:1]
    cut = cut_near(clip, front, NEAR, [(clip, front)])
    assert torch.equal(cut.faces, front) and cut.tables[0][0] is clip
    assert torch.equal(cut.screen[:, :3, :2], clip[:, :3, :2] / clip[:, :3, 2:])


def test_a_mesh_behind_the_camera_leaves_an_empty_image():
    clip = scene() * torch.tensor([1.0, 1.0, -1.0]).double()
    clip = clip - torch.tensor([0.0, 0.0, 9.0]).double()
    clip.requires_grad_()
    cut = cut_near(clip, FACES, NEAR)
    alpha = RASTER.silhouette(cut.screen, cut.faces, HEIGHT, WIDTH)
    (gradient,) = torch.autograd.grad(alpha.sum(), clip)
    assert not alpha.any() and not gradient.any()


def test_a_plane_behind_the_camera_is_refused():
    with pytest.raises(ValueError, match="above 0"):
        cut_near(scene(), FACES, -1.0)


def test_a_floor_that_begins_behind_the_camera_fills_the_lower_half():
    floor = mesh.box((60.0, 60.0, 1.0))
    vertices = torch.tensor(floor.vertices)[None, None] - torch.tensor([0.0, 0.0, 1.5]).double()
    white = Appearance((1.0, 1.0, 1.0))
    surface = Surface(vertices.requires_grad_(), (Part("floor", slice(0, 8), torch.tensor(floor.faces), True, white),))
    lens = look_at((0.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), 1.2, 16, 24)
    renderer = Renderer(lens, SoftRas(blur_px=0.2), background=(0.0, 0.0, 0.0))
    image, alpha = renderer(surface)[0, 0], renderer.alpha(surface)[0, 0]
    # the far edge is 30 m away and 1 m down: half a pixel below the horizon
    assert image[:, :11].max() < 1e-3 and alpha[:11].max() < 1e-3
    assert image[:, 14:].min() > 0.99 and alpha[14:].min() > 0.4  # less than 1 only where edges of triangles meet
    (gradient,) = torch.autograd.grad(alpha.sum(), vertices)
    assert gradient[0, 0, :, 2].sum() > 0  # a higher floor covers more
