"""Rasterisers against slow twins that are written by the formulas, with autograd (`twins/`)."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from twins import antialiased, dibr, zbuffer

from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Part, Surface
from gradsim.render import DibR, Renderer, look_at

HEIGHT, WIDTH = 18, 25
CAMERA = look_at((0.3, -3.0, 0.8), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.5, WIDTH, HEIGHT)
BODIES = {
    "sphere": [mesh.sphere(0.4, 2)],
    "torus": [mesh.torus(0.35, 0.13, 10, 7)],
    "box": [mesh.box((0.6, 0.5, 0.4))],
    "two that overlap": [mesh.box((0.5, 0.4, 0.4)), mesh.torus(0.3, 0.1, 9, 6)],
}
IMAGES = (2, 3)  # worlds and frames
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def surfaces(bodies, dtype):
    """Two worlds of three frames with bodies in random poses, and random colours of vertices."""
    rng = np.random.default_rng(len(bodies[0].faces))
    vertices, parts, n = [], [], 0
    for k, body in enumerate(bodies):
        turned = Rotation.random(6, rng).as_matrix() @ np.asarray(body.vertices).T
        moved = turned.swapaxes(1, 2) + rng.uniform(-0.15, 0.15, (6, 1, 3))
        vertices.append(torch.tensor(moved, dtype=dtype).unflatten(0, IMAGES))
        colors = torch.tensor(rng.uniform(0, 1, (len(body.vertices), 3)), dtype=dtype)
        parts.append(Part(f"body{k}", slice(n, n + len(body.vertices)), torch.tensor(body.faces), False, Appearance(vertex_colors=colors)))  # fmt: skip
        n += len(body.vertices)
    return Surface(torch.cat(vertices, 2), tuple(parts))


def given(bodies, dtype):
    """A surface, and in double precision all that the picture depends on, as rounded to the dtype; a camera an image."""
    surface = surfaces(bodies, dtype)
    colors = torch.cat([p.appearance.vertex_colors for p in surface.parts])
    lens = (getattr(CAMERA, name).to(dtype).expand(6, *getattr(CAMERA, name).shape) for name in "KRt")
    return surface, [x.double().clone().requires_grad_() for x in (surface.vertices, colors, *lens)]


def leaves(others, dtype):
    """Of vertices, colours and the camera, for the kernels."""
    points, colors, *lens = (x.detach().to(dtype) for x in others)
    return [x.clone().requires_grad_() for x in (points, colors, *(x[0] for x in lens))]


def kernels(surface, colors, K, R, t, rasterizer):
    """RGB (images, 3, height, width) and alpha, from inputs in the dtype of the surface."""
    parts = []
    for p in surface.parts:
        own = colors[p.vertices]
        parts.append(replace(p, appearance=replace(p.appearance, vertex_colors=own)))
    lens = replace(CAMERA, K=K, R=R, t=t)
    renderer = Renderer(lens, rasterizer, background=(0.2, 0.3, 0.4))
    rgb, alpha, _ = renderer._draw(replace(surface, parts=tuple(parts)), None, None)
    return rgb.flatten(0, 1), alpha.flatten(0, 1)


def agree(one, other, inputs, others, tolerance):
    """Values to the tolerance, gradients of a random weight of them to it, in norm."""
    generator = torch.Generator().manual_seed(3)
    for a, b in zip(one, other, strict=True):
        assert (a - b).abs().max() < tolerance
        weight = torch.randn(b.shape, generator=generator, dtype=torch.float64)
        slopes = torch.autograd.grad((a * weight.to(a)).sum(), inputs, retain_graph=True, materialize_grads=True)
        expected = torch.autograd.grad((b * weight).sum(), others, retain_graph=True, materialize_grads=True)
        for slope, true in zip(slopes, expected, strict=True):
            # the camera's are sums over images, which cancel: what they err by is a fraction of the terms
            scale = true.norm() if slope.shape == true.shape else true.flatten(1).norm(dim=1).sum()
            true = true if slope.shape == true.shape else true.sum(0)
            if slope.shape == (3, 3):
                slope, true = slope[:2], true[:2]  # the last row of K is (0, 0, 1), and of R follows from the others
            assert (slope - true).norm() <= tolerance * scale + 1e-12


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("bodies", BODIES.values(), ids=BODIES)
def test_dibr_is_its_formulas(bodies, dtype):
    surface, others = given(bodies, dtype)
    points, colors, *lenses = others
    blur = 0.8
    images, alphas = [], []
    for own, *lens in zip(points.flatten(0, 1), *lenses, strict=True):
        screen = zbuffer.project(own, *lens)
        face, shares, _ = zbuffer.nearest(screen, surface.faces, HEIGHT, WIDTH)
        colour = (shares[..., None] * colors[surface.faces[face]]).sum(1)
        colour = torch.where((face >= 0)[:, None], colour, torch.tensor([0.2, 0.3, 0.4], dtype=torch.float64))
        images.append(colour.T.unflatten(1, (HEIGHT, WIDTH)))
        alphas.append(dibr.alpha(screen, surface.faces, HEIGHT, WIDTH, blur**2))
    inputs = leaves(others, dtype)
    moving = replace(surface, vertices=inputs[0])
    drawn = kernels(moving, *inputs[1:], DibR(blur))
    agree(drawn, (torch.stack(images), torch.stack(alphas)), inputs, others, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("bodies", [b for b in BODIES.values() if len(b[0].faces) < 300], ids=[k for k, b in BODIES.items() if len(b[0].faces) < 300])  # fmt: skip
def test_alpha_of_aa_is_the_area_by_strips(bodies, dtype):
    surface, others = given(bodies, dtype)
    points, _, *lenses = others
    alphas = [antialiased.coverage(zbuffer.project(own, *lens)[:, :2], surface.faces, HEIGHT, WIDTH) for own, *lens in zip(points.flatten(0, 1)[:2], *(x[:2] for x in lenses), strict=True)]  # fmt: skip
    inputs = leaves(others, dtype)
    moving = replace(surface, vertices=inputs[0])
    alpha = kernels(moving, *inputs[1:], "aa")[1]
    agree([alpha[:2]], [torch.stack(alphas)], inputs, others, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_textures_are_trilinear_and_begin_again(dtype):
    box = mesh.box((0.7, 0.6, 0.5))
    generator = torch.Generator().manual_seed(1)
    texture = torch.rand(3, 4, 3, generator=generator).to(dtype)
    uv = (1.7 * torch.tensor(box.uv) - 0.4 + 0.01 * torch.rand(box.uv.shape, generator=generator)).to(dtype)
    surface = surfaces([box], dtype)
    (part,), table = surface.parts, torch.tensor(box.uv_faces)

    def draw(vertices, uv, texture):
        look = Appearance(uv=uv, uv_faces=table, texture=texture)
        renderer = Renderer(CAMERA, DibR(), background=(0.0, 0.0, 0.0))
        return renderer(Surface(vertices, (replace(part, appearance=look),))).flatten(0, 1)

    others = [x.double().clone().requires_grad_() for x in (surface.vertices, uv, texture)]
    lens = [getattr(CAMERA, name).to(dtype).double() for name in "KRt"]
    images = []
    for own in others[0].flatten(0, 1):
        screen = zbuffer.project(own, *lens)
        face, shares, _ = zbuffer.nearest(screen, surface.faces, HEIGHT, WIDTH)
        places = (shares[..., None] * others[1][table[face]]).sum(1)
        level = zbuffer.level_of(screen, surface.faces, others[1], table, texture)[face]
        texels = zbuffer.trilinear(others[2], places, level)
        images.append(torch.where((face >= 0)[:, None], texels, 0.0).T.unflatten(1, (HEIGHT, WIDTH)))
    inputs = [x.detach().to(dtype).requires_grad_() for x in others]
    agree([draw(*inputs)], [torch.stack(images)], inputs, others, TOLERANCE[dtype])
