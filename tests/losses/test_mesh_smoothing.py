"""Smooth steps: what they keep, how far they reach, and that they end where plain ones would."""

import pytest
import torch

from gradsim.geometry import mesh
from gradsim.losses import laplacian, smoothing


def test_a_shift_stays_a_shift_and_noise_becomes_smooth():
    ball = mesh.sphere(1.0, 2)
    vertices, faces = torch.tensor(ball.vertices), torch.tensor(ball.faces)
    S, inverse = smoothing(faces, len(vertices), 5.0)
    assert torch.allclose(S @ inverse, torch.eye(len(S)).double(), atol=1e-12)
    assert torch.allclose(S, S.T, atol=1e-14)
    assert torch.allclose(S.sum(1), torch.ones(len(S)).double(), rtol=1e-12)  # L 1 = 0
    noise = torch.randn(vertices.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert laplacian(S @ noise, faces) < 0.01 * laplacian(noise, faces)


def test_a_step_fades_along_a_strip_as_its_strength_says():
    """Far from the ends of a chain of degree 2, S is a geometric series of ratio r: λ r² − (1 + 2 λ) r + λ = 0."""
    n, strength = 41, 4.0
    along = torch.arange(n - 1)
    strip = torch.stack([along, along + 1, along + 1], 1)  # faces without area leave one chain of edges
    S, _ = smoothing(strip, n, strength)
    ratio = (1 + 2 * strength - (1 + 4 * strength) ** 0.5) / (2 * strength)
    assert (S[20, 24] / S[20, 23]).item() == pytest.approx(ratio, rel=1e-5)  # the ends are 0.6^20 = 4e-5 away, squared


def test_negative_strength_is_refused():
    with pytest.raises(ValueError, match="at least 0"):
        smoothing(torch.tensor([[0, 1, 2]]), 3, -1.0)
