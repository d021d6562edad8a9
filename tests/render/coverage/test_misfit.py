"""Sums over registers of pixels: rows between two edges, pixels that edges share, borders and windows, against dense images."""

import pytest
import torch
from torch import Tensor

from gradsim.geometry import mesh
from gradsim.numerics import rotation
from gradsim.numerics.robust import ROBUST_LOSSES, RobustLoss
from gradsim.render.coverage import misfit
from gradsim.render.coverage.coverage import coverage_tangent
from gradsim.render.coverage.objective import objective
from gradsim.render.coverage.targets import target

HEIGHT, WIDTH, FRAMES, UNKNOWNS = 53, 62, 3, 3
BOX = mesh.box((1.0, 0.8, 0.6))
BALL = mesh.sphere(1.0, 1)
TURNS = {"upright": 0.0, "turned": 1.0}
PLACES = {
    "inside": (31.0, 26.0),
    "on whole pixels": (32.0, 24.0),
    "over the left border": (2.0, 26.0),
    "over the right border": (60.0, 26.0),
    "over the upper border": (31.0, -3.0),
    "over the lower border": (31.0, 55.0),
}


def screens(body, turn: float, size: float, place: tuple[float, float], seed: int = 0) -> Tensor:
    """Vertices (2, FRAMES, n, 2) [px] of a body that turns."""
    generator = torch.Generator().manual_seed(seed)
    axes = turn * torch.randn(2, FRAMES, 1, 3, generator=generator, dtype=torch.float64)
    turned = rotation.rotate(rotation.exponential(axes), torch.tensor(body.vertices))
    return size * turned[..., :2] + torch.tensor(place, dtype=torch.float64)


def compare(screen: Tensor, faces: Tensor, convex: bool, loss: RobustLoss, alike: bool = False) -> list[float]:
    """Largest relative differences of cost, gradient and matrix from the definition."""
    generator = torch.Generator().manual_seed(1)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    tangent, nearby = draw(2, UNKNOWNS, *screen.shape[1:]), screen[:1] + 0.3 * draw(2)
    alpha, slope = coverage_tangent(screen, tangent, faces, HEIGHT, WIDTH, convex)
    image = coverage_tangent(nearby, tangent[:1, :0], faces, HEIGHT, WIDTH, convex)[0][0] + 0.05 * draw(
        *alpha.shape[1:]
    )
    weight = 400.0 * (torch.ones(FRAMES, 1, 1).double() if alike else draw(*image.shape).abs())
    off = (alpha - image) * weight.sqrt()
    w = (weight * loss.weight(off))[..., None]
    r, J = w * (alpha - image)[..., None], slope
    expected = loss.rho(off).flatten(1).sum(1), (J * r).flatten(1, 3).sum(1), torch.einsum("wfrcu,wfrcv->wuv", J * w, J)
    sums = objective(screen, tangent, faces, target(image, weight, loss), convex)
    return [((a - b).abs().max() / b.abs().max().clamp(min=1e-300)).item() for a, b in zip(sums, expected, strict=True)]


@pytest.mark.parametrize("alike", [True, False], ids=["one weight", "weights"])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
def test_rows_between_two_edges(turn, place, alike):
    """Of a box of 30 pixels most rows are, some of them with vertical edges on borders of pixels."""
    screen, loss = screens(BOX, turn, 30.0, place), ROBUST_LOSSES["gaussian"]
    assert max(compare(screen, torch.tensor(BOX.faces), True, loss, alike)) < 1e-11


@pytest.mark.parametrize("loss", ROBUST_LOSSES.values(), ids=ROBUST_LOSSES)
def test_robust_losses(loss):
    screen = screens(BOX, 1.0, 30.0, PLACES["inside"])
    assert max(compare(screen, torch.tensor(BOX.faces), True, loss)) < 1e-11


@pytest.mark.parametrize("convex", [True, False], ids=["convex", "any"])
@pytest.mark.parametrize("size", [0.3, 3.0, 20.0])
def test_pixels_that_many_edges_share(size, convex):
    """Of a ball of 80 faces, from a third of a pixel to 20 pixels in radius."""
    screen = screens(BALL, 1.0, size, PLACES["inside"])
    assert max(compare(screen, torch.tensor(BALL.faces), convex, ROBUST_LOSSES["gaussian"])) < 1e-11


def test_two_bodies_that_cover_each_other():
    one, two = screens(BOX, 1.0, 25.0, (24.0, 26.0)), screens(BALL, 1.0, 12.0, (36.0, 28.0))
    faces = torch.tensor(BOX.faces)
    faces = torch.cat([faces, torch.tensor(BALL.faces) + one.shape[2]])
    assert max(compare(torch.cat([one, two], 2), faces, False, ROBUST_LOSSES["gaussian"])) < 1e-11


def test_a_body_that_is_drawn_is_forgotten():
    """The same again gives the same bits after bodies of all kinds."""
    loss, faces = ROBUST_LOSSES["gaussian"], torch.tensor(BOX.faces)
    screen = screens(BOX, 1.0, 30.0, PLACES["inside"])
    before = compare(screen, faces, True, loss)
    for place in PLACES.values():
        for size in (0.4, 9.0, 200.0):
            compare(screens(BOX, 1.0, size, place), faces, True, loss)
    assert compare(screen, faces, True, loss) == before


@pytest.mark.parametrize("lanes", [1, 2])
def test_registers_of_other_widths(lanes, monkeypatch):
    """One lane is that of a GPU."""
    monkeypatch.setattr(misfit, "LANES", lanes)
    screen, faces = screens(BOX, 1.0, 30.0, PLACES["over the left border"]), torch.tensor(BOX.faces)
    for convex in (True, False):
        assert max(compare(screen, faces, convex, ROBUST_LOSSES["huber"])) < 1e-11
