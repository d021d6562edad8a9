"""Curvature of costs by secants of their gradients."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gradsim.identification.colors.errors import FLATTEST, ColorErrors, color_errors, curvature

WIDE = torch.full((3,), 1e9).double()


def matrices() -> tuple[torch.Tensor, torch.Tensor]:
    """An information matrix, and a curvature that is 0.3 to 0.9 of it along its own axes."""
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(2)).double())[0]
    root = turn @ torch.diag(torch.tensor([40.0, 3.0, 0.5]).double())
    return root @ root.T, root @ torch.diag(torch.tensor([0.9, 0.6, 0.3]).double()) @ root.T


def test_curvature_of_a_quadratic_cost_is_its_matrix():
    information, exact = matrices()
    u, prior = torch.tensor([1.0, -2.0, 0.5]).double(), torch.diag(torch.tensor([0.0, 2.0, 0.0]).double())
    torch.testing.assert_close(curvature(lambda x: exact @ (x - u), u, information, prior, WIDE), exact)


def test_curvature_is_between_a_floor_and_the_information():
    information, _ = matrices()
    u, none = torch.zeros(3).double(), torch.zeros(3, 3).double()
    steep = curvature(lambda x: 5 * information @ x, u, information, none, WIDE)
    torch.testing.assert_close(steep, information)
    bent_down = curvature(lambda x: -information @ x, u, information, none, WIDE)
    torch.testing.assert_close(bent_down, FLATTEST * information)


def test_steps_stay_within_what_is_stated():
    """A cost that is flat beyond a hundredth has its curvature where it is asked for."""
    information, u, places = torch.eye(3).double(), torch.zeros(3).double(), []

    def gradient(x: torch.Tensor) -> torch.Tensor:
        places.append(x)
        return 0.5 * x

    half = curvature(gradient, u, information, torch.zeros(3, 3).double(), torch.full((3,), 0.01).double())
    torch.testing.assert_close(half, 0.5 * information)
    assert max(x.abs().max().item() for x in places) <= 0.01 + 1e-12


class Part(SimpleNamespace):
    """Colors of a body with what errors read of `LinearColors`."""

    @property
    def gradient(self) -> torch.Tensor:
        return torch.einsum("pci,pc->i", self.slope, self.residual)

    @property
    def curvature(self) -> torch.Tensor:
        return torch.einsum("pci,pcj->ij", self.slope, self.slope)


def seen_again(rng: np.random.Generator, shared: float) -> Part:
    """Points all over a sphere in 20 frames each, with residuals that their frames share in part; slopes are those of the places."""
    points = rng.standard_normal((300, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    slope = np.repeat(np.stack([points, points[:, [1, 2, 0]] ** 2 - 1 / 3], -1), 20, 0)
    own = rng.standard_normal((6000, 3))
    patch = np.repeat(rng.standard_normal((300, 3)), 20, 0)
    normals = rng.standard_normal((6000, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    texture = SimpleNamespace(points=np.repeat(points, 20, 0), pixels=SimpleNamespace(light=normals), freedom=0.0)
    residual = torch.tensor(np.sqrt(1 - shared) * own + np.sqrt(shared) * patch)
    frame = torch.tensor(np.tile(np.arange(20), 300))
    return Part(texture=texture, frame=frame, residual=residual, slope=torch.tensor(slope))


@pytest.mark.parametrize("shared", [0.0, 0.5])
def test_covariance_of_scores_is_that_of_errors_that_frames_share(shared):
    """Scores of 200 draws scatter as M says; errors of the texture count twenty-fold in them, which sums over frames do not show."""
    rng = np.random.default_rng(7)
    draws = [color_errors([seen_again(rng, shared)], 20) for _ in range(200)]
    scatter = torch.stack([one.gradient.square() for one in draws]).mean(0)
    stated = torch.stack([one.score.diagonal() for one in draws]).mean(0)
    assert (stated / scatter > 0.7).all() and (stated / scatter < 1.7).all()


def test_what_outlines_hold_keeps_their_error_bars_and_passes_them_on():
    """Two unknowns: place y by outlines, to 0.1, and turn z by colors, which say z + 2 y to 0.5 and y to 0.01, wrongly."""
    J = torch.tensor([[2.0, 1.0], [50.0, 0.0]]).double() * torch.tensor([[2.0], [2.0]])
    information = J.mT @ J
    errors = ColorErrors(information, information, torch.zeros(2).double(), 1.0, 1.0)
    outlines = torch.diag(torch.tensor([100.0, 0.0]).double())
    held = errors.covariance(1e6 * outlines, 1e6)
    expected = torch.tensor([[0.01, -0.02], [-0.02, 0.04 + 0.25]]).double()
    torch.testing.assert_close(held, expected, rtol=1e-3, atol=1e-6)
    assert errors.covariance(outlines)[0, 0] < 0.011**2
