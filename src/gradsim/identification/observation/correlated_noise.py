"""Noise of coordinates that is correlated: independent noise, and modes that shift many coordinates together.

    C = D + B Bᵀ            D diagonal; each column of B is a mode with a standard Gaussian amplitude

Marginalizing the amplitudes is the same as this covariance, to first order, and adds no unknowns (Rasmussen and Williams 2006, 2.7). With
D^(-1/2) B = U S Vᵀ, the residuals D^(-1/2) e are whitened by the symmetric root

    (I + U S² Uᵀ)^(-1/2) = I + U ((1 + S²)^(-1/2) - 1) Uᵀ

which leaves each residual near its coordinate, so that robust losses and plots mean the same as without modes.
"""

import torch
from torch import Tensor

MIN_MODE_SHARE = 1e-12  # of the largest S², below which a mode changes nothing


class CorrelatedNoise:
    """Modes of the errors of coordinates.

    Args:
        modes: B (frames, n, d, modes), in units of the independent noise; 0 for coordinates that were not observed.
    """

    def __init__(self, modes: Tensor):
        self.modes = modes.double()
        self._roots: dict[int, tuple[Tensor, Tensor]] = {}

    def slice_frames(self, first: int, last: int) -> "CorrelatedNoise":
        """The noise of frames `first` to `last - 1`."""
        return CorrelatedNoise(self.modes[first:last])

    def whiten(self, residuals: Tensor, frames: int) -> Tensor:
        """Residuals (worlds, frames · n · d) of the first frames in units of the independent noise, made independent; linear."""
        U, change = self._root(frames)
        return residuals + (residuals @ U * change) @ U.T

    def _root(self, frames: int) -> tuple[Tensor, Tensor]:
        """U (frames · n · d, modes) and (1 + S²)^(-1/2) - 1 (modes)."""
        if frames not in self._roots:
            B = self.modes[:frames].flatten(0, 2)
            B = B[:, B.abs().amax(0) > 0] if B.numel() else B[:, :0]
            squares, V = torch.linalg.eigh(B.T @ B)
            used = squares > MIN_MODE_SHARE * squares.amax() if len(squares) else squares > 0
            squares, V = squares[used], V[:, used]
            self._roots[frames] = B @ V / squares.sqrt(), (1 + squares).rsqrt() - 1
        return self._roots[frames]


def drift_modes(drift: Tensor, tracked: Tensor, noise: Tensor, dimensions: int) -> Tensor:
    """Modes (frames, n, d, modes) of tracks whose errors are a random walk, each coordinate for itself.

    Args:
        drift: Standard deviation of the walk at each position (frames, n); it does not fall along a track.
        tracked: (frames, n) True where there is a position.
        noise: Independent noise (frames, n).
        dimensions: d.
    """
    frames, n = drift.shape
    variance = torch.where(tracked, drift.square(), 0.0).cummax(0).values
    steps = torch.diff(variance, dim=0, prepend=torch.zeros_like(variance[:1]))
    steps[0] = variance[0]
    modes = []
    for k, j in steps.nonzero().tolist():
        after = torch.zeros(frames, n, dtype=torch.float64)
        after[k:, j] = steps[k, j].sqrt()
        column = torch.where(tracked, after / noise, 0.0)
        modes += [
            torch.nn.functional.one_hot(torch.tensor(d), dimensions) * column[..., None] for d in range(dimensions)
        ]
    return torch.stack(modes, -1) if modes else torch.zeros(frames, n, dimensions, 0, dtype=torch.float64)
