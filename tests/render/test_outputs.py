"""Depth, normals, ids, flow, masks and the other things that come with a picture, against closed forms."""

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Part, Surface
from gradsim.render import Antialiased, DibR, Directional, Renderer, Shading, look_at

HEIGHT, WIDTH = 30, 41
CAMERA = look_at((0.3, -3.0, 0.8), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.5, WIDTH, HEIGHT)
RADIUS = 0.4


def part(body, first=0, name="body", colour=(0.9, 0.4, 0.1), **look):
    return Part(
        name, slice(first, first + len(body.vertices)), torch.tensor(body.faces), False, Appearance(colour, **look)
    )


def ball(levels=4, **look):
    """One world, one frame."""
    body = mesh.sphere(RADIUS, levels)
    return Surface(torch.tensor(body.vertices)[None, None], (part(body, **look),))


def rays():
    """Eye (3) and directions of the pixels (height, width, 3) with depth 1."""
    y, x = torch.meshgrid(torch.arange(HEIGHT).double() + 0.5, torch.arange(WIDTH).double() + 0.5, indexing="ij")
    seen = torch.linalg.solve(CAMERA.K, torch.stack([x, y, torch.ones_like(x)], -1)[..., None])[..., 0]
    return CAMERA.centre, seen @ CAMERA.R


def hit():
    """Depth of the ball at every pixel, infinite beyond, and points (height, width, 3)."""
    eye, ways = rays()
    b, c, a = ways @ eye, eye @ eye - RADIUS**2, ways.square().sum(-1)
    root = b * b - a * c
    depth = torch.where(root > 0, (-b - root.clamp_min(0).sqrt()) / a, torch.inf)
    return depth, eye + depth[..., None] * ways


def test_depth_and_normals_of_a_ball_are_those_of_rays():
    image = Renderer(CAMERA, DibR()).output(ball(smooth=True))
    depth, points = hit()
    # chords of 0.03 m lie 0.03² / 8 / 0.4 = 3e-4 m below the ball, more along slanted rays: away from its rim
    inner = (depth < 3.0) & (depth - depth.min() < 0.2)
    assert inner.sum() > 50
    assert (image.depth[0, 0][inner] - depth[inner]).abs().max() < 1e-3
    normals = image.normals[0, 0].movedim(0, -1)
    # 1e-3 m along a ray turn a normal by 3e-3, and normals of vertices are means over faces that differ in size
    assert (normals[inner] - points[inner] / RADIUS).abs().max() < 1e-2
    outside = torch.isinf(depth) & torch.isinf(image.depth[0, 0])
    assert outside.sum() > 500
    assert normals[outside].abs().max() == 0 and bool((image.ids[0, 0][outside] == -1).all())
    assert bool((image.faces[0, 0] == -1).eq(torch.isinf(image.depth[0, 0])).all())


def test_depth_on_a_face_is_that_of_its_plane():
    image = Renderer(CAMERA).output(ball(1))
    (body,), points = image.color_source.view.parts, image.color_source.view.points[0]
    eye, ways = rays()
    seen = image.faces[0, 0] >= 0
    a, b, c = points[body.faces[image.faces[0, 0][seen]]].unbind(1)
    across = torch.linalg.cross(b - a, c - a)
    expected = ((a - eye) * across).sum(-1) / (ways[seen] * across).sum(-1)
    assert (image.depth[0, 0][seen] - expected).abs().max() < 1e-12
    flat = torch.nn.functional.normalize(across, dim=-1)
    assert (image.normals[0, 0].movedim(0, -1)[seen] - flat).abs().max() < 1e-12


def test_flow_of_a_body_that_moves_and_turns_is_its_projected_motion():
    body = mesh.box((0.7, 0.5, 0.6))
    turns = Rotation.from_rotvec([[0.1, 0.2, 0.3], [0.25, 0.1, 0.4]]).as_matrix()
    places = torch.tensor([[0.0, 0.0, 0.0], [0.07, -0.1, 0.03]]).double()
    poses = torch.tensor(turns)
    vertices = torch.tensor(np.asarray(body.vertices)) @ poses.mT + places[:, None]
    image = Renderer(CAMERA).output(Surface(vertices[None], (part(body),)))
    assert image.flow.shape == (1, 1, 2, HEIGHT, WIDTH)
    eye, ways = rays()
    seen = image.ids[0, 0] >= 0
    here = (eye + image.depth[0, 0][..., None] * ways)[seen]
    there = (here - places[0]) @ poses[0] @ poses[1].T + places[1]
    expected = CAMERA.project(there)[0] - CAMERA.project(here)[0]
    assert (image.flow[0, 0].movedim(0, -1)[seen] - expected).abs().max() < 1e-10
    assert expected.norm(dim=-1).max() > 2  # it moves by pixels
    assert image.flow[0, 0][:, ~seen].abs().max() == 0


def two(gap):
    """A box before another, or beside it."""
    one, other = mesh.box((0.3, 0.3, 0.3)), mesh.box((0.35, 0.3, 0.4))
    vertices = np.concatenate([one.vertices + [-gap, -0.3, 0.02], other.vertices + [gap, 0.3, 0.0]])
    parts = part(one, 0, "one", (1.0, 0, 0)), part(other, len(one.vertices), "other", (0, 1.0, 0))
    return Surface(torch.tensor(vertices)[None, None], parts)


@pytest.mark.parametrize("gap", [0.4, 0.1], ids=["apart", "overlapping"])
def test_masks_of_parts_add_up_to_alpha(gap):
    renderer = Renderer(CAMERA)
    masks, alpha = renderer.masks(two(gap)), renderer.alpha(two(gap))
    assert masks.shape == (1, 1, 2, HEIGHT, WIDTH)
    assert masks.min() >= -1e-14
    assert (masks.sum(2) - alpha).abs().max() < 1e-13
    if gap == 0.4:
        single = [Renderer(CAMERA).alpha(Surface(two(gap).vertices[:, :, p.vertices], (part(body, 0),))) for p, body in zip(two(gap).parts, (mesh.box((0.3, 0.3, 0.3)), mesh.box((0.35, 0.3, 0.4))), strict=True)]  # fmt: skip
        assert (masks - torch.stack(single, 2)).abs().max() < 1e-13


def test_supersampling_converges_to_antialiasing():
    surface = two(0.1)
    exact = Renderer(CAMERA, Antialiased(), background=(0.0, 0.0, 1.0))(surface)
    errors = []
    for samples in (2, 4, 8):
        blocky = Renderer(CAMERA, DibR(blur_px=1e-3), background=(0.0, 0.0, 1.0), samples=samples)(surface)
        errors.append((blocky - exact).abs().mean().item())
    # at the outline, n × n samples err by about 1 / n of a pixel, and less where they do so at random
    assert errors[1] < errors[0] / 1.5 and errors[2] < errors[1] / 1.5
    assert errors[2] < 2e-3


def test_faces_are_left_out_by_the_side_they_show():
    surface = ball(3)
    kinds = {cull: Renderer(CAMERA, DibR(cull=cull)).output(surface) for cull in ("none", "back", "front")}
    assert torch.equal(kinds["none"].faces, kinds["back"].faces)
    seen = ~torch.isinf(kinds["none"].depth)
    assert torch.equal(seen, ~torch.isinf(kinds["front"].depth))  # closed: the far side fills the same pixels
    assert bool((kinds["front"].depth[seen] > kinds["none"].depth[seen]).all())
    front = kinds["none"].color_source.view.is_front[0]
    assert bool(front[kinds["back"].faces[seen]].all()) and not bool(front[kinds["front"].faces[seen]].any())
    with pytest.raises(ValueError, match="cull is 'both'"):
        Renderer(CAMERA, DibR(cull="both"))(surface)


@pytest.mark.parametrize("rasterizer", ["aa", "softras", "dibr"])
def test_background_image_is_seen_where_nothing_is_and_its_size_is_checked(rasterizer):
    behind = torch.rand(3, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(0)).double()
    image = Renderer(CAMERA, rasterizer, background=behind).output(ball(2))
    clear = image.alpha[0, 0] < 1e-12
    assert clear.sum() > 500
    assert (image.rgb[0, 0] - behind)[:, clear].abs().max() < 1e-12
    with pytest.raises(ValueError, match=r"background has shape \(3, 41, 30\)"):
        Renderer(CAMERA, rasterizer, background=behind.mT)


def test_ball_under_one_light_shines_by_lamberts_law():
    towards = torch.tensor([0.6, -0.64, 0.48]).double()  # a unit vector
    lamp = Directional((-towards).tolist(), (1.0, 1.0, 1.0))
    image = Renderer(CAMERA, DibR(), Shading("lambert", (lamp,))).output(ball(4, smooth=True))
    depth, points = hit()
    inner = (depth < 3.0) & (depth - depth.min() < 0.2)
    expected = (points[inner] / RADIUS @ towards).clamp_min(0.0)[:, None] * torch.tensor([0.9, 0.4, 0.1]).double()
    assert (image.rgb[0, 0].movedim(0, -1)[inner] - expected).abs().max() < 5e-3


@pytest.mark.parametrize("rasterizer", ["aa", "softras", "dibr"])
def test_one_world_is_seen_by_the_cameras_of_several(rasterizer):
    surface = Surface(ball(2).vertices.expand(1, 2, -1, -1), ball(2).parts)
    renderer = Renderer(CAMERA, rasterizer, Shading("phong"))
    places = CAMERA.t + torch.tensor([[0.0, 0, 0], [0.1, 0, 0], [0, 0.1, 0]]).double()
    together = renderer(surface, {"camera.translation": places})
    assert together.shape == (3, 2, 3, HEIGHT, WIDTH)
    for k in range(3):
        alone = renderer(surface, {"camera.translation": places[k : k + 1]})
        assert (together[k] - alone[0]).abs().max() < 1e-13


def test_closed_body_that_is_turned_inside_out_shows_its_near_side():
    surface = ball(2)
    (body,) = surface.parts
    inverted = Surface(surface.vertices, (Part("ball", body.vertices, body.faces.flip(1), False, body.appearance),))
    assert torch.equal(*(Renderer(CAMERA, DibR()).output(s).faces for s in (surface, inverted)))
