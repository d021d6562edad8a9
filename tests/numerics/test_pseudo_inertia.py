"""Inertias by log-Cholesky numbers: physical at any value, and every physical one has some."""

import numpy as np
import pytest
import torch

from gradsim.numerics.pseudo_inertia import inertia_of, log_cholesky

BOX = torch.diag(torch.tensor([0.13, 0.10, 0.05]).double())  # of sides 0.2, 0.3 and 0.6, about


def test_uniform_density_has_zeros():
    assert torch.allclose(inertia_of(BOX, torch.zeros(2, 6).double()), BOX.expand(2, 3, 3), atol=1e-15)
    assert torch.allclose(log_cholesky(BOX, BOX), torch.zeros(6).double(), atol=1e-12)


def test_any_numbers_give_moments_of_which_none_exceeds_the_sum_of_the_others():
    numbers = torch.tensor(np.random.default_rng(0).uniform(-3, 3, (500, 6)))
    moments = torch.linalg.eigvalsh(inertia_of(BOX, numbers))
    assert (moments[:, 0] > 0).all() and (moments[:, 2] < moments[:, 0] + moments[:, 1]).all()


def test_inertias_of_points_come_back_from_their_numbers():
    """Points of random masses, whose inertia is a sum, not a matrix that was made to be physical."""
    rng = np.random.default_rng(1)
    x, m = torch.tensor(rng.standard_normal((7, 3))), torch.tensor(rng.uniform(0.1, 2, 7))
    x = x - (m[:, None] * x).sum(0) / m.sum()
    inertia = torch.einsum("n,nij->ij", m, x.square().sum(1)[:, None, None] * torch.eye(3) - x[:, :, None] * x[:, None])
    numbers = log_cholesky(BOX, inertia)
    assert torch.allclose(inertia_of(BOX, numbers[None])[0], inertia, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="no mass has the inertia"):
        log_cholesky(BOX, torch.diag(torch.tensor([3.0, 1.0, 1.0]).double()))
