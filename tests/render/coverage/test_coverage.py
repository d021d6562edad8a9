"""Areas of polygons in closed form, an independent supersampling renderer, invariances, and derivatives."""

import numpy as np
import pytest
import torch
from checks import central_difference, directions, dot_product_errors, error, gradients, weights
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation
from tolerances import ROUNDING, SOLVED, assert_near, near

from gradsim.geometry import mesh
from gradsim.render.coverage.coverage import coverage, coverage_tangent
from gradsim.render.reference import scanline

SIDE = 32  # of the image [px]


def faces_of(body):
    return torch.tensor(body.faces)


def views(body, worlds=2, frames=3, size=9.0, seed=0, dtype=torch.float64):
    """Perspective views of a body in random poses, about `size` px across, in the middle of the image ± 2 px."""
    rng = np.random.default_rng(seed)
    turned = Rotation.random(worlds * frames, rng).as_matrix() @ (body.vertices / body.size).T
    points = torch.tensor(turned).mT.reshape(worlds, frames, -1, 3)
    centre = SIDE / 2 + torch.tensor(rng.uniform(-2, 2, (worlds, frames, 1, 2)))
    return (centre + size * points[..., :2] / (1 + 0.2 * points[..., 2:])).to(dtype)


def l_shape():
    """A thick L: the simplest solid with a corner that is not convex."""
    outline = np.array([(0, 0), (3, 0), (3, 1), (1, 1), (1, 3), (0, 3)], float)
    vertices = np.concatenate([np.c_[outline, np.zeros(6)], np.c_[outline, np.ones(6)]])
    cap = np.array([(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)])
    sides = [f for i in range(6) for j in [(i + 1) % 6] for f in ((i, j, j + 6), (i, j + 6, i + 6))]
    return mesh.Mesh(vertices - vertices.mean(0), np.concatenate([cap[:, ::-1], cap + 6, sides]))


def hull(points):
    """Area of the convex hull of (n, 2), and its gradient by the points: half the turned chord of the neighbours."""
    shape = ConvexHull(points)
    around, gradient = points[shape.vertices], np.zeros_like(points)
    chord = np.roll(around, -1, 0) - np.roll(around, 1, 0)
    gradient[shape.vertices] = np.stack([chord[:, 1], -chord[:, 0]], 1) / 2
    return shape.volume, gradient


def supersampled(points, faces, side=SIDE, samples=16):
    """Share of samples × samples points of each pixel that lie in any triangle, front or back."""
    n = side * samples
    inside = np.zeros((n, n), bool)
    y, x = (np.mgrid[:n, :n] + 0.5) / samples
    for triangle in points[faces]:
        (left, top), (right, bottom) = triangle.min(0), triangle.max(0)
        rows = slice(max(0, int(top * samples)), max(0, int(np.ceil(bottom * samples)) + 1))
        columns = slice(max(0, int(left * samples)), max(0, int(np.ceil(right * samples)) + 1))
        turns = [
            (q[0] - p[0]) * (y[rows, columns] - p[1]) - (q[1] - p[1]) * (x[rows, columns] - p[0])
            for p, q in zip(triangle, np.roll(triangle, -1, 0), strict=True)
        ]
        inside[rows, columns] |= (np.min(turns, 0) >= 0) | (np.max(turns, 0) <= 0)
    return inside.reshape(side, samples, side, samples).mean((1, 3))


CONVEX = {"box": mesh.box((0.6, 0.48, 0.36)), "sphere": mesh.sphere(1.0, 2), "cone": mesh.cone(1.0, 2.0, segments=12)}
GENERAL = {"torus": mesh.torus(1.0, 0.4), "L": l_shape()}
BODIES = [("box", True), ("sphere", True), ("cone", True), ("torus", False), ("L", False)]


@pytest.fixture(params=BODIES, ids=lambda case: case[0])
def case(request):
    """Views of a body on the screen, its faces, and whether it is convex."""
    name, convex = request.param
    body = {**CONVEX, **GENERAL}[name]
    return views(body, size=9.0 if convex else 15.0), faces_of(body), convex


@pytest.fixture(params=list(CONVEX.values()), ids=list(CONVEX))
def convex_body(request):
    return request.param


@pytest.fixture(params=list(GENERAL.values()), ids=list(GENERAL))
def general_body(request):
    return request.param


def test_area_of_a_convex_body_is_that_of_the_hull(convex_body):
    screen = views(convex_body)
    areas = coverage(screen, faces_of(convex_body), SIDE, SIDE).sum((-2, -1)).flatten()
    expected = np.array([hull(points)[0] for points in screen.flatten(0, 1).numpy()])
    assert error(areas, torch.tensor(expected)) < 1e-13


def test_gradient_of_the_area_is_the_boundary_integral(convex_body):
    screen = views(convex_body)
    (gradient,) = gradients(
        lambda s: [coverage(s, faces_of(convex_body), SIDE, SIDE).sum((-2, -1))], [screen], [screen.new_ones(2, 3)]
    )
    expected = np.stack([hull(points)[1] for points in screen.flatten(0, 1).numpy()])
    assert error(gradient.flatten(0, 1), torch.tensor(expected)) < 1e-12


def test_convex_image_agrees_with_supersampling(convex_body):
    screen = views(convex_body, 1, 2)
    image = coverage(screen, faces_of(convex_body), SIDE, SIDE)
    for frame in range(2):
        sampled = supersampled(screen[0, frame].numpy(), convex_body.faces)
        assert np.abs(image[0, frame].numpy() - sampled).max() < 1 / 16  # one row of samples


def test_area_of_a_general_body_agrees_with_supersampling(general_body):
    screen = views(general_body, 1, 6, size=24.0)
    areas = coverage(screen, faces_of(general_body), SIDE, SIDE, convex=False).sum((-2, -1))[0]
    expected = [supersampled(points, general_body.faces).sum() for points in screen[0].numpy()]
    # about 80 px of outline with errors of 1/16/√12 px² each, at random: 0.2 of 200 px²
    assert (areas / torch.tensor(expected) - 1).abs().max() < 3e-3


def test_gradient_of_the_area_of_a_general_body_agrees_with_supersampling(general_body):
    screen = views(general_body, 1, 4, size=24.0)
    outward = screen - screen.mean(2, keepdim=True)  # the body grows
    _, slope = coverage_tangent(screen, outward[:, None], faces_of(general_body), SIDE, SIDE, convex=False)
    for frame in range(4):
        # (1 ± 0.02)² in the area: the secant is the tangent, and 16 × 16 samples resolve it to 0.2 / 0.04 of 400 px²
        big, small = (
            supersampled((screen + h * outward)[0, frame].numpy(), general_body.faces).sum() for h in (0.02, -0.02)
        )
        assert abs(slope[0, frame].sum().item() / ((big - small) / 0.04) - 1) < 0.03


def test_general_image_agrees_with_supersampling(general_body):
    screen = views(general_body, 1, 2, size=15.0)
    image = coverage(screen, faces_of(general_body), SIDE, SIDE, convex=False)[0]
    for frame in range(2):
        difference = image[frame].numpy() - supersampled(screen[0, frame].numpy(), general_body.faces)
        assert np.abs(difference).max() < 1 / 16  # one row of samples
        assert np.abs(difference).mean() < 1e-3


def test_both_modes_agree_on_convex_bodies(convex_body):
    screen = views(convex_body)
    exact, general = (coverage(screen, faces_of(convex_body), SIDE, SIDE, convex) for convex in (True, False))
    assert (exact - general).abs().max() < 1e-13


def test_body_that_fills_whole_pixels_covers_them_fully_whatever_its_orientation():
    box = mesh.box((8, 6, 4))
    for turn in (Rotation.identity(), Rotation.from_euler("z", 90, degrees=True)):
        points = turn.apply(box.vertices.copy())[:, :2].round(9) + 16  # seen along an axis: side faces from their edges
        image = coverage(torch.tensor(points)[None, None], faces_of(box), SIDE, SIDE)[0, 0]
        assert set(image.unique().tolist()) == {0.0, 1.0}
        assert image.sum() == 48


def test_body_smaller_than_a_pixel_keeps_its_area():
    box = CONVEX["box"]
    screen = views(box, 1, 5, size=0.03)
    area = coverage(screen, faces_of(box), SIDE, SIDE).sum((-2, -1))[0]
    expected = torch.tensor(np.array([hull(p)[0] for p in screen[0].numpy()]))
    assert error(area, expected) < 1e-10  # the rounding of coordinates near 10, over 0.03


def test_moving_by_whole_pixels_moves_the_image(case):
    screen, faces, convex = case
    screen = (screen * 2**20).round() / 2**20  # so that the shift is exact
    shift = torch.tensor([3.0, -2.0]).double()
    image, moved = (coverage(s, faces, SIDE, SIDE, convex) for s in (screen, screen + shift))
    assert (image.roll((-2, 3), (-2, -1)) - moved).abs().max() < 1e-14


@pytest.mark.parametrize("shift", [(-14, 0), (11, 0), (0, -13), (0, 12), (-12, 11), (13, -12), (-60, 0), (60, 60)])
def test_body_partly_outside_is_the_crop_of_a_larger_image(case, shift):
    screen, faces, convex = case
    screen = screen + torch.tensor(shift)
    small = screen.clone().requires_grad_()
    large = (screen + 2 * SIDE).requires_grad_()
    image = coverage(small, faces, SIDE, SIDE, convex)
    crop = coverage(large, faces, 5 * SIDE, 5 * SIDE, convex)[..., 2 * SIDE : 3 * SIDE, 2 * SIDE : 3 * SIDE]
    (adjoint,) = weights([image], 1)
    (image * adjoint).sum().backward()
    (crop * adjoint).sum().backward()
    assert (image - crop).abs().max() < 1e-13
    assert (small.grad - large.grad).abs().max() < 1e-11


def test_image_of_a_batch_is_that_of_each_alone(case):
    screen, faces, convex = case
    image = coverage(screen, faces, SIDE, SIDE, convex)
    for world in range(screen.shape[0]):
        for frame in range(screen.shape[1]):
            alone = coverage(screen[world : world + 1, frame : frame + 1], faces, SIDE, SIDE, convex)
            assert torch.equal(image[world, frame], alone[0, 0])


def test_float32_agrees_with_float64(case):
    screen, faces, convex = case
    single = screen.float().requires_grad_()
    double = single.detach().double().requires_grad_()
    images = [coverage(s, faces, SIDE, SIDE, convex) for s in (single, double)]
    (adjoint,) = weights(images[:1], 2)
    for image in images:
        (image * adjoint).sum().backward()
    assert images[0].dtype == torch.float32
    assert error(images[0], images[1]) < 1e-5
    assert error(single.grad, double.grad) < 1e-4  # a fraction of an edge of 1 px at 20 px has 5 digits


def test_tangent_is_the_central_difference(case):
    screen, faces, convex = case
    along = torch.stack([directions([screen], seed)[0] / 10 for seed in range(3)], 1)
    image, slope = coverage_tangent(screen, along, faces, SIDE, SIDE, convex)
    assert torch.equal(image, coverage(screen, faces, SIDE, SIDE, convex))
    for u in range(3):
        secants = central_difference(lambda s: [coverage(s, faces, SIDE, SIDE, convex)], [screen], [along[:, u]], 1e-6)
        assert error(slope[..., u], secants[0]) < 1e-8  # rounding, 1e-15 over the step


def test_adjoint_is_the_transpose_of_the_tangent(case):
    screen, faces, convex = case
    (adjoint,) = weights([screen.new_empty(*screen.shape[:2], SIDE, SIDE)], 3)
    gradient = gradients(lambda s: [coverage(s, faces, SIDE, SIDE, convex)], [screen], [adjoint])

    def tangent(inputs, along):
        return [coverage_tangent(inputs[0], along[0][:, None], faces, SIDE, SIDE, convex)[1][..., 0]]

    assert max(dot_product_errors(tangent, gradient, [screen], [adjoint], 4)) < 1e-15


def test_gradcheck(case):
    screen, faces, convex = case
    few = screen[:1, :1, :, None]
    shape = torch.tensor([[0.01, 0.02], [-0.03, 0.01]], dtype=torch.float64, requires_grad=True)
    weight = weights([few.new_empty(SIDE, SIDE)], 5)[0]

    def rows(shape):
        return (coverage((few + few @ shape)[..., 0, :], faces, SIDE, SIDE, convex) * weight).sum(-1)

    assert torch.autograd.gradcheck(rows, (shape,), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("convex", [True, False])
def test_compiles_as_one_graph(convex):
    screen, faces = views(CONVEX["box"]), faces_of(CONVEX["box"])

    def loss(s):
        return [coverage(2 * s - 16, faces, SIDE, SIDE + 1, convex).square().sum()]

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    (plain,), (through,) = (gradients(f, [screen], [torch.tensor(1.0).double()]) for f in (loss, compiled))
    assert plain.abs().max() > 0
    assert torch.equal(plain, through)


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), 1e300, 1e8])
def test_what_cannot_be_drawn_leaves_its_frame_empty_and_without_derivative(case, scale):
    screen, faces, convex = case
    whole = coverage(screen, faces, SIDE, SIDE, convex)
    bad = screen.clone()
    bad[0, 1, 0] = scale * bad[0, 1, 0] if scale != 1e8 else bad[0, 1, 0]
    bad[0, 1] = bad[0, 1] + scale if scale == 1e8 else bad[0, 1]  # far outside
    bad.requires_grad_()
    image = coverage(bad, faces, SIDE, SIDE, convex)
    image.sum().backward()
    assert image[0, 1].abs().max() == 0
    assert bad.grad[0, 1].abs().max() == 0
    assert torch.equal(image[1], whole[1])


def test_image_stays_between_0_and_1_with_a_vertex_far_away(case):
    screen, faces, convex = case
    spread = screen.clone()
    spread[..., 0, :] += 1e7
    image = coverage(spread, faces, SIDE, SIDE, convex)
    assert image.min() >= 0 and image.max() <= 1


def together(*placed):
    """Bodies (mesh, shift on the screen), seen along z, as one: screen (1, 1, n, 2) and faces."""
    screen = np.concatenate([body.vertices[:, :2] + shift for body, shift in placed])
    counts = np.cumsum([0, *(len(body.vertices) for body, _ in placed)])
    faces = np.concatenate([body.faces + first for (body, _), first in zip(placed, counts, strict=False)])
    return torch.tensor(screen)[None, None], torch.tensor(faces)


@pytest.mark.parametrize("order", [1, -1])
def test_body_behind_a_larger_one_changes_nothing(order):
    large, small = mesh.box((10.4, 8.4, 1)), mesh.box((9.8, 7.9, 1))
    place = (15.93, 16.02)
    screen, faces = together(*[(large, place), (small, place)][::order])
    alone = coverage(*together((large, place)), SIDE, SIDE, convex=True)
    assert (coverage(screen, faces, SIDE, SIDE, convex=False) - alone).abs().max() < 1e-13


def test_two_overlapping_bodies_cover_their_union():
    one, other = mesh.box((8.5, 6.25, 1)), mesh.box((5.75, 9.5, 1))
    screen, faces = together((one, (12.3, 14.1)), (other, (15.9, 17.2)))
    # closed form: the x ranges are [8.05, 16.55], [13.025, 18.775]; the y ranges [10.975, 17.225], [12.45, 21.95]
    overlap = (16.55 - 13.025) * (17.225 - 12.45)
    image = coverage(screen, faces, SIDE, SIDE, convex=False)
    assert image.sum().item() == near(8.5 * 6.25 + 5.75 * 9.5 - overlap, ROUNDING)
    along = torch.cat([torch.zeros(1, 1, 8, 2), torch.tensor([1.0, 0.0]).expand(1, 1, 8, 2)], 2).double()
    slope = coverage_tangent(screen, along[:, None], faces, SIDE, SIDE, convex=False)[1]
    assert slope.sum().item() == pytest.approx(17.225 - 12.45, rel=1e-8)  # the overlap shrinks; 1e-9 px is looked past


def test_convex_body_with_a_hole_is_refused():
    with pytest.raises(ValueError, match="closed mesh"):
        coverage(views(CONVEX["box"]), faces_of(CONVEX["box"])[1:], SIDE, SIDE)


@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_any_triangles_cover_their_union(count):
    # open, overlapping, turned either way, several at an edge: the reference is exact along x and has 256 lines a row
    rng = np.random.default_rng(count)
    points = rng.uniform(-5, SIDE + 5, (9, 2))
    faces = np.array([rng.choice(9, 3, replace=False) for _ in range(count)])
    screen = torch.tensor(points)[None, None].requires_grad_()
    image = coverage(screen, torch.tensor(faces), SIDE, SIDE, convex=False)
    reference = scanline._covered(points[faces][None], SIDE, SIDE, 256)
    assert abs(image[0, 0].detach().numpy() - reference[0]).max() < 1 / 512
    assert abs(image.sum().item() - reference.sum()) < 1e-3
    weight = torch.tensor(rng.normal(size=(SIDE, SIDE)))
    way = torch.tensor(rng.normal(size=(9, 2)))
    (gradient,) = torch.autograd.grad((image[0, 0] * weight).sum(), screen)
    slope = coverage_tangent(screen.detach(), way[None, None, None], torch.tensor(faces), SIDE, SIDE, convex=False)[1]
    along = (gradient[0, 0] * way).sum().item()
    assert (slope[0, 0, ..., 0] * weight).sum().item() == pytest.approx(along, rel=1e-10)
    moved = lambda h: (coverage(screen + h * way, torch.tensor(faces), SIDE, SIDE, convex=False)[0, 0] * weight).sum()
    assert ((moved(1e-5) - moved(-1e-5)) / 2e-5).item() == pytest.approx(along, rel=1e-6)


def test_shapes_that_do_not_fit_are_refused():
    screen, faces = views(CONVEX["box"]), faces_of(CONVEX["box"])
    with pytest.raises(ValueError, match=r"`screen` has shape \(8, 2\)"):
        coverage(screen[0, 0], faces, SIDE, SIDE)
    with pytest.raises(ValueError, match=r"`tangent` has shape .* needs \(2, unknowns, 3, 8, 2\)"):
        coverage_tangent(screen, screen, faces, SIDE, SIDE)
    with pytest.raises(ValueError, match="whole numbers"):
        coverage(screen, faces.double(), SIDE, SIDE)
    with pytest.raises(ValueError, match="names vertices 0 to 7; `screen` has 7"):
        coverage(screen[:, :, :7], faces, SIDE, SIDE)


def test_a_body_that_is_there_twice_covers_what_it_covers_once():
    body = mesh.sphere(3.0, 1)
    screen, faces = torch.tensor(body.vertices[:, :2] + 8.3)[None, None], torch.tensor(body.faces)
    twice = coverage(screen.repeat(1, 1, 2, 1), torch.cat([faces, faces + screen.shape[2]]), 16, 16, convex=False)
    assert_near(twice, coverage(screen, faces, 16, 16), SOLVED, scale=1.0)


@pytest.mark.parametrize("convex", [True, False])
@pytest.mark.parametrize("size", [(0, 7), (7, 0)])
def test_an_image_without_pixels_is_empty(size, convex):
    corners = torch.tensor([[1.0, 1], [3, 1], [3, 3], [1, 3]]).double().expand(2, 3, 4, 2)
    faces = torch.tensor([[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]])
    assert coverage(corners, faces, *size, convex).shape == (2, 3, *size)
