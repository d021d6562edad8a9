"""Sums over coverage against the dense images: cost, gradient, Gauss–Newton matrix, row and column sums."""

import pytest
import torch
from torch import Tensor

from gradsim.engine import launch
from gradsim.engine.launch import worthwhile_threads
from gradsim.geometry import mesh
from gradsim.numerics import rotation
from gradsim.numerics.robust import ROBUST_LOSSES, RobustLoss
from gradsim.render.coverage.coverage import coverage, coverage_tangent
from gradsim.render.coverage.objective import _profile_code, objective, profiles
from gradsim.render.coverage.targets import target
from gradsim.render.windows import Windows
from gradsim.runtime.threads import threads

HEIGHT, WIDTH = 18, 22
FACES = torch.tensor(mesh.box((1.0, 1.0, 1.0)).faces)


def boxes(worlds: int, frames: int, seed: int, dtype=torch.float64) -> Tensor:
    """Screens (worlds, frames, 8, 2) of boxes turned at random; some cross the border of the image."""
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    corners = torch.tensor(mesh.box((8.0, 6.0, 5.0)).vertices)
    turned = rotation.rotate(rotation.exponential(normal(worlds, frames, 1, 3)), corners)
    return (turned[..., :2] + torch.tensor([11.0, 9.0]) + 4 * normal(worlds, frames, 1, 2)).to(dtype)


def images(frames: int, seed: int) -> tuple[Tensor, Tensor]:
    """Targets near coverage images, and weights of which some are zero."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda: torch.rand(frames, HEIGHT, WIDTH, generator=generator, dtype=torch.float64)
    image = coverage(boxes(1, frames, seed + 1), FACES, HEIGHT, WIDTH, convex=True)[0]
    return image + 0.1 * draw(), (draw() > 0.2) * (0.5 + draw())


def dense(
    screen: Tensor, tangent: Tensor, image: Tensor, weight: Tensor, faces: Tensor = FACES, convex: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """The definition, from whole images."""
    alpha, slope = coverage_tangent(screen, tangent, faces, HEIGHT, WIDTH, convex)
    r, J = (alpha - image).flatten(1), slope.flatten(1, 3)
    w = weight.flatten()
    return (w * r**2).sum(1), torch.einsum("wpu,p,wp->wu", J, w, r), torch.einsum("wpu,p,wpv->wuv", J, w, J)


def reweighted(screen: Tensor, tangent: Tensor, image: Tensor, weight: Tensor, loss: RobustLoss):
    """The definition of robust sums, from whole images."""
    alpha, slope = coverage_tangent(screen, tangent, FACES, HEIGHT, WIDTH, convex=True)
    d, J = (alpha - image).flatten(1), slope.flatten(1, 3)
    x = d * weight.flatten().sqrt()
    w = weight.flatten() * loss.weight(x)
    return loss.rho(x).sum(1), (J.mT @ (w * d)[..., None])[..., 0], J.mT @ (w[..., None] * J)


def near(own: Tensor, expected: Tensor, tolerance=1e-10) -> bool:
    return bool((own - expected).abs().max() <= tolerance * expected.abs().max())


@pytest.mark.parametrize("unknowns", [1, 3])
def test_sums_equal_those_of_the_dense_images(unknowns):
    screen = boxes(3, 4, seed=0)
    tangent = torch.randn(3, unknowns, 4, 8, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    image, weight = images(4, seed=2)
    own = objective(screen, tangent, FACES, target(image, weight))
    assert all(near(a, b) for a, b in zip(own, dense(screen, tangent, image, weight), strict=True))


@pytest.mark.parametrize("loss", ROBUST_LOSSES.values(), ids=ROBUST_LOSSES)
def test_robust_sums_equal_those_of_the_dense_images(loss):
    screen = boxes(3, 4, seed=0)
    tangent = torch.randn(3, 2, 4, 8, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    image, weight = images(4, seed=2)
    weight = weight * 30**2  # noise of 0.03: differences from 0 to 30 σ, on both sides of the bend
    own = objective(screen, tangent, FACES, target(image, weight, loss))
    assert all(near(a, b) for a, b in zip(own, reweighted(screen, tangent, image, weight, loss), strict=True))


@pytest.mark.parametrize(
    ("size", "place"),
    [(1.0, (0.0, 0.0)), (40.0, (0.0, 0.0)), (1.0, (-11.0, 0.0)), (1.0, (11.0, 3.0)), (0.02, (0.0, 0.0))],
    ids=["inside", "around all of the image", "over the left border", "over the right border", "within a pixel"],
)
def test_columns_that_no_outline_touches_count_by_running_sums(size, place):
    """Of two boxes side by side, too, between which nothing is covered."""
    screen = boxes(2, 4, seed=0)
    screen = (screen - screen.mean(2, keepdim=True)) * size + torch.tensor([11.0, 9.0]) + torch.tensor(place)
    pair = torch.cat([0.4 * (screen - 11) + 5, 0.4 * (screen - 11) + 16], 2)
    image, weight = images(4, seed=2)
    for screens, faces, convex in ((screen, FACES, True), (pair, torch.cat([FACES, FACES + 8]), False)):
        shape = (2, 2, *screens.shape[1:])
        tangent = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        sums = objective(screens, tangent, faces, target(image, weight), convex)
        expected = dense(screens, tangent, image, weight, faces, convex)
        assert all(near(a, b) or (a == b).all() for a, b in zip(sums, expected, strict=True))


def test_fewer_frames_than_the_target_has_count_the_first_ones():
    screen, (image, weight) = boxes(2, 3, seed=4), images(5, seed=5)
    none = screen.new_zeros(2, 0, 3, 8, 2)
    (cost, *_), expected = objective(screen, none, FACES, target(image, weight)), target(image[:3], weight[:3])
    assert torch.equal(cost, objective(screen, none, FACES, expected)[0])


def test_cost_is_exactly_zero_at_a_perfect_match():
    screen = boxes(1, 6, seed=6)
    image = coverage(screen, FACES, HEIGHT, WIDTH, convex=True)[0]
    tangent = torch.ones_like(screen)[:, None]
    cost, gradient, _ = objective(screen, tangent, FACES, target(image, torch.full_like(image, 255.0**2)))
    assert cost.item() == 0 and gradient.item() == 0


def test_body_outside_the_image_costs_all_of_the_target():
    image, weight = images(2, seed=7)
    screen = boxes(1, 2, seed=8) + 1000
    cost, gradient, normal = objective(screen, torch.ones_like(screen)[:, None], FACES, target(image, weight))
    assert cost.item() == pytest.approx((weight * image**2).sum().item(), rel=1e-13)
    assert gradient.item() == normal.item() == 0


def test_gradient_is_half_the_derivative_of_the_cost():
    """Along one direction of all vertices at once, by a central difference of the fourth order."""
    screen, (image, weight) = boxes(1, 3, seed=9), images(3, seed=10)
    tangent = torch.randn(1, 1, 3, 8, 2, generator=torch.Generator().manual_seed(11), dtype=torch.float64)
    image, none = target(image, weight), screen.new_zeros(1, 0, 3, 8, 2)
    at = lambda h: objective(screen + h * tangent[:, 0], none, FACES, image)[0].item()
    secant = lambda h: (at(h) - at(-h)) / (2 * h)
    gradient = objective(screen, tangent, FACES, image)[1].item()
    assert 2 * gradient == pytest.approx((4 * secant(1e-4) - secant(2e-4)) / 3, rel=1e-7)


@pytest.mark.parametrize("alike", [True, False], ids=["one weight of a frame", "weights"])
def test_profiles_are_sums_of_the_weighted_images(alike):
    screen, (_, weight) = 1.5 * boxes(2, 4, seed=12) - 4, images(4, seed=13)
    weight = weight[:, 4:5, 4:5] + 1 if alike else weight
    tangent = torch.randn(2, 3, 4, 8, 2, generator=torch.Generator().manual_seed(14), dtype=torch.float64)
    alpha, slope = coverage_tangent(screen, tangent, FACES, HEIGHT, WIDTH, convex=True)
    alpha, slope = alpha * weight, slope * weight[..., None]
    sums, slopes = profiles(screen, tangent, FACES, weight, size=(HEIGHT, WIDTH))
    assert near(sums, torch.cat([alpha.sum(-1), alpha.sum(-2)], -1), 1e-12)
    assert near(slopes, torch.cat([slope.sum(-2), slope.sum(-3)], -2), 1e-12)


def test_scratch_is_clean_after_every_body():
    """The same again gives the same bits, whatever was drawn before."""
    screen, (image, weight) = boxes(4, 2, seed=15), images(2, seed=16)
    tangent = torch.ones_like(screen)[:, None]
    together = objective(screen, tangent, FACES, target(image, weight))
    for k in range(4):
        alone = objective(screen[k : k + 1], tangent[k : k + 1], FACES, target(image, weight))
        assert all(torch.equal(a[k], b[0]) for a, b in zip(together, alone, strict=True))


def test_single_precision_agrees_with_double():
    screen, (image, weight) = boxes(2, 3, seed=17), images(3, seed=18)
    tangent = torch.randn(2, 2, 3, 8, 2, generator=torch.Generator().manual_seed(19), dtype=torch.float64)
    expected = objective(screen, tangent, FACES, target(image, weight))
    single = objective(screen.float(), tangent.float(), FACES, target(image.float(), weight.float()))
    assert all(s.dtype == torch.float32 and near(s.double(), e, 1e-4) for s, e in zip(single, expected, strict=True))


@pytest.mark.parametrize("loss", ROBUST_LOSSES.values(), ids=ROBUST_LOSSES)
@pytest.mark.parametrize("convex", [True, False])
def test_outside_of_its_window_a_target_is_zero(loss, convex):
    """Also where the body leaves the window, or covers all of it."""
    screen = torch.cat([boxes(2, 4, seed=19), 40 * (boxes(1, 4, seed=20) - 9), boxes(1, 4, seed=21) + 7])
    tangent = torch.randn(4, 2, 4, 8, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    image, weight = images(4, seed=2)[0], torch.tensor([900.0, 400.0, 0.0, 900.0]).double()[:, None, None]
    corner, (rows, columns) = torch.tensor([[0, 0], [3, 5], [8, 12], [2, 12]]), (10, 10)
    parts, whole = image.new_zeros(4, rows, columns), torch.zeros_like(image)
    for part, full, frame, (row, column) in zip(parts, whole, image, corner.tolist(), strict=True):
        at = slice(row, row + rows), slice(column, column + columns)
        part[:] = frame[at]
        full[at] = frame[at]
    windows = Windows(corner, (rows, columns), (HEIGHT, WIDTH))
    own = objective(screen, tangent, FACES, target(parts, weight, loss, windows), convex)
    expected = objective(screen, tangent, FACES, target(whole, weight.expand_as(whole), loss), convex)
    assert all(near(a, b) for a, b in zip(own, expected, strict=True))


@pytest.mark.parametrize("images_of_a_mean", [1, 2])
def test_sums_are_the_same_to_the_last_bit_for_any_number_of_threads(images_of_a_mean, monkeypatch):
    monkeypatch.setattr(launch, "SHORTEST_PIECE", 1)  # every launch is worth sharing
    screen = boxes(3, 4, seed=0)
    tangent = torch.randn(3, 2, 4, 8, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    image, weight = images(4 // images_of_a_mean, seed=2)
    results = []
    for count in (1, 2, 3):
        with threads(count):
            for _ in range(2):  # the first launch says whether it is worth sharing
                sums = objective(screen, tangent, FACES, target(image, weight), images=images_of_a_mean)
                edges = profiles(screen, tangent, FACES, images(4, seed=2)[1])
        results.append([*sums, *edges])
    with threads(3):
        assert worthwhile_threads(_profile_code(torch.float64).profiles, 8, "cpu") == 3
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))
