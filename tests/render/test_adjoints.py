"""Adjoints that are written by hand against those that Warp generates from the same functions, pair by pair."""

import pytest
import torch
import warp as wp
from checks import error

from gradsim.engine.lanes import Lane, specialize
from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Part, Surface
from gradsim.render import look_at
from gradsim.render.antialias import passes, rasterizer
from gradsim.render.antialias.passes import add_touched
from gradsim.render.dibr import rasterizer as dibr
from gradsim.render.raster import fragments
from gradsim.render.raster.zbuffer import nearest
from gradsim.render.silhouettes import Silhouettes
from gradsim.render.view import View

HEIGHT, WIDTH = 13, 17
CAMERA = look_at((0.3, -3.0, 0.8), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.5, WIDTH, HEIGHT)
DOUBLE = torch.float64


@pytest.fixture(scope="module")
def view():
    """A ball before a wall that ends inside the image."""
    ball, wall = mesh.sphere(0.35, 2), mesh.box((1.6, 0.2, 0.9))
    points = torch.cat([torch.tensor(ball.vertices) + torch.tensor([0.03, -0.6, 0.05]), torch.tensor(wall.vertices)])
    n = len(ball.vertices)
    parts = (
        Part("ball", slice(0, n), torch.tensor(ball.faces), True, Appearance()),
        Part("wall", slice(n, len(points)), torch.tensor(wall.faces), True, Appearance()),
    )
    return View.of(Surface(points[None, None], parts), Silhouettes(CAMERA))


@pytest.fixture(scope="module")
def pixels(view):
    """Fragments in and beside triangles."""
    key = nearest(view)
    add_touched(view, key, rasterizer.Antialiased().alpha(view))
    return fragments.Fragments.of(view, key)


@pytest.fixture(scope="module")
def items():
    """The test's kernels over the renderer's functions."""
    codes = fragments._code(DOUBLE), dibr._code(DOUBLE), rasterizer._code(DOUBLE)
    names = (
        ("Corner", "Place", "relative", "foot", "at_foot", "at_centre"),
        ("to_border", "centre", "expm1", "MIN_SQUARED_DISTANCE", "MAX_SQUARED_DISTANCE"),
        ("border", "split", "cell", "in_row", "in_column"),
    )
    bound = {name: getattr(code, name) for code, some in zip(codes, names, strict=True) for name in some}
    return specialize("image_items_kernels", Lane("float64"), **bound)


def given(dtype, tensor):
    wp.init()
    return wp.from_torch(tensor.detach().contiguous(), dtype=dtype, requires_grad=False)


def generated(kernel, shape, inputs, outputs, seed):
    """Adjoint of input 0, from the seed of output 0."""
    slope = wp.zeros_like(inputs[0])
    wp.launch(kernel, shape, inputs, outputs)
    nothing = [None if isinstance(x, wp.array) else x for x in inputs[1:]]
    rest = [None] * (len(outputs) - 1)
    wp.launch(kernel, shape, inputs, outputs, [slope, *nothing], [given(outputs[0].dtype, seed), *rest], adjoint=True)
    return wp.to_torch(slope)


def random(like, seed=1):
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def test_places_of_fragments(view, pixels, items):
    assert (pixels.side != fragments.INSIDE).sum() > 10
    clip = view.clip.clone().requires_grad_()
    place = fragments._locate(clip, view.faces, pixels.owner, pixels.side)[0]
    weight = random(place)
    (slope,) = torch.autograd.grad((place * weight).sum(), clip)
    tables = given(wp.vec3i, view.faces), given(wp.vec4i, pixels.owner), given(wp.int32, pixels.side)
    out = wp.zeros(len(place), dtype=items.Place)
    expected = generated(items.places, len(place), [given(items.Corner, clip), *tables], [out], weight)
    assert error(place, wp.to_torch(out)) < 1e-14
    assert error(slope, expected) < 1e-12


def test_soft_alpha_beside_triangles(view, pixels, items):
    screen = view.screen.clone().requires_grad_()
    covered = (pixels.rows >= 0) & (pixels.side[pixels.rows.clamp_min(0).long()] == fragments.INSIDE)
    numbers = torch.tensor([1.3]).double(), torch.tensor([view.near]).double()
    none = torch.zeros(1, dtype=torch.int32)
    clear = dibr._fade(screen, view.faces[None], covered, *numbers, none)[0]
    weight = random(clear)
    (slope,) = torch.autograd.grad((clear * weight).sum(), screen)
    out = wp.zeros((len(view.faces), HEIGHT, WIDTH), dtype=wp.float64)
    seed = (weight * ~covered).expand(out.shape)
    tables = [given(items.Corner, screen), given(wp.vec3i, view.faces), numbers[0].item()]
    expected = generated(items.fades, out.shape, tables, [out], seed)
    assert error(clear[0], wp.to_torch(out).sum(0) * ~covered[0]) < 1e-13
    assert error(slope[..., :2], expected[..., :2]) < 1e-12


@pytest.mark.parametrize("crease", [False, True])
def test_shares_of_pixels_along_edges(view, pixels, items, crease):
    clip = view.clip.clone().requires_grad_()
    edges, turn, outline, begin = passes.outlines(view)
    listed = torch.nn.functional.pad(outline, (0, 1))
    if crease:
        listed = passes.creases(view, edges, torch.ones(len(view.faces), dtype=torch.bool))
    kept = pixels.owner, pixels.side, pixels.rows
    near = torch.tensor([view.near]).double()
    tables = view.faces, view.part_of.int(), edges, turn, listed
    shares = rasterizer._divide(clip, *tables, outline, begin, *kept, near)[0]
    assert (shares.abs() > 1e-3).any(1).sum() > 10
    weight = random(shares)
    (slope,) = torch.autograd.grad((shares * weight).sum(), clip)
    kinds = items.Corner, items.Corner, wp.vec3i, wp.int32, wp.vec4i, wp.int32, wp.vec3i, wp.vec4i, wp.int32, wp.int32
    inputs = [given(kind, x) for kind, x in zip(kinds, (clip, view.clip, *tables, *kept), strict=True)]
    shape = len(listed), HEIGHT, WIDTH
    out = [wp.zeros(shape, dtype=kind) for kind in (wp.float64, wp.int32, wp.int32)]
    wp.launch(items.shares, shape, [*inputs, view.near], out)
    way, own = (wp.to_torch(x).long() for x in out[1:])
    target = weight[pixels.rows.clamp_min(0).long()[0]]  # (rows, columns, 5)
    seed = target.expand(len(listed), -1, -1, -1).gather(3, way[..., None])[..., 0]
    seed = (seed + torch.where((own == 1) & (not crease), target[..., 4], 0.0)) * (own != 0)
    expected = generated(items.shares, shape, [*inputs, view.near], out, seed)
    assert error(slope, expected) < 1e-11
