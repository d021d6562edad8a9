"""The kernels of SoftRas against the formulas in float64, and geometry that has no gradient or no place."""

from typing import Any

import pytest
import torch
from checks import error
from render.twins import softras as twin

from gradsim import mesh
from gradsim.render.softras import SoftRas, colour, silhouette

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
    look: dict[str, Any] = {"gain": draw(*screen.shape[:2], 3), "gloss": draw(screen.shape[1], 3) - 0.5, "background": draw(3, HEIGHT, WIDTH)}  # fmt: skip
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
def test_colours_and_their_gradients_are_those_of_the_formulas(dtype, textured):
    screen, faces = scene(dtype)
    look = paint(screen, faces, textured=textured)
    names = ["screen", *(name for name in look if name != "uv_faces")]
    inputs = {"screen": screen, **look}
    exact = {k: v.double().requires_grad_() if k in names else v for k, v in inputs.items()}
    inputs = {k: v.requires_grad_() if k in names else v for k, v in inputs.items()}
    rgb, alpha = colour(faces=faces, height=HEIGHT, width=WIDTH, **inputs, **MILD)
    wanted_rgb, wanted_alpha = twin.colour(faces=faces, height=HEIGHT, width=WIDTH, **exact, **MILD)
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
    rgb, _ = SoftRas().colour(screen, faces, HEIGHT, WIDTH, **look)
    expected, _ = twin.colour(
        screen.double(), faces, HEIGHT, WIDTH, **{k: v.double() for k, v in look.items()}, sigma=1
    )
    assert (rgb - expected).abs().max() < 1e-5


def test_a_face_far_from_everything_is_mixed_with_the_background_by_their_weights():
    """One face over the whole image at z = ε + γ ln 3: D = 1, so three parts of it to one of the background."""
    far, near, gamma, epsilon = 9.0, 1.0, 0.1, 0.4
    depth = far - (epsilon + gamma * torch.tensor(3.0).double().log()) * (far - near)
    screen = torch.tensor([[-400.0, -300, depth], [-400, 900, depth], [900, -300, depth]]).double()[None]
    faces = torch.tensor([[0, 1, 2]])
    gain, gloss = torch.tensor([[0.2, 0.4, 0.6]]).expand(3, 3), torch.zeros(3, 3)
    white = torch.ones(3)
    raster = SoftRas(gamma=gamma, epsilon=epsilon, near=near, far=far)
    rgb, alpha = raster.colour(screen, faces, 3, 5, gain, gloss, background=white)
    wanted = (0.75 * gain[0] + 0.25 * white).double()[:, None, None].expand(3, 3, 5)
    assert torch.allclose(rgb[0], wanted, rtol=0, atol=1e-7) and alpha.min() == 1


def test_the_texture_stands_upright():
    """A rectangle of two faces over 6 × 4 pixels with uv from its lower left corner shows the texture as it is."""
    screen = torch.tensor([[0.0, 4, 2], [6, 4, 2], [6, 0, 2], [0, 0, 2]]).double()[None]
    uv = torch.tensor([[0.0, 0], [1, 0], [1, 1], [0, 1]]).double()
    texture = torch.rand(3, 4, 6, generator=torch.Generator().manual_seed(0)).double()
    ones = torch.ones(4, 3).double()
    raster = SoftRas(blur_px=1e-3)
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]])
    rgb, _ = raster.colour(screen, faces, 4, 6, ones, 0 * ones, uv=uv, texture=texture)
    assert (rgb[0] - texture).abs().max() < 1e-12


def test_sigma_of_the_paper_is_in_units_of_half_the_height():
    raster = SoftRas.ndc(1e-4, 64, gamma=1e-3)
    assert raster.sigma == pytest.approx(1e-4 * 32**2) and raster.gamma == 1e-3
