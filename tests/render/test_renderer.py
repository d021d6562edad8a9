"""Pictures: what is seen where, by all rasterisers, and derivatives by everything that a picture depends on."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from checks import weights
from tolerances import ROUNDING, near
from torch.autograd import forward_ad

from gradsim.errors import InputError
from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Part, Surface
from gradsim.render import Ambient, DibR, Directional, Harmonics, Point, Renderer, Shading, SoftRas, look_at
from gradsim.render.raster.composite import composite
from gradsim.render.raster.zbuffer import nearest, rasterize
from gradsim.render.renderer import RASTERIZERS

WIDTH, HEIGHT = 24, 18
LAMPS = (Ambient((0.2, 0.3, 0.1)), Directional((-0.5, 0.6, -1.0), (0.6, 0.5, 0.4)), Point((1.0, -1.0, 2.0)))


def surface(*bodies, dtype=torch.float64):
    """One world, one frame, of (mesh, offset, look)."""
    vertices, parts, n = [], [], 0
    for k, (body, offset, look) in enumerate(bodies):
        own = torch.tensor(np.asarray(body.vertices) + np.array(offset), dtype=dtype)
        parts.append(Part(f"body{k}", slice(n, n + len(own)), torch.tensor(body.faces), False, look))
        vertices.append(own)
        n += len(own)
    return Surface(torch.cat(vertices)[None, None], tuple(parts))


def camera(eye=(0.4, -3.0, 1.1), fov=0.6, width=WIDTH, height=HEIGHT):
    return look_at(eye, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), fov, width, height)


def still_life(dtype=torch.float64):
    """A smooth ring before a box with a texture, both shiny."""
    ring, box = mesh.torus(0.5, 0.2, 12, 8), mesh.box((0.5, 0.6, 0.7))
    image = torch.rand(3, 5, 4, dtype=dtype, generator=torch.Generator().manual_seed(1))
    painted = Appearance(uv=torch.tensor(box.uv, dtype=dtype), uv_faces=torch.tensor(box.uv_faces), texture=image)
    shiny = {"specular": 0.4, "shininess": 5.0}
    return surface(
        (ring, (0.0, 0.0, 0.0), Appearance((0.8, 0.3, 0.2), smooth=True, **shiny)),
        (box, (0.5, 0.6, 0.1), replace(painted, **shiny)),
        dtype=dtype,
    )


@pytest.mark.parametrize("rasterizer", RASTERIZERS)
def test_white_box_before_black_fills_its_silhouette(rasterizer):
    box = surface((mesh.box((0.6, 0.6, 0.6)), (0, 0, 0), Appearance((1.0, 1.0, 1.0))))
    renderer = Renderer(camera(), rasterizer, background=(0.0, 0.0, 0.0))
    image, alpha = renderer(box)[0, 0], renderer.alpha(box)[0, 0]
    assert image.shape == (3, HEIGHT, WIDTH)
    assert image[:, HEIGHT // 2, WIDTH // 2].tolist() == pytest.approx([1, 1, 1])
    assert image[:, 0, 0].tolist() == [0, 0, 0]
    # SoftRas lets 4 % through where edges of triangles meet
    assert alpha[HEIGHT // 2, WIDTH // 2] > (0.95 if rasterizer == "softras" else 1 - 1e-12) and alpha[0, 0] < 1e-3


@pytest.mark.parametrize("law", ["lambert", "phong", "blinn-phong"])
@pytest.mark.parametrize("rasterizer", RASTERIZERS)
def test_gradients_by_everything_are_those_of_central_differences(rasterizer, law):
    scene, lens = still_life(), camera()
    box, generator = scene.parts[1].appearance, torch.Generator().manual_seed(0)
    random = lambda *shape: torch.rand(*shape, dtype=torch.float64, generator=generator)
    start = {
        "vertices": scene.vertices,
        "texture": box.texture,
        "uv": box.uv * 0.77 + 0.12,  # corners lie on no border of texels, where sampling has a kink
        "colour": random(scene.parts[0].vertices.stop, 3),
        "ambient": torch.tensor([0.2, 0.3, 0.1]).double(),
        "direction": torch.tensor([-0.5, 0.6, -1.0]).double(),
        "lamp": torch.tensor([1.0, -1.0, 2.0]).double(),
        "brightness": torch.tensor([0.6, 0.7, 0.8]).double(),
        "harmonics": (random(9, 3) - 0.5) * 0.2,
        "K": lens.K,
        "R": lens.R,
        "t": lens.t,
        "background": random(3, HEIGHT, WIDTH),
        "specular": torch.tensor(0.4).double(),
    }

    def draw(v):
        ring = replace(scene.parts[0].appearance, vertex_colors=v["colour"], specular=v["specular"])
        looks = ring, replace(box, texture=v["texture"], uv=v["uv"])
        parts = tuple(replace(p, appearance=look) for p, look in zip(scene.parts, looks, strict=True))
        lamps = (Ambient(v["ambient"]), Directional(v["direction"], v["brightness"]), Point(v["lamp"], v["brightness"]))
        shading = Shading(law, (*lamps, Harmonics(v["harmonics"])))
        eye = replace(lens, K=v["K"], R=v["R"], t=v["t"])
        return Renderer(eye, rasterizer, shading, v["background"])(Surface(v["vertices"], parts))

    asked = {name: x.clone().requires_grad_() for name, x in start.items()}
    image = draw(asked)
    (weight,) = weights([image.detach()], 3)
    slopes = dict(zip(asked, torch.autograd.grad((image * weight).sum(), list(asked.values())), strict=True))
    for name, x in start.items():
        way = torch.randn(x.shape, dtype=torch.float64, generator=generator)
        if name == "R":  # of the rotation vector, so that R stays a rotation
            way = torch.linalg.matrix_exp(1e-6 * (way - way.T)) @ x - x
            way = way / 1e-6
        if name == "K":
            way = way * torch.tensor([[1.0, 1, 1], [0, 1, 1], [0, 0, 0]])
        step = 1e-6
        with torch.no_grad():
            high, low = (draw({**start, name: x + s * way}) for s in (step, -step))
        expected = ((high - low) * weight).sum() / (2 * step)
        assert (slopes[name] * way).sum().item() == pytest.approx(expected.item(), rel=2e-6, abs=1e-7), name


@pytest.mark.parametrize("rasterizer", RASTERIZERS)
def test_parameters_of_lights_by_name_take_the_place_of_the_scene_s(rasterizer):
    lamps = (Ambient((0.2, 0.3, 0.1)), Directional((-0.5, 0.6, -1.0)))
    named = Renderer(camera(), rasterizer, Shading("phong", lamps, names=("sky", "sun")))
    scene = still_life()
    ways = torch.tensor([[-0.5, 0.6, -1.0], [0.4, 0.7, -1.0]]).double().requires_grad_()
    two = Surface(scene.vertices.expand(2, 2, -1, -1), scene.parts)  # worlds and frames
    images = named(
        two, {"lights.sun.direction": ways, "lights.sun.colour": torch.full((1, 3), 0.6, dtype=torch.float64)}
    )
    for world, way in enumerate(ways.detach()):
        alone = Renderer(camera(), rasterizer, Shading("phong", (lamps[0], Directional(way, (0.6, 0.6, 0.6)))))(scene)
        assert (images[world] - alone[0]).abs().max() < 1e-12
    images[1].sum().backward()
    assert ways.grad[0].abs().max() == 0 and ways.grad[1].abs().max() > 0


@pytest.mark.parametrize("blur", [0.0, -1.0, math.inf, math.nan])
def test_blur_out_of_range_is_refused(blur):
    with pytest.raises(ValueError, match="above 0"):
        DibR(blur)
    with pytest.raises(ValueError, match="above 0"):
        SoftRas(blur)


@pytest.mark.parametrize("law", ["phong", "blinn-phong"])
def test_a_light_below_the_horizon_makes_no_highlight(law):
    up, eye = torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([[0.8, 0.0, 0.6]])
    shiny, first = torch.tensor([[1.0, 1.0, 0.5, 3.0]]), torch.zeros(1, dtype=torch.long)
    for height, seen in (
        (0.1, True),
        (-0.1, False),
    ):  # of a light opposite: its mirror image is near the eye both times
        lamp = Directional((0.8, 0.0, -height))
        gloss = Shading(law, (lamp,)).light(torch.zeros(1, 3), up, eye, shiny, first)[1]
        assert bool((gloss > 0).all()) == seen and bool((gloss != 0).any()) == seen


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("rasterizer", RASTERIZERS)
def test_a_sheet_is_lit_on_the_side_that_is_seen_whichever_way_its_faces_turn(rasterizer, smooth):
    corners = torch.tensor([[-0.5, 0.0, -0.4], [0.5, 0.1, -0.5], [0.4, -0.2, 0.5], [-0.6, 0.2, 0.4]]).double()
    faces, look = torch.tensor([[0, 1, 2], [0, 2, 3]]), Appearance((0.9, 0.8, 0.7), smooth=smooth, specular=0.3)
    render = Renderer(camera(), rasterizer, Shading("phong", LAMPS))
    images = [
        render(Surface(corners[None, None], (Part("sheet", slice(0, 4), turned, False, look),)))
        for turned in (faces, faces.flip(1))
    ]
    assert torch.allclose(*images, rtol=1e-12)
    unlit = torch.tensor([0.9 * 0.2, 0.8 * 0.3, 0.7 * 0.1])  # lamps stand on the side of the camera
    assert (images[0][0, 0, :, HEIGHT // 2, WIDTH // 2] > 1.5 * unlit).all()


@pytest.mark.parametrize("kind", [SoftRas, DibR])
def test_opacity_leaves_out_faces_by_the_side_they_show(kind):
    corners = torch.tensor([[-0.5, 0.0, -0.4], [0.5, 0.1, -0.5], [0.4, -0.2, 0.5]]).double()
    front = Surface(corners[None, None], (Part("sheet", slice(0, 3), torch.tensor([[0, 1, 2]]), False, Appearance()),))
    alpha = {cull: Renderer(camera(), kind(cull=cull)).alpha(front) for cull in ("none", "back", "front")}
    assert alpha["none"].max() > 0.9
    assert torch.equal(alpha["back"], alpha["none"])
    assert (alpha["front"] == 0).all()


@pytest.mark.parametrize("rasterizer", RASTERIZERS)
def test_gradients_by_one_colour_for_all_are_the_opacity(rasterizer):
    colour = torch.tensor([0.3, 0.6, 0.2], dtype=torch.float64, requires_grad=True)
    scene = surface((mesh.torus(0.5, 0.2, 12, 8), (0.0, 0.0, 0.0), Appearance(colour)))
    image = Renderer(camera(), rasterizer, background=(0.0, 0.0, 0.0)).output(scene)
    (slope,) = torch.autograd.grad(image.rgb[0, 0, 1].sum(), colour)  # linear in green, and nothing else
    assert slope[[0, 2]].tolist() == [0, 0]
    assert slope[1].item() == near(image.rgb[0, 0, 1].sum().item() / 0.6, ROUNDING)


@pytest.mark.parametrize("rasterizer", RASTERIZERS)
def test_gradient_by_the_background_is_differentiated_rightly_or_not_at_all(rasterizer):
    """Its own formula is PyTorch's: 1 - alpha of the image's adjoint, where alpha depends on the shape."""
    scene, (weight,) = still_life(), weights([torch.zeros(1, 1, 3, HEIGHT, WIDTH).double()], 4)
    (way,) = weights([scene.vertices], 5)
    background = torch.tensor([0.2, 0.3, 0.4], dtype=torch.float64, requires_grad=True)

    def gradient(at, by, linear):
        render = Renderer(camera(), rasterizer, Shading("phong", LAMPS), background)
        image = render(replace(scene, vertices=scene.vertices + at * way))
        return torch.autograd.grad(((image if linear else image**2) * weight).sum(), by, create_graph=True)[0]

    for linear in (True, False):
        at = torch.zeros((), dtype=torch.float64, requires_grad=True)
        with pytest.raises(NotImplementedError, match="is differentiable once"):
            torch.autograd.grad(gradient(at, at, linear), background)
        high, low = (gradient(torch.tensor(step), background, linear).sum() for step in (1e-6, -1e-6))
        first = gradient(at, background, linear).sum() + 0 * at  # which DIB-R's does not depend on
        try:
            (mixed,) = torch.autograd.grad(first, at)
        except NotImplementedError:
            continue
        assert mixed.item() == pytest.approx((high - low).item() / 2e-6, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("rasterizer", RASTERIZERS)
def test_tangent_of_the_background_is_refused_and_not_lost(rasterizer):
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="has no forward-mode derivative"):
        background = forward_ad.make_dual(torch.zeros(3).double(), torch.ones(3).double())
        Renderer(camera(), rasterizer, background=background)(still_life())


@pytest.mark.parametrize("rasterizer", RASTERIZERS)
def test_gradients_by_normals_are_those_of_central_differences(rasterizer):
    scene, generator = still_life(), torch.Generator().manual_seed(2)
    render = Renderer(camera(), rasterizer, Shading("phong", LAMPS))
    normals, way = (torch.randn(scene.vertices.shape, dtype=torch.float64, generator=generator) for _ in range(2))
    asked = normals.clone().requires_grad_()
    image = render.output(scene, normals=asked).rgb
    (weight,) = weights([image.detach()], 3)
    (slope,) = torch.autograd.grad((image * weight).sum(), asked)
    with torch.no_grad():
        high, low = (render.output(scene, normals=normals + step * way).rgb for step in (1e-6, -1e-6))
    assert (slope * way).sum().item() == pytest.approx((((high - low) * weight).sum() / 2e-6).item(), rel=2e-6)


@dataclass(frozen=True)
class Centers:
    """The one of `docs/developer/extend.md`."""

    cull: str = "none"
    name: ClassVar[str] = "centers"

    def alpha(self, view):
        return (nearest(view, self.cull) > 0).to(view.clip)

    def draw(self, view, color_source, background):
        fragments = rasterize(view, self.cull)
        alpha = (fragments.rows >= 0).to(view.clip)
        return composite(fragments, color_source.at(fragments), alpha, background), alpha


def test_a_rasteriser_of_one_s_own_draws_images_and_masks():
    scene, shading = still_life(), Shading("phong", LAMPS)
    own, dibr = (Renderer(camera(), kind, shading, samples=2) for kind in (Centers(), DibR()))
    assert torch.equal(own(scene), dibr(scene))  # colours of DIB-R are those at the centres
    assert torch.equal(own.masks(scene).sum(2), own.alpha(scene))


def test_more_pixels_than_kernels_count_are_refused():
    scene = still_life()
    video = Surface(scene.vertices.expand(-1, 3, -1, -1), scene.parts)
    wide = Renderer(camera(width=2**14, height=2**14))
    with pytest.raises(InputError, match="3 images of 268435456 pixels .* some frames"):
        wide.alpha(video)
    with pytest.raises(InputError, match="some frames"):
        Renderer(camera(width=2**12, height=2**12), samples=4)(video)
