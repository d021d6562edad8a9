"""Silhouettes of a ball in closed form, order and edges of what is drawn, and derivatives by vertices and camera."""

import math

import numpy as np
import pytest
import torch
from checks import central_difference, directions, dot_product_errors, error, gradients, weights
from scipy.spatial.transform import Rotation
from tolerances import ROUNDING, assert_near

from gradsim.errors import InputError
from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Part, Surface
from gradsim.render.camera import Camera, look_at
from gradsim.render.coverage.coverage import coverage
from gradsim.render.silhouettes import LENS, NEAR_DEPTH, Silhouettes

RED, BLUE, WHITE = (0.9, 0.1, 0.2), (0.1, 0.3, 0.8), (1.0, 1.0, 1.0)
WORLDS, FRAMES, UNKNOWNS = 2, 3, 4


def surface_of(bodies, offsets, dtype=torch.float64):
    """Bodies (mesh, colour) at offsets (worlds, frames, bodies, 3) in random orientations."""
    vertices, parts, first = [], [], 0
    offsets = torch.as_tensor(offsets, dtype=torch.float64)
    for k, (body, colour) in enumerate(bodies):
        turn = torch.tensor(Rotation.random(rng=np.random.default_rng(k)).as_matrix())
        vertices.append(torch.tensor(body.vertices) @ turn.mT + offsets[:, :, k, None])
        where = slice(first, first + len(body.vertices))
        parts.append(Part(f"body{k}", where, torch.tensor(body.faces), body.convex, Appearance(colour)))
        first = where.stop
    return Surface(torch.cat(vertices, 2).to(dtype), tuple(parts))


@pytest.fixture
def camera():
    """A generic camera on a picture that is not square."""
    return look_at((0.6, -4.0, 1.1), (0.1, 0.2, 0.1), (0.1, 0, 1), 0.7, 40, 32)


@pytest.fixture
def scene():
    """A box and a torus that overlap in some frames."""
    rng = np.random.default_rng(0)
    bodies = [(mesh.box((0.7, 0.5, 0.4)), RED), (mesh.torus(0.4, 0.15), BLUE)]
    return surface_of(bodies, 0.3 * rng.standard_normal((WORLDS, FRAMES, 2, 3)))


@pytest.fixture
def lenses(camera):
    """Camera parameters that differ from world to world."""
    one = torch.ones(WORLDS, 1, dtype=torch.float64)
    step = torch.arange(WORLDS, dtype=torch.float64)[:, None]
    return {
        "camera.focal": (camera.K[0, 0] * one + 2 * step)[:, 0],
        "camera.centre": camera.K[:2, 2] * one - 1.3 * step,
        "camera.rotation_vector": 0.02 * step * camera.t.new_tensor([1.0, -2.0, 3.0]),  # the first world's is 0
        "camera.translation": camera.t * one + 0.1 * step,
    }


def spread(tensors, seed):
    """Random directions (worlds, unknowns, ...) for tensors (worlds, ...), a hundredth of their size."""
    drawn = [directions(tensors, seed + u) for u in range(UNKNOWNS)]
    return [torch.stack(columns, 1) / 100 for columns in zip(*drawn, strict=True)]


def test_ball_covers_the_ellipse_of_its_cone():
    """Cone of half-angle α, sin α = r/d, at θ from the axis: area = π f² sin²α cos α / (cos²θ - sin²α)^(3/2)."""
    eye = torch.eye(3, dtype=torch.float64)
    K = torch.tensor([[60.0, 0, 32], [0, 60, 32], [0, 0, 1]], dtype=torch.float64)
    silhouettes = Silhouettes(Camera(K, eye, torch.zeros(3), 64, 64))
    radius = 0.5
    for centre in ((0.0, 0.0, 3.0), (0.7, -0.5, 2.5)):
        ball = surface_of([(mesh.sphere(radius, 4), RED)], [[[centre]]])
        distance = math.hypot(*centre)
        sine, cosine = radius / distance, centre[2] / distance
        expected = math.pi * 60**2 * sine**2 * math.sqrt(1 - sine**2) / (cosine**2 - sine**2) ** 1.5
        area = silhouettes.masks(ball).sum().item()
        assert 0.995 < area / expected < 1  # the facets lie inside the ball


def test_mask_of_a_part_is_the_coverage_of_its_pixels_alone(camera, scene):
    masks = Silhouettes(camera).masks(scene)
    assert masks.shape == (WORLDS, FRAMES, 2, 32, 40)
    for k, part in enumerate(scene.parts):
        pixels, _ = camera.project(scene.vertices[:, :, part.vertices])
        assert torch.equal(masks[:, :, k], coverage(pixels, part.faces, 32, 40, part.convex))


def test_one_part_gives_the_same_mask_as_among_others(camera, scene):
    part = scene.parts[0]
    alone = Surface(scene.vertices[:, :, part.vertices], (part,))
    assert torch.equal(Silhouettes(camera).masks(alone)[:, :, 0], Silhouettes(camera).masks(scene)[:, :, 0])


def test_colors_are_those_of_the_parts_and_the_background(camera):
    bodies = [(mesh.box((0.5, 0.5, 0.5)), RED), (mesh.box((0.5, 0.5, 0.5)), BLUE)]
    surface = surface_of(bodies, [[[(-0.6, 0, 0), (0.8, 0, 0)]]])
    image = Silhouettes(camera, WHITE)(surface)[0, 0]
    masks = Silhouettes(camera).masks(surface)[0, 0]
    assert image.shape == (3, 32, 40)
    for mask, colour in ((masks[0], RED), (masks[1], BLUE), (1 - masks.sum(0), WHITE)):
        inner = image[:, mask == 1].mT
        assert len(inner) > 20
        assert error(inner, torch.tensor(colour).double().expand_as(inner)) < 1e-7  # colours came from float32
    mixed = WHITE[0] + masks[0] * (RED[0] - WHITE[0]) + masks[1] * (BLUE[0] - WHITE[0])
    assert (image[0] - mixed).abs().max() < 1e-12  # the parts do not overlap


def test_nearer_part_covers_the_other_in_each_frame_and_world(camera):
    bodies = [(mesh.box((0.6, 0.6, 0.6)), RED), (mesh.sphere(0.4), BLUE)]
    front, back = (0.0, -0.8, 0.0), (0.0, 0.8, 0.0)
    surface = surface_of(bodies, [[[front, back], [back, front]], [[back, front], [front, back]]])
    image, masks = Silhouettes(camera)(surface), Silhouettes(camera).masks(surface)
    for world, frame, top in ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)):
        both = (masks[world, frame] == 1).all(0)
        assert both.sum() > 5
        seen = image[world, frame][:, both]
        expected = torch.tensor([RED, BLUE][top], dtype=torch.float64)[:, None].expand_as(seen)
        assert error(seen, expected) < 1e-12


def test_shares_of_parts_are_areas_and_sum_to_the_union(camera):
    """Two crossing balls, the nearer one whole; and the picture is made of them."""
    bodies = [(mesh.sphere(0.5), RED), (mesh.sphere(0.4), BLUE)]
    surface = surface_of(bodies, [[[(0.1, -0.7, 0), (0.3, 0.7, 0.2)], [(0.1, 0.7, 0), (0.3, -0.7, 0.2)]]])
    silhouettes = Silhouettes(camera, WHITE)
    masks, shares = silhouettes.masks(surface), silhouettes.shares(surface)
    assert error(shares.sum(2), silhouettes.union(surface)) < 1e-12
    for frame, near in ((0, 0), (1, 1)):
        assert error(shares[0, frame, near], masks[0, frame, near]) < 1e-12
        assert (masks - shares)[0, frame, 1 - near].sum() > 10  # pixels
    layered, exact = silhouettes(surface), silhouettes.image(surface)
    off = (layered - exact).abs().amax(2)[0]
    crossing = ((masks > 0) & (masks < 1)).all(2)[0]
    assert off[crossing].max() > 1e-3 and off[~crossing].max() < 1e-12


@pytest.mark.parametrize("depth", [NEAR_DEPTH / 2, 0.0, -2.0, float("nan")])
def test_part_too_near_or_behind_the_camera_is_not_drawn_and_has_no_derivative(camera, scene, depth):
    forward = camera.R[2]
    part = scene.parts[0]
    vertices = scene.vertices.clone()
    vertex = vertices[0, 1, part.vertices.start]
    vertices[0, 1, part.vertices.start] = vertex + (depth - camera.project(vertex)[1]) * forward
    vertices.requires_grad_()
    silhouettes = Silhouettes(camera)
    masks = silhouettes.masks(Surface(vertices, scene.parts))
    masks.sum().backward()
    assert masks[0, 1, 0].abs().max() == 0
    assert vertices.grad[0, 1, part.vertices].abs().max() == 0
    assert vertices.grad.isfinite().all()
    whole = silhouettes.masks(scene)
    whole[0, 1, 0] = 0
    assert torch.equal(masks, whole)
    moving = torch.ones(WORLDS, 1, *scene.vertices.shape[1:], dtype=torch.float64)
    image, slope = silhouettes.masks_tangent(Surface(vertices.detach(), scene.parts), moving)
    assert torch.equal(image, masks)
    assert slope[0, 1, 0].abs().max() == 0 and slope.isfinite().all()


def test_camera_parameters_of_each_world_are_those_of_a_camera_of_its_own(camera, scene, lenses):
    masks = Silhouettes(camera).masks(scene, {**lenses, "cube.mass": torch.ones(WORLDS)})
    for w in range(WORLDS):
        K = camera.K.clone()
        K[0, 0] = K[1, 1] = lenses["camera.focal"][w]
        K[:2, 2] = lenses["camera.centre"][w]
        turn = torch.tensor(Rotation.from_rotvec(lenses["camera.rotation_vector"][w].numpy()).as_matrix())
        own = Camera(K, turn @ camera.R, lenses["camera.translation"][w], camera.width, camera.height)
        alone = Silhouettes(own).masks(Surface(scene.vertices[w : w + 1], scene.parts))
        assert (masks[w] - alone[0]).abs().max() < 1e-13


@pytest.mark.parametrize("given", [LENS[:4], (), LENS[:1], LENS[1:2], LENS[2:3]])
def test_tangent_is_the_central_difference(camera, scene, lenses, given):
    silhouettes, lenses = Silhouettes(camera), {f"camera.{key}": lenses[f"camera.{key}"] for key in given}
    inputs = [scene.vertices, *lenses.values()]
    along = spread(inputs, 0)

    def masks(vertices, *numbers):
        return [silhouettes.masks(Surface(vertices, scene.parts), dict(zip(lenses, numbers, strict=True)))]

    image, slope = silhouettes.masks_tangent(scene, along[0], lenses, dict(zip(lenses, along[1:], strict=True)))
    assert torch.equal(image, masks(*inputs)[0])
    for u in range(UNKNOWNS):
        secants = central_difference(masks, inputs, [a[:, u] for a in along], 1e-5)
        assert error(slope[..., u], secants[0]) < 1e-7


def test_adjoint_is_the_transpose_of_the_tangent(camera, scene, lenses):
    silhouettes, inputs = Silhouettes(camera), [scene.vertices, *lenses.values()]

    def masks(vertices, *numbers):
        return [silhouettes.masks(Surface(vertices, scene.parts), dict(zip(lenses, numbers, strict=True)))]

    def tangent(inputs, along):
        moving = [a[:, None] for a in along]
        values, change = (dict(zip(lenses, some[1:], strict=True)) for some in (inputs, moving))
        return [silhouettes.masks_tangent(Surface(inputs[0], scene.parts), moving[0], values, change)[1][..., 0]]

    adjoint = weights(masks(*inputs), 1)
    assert max(dot_product_errors(tangent, gradients(masks, inputs, adjoint), inputs, adjoint, 2)) < 1e-14


def test_moving_the_camera_is_moving_the_world_the_other_way(camera, scene):
    step = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64)  # of t, in the camera's frame
    still = torch.zeros(WORLDS, 1, *scene.vertices.shape[1:], dtype=torch.float64)
    change = {"camera.translation": step.expand(WORLDS, 1, 3)}
    _, by_camera = Silhouettes(camera).masks_tangent(scene, still, None, change)
    _, by_world = Silhouettes(camera).masks_tangent(scene, still + step @ camera.R)
    assert error(by_camera, by_world) < 1e-12


def test_image_is_differentiable_by_vertices(camera, scene):
    silhouettes = Silhouettes(camera)

    def image(vertices):
        return [silhouettes(Surface(vertices, scene.parts))]

    adjoint = weights(image(scene.vertices), 3)
    (along,) = [d / 100 for d in directions([scene.vertices], 4)]
    (gradient,) = gradients(image, [scene.vertices], adjoint)
    (slope,) = central_difference(image, [scene.vertices], [along], 1e-4)  # rounding 3e-14 over the step
    assert (gradient * along).sum().item() == pytest.approx((slope * adjoint[0]).sum().item(), rel=1e-7)


def test_float32_surfaces_give_float32_images(camera, scene):
    single = Surface(scene.vertices.float(), scene.parts)
    image = Silhouettes(camera)(single)
    assert image.dtype == torch.float32
    assert error(image, Silhouettes(camera)(Surface(single.vertices.double(), scene.parts))) < 1e-4


def test_compiles_as_one_graph(camera, scene):
    silhouettes = Silhouettes(camera)
    leaves = [scene.vertices.clone().requires_grad_() for _ in range(2)]

    def loss(vertices):
        return silhouettes(Surface(vertices, scene.parts)).square().sum()

    for f, leaf in zip((loss, torch.compile(loss, fullgraph=True, backend="aot_eager")), leaves, strict=True):
        f(leaf).backward()
    assert error(leaves[1].grad, leaves[0].grad) < 1e-12


def test_binned_silhouettes_are_means_of_pixels_also_of_their_derivatives(scene, camera, lenses):
    fine = Silhouettes(camera)
    coarse = fine.binned(2).binned(2)
    mean = lambda image: image.unflatten(3, (-1, 4)).unflatten(5, (-1, 4)).mean((4, 6))
    vertices, *changes = spread([scene.vertices, *lenses.values()], 0)
    along = dict(zip(lenses, changes, strict=True))
    (image, slope), (large, slope_large) = (s.masks_tangent(scene, vertices, lenses, along) for s in (fine, coarse))
    assert coarse.binning == 4 and large.shape[3:] == (8, 10)
    # rounding of areas of up to 16 pixels; a lens in the wrong pixels would shift the picture by some of these
    assert error(large, mean(image)) < 1e-12 and error(slope_large, mean(slope)) < 1e-10
    rigid = coarse.projection_camera(lenses, along)
    assert_near(rigid.K[:, :2] * 4, fine.projection_camera(lenses, along).K[:, :2], ROUNDING)
    with pytest.raises(InputError, match="no whole pixels of 3 × 3"):
        fine.binned(3)


def test_matrices_of_worlds_that_are_one_are_made_once(camera, scene, lenses, monkeypatch):
    made, plain = [], Silhouettes._matrices
    monkeypatch.setattr(Silhouettes, "_matrices", lambda *args: made.append(0) or plain(*args))
    view = Silhouettes(camera)
    first = {name: x[:1] for name, x in lenses.items()}
    for worlds in (1, 3, 16):
        several = {name: x.expand(worlds, *x.shape[1:]) for name, x in first.items()}
        expected = plain(view, scene.vertices, {k.rpartition(".")[2]: x for k, x in several.items()})
        for x, y in zip(view.matrices(scene.vertices, several), expected, strict=True):
            assert x.shape == y.shape and torch.equal(x, y)
    assert len(made) == 1


def test_matrices_follow_numbers_that_are_written_in_place(camera, scene, lenses):
    view = Silhouettes(camera)
    for name in lenses:
        matrices = view.matrices(scene.vertices, lenses)
        before = [x.clone() for x in matrices]
        lenses[name].data[1] += 0.5
        fresh = Silhouettes(camera).matrices(scene.vertices, lenses)
        again = view.matrices(scene.vertices, lenses)
        assert all(torch.equal(x, y) for x, y in zip(again, fresh, strict=True)), name
        assert any(not torch.equal(x, y) for x, y in zip(again, before, strict=True)), name
    coarse = view.binned(2)
    assert not torch.equal(coarse.matrices(scene.vertices, lenses)[0], again[0])
