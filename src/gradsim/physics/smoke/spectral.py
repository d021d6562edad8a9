"""Laplacians of a box without obstacles, solved by their eigenvectors: waves on periodic axes, cosines and sines on walled.

    −∂²q/∂x² on n cells:     λ_k = (2 − 2 cos θ_k)/h²
    periodic                 e^{i θ_k c},            θ_k = 2 π k/n          by FFT
    walled, at centres       cos(θ_k (c + ½)),       θ_k = π k/n            zero slope at both walls
    walled, at faces         sin(θ_k c), k ≥ 1,      θ_k = π k/n            zero at both walls

Walled axes go through the matrix of the eigenvectors: n is a few hundred, and a product with it costs what an FFT of the
mirrored array does.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from gradsim.physics.smoke.grid import Grid


class Spectrum:
    """Functions of the Laplacian L = −∇² of scalars at centres, or of one component of a velocity.

    Args:
        grid: Its obstacles do not count.
        axis: Of the component; None for scalars at centres.
        like: Tensor of the dtype and device.
    """

    def __init__(self, grid: Grid, axis: int | None, like: Tensor):
        self._waves = [a for a, walled in zip(grid.axes, grid.walled, strict=True) if not walled]
        self._sizes = [grid.shape[a] for a in self._waves]
        self._bases = {}
        total = torch.zeros((), dtype=torch.float64)
        for k, a in enumerate(grid.axes):
            n, h = grid.shape[k], grid.spacing[k]
            angles = torch.arange(n, dtype=torch.float64) * math.pi / n * (1 if grid.walled[k] else 2)
            if grid.walled[k]:
                self._bases[a] = (_sines(n) if k == axis else _cosines(n)).to(like)
            elif a == self._waves[-1]:
                angles = angles[: n // 2 + 1]
            rates = (2 - 2 * angles.cos()) / h**2
            total = total[..., None] + rates
        self.rates = total.to(like)
        """Eigenvalues λ [1/m²]."""

    def apply(self, q: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """f(L) q.

        Args:
            q: (worlds, *shape).
            function: From the transforms of q (worlds, ...) to those of the result.
        """
        return self._per_world(self._inverse, function(self._per_world(self._forward, q)))

    def _per_world(self, transform: Callable[[Tensor], Tensor], q: Tensor) -> Tensor:
        """World by world on a CPU, where rounding depends on their number and memory layout."""
        if q.device.type != "cpu":
            return transform(q)
        return torch.cat([transform(one[None].clone(memory_format=torch.contiguous_format)) for one in q])

    def _forward(self, q: Tensor) -> Tensor:
        for a, basis in self._bases.items():
            q = _through(q, basis, a)
        return torch.fft.rfftn(q, dim=self._waves) if self._waves else q

    def _inverse(self, y: Tensor) -> Tensor:
        q = torch.fft.irfftn(y, self._sizes, self._waves) if self._waves else y
        for a, basis in self._bases.items():
            q = _through(q, basis.mT, a)
        return q


def _through(q: Tensor, basis: Tensor, axis: int) -> Tensor:
    """Coefficients along an axis: basisᵀ q."""
    if axis == -1:
        return q @ basis
    if axis == -2:
        return basis.mT @ q
    return (q.movedim(axis, -1) @ basis).movedim(-1, axis)


def _cosines(n: int) -> Tensor:
    """Orthonormal columns (n, n)."""
    c, k = torch.arange(n, dtype=torch.float64)[:, None] + 0.5, torch.arange(n, dtype=torch.float64)
    basis = (math.pi / n * c * k).cos() * math.sqrt(2 / n)
    basis[:, 0] = math.sqrt(1 / n)
    return basis


def _sines(n: int) -> Tensor:
    """Orthonormal columns (n, n), but for the first, which is 0, as is the first row: the wall."""
    k = torch.arange(n, dtype=torch.float64)
    return (math.pi / n * k[:, None] * k).sin() * math.sqrt(2 / n)
