"""Mitsuba's pictures against closed forms and our own renderer; its gradients against exact ones."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from gradsim.errors import InputError
from gradsim.geometry import mesh as meshes
from gradsim.geometry.surface import Appearance, Part, Surface
from gradsim.render import Ambient, Directional, Harmonics, Point, Renderer, Shading, Silhouettes, look_at
from gradsim.render.camera import Camera
from gradsim.render.mitsuba import frame as frames
from gradsim.render.mitsuba.renderer import Mitsuba

pytest.importorskip("mitsuba", reason='Mitsuba is not installed: pip install "gradsim[mitsuba]"')

POSE = look_at((0.3, -4.0, 1.0), (0.0, 0.1, 0.05), (0.1, 0.0, 1.0), 0.7, 40, 30)
K = POSE.K + torch.tensor([[0.0, 0.0, 1.5], [0.0, 0.0, -2.0], [0.0, 0.0, 0.0]])  # principal point off the middle
CAMERA = Camera(K, POSE.R, POSE.t, 40, 30)
RANDOM = torch.Generator().manual_seed(0)
SKY = torch.cat([torch.full((1, 3), 1.5), 0.2 * torch.randn(8, 3, generator=RANDOM)]).double()
TEXTURE = 0.2 + 0.6 * torch.rand(3, 4, 8, dtype=torch.float64, generator=RANDOM)


def surface(mesh, look=None, parts=()):
    """Surfaces of a mesh and of others, at rest."""
    every = [(mesh, look or Appearance((0.8, 0.5, 0.3))), *parts]
    first, made = 0, []
    for body, own in every:
        where = slice(first, first + len(body.vertices))
        made.append(Part(f"part {first}", where, torch.tensor(body.faces), body.convex, own))
        first = where.stop
    return Surface(torch.cat([torch.tensor(body.vertices) for body, _ in every])[None, None], tuple(made))


def inside(body):
    """Pixels that the body covers, and whose neighbours it covers too."""
    mask = Silhouettes(CAMERA).union(body)[0, 0] > 1 - 1e-9
    return -torch.nn.functional.max_pool2d(-mask[None].double(), 3, 1, 1)[0] > 0


BALL, BOX = meshes.sphere(1.0, 3), meshes.box((1.2, 1.0, 0.9))
PAINTED = Appearance(uv=torch.tensor(BALL.uv), uv_faces=torch.tensor(BALL.uv_faces), texture=TEXTURE, smooth=True)
COLORS = 0.2 + 0.7 * torch.rand(8, 3, dtype=torch.float64, generator=RANDOM)
LIGHTS = {
    "directional": (Directional((1.0, 2.0, -3.0), (0.9, 0.7, 0.5)),),
    "point": (Point((1.0, -2.5, 1.5), (3.0, 2.0, 1.0), "inverse-square"),),
    "ambient": (Ambient((0.5, 0.6, 0.7)), Ambient((0.1, 0.0, 0.1))),
    "harmonics": (Harmonics(SKY),),
    "all": (Directional((1.0, 2.0, -3.0), (0.5, 0.4, 0.3)), Ambient((0.2, 0.2, 0.2)), Harmonics(0.3 * SKY)),
}
LOOKS = {
    "flat": (BOX, Appearance((0.8, 0.5, 0.3), diffuse=0.7, ambient=0.7)),
    "smooth": (BALL, Appearance((0.8, 0.5, 0.3), smooth=True)),
    "texture": (BALL, PAINTED),
    "vertex colours": (BOX, Appearance(vertex_colors=COLORS)),
}


@pytest.mark.parametrize(
    ("lights", "look"),
    [*((lights, "smooth") for lights in LIGHTS), *(("all", look) for look in LOOKS if look != "smooth")],
)
def test_direct_light_on_a_convex_body_is_that_of_our_own_renderer(lights, look):
    """Both have ρ c cos θ. What is left is the noise of 256 samples, spread evenly, and ours of 16 within a pixel."""
    body = surface(*LOOKS[look])
    shading, where = Shading("lambert", LIGHTS[lights]), inside(body)
    ours = Renderer(CAMERA, "aa", shading, samples=4)(body)[0, 0]
    theirs = Mitsuba(CAMERA, shading, spp=256, depth=2)(body)[0, 0]
    assert where.sum() > 60
    assert 0.05 < ours[:, where].mean() < 1
    difference = (theirs - ours)[:, where]
    assert difference.abs().max() < 0.03
    assert difference.mean(1).abs().max() < 2e-3 * ours[:, where].mean()


def test_alpha_is_the_coverage_within_the_noise_of_its_samples():
    body = surface(BOX)
    exact = Silhouettes(CAMERA).union(body)[0, 0]
    alpha = Mitsuba(CAMERA, spp=256).alpha(body)[0, 0]
    assert (alpha - exact).abs().max() < 5 * math.sqrt(0.25 / 256)
    assert alpha.sum() == pytest.approx(exact.sum().item(), rel=2e-3)


def test_the_background_stands_behind_and_gives_no_light():
    body, shading = surface(BOX, Appearance((1.0, 1.0, 1.0))), Shading("lambert", (Ambient((0.5, 0.5, 0.5)),))
    options: dict[str, Any] = {"spp": 64, "depth": 2, "seed": 3}
    image = Mitsuba(CAMERA, shading, (0.2, 0.4, 0.9), **options)(body)[0, 0]
    black = Mitsuba(CAMERA, shading, (0.0, 0.0, 0.0), **options)(body)[0, 0]
    alpha = Mitsuba(CAMERA, **options).alpha(body)[0, 0]
    behind = (image - black) / torch.tensor([0.2, 0.4, 0.9], dtype=torch.float64)[:, None, None]
    assert (image[:, 0, 0] == torch.tensor([0.2, 0.4, 0.9], dtype=torch.float64)).all()
    torch.testing.assert_close(behind, behind[:1].expand(3, -1, -1), rtol=0, atol=1e-6)
    assert (behind[0] - (1 - alpha)).abs().max() < 5 * math.sqrt(2 * 0.25 / 64)
    assert ((behind[0] == 0) == (alpha == 1)).float().mean() > 0.95


def test_a_body_throws_its_shadow_on_the_floor_and_its_colour_with_more_legs():
    """The sun stands overhead: the floor shows ρ c, nothing below the ball, and some of its red beside it."""
    shading = Shading("lambert", (Directional((0.0, 0.0, -1.0), (0.8, 0.8, 0.8)),))
    ball = replace(BALL, vertices=0.5 * BALL.vertices)
    floor = replace(
        BOX, vertices=BOX.vertices / [1.2, 1.0, 0.9] * [8.0, 8.0, 0.1] - [0.0, 0.0, 0.75]
    )  # its top at −0.7
    room = surface(ball, Appearance((1.0, 0.0, 0.0)), [(floor, Appearance((0.5, 0.5, 0.5)))])
    camera = look_at((0.0, -4.0, 2.0), (0.0, 0.0, -0.5), (0.0, 0.0, 1.0), 0.7, 40, 30)
    direct, traced = (Mitsuba(camera, shading, spp=64, depth=depth)(room)[0, 0] for depth in (2, 4))
    at = lambda x, y: camera.project(torch.tensor([x, y, -0.7]).double())[0].floor().int().tolist()
    (u, v), (i, j), (far, row) = at(0.0, -0.4), at(0.0, -0.7), at(-1.0, -0.6)
    assert (direct[:, v, u] == 0).all()
    assert direct[:, row, far].tolist() == pytest.approx([0.4] * 3, rel=1e-3)
    assert direct[:, j, i].tolist() == pytest.approx([0.4] * 3, rel=1e-3)
    assert (traced - direct)[0, v, u] > 0.005
    assert (traced - direct)[0, j, i] > 0.005
    assert (traced - direct)[1:, j, i].abs().max() < 1e-3  # light that the ball sends down is red


@pytest.mark.parametrize("law", ["phong", "blinn-phong", "lambert"])
def test_highlights_seen_from_in_front_are_as_high_as_ours(law):
    """Along the normal: ρ k_d c + k_s c."""
    camera = look_at((0.0, -4.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.05, 3, 3)
    look = Appearance((0.5, 0.5, 0.5), specular=0.3, shininess=20.0, diffuse=0.8)
    shading = Shading(law, (Directional((0.0, 1.0, 0.0), (0.6, 0.6, 0.6)),))
    peak = Mitsuba(camera, shading, spp=64, depth=2)(surface(BOX, look))[0, 0, :, 1, 1]
    expected = 0.6 * (0.4 + (0.3 if law != "lambert" else 0.0))
    assert peak.tolist() == pytest.approx([expected] * 3, rel=5e-3)
    assert Renderer(camera, "aa", shading)(surface(BOX, look))[0, 0, 0, 1, 1] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("exponent", [10.0, 60.0])
@pytest.mark.parametrize("law", ["phong", "blinn-phong"])
def test_highlights_are_as_wide_as_ours(law, exponent):
    """Light that glances by δ: 2δ between mirror direction and eye, δ between half vector and normal.

    ln of both laws is quadratic in δ to first order, and so is Beckmann's: within 10 % where they fall to a half.
    """
    look = Appearance((0.0, 0.0, 0.0), specular=0.3, shininess=exponent)
    camera = look_at((0.0, -4.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.05, 3, 3)
    half = math.acos(0.5 ** (1 / exponent)) * (1 if law == "phong" else 2)
    lights = (Directional((math.sin(half), math.cos(half), 0.0), (1.0, 1.0, 1.0)),)
    shown = [
        renderer(surface(BOX, look))[0, 0, 0, 1, 1].item()
        for renderer in (
            Renderer(camera, "aa", Shading(law, lights)),
            Mitsuba(camera, Shading(law, lights), spp=64, depth=2),
        )
    ]
    assert shown[0] == pytest.approx(0.15, rel=1e-3)
    assert shown[1] == pytest.approx(0.15, rel=0.15)


def test_a_point_light_without_falloff_has_its_colour_at_the_middle():
    body = surface(BOX)
    near = Point((0.0, -3.0, 0.0), (0.5, 0.5, 0.5))
    square = body.vertices.mean(2).sub(torch.tensor(near.position)).square().sum().item()
    same = Point((0.0, -3.0, 0.0), (0.5 * square,) * 3, "inverse-square")
    images = [Mitsuba(CAMERA, Shading("lambert", (light,)), spp=16)(body) for light in (near, same)]
    torch.testing.assert_close(*images, rtol=1e-5, atol=1e-6)


def test_a_seed_gives_the_same_image_and_every_frame_its_own_noise():
    still = surface(BOX)
    still = Surface(still.vertices.expand(2, 2, -1, -1), still.parts)
    one, same, other = (Mitsuba(CAMERA, spp=4, seed=seed)(still) for seed in (1, 1, 2))
    assert one.shape == (2, 2, 3, 30, 40)
    assert torch.equal(one, same)
    assert len({image.sum().item() for image in [*one.flatten(0, 1), *other.flatten(0, 1)]}) == 8


def test_textures_are_shown_or_not():
    shading = Shading("lambert", LIGHTS["ambient"])
    plain = surface(BALL, replace(PAINTED, texture=None))
    without = Mitsuba(CAMERA, replace(shading, textures=False), spp=4)(surface(BALL, PAINTED))
    assert torch.equal(without, Mitsuba(CAMERA, shading, spp=4)(plain))
    assert not torch.equal(without, Mitsuba(CAMERA, shading, spp=4)(surface(BALL, PAINTED)))


def test_what_mitsuba_cannot_do_is_refused():
    skewed = Camera(K + torch.tensor([[0, 2.0, 0], [0, 0, 0], [0, 0, 0]]), POSE.R, POSE.t, 40, 30)
    with pytest.raises(InputError, match="skew 2 px"):
        Mitsuba(skewed)
    with pytest.raises(InputError, match="no variant 'vector_rgb'; it has scalar_rgb"):
        Mitsuba(CAMERA, variant="vector_rgb")
    with pytest.raises(InputError, match="spp 0"):
        Mitsuba(CAMERA, spp=0)
    with pytest.raises(InputError, match="no gradient by the camera"):
        Mitsuba(Camera(K, POSE.R, POSE.t.clone().requires_grad_(), 40, 30))
    moving = surface(BOX)
    moving = Surface(moving.vertices.clone().requires_grad_(), moving.parts)
    with pytest.raises(InputError, match="scalar_rgb has no gradients; choose llvm_ad_rgb or cuda_ad_rgb"):
        Mitsuba(CAMERA, spp=1)(moving)
    with torch.no_grad():
        Mitsuba(CAMERA, spp=1)(moving)


def test_a_variant_that_ends_the_process_is_found_in_another(monkeypatch):
    monkeypatch.setattr(frames, "PROBE", "import os; os.abort()")
    frames.check.cache_clear()
    with pytest.raises(InputError, match=r"llvm_ad_rgb does not work here .*libllvm19.*DRJIT_LIBLLVM_PATH"):
        Mitsuba(CAMERA, variant="llvm_ad_rgb")
    frames.check.cache_clear()


@pytest.fixture(scope="module")
def variant():
    """A variant with gradients."""
    try:
        frames.check("llvm_ad_rgb")
    except InputError as error:
        pytest.skip(str(error))
    return "llvm_ad_rgb"


def test_the_gradient_of_an_area_is_that_of_exact_coverage(variant):
    """Measured 0.3 to 0.7 % at 64 samples for a ball; 2 % leaves room for the seed."""
    small = replace(BALL, vertices=0.5 * BALL.vertices + [0.4, 0.2, 0.1])
    gradients = []
    for alpha in (Mitsuba(CAMERA, spp=64, variant=variant).alpha, Silhouettes(CAMERA).union):
        body = surface(small)
        vertices = body.vertices.clone().requires_grad_()
        area = alpha(Surface(vertices, body.parts)).sum()
        (gradient,) = torch.autograd.grad(area, vertices)
        gradients.append(gradient.sum((0, 1, 2)))
    assert (gradients[0] - gradients[1]).norm() < 0.02 * gradients[1].norm()


def both(variant, make, *inputs):
    """Gradients of a weighted sum of Mitsuba's picture and of ours, by each of the inputs."""
    weight, found = torch.linspace(0.5, 1.5, 40, dtype=torch.float64), []
    black = (0.0, 0.0, 0.0)
    for kind in (Mitsuba, Renderer):
        own = [x.clone().requires_grad_() for x in inputs]
        body, lights = make(*own)
        shading = Shading("lambert", lights)
        if kind is Mitsuba:
            image = Mitsuba(CAMERA, shading, black, spp=64, depth=2, variant=variant)(body)
        else:
            image = Renderer(CAMERA, shading=shading, background=black, samples=4)(body)
        found.append(torch.autograd.grad((image * weight).sum(), own))
    return list(zip(*found, strict=True))


def test_the_gradient_by_vertices_is_that_of_our_own_renderer(variant):
    """Of a shift, with light that varies over the body; 5 %: of this, 1 to 2 % were measured."""
    lights = (Directional((1.0, 2.0, -3.0), (0.9, 0.7, 0.5)), Harmonics(SKY))
    body = surface(BALL, Appearance((0.8, 0.5, 0.3), smooth=True))
    ((theirs, ours),) = both(variant, lambda x: (Surface(x, body.parts), lights), body.vertices)
    theirs, ours = theirs.sum((0, 1, 2)), ours.sum((0, 1, 2))
    assert (theirs - ours).norm() < 0.05 * ours.norm()


def test_gradients_by_textures_and_lights_are_those_of_our_own_renderer(variant):
    """5 %: noise of 64 samples, and for the texture ours of 16 within a pixel."""

    def make(texture, uv, sun, sky):
        body = surface(BALL, replace(PAINTED, texture=texture, uv=uv))
        return body, (Directional((1.0, 2.0, -3.0), sun), Harmonics(sky))

    inputs = TEXTURE, torch.tensor(BALL.uv), torch.tensor([0.9, 0.7, 0.5]).double(), SKY
    for name, (theirs, ours) in zip(("texture", "uv", "sun", "sky"), both(variant, make, *inputs), strict=True):
        if name == "uv":  # each alone is noise; together they move the texture
            theirs, ours = theirs.sum(0), ours.sum(0)
        assert (theirs - ours).norm() < 0.05 * ours.norm(), name


def test_seams_of_a_texture_have_no_gradient_by_vertices(variant):
    body = surface(BALL, PAINTED)
    moving = Surface(body.vertices.clone().requires_grad_(), body.parts)
    with pytest.raises(InputError, match=r"the texture of `part 0` has seams.*Shading\(textures=False\)"):
        Mitsuba(CAMERA, spp=1, variant=variant)(moving)


def test_lights_that_move_have_no_gradient_and_say_so(variant):
    towards = torch.tensor([1.0, 2.0, -3.0]).requires_grad_()
    renderer = Mitsuba(CAMERA, Shading("lambert", (Directional(towards),)), spp=1, variant=variant)
    with pytest.raises(InputError, match=r"no gradient by light0\.to_world; detach it"):
        renderer(surface(BOX))
