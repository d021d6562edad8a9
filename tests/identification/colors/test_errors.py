"""Curvature of costs by secants of their gradients."""

import torch

from gradsim.identification.colors.errors import FLATTEST, curvature

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
