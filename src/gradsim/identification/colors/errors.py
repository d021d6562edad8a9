"""Error bars of colors: neighboring pixels and frames are off alike, and codecs drag textures along.

The score of a frame is s_t = Σ J̃ᵀ r over its pixels, so errors that neighbors share count as they are. The covariance of the sum is

    M = N/(N − n) Σ_t (s_t s_tᵀ + Σ_l w_l (s_t s_{t+l}ᵀ + s_{t+l} s_tᵀ)),   w_l = 1 − l/(L + 1)     (Newey & West 1987)

over N frames, n unknowns and lags up to L; it is that of residuals in which the texture has already followed a part of the noise, so it
is divided by the share that is left. With the information P of the outlines, the unknowns have the covariance
(H + P)⁻¹ (M + P) (H + P)⁻¹.

H is the curvature of the cost, not Σ J̃ᵀ J̃: at the edges of a texture, where a grid of nodes and a pixel leave more than the noise, residuals bend with the motion, and the
cost is up to twenty times as flat along what is known least. So H is measured, by secants of the gradient over two standard deviations to each side.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.identification.colors.interior import LinearColors

LAGS = 2  # frames
SECANT = 2.0  # standard deviations to each side over which curvature is measured
FLATTEST = 0.02  # of the information along a direction: the least curvature that differences of costs with ripples tell from none


@dataclass(frozen=True)
class ColorErrors:
    """Information of colors on the unknowns, and how far it is that of independent pixels.

    Args:
        information: Σ J̃ᵀ J̃ (unknowns, unknowns), of independent residuals of variance 1, or the curvature of their cost.
        score: M, covariance of Σ J̃ᵀ r (unknowns, unknowns).
        gradient: Σ J̃ᵀ r (unknowns,).
        rms: Root mean square of the residuals, in units of σ.
        inflation: Variance of scores over that of independent pixels: the median over directions.
    """

    information: Tensor
    score: Tensor
    gradient: Tensor
    rms: float
    inflation: float

    def covariance(self, outlines: Tensor) -> Tensor:
        """Covariance of the unknowns (unknowns, unknowns), with the information of the outlines."""
        inverse = inverted(self.information + outlines)
        return inverse @ (self.score + outlines) @ inverse


def inverted(information: Tensor) -> Tensor:
    """Inverse of an information matrix (n, n), balanced; large where nothing is known."""
    scale = information.diagonal().clamp(min=1e-300).rsqrt()
    balanced = information * scale[:, None] * scale
    return torch.linalg.inv(balanced + 1e-12 * torch.eye(len(scale)).double()) * scale[:, None] * scale


def curvature(
    gradient: Callable[[Tensor], Tensor],
    u: Tensor,
    information: Tensor,
    prior: Tensor,
    most: Tensor,
    size: float = SECANT,
) -> Tensor:
    """Curvature (unknowns, unknowns) of half the cost of colors about a minimum, by secants of its gradient.

    Args:
        gradient: From (unknowns,) to the gradient of half the cost (unknowns,).
        u: The minimum (unknowns,).
        information: Σ J̃ᵀ J̃ there.
        prior: Information of the outlines: with it, directions and standard deviations are those of the answer.
        most: Largest change of each unknown (unknowns,).
        size: Steps to each side, in standard deviations.

    Returns:
        Its positive part, along each direction at least `FLATTEST` of the information there, and at most that.
    """
    root = torch.linalg.cholesky(inverted(information + prior))
    sizes = [min(size, (most / step.abs().clamp(min=1e-300)).min().item()) for step in root.T]
    ends = [(gradient(u + h * step) - gradient(u - h * step)) / (2 * h) for h, step in zip(sizes, root.T, strict=True)]
    secant, whitened = root.T @ torch.stack(ends, 1), root.T @ information @ root
    # relative to the information: eigenvalues of the pencil
    values, axes = torch.linalg.eigh(whitened)
    good = values > 1e-9
    scaled = axes[:, good] * values[good].rsqrt()
    share, turn = torch.linalg.eigh(scaled.T @ (0.5 * (secant + secant.T)) @ scaled)
    back = torch.linalg.solve(root.T, axes[:, good] * values[good].sqrt() @ turn)
    return (back * share.clamp(FLATTEST, 1.0)) @ back.T


def color_errors(parts: Sequence[LinearColors], frames: int) -> ColorErrors:
    """Errors of colors at a minimum.

    Args:
        parts: By body.
        frames: Number of frames.
    """
    n = parts[0].slope.shape[-1]
    H, scores = torch.zeros(n, n).double(), torch.zeros(frames, n).double()
    squares, count, freedom = 0.0, 0, 0.0
    for part in parts:
        J, r = part.slope, part.residual
        H = H + torch.einsum("pci,pcj->ij", J, J)
        scores.index_add_(0, part.frame, torch.einsum("pci,pc->pi", J, r))
        squares, count = squares + r.square().sum().item(), count + r.numel()
        freedom += part.texture.freedom
    visible = int((scores != 0).any(1).sum())
    left = max(0.2, 1 - freedom / max(1, count))
    gradient = scores.sum(0)
    centered = scores - gradient / max(1, visible)
    M = centered.mT @ centered
    for lag in range(1, LAGS + 1):
        cross = centered[lag:].mT @ centered[:-lag]
        M = M + (1 - lag / (LAGS + 1)) * (cross + cross.mT)
    M = M * visible / max(1, visible - n) / left
    eigenvalues, axes = torch.linalg.eigh(M)
    M = (axes * eigenvalues.clamp(min=0)) @ axes.mT
    variance = squares / max(1.0, count - freedom)
    M = M + variance * H  # noise of single pixels, which a short series may hide
    balance = H.diagonal().clamp(min=1e-300).rsqrt()
    values, vectors = torch.linalg.eigh(H * balance[:, None] * balance)
    good = values > 1e-9 * values.max()
    root = vectors[:, good] / values[good].sqrt()
    factors = torch.linalg.eigvalsh(root.mT @ (M * balance[:, None] * balance) @ root)
    return ColorErrors(H, M, gradient, (squares / max(1, count)) ** 0.5, factors.median().item())
