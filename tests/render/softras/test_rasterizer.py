"""The kernels of SoftRas against the formulas in float64, and geometry that has no gradient or no place."""

import math
from typing import Any

import hypothesis.strategies as some
import pytest
import torch
import warp as wp
from checks import error
from hypothesis import given, settings
from twins import softras as twin

from gradsim.engine.lanes import Lane, specialize
from gradsim.geometry import mesh
from gradsim.render.softras.color import color_code
from gradsim.render.softras.rasterizer import SoftRas, color, silhouette

DTYPES = [torch.float64, torch.float32]
WITHIN = {torch.float64: 1e-10, torch.float32: 1e-5}
HEIGHT, WIDTH = 22, 37
MILD: dict[str, Any] = {"sigma": 1.7, "gamma": 0.02, "epsilon": 0.3, "near": 1.0, "far": 9.0}


def scene(dtype, images=2, level=1, seed=0):
    """A ball that reaches over the right border, off the grid, in front of a large triangle that cuts through it."""
    ball = mesh.sphere(1.0, level)
    random = torch.Generator().manual_seed(seed)
    points = torch.tensor(ball.vertices).expand(images, -1, -1)
    points = points + 0.05 * torch.randn(points.shape, generator=random, dtype=torch.float64)
    points = points + torch.tensor([0.9, 0.13, 4.0]) + 0.1 * torch.randn(images, 1, 3, generator=random).double()
    large = torch.tensor([[-1.8, -1.0, 5.0], [1.2, -0.5, 3.4], [0.3, 1.1, 4.3]]).double()
    points = torch.cat([points, large.expand(images, -1, -1)], 1)
    screen = torch.cat([points[..., :2] / points[..., 2:] * 24 + torch.tensor([WIDTH / 2, HEIGHT / 2]), points[..., 2:]], -1)  # fmt: skip
    n = len(ball.vertices)
    faces = torch.cat([torch.tensor(ball.faces), torch.tensor([[n, n + 1, n + 2]])])
    return screen.to(dtype), faces


def paint(screen, faces, seed=1, textured=True):
    """Gain and gloss by vertex of each image, a texture with places of its own, a background picture."""
    random = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.rand(shape, generator=random, dtype=torch.float64).to(screen)
    look: dict[str, Any] = {"diffuse": draw(*screen.shape[:2], 3), "specular": draw(screen.shape[1], 3) - 0.5, "background": draw(3, HEIGHT, WIDTH)}  # fmt: skip
    if textured:
        look |= {"uv": draw(40, 2) * 1.3 - 0.15, "texture": draw(3, 6, 9)}
        look["uv_faces"] = torch.randint(40, faces.shape, generator=random)
    return look


def gradients(loss, tensors):
    return torch.autograd.grad(loss, tensors)


@pytest.mark.parametrize("cull", ["none", "back", "front"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_silhouettes_and_their_gradient_are_those_of_the_formulas(dtype, cull):
    screen, faces = scene(dtype, level=2)
    screen.requires_grad_()
    probe = torch.randn(2, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(3))
    alpha = silhouette(screen, faces, HEIGHT, WIDTH, sigma=1.7, cull=cull)
    exact = screen.detach().double().requires_grad_()
    expected = twin.silhouette(exact, faces, HEIGHT, WIDTH, sigma=1.7, cull=cull)
    assert (alpha - expected).abs().max() < WITHIN[dtype]
    (got,), (wanted,) = gradients((alpha * probe).sum(), [screen]), gradients((expected * probe).sum(), [exact])
    assert error(got.double(), wanted) < WITHIN[dtype]
    assert 0.1 < expected.mean() < 0.9


@pytest.mark.parametrize("textured", [True, False], ids=["texture", "plain"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_colors_and_their_gradients_are_those_of_the_formulas(dtype, textured):
    screen, faces = scene(dtype)
    look = paint(screen, faces, textured=textured)
    names = ["screen", *(name for name in look if name != "uv_faces")]
    inputs = {"screen": screen, **look}
    exact = {k: v.double().requires_grad_() if k in names else v for k, v in inputs.items()}
    inputs = {k: v.requires_grad_() if k in names else v for k, v in inputs.items()}
    rgb, alpha = color(faces=faces, height=HEIGHT, width=WIDTH, **inputs, **MILD)
    wanted_rgb, wanted_alpha = twin.color(faces=faces, height=HEIGHT, width=WIDTH, **exact, **MILD)
    assert (rgb - wanted_rgb).abs().max() < WITHIN[dtype]
    assert (alpha - wanted_alpha).abs().max() < WITHIN[dtype]
    random = torch.Generator().manual_seed(4)
    probe, second = torch.randn(rgb.shape, generator=random), torch.randn(alpha.shape, generator=random)
    got = gradients((rgb * probe).sum() + (alpha * second).sum(), [inputs[k] for k in names])
    wanted = gradients((wanted_rgb * probe).sum() + (wanted_alpha * second).sum(), [exact[k] for k in names])
    errors = {name: error(a.double(), b) for name, a, b in zip(names, got, wanted, strict=True)}
    depth = error(got[0][..., 2].double(), wanted[0][..., 2])
    assert max(errors.values()) < WITHIN[dtype] and depth < WITHIN[dtype], (errors, depth)


def test_float32_keeps_its_digits_at_the_depths_and_gamma_of_the_paper():
    """1e-4 of 99 m is 1 cm: a rounding of z near 1, 6e-8, would change weights by 6e-4."""
    screen, faces = scene(torch.float32)
    look = paint(screen, faces, textured=False)
    rgb, _ = SoftRas().color(screen, faces, HEIGHT, WIDTH, **look)
    expected, _ = twin.color(screen.double(), faces, HEIGHT, WIDTH, **{k: v.double() for k, v in look.items()}, sigma=1)
    assert (rgb - expected).abs().max() < 1e-5


def test_a_face_far_from_everything_is_mixed_with_the_background_by_their_weights():
    """One face over the whole image at z = ε + γ ln 3: D = 1, so three parts of it to one of the background."""
    far, near, gamma, epsilon = 9.0, 1.0, 0.1, 0.4
    depth = far - (epsilon + gamma * torch.tensor(3.0).double().log()) * (far - near)
    screen = torch.tensor([[-400.0, -300, depth], [-400, 900, depth], [900, -300, depth]]).double()[None]
    faces = torch.tensor([[0, 1, 2]])
    diffuse, specular = torch.tensor([[0.2, 0.4, 0.6]]).expand(3, 3), torch.zeros(3, 3)
    white = torch.ones(3)
    raster = SoftRas(gamma=gamma, epsilon=epsilon, near=near, far=far)
    rgb, alpha = raster.color(screen, faces, 3, 5, diffuse, specular, background=white)
    wanted = (0.75 * diffuse[0] + 0.25 * white).double()[:, None, None].expand(3, 3, 5)
    assert torch.allclose(rgb[0], wanted, rtol=0, atol=1e-7) and alpha.min() == 1


def test_the_texture_stands_upright():
    """A rectangle of two faces over 6 × 4 pixels with uv from its lower left corner shows the texture as it is."""
    screen = torch.tensor([[0.0, 4, 2], [6, 4, 2], [6, 0, 2], [0, 0, 2]]).double()[None]
    uv = torch.tensor([[0.0, 0], [1, 0], [1, 1], [0, 1]]).double()
    texture = torch.rand(3, 4, 6, generator=torch.Generator().manual_seed(0)).double()
    ones = torch.ones(4, 3).double()
    raster = SoftRas(blur_px=1e-3)
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]])
    rgb, _ = raster.color(screen, faces, 4, 6, ones, 0 * ones, uv=uv, texture=texture)
    assert (rgb[0] - texture).abs().max() < 1e-12


def test_sigma_of_the_paper_is_in_units_of_half_the_height():
    raster = SoftRas.ndc(1e-4, 64, gamma=1e-3)
    assert raster.sigma == pytest.approx(1e-4 * 32**2) and raster.gamma == 1e-3


def test_the_adjoint_is_the_one_that_warp_generates():
    """Of every face at every pixel, from the functions of the kernels, summed as the hand-written kernel sums."""
    screen, faces = scene(torch.float64, images=1)
    look = paint(screen, faces, textured=False)
    inputs = [screen, look["diffuse"], look["specular"]]
    inputs = [x.clone().requires_grad_() for x in inputs]
    rgb, alpha = color(inputs[0], faces, HEIGHT, WIDTH, *inputs[1:], background=look["background"], **MILD)
    random = torch.Generator().manual_seed(4)
    g_rgb, g_alpha = (
        torch.randn(rgb.shape, generator=random).double(),
        torch.randn(alpha.shape, generator=random).double(),
    )
    by_hand = gradients((rgb * g_rgb).sum() + (alpha * g_alpha).sum(), inputs)

    arrays = [wp.from_torch(x.detach()[0] if x.ndim == 3 else x.detach(), dtype=wp.vec3d) for x in inputs]
    centers = wp.from_torch(twin.pixels(HEIGHT, WIDTH), dtype=wp.vec2d)
    level = 3.0  # of depth [m]; any will do, since the weights are divided by their sum
    nearest = wp.full(HEIGHT * WIDTH, level, dtype=wp.float64)
    kernel, reach, fog = pair_kernel()
    table = wp.from_torch(faces.int(), dtype=wp.vec3i)
    given = [arrays[0], table, arrays[1], arrays[2], centers, nearest, reach, fog]
    shape = len(faces), HEIGHT * WIDTH
    out = [wp.zeros(shape, dtype=kind) for kind in (wp.float64, wp.float64, wp.vec3d)]
    wp.launch(kernel, shape, given, out)
    opaque, weights, colors = (wp.to_torch(y).sum(0) for y in out)
    rest = math.exp((level - (9 - 0.3 * 8)) * fog.sharpness)
    behind = look["background"].reshape(3, -1).mT
    mixed = (colors + rest * behind) / (weights + rest)[:, None]
    assert error(rgb[0].reshape(3, -1).mT, mixed) < 1e-12 and error(alpha.flatten(), 1 - torch.exp(-opaque)) < 1e-12

    share = g_rgb[0].reshape(3, -1).mT / (weights + rest)[:, None]
    seeds = g_alpha.flatten() * torch.exp(-opaque), -(share * mixed).sum(1), share
    seeds = [
        wp.from_torch(s.expand(shape[0], *s.shape).contiguous(), dtype=y.dtype) for s, y in zip(seeds, out, strict=True)
    ]
    found = [wp.zeros_like(x) for x in arrays]
    wp.launch(
        kernel, shape, given, out, [found[0], None, found[1], found[2], None, None, reach, fog], seeds, adjoint=True
    )
    for x, y in zip(by_hand, found, strict=True):
        assert error(x.reshape(-1, 3), wp.to_torch(y)) < 1e-12


def pair_kernel():
    """The test's kernel over functions of SoftRas' own, and its settings for `MILD`."""
    lane = Lane("float64")
    code = color_code(lane)
    faces = specialize("gradsim.render.softras.face_kernels", lane, ROWS=1, COLUMNS=1)
    bound = {
        name: getattr(faces, name)
        for name in ("Pixel", "Place", "Wide", "Face", "side_of", "distance", "signed_square")
    }
    bound |= {
        name: getattr(code, name)
        for name in ("Reach", "DepthWeights", "Three", "cover", "barycentrics_of", "weight", "mean_color")
    }
    reach, fog = code.Reach(), code.DepthWeights()
    reach.sharpness, reach.cut = 1 / MILD["sigma"], math.log(1 / 1e-4 - 1)
    fog.sharpness = 1 / (MILD["gamma"] * (MILD["far"] - MILD["near"]))
    return specialize("softras_pairs_kernels", lane, **bound).pairs, reach, fog


def test_images_may_have_faces_and_looks_of_their_own():
    """Two images at once, the second with a face less, against one after another."""
    screen, faces = scene(torch.float64)
    look = paint(screen, faces)
    own = faces.repeat(2, 1, 1)
    own[1, 7] = -1
    rows = look["uv_faces"].repeat(2, 1, 1)
    look |= {"paint_faces": own.clamp(min=0), "uv_faces": rows.flip(1)}
    look["background"] = torch.stack([look["background"], 1 - look["background"]])
    both, alpha = color(screen, own, HEIGHT, WIDTH, **look, **MILD)
    for image in range(2):
        kept = own[image, :, 0] >= 0
        single = look | {"diffuse": look["diffuse"][image], "uv_faces": look["uv_faces"][image][kept]}
        single["background"] = look["background"][image]
        single["paint_faces"] = own[image][kept]
        alone, covered = color(screen[image : image + 1], own[image][kept], HEIGHT, WIDTH, **single, **MILD)
        assert error(both[image], alone[0]) < 1e-14 and error(alpha[image], covered[0]) < 1e-14


PLACES = some.sampled_from([-1e9, -3e5, -20.0, -0.5, 0.0, 0.5, 2.0, 2.5, 7.0, 31.0, 4e4, 2e9, 1e30])
DEPTHS = some.sampled_from([1e-9, 2e-6, 1e-3, 0.7, 1.0, 3.0, 99.0, 1e3, 1e8, 1e20])


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    some.lists(some.tuples(PLACES, PLACES, DEPTHS), min_size=1, max_size=6),
    some.lists(some.tuples(*[some.integers(-1, 5)] * 3), max_size=8),
    some.tuples(some.integers(0, 9), some.integers(0, 9)),
    some.sampled_from([1e-4, 1.0, 300.0]),
    some.sampled_from(DTYPES),
)
def test_no_mesh_however_broken_gives_numbers_that_are_not_finite(vertices, faces, size, blur, dtype):
    """Corners off the screen, on each other, in a line, before the eye and at the horizon; images without pixels."""
    screen = torch.tensor(vertices, dtype=dtype)[None].requires_grad_()
    table = torch.tensor(faces, dtype=torch.int32).reshape(-1, 3).clamp(max=len(vertices) - 1)
    look = torch.linspace(0, 1, 3 * len(vertices)).reshape(-1, 3).to(dtype).requires_grad_()
    texture = torch.rand(3, 1, 4, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
    raster = SoftRas(blur_px=blur)
    height, width = size
    uv = look[:, :2] * 3 - 1
    rgb, alpha = raster.color(screen, table, height, width, look, look - 0.5, uv=uv, texture=texture)
    only = raster.silhouette(screen, table, height, width)
    assert rgb.shape == (1, 3, *size) and alpha.shape == (1, *size)
    assert torch.isfinite(rgb).all() and torch.allclose(only, alpha, rtol=0, atol=1e-5)
    for x in torch.autograd.grad(rgb.sum() + alpha.sum() + only.sum(), [screen, look, texture]):
        assert torch.isfinite(x).all()


def test_what_does_not_fit_is_named():
    screen, faces = scene(torch.float64)
    look = paint(screen, faces, textured=False)
    raster = SoftRas()
    broken = screen.clone()
    broken[1, 4, 2] = math.nan
    with pytest.raises(ValueError, match=r"`screen`\[1, 4, 2\] is nan"):
        raster.silhouette(broken, faces, 4, 4)
    with pytest.raises(ValueError, match="names row 44; there are 40"):
        raster.silhouette(screen[:, :40], faces, 4, 4)
    with pytest.raises(ValueError, match="give `paint_faces`"):
        raster.color(screen, faces, 4, 4, look["diffuse"][:, :9], look["specular"][:9])
    with pytest.raises(ValueError, match="a texture needs `uv`"):
        raster.color(screen, faces, 4, 4, look["diffuse"], look["specular"], texture=torch.ones(3, 2, 2))
    with pytest.raises(ValueError, match="`background` has shape"):
        raster.color(screen, faces, 4, 4, look["diffuse"], look["specular"], background=torch.ones(3, 2, 2))
    with pytest.raises(ValueError, match="`sigma` is 0"):
        silhouette(screen, faces, 4, 4, sigma=0.0)
    with pytest.raises(ValueError, match="far beyond near"):
        SoftRas(near=2.0, far=1.0).color(screen, faces, 4, 4, look["diffuse"], look["specular"])
