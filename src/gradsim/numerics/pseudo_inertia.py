"""Inertias that some distribution of mass has, by the log-Cholesky parametrization of the pseudo-inertia (Rucker & Wensing 2022).

    Σ = ∫ x xᵀ dm = ½ tr(I) 1 − I            second moments about the center of mass, positive definite for any mass that is there
    Σ = m U₀ L Lᵀ U₀ᵀ,   L = [exp d₁, s₁₂, s₁₃; 0, exp d₂, s₂₃; 0, 0, exp d₃],   I = tr(Σ) 1 − Σ

with the upper triangular U₀ of a body of uniform density, for which all six numbers are 0. Every choice of the numbers is physical, and every physical inertia has
one. The mass is a parameter of its own, and the center of mass is where the scene has it.
"""

import torch
from torch import Tensor

PLACES = ((0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (0, 2))  # of the numbers in L


def second_moments(inertia: Tensor) -> Tensor:
    """Σ (..., 3, 3) of inertias (..., 3, 3)."""
    return 0.5 * _traced(inertia) - inertia


def inertia_of(base: Tensor, numbers: Tensor) -> Tensor:
    """Inertias (worlds, 3, 3), in units of the base.

    Args:
        base: Inertia of a uniform density (3, 3), or of each world (worlds, 3, 3).
        numbers: d₁, d₂, d₃, s₁₂, s₂₃, s₁₃ (worlds, 6).
    """
    root = _upper(second_moments(base))
    entries = [[torch.zeros_like(numbers[:, 0])] * 3 for _ in range(3)]
    for k, (i, j) in enumerate(PLACES):
        entries[i][j] = numbers[:, k].exp() if i == j else numbers[:, k]
    factor = root @ torch.stack([torch.stack(row, -1) for row in entries], -2)
    moments = factor @ factor.mT
    return _traced(moments) - moments


def log_cholesky(base: Tensor, inertia: Tensor) -> Tensor:
    """Numbers (6,) of an inertia (3, 3), likewise: the inverse of `inertia_of`.

    Raises:
        ValueError: If no distribution of mass has it: one moment exceeds the sum of the others.
    """
    moments = second_moments(inertia)
    if torch.linalg.eigvalsh(moments)[0] <= 0:
        raise ValueError(f"no mass has the inertia {inertia.tolist()}: a moment reaches the sum of the other two.")
    L = torch.linalg.solve_triangular(_upper(second_moments(base)), _upper(moments), upper=True)
    return torch.stack([L[i, j].log() if i == j else L[i, j] for i, j in PLACES])


def _upper(matrix: Tensor) -> Tensor:
    """Upper triangular U (..., 3, 3) with U Uᵀ the matrix."""
    return torch.linalg.cholesky(matrix.flip(-2, -1)).flip(-2, -1)


def _traced(matrix: Tensor) -> Tensor:
    return matrix.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None] * torch.eye(3, dtype=matrix.dtype).to(
        matrix.device
    )
