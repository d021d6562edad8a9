"""Error bars of colors: neighboring pixels and frames are off alike, so are all frames that show a place of the texture, and codecs drag textures along.

The score of a frame is s_t = Σ J̃ᵀ r over its pixels, so errors that neighbors share count as they are. The covariance of the sum is

    M_F = N/(N − n) Σ_t (s_t s_tᵀ + Σ_l w_l (s_t s_{t+l}ᵀ + s_{t+l} s_tᵀ)),   w_l = 1 − l/(L + 1)     (Newey & West 1987)

over N frames, n unknowns and lags up to L. Errors of the model are the same in every frame: at an edge that the grid of the texture cannot follow, and where light
or blur of the outline are not those of the model. So scores are also summed over patches of the texture, P, and over directions of the normals, D (clusters of several kinds: Cameron,
Gelbach & Miller 2011),

    M = M_F + M_P + M_D − M_FP − M_FD − M_PD + M_FPD

and M is at least that of independent pixels along each direction. These are those of residuals in which the texture has already followed a part of the noise, so they
are divided by the share that is left. With the information P of the outlines, the unknowns have the covariance
(H + P)⁻¹ (M + P) (H + P)⁻¹.

H is the curvature of the cost, not Σ J̃ᵀ J̃: at the edges of a texture, where a grid of nodes and a pixel leave more than the noise, residuals bend with the motion, and the
cost is up to twenty times as flat along what is known least. So H is measured, by secants of the gradient over two standard deviations to each side.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.colors.interior import LinearColors

LAGS = 2  # frames
KINDS = ((1, "p"), (1, "d"), (-1, "fp"), (-1, "fd"), (-1, "pd"), (1, "fpd"))  # sums of scores besides those over frames
PATCHES = 6  # along each axis of a body, and of the ball of its normals
SECANT = 2.0  # standard deviations to each side over which curvature is measured
FLATTEST = 0.02  # of the information along a direction: the least curvature that differences of costs with ripples tell from none


@dataclass(frozen=True)
class ColorErrors:
    """Information of colors on the unknowns, and how far it is that of independent pixels.

    Args:
        information: Gauss–Newton matrix (unknowns, unknowns), of independent residuals of variance 1, or the curvature of their cost.
        score: M, covariance of Σ J̃ᵀ r (unknowns, unknowns).
        gradient: Of half the cost (unknowns,).
        rms: Root mean square of the residuals, in units of σ.
        inflation: Variance of scores over that of independent pixels: the median over directions.
    """

    information: Tensor
    score: Tensor
    gradient: Tensor
    rms: float
    inflation: float

    def covariance(self, outlines: Tensor, weight: float = 1.0) -> Tensor:
        """Covariance of the unknowns (unknowns, unknowns), with the information of the outlines, times a weight by which it is held."""
        inverse = inverted(self.information + outlines)
        return inverse @ (self.score + weight * outlines) @ inverse


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


def _patches(part: LinearColors) -> np.ndarray:
    """Patch of the texture that each pixel shows (n,)."""
    points = part.texture.points
    low, high = points.min(0), points.max(0)
    return _boxes((points - low) / np.maximum(high - low, 1e-12))


def _directions(part: LinearColors) -> np.ndarray:
    """Direction of the normal at each pixel (n,), of as many."""
    return _boxes((part.texture.pixels.light[:, :3] + 1) / 2)


def _boxes(share: np.ndarray) -> np.ndarray:
    """Number of the box, of `PATCHES` along each axis, of points (n, 3) in [0, 1]."""
    place = np.clip(np.floor(PATCHES * share).astype(int), 0, PATCHES - 1)
    return place @ np.array([PATCHES * PATCHES, PATCHES, 1])


def _sums(part: LinearColors, *kinds: np.ndarray) -> Tensor:
    """Scores (groups, unknowns) of the pixels that are in one group of each kind (n,)."""
    _, number = np.unique(reduce(lambda first, second: PATCHES**3 * first + second, kinds), return_inverse=True)
    scores = torch.einsum("pci,pc->pi", part.slope, part.residual)
    sums = torch.zeros(int(number.max(initial=-1)) + 1, scores.shape[1]).double()
    return sums.index_add_(0, torch.tensor(number), scores)


def _between(scores: Tensor) -> Tensor:
    """Covariance (unknowns, unknowns) of the sum of independent scores (groups, unknowns)."""
    count, n = scores.shape
    centered = scores - scores.mean(0)
    return centered.mT @ centered * count / max(1, count - n)


def color_errors(parts: Sequence[LinearColors], frames: int) -> ColorErrors:
    """Errors of colors at a minimum.

    Args:
        parts: By body.
        frames: Number of frames.
    """
    n = parts[0].slope.shape[-1]
    H, gradient, scores = torch.zeros(n, n).double(), torch.zeros(n).double(), torch.zeros(frames, n).double()
    squares, count, freedom = 0.0, 0, 0.0
    for part in parts:
        J, r = part.slope, part.residual
        H, gradient = H + part.curvature, gradient + part.gradient
        scores.index_add_(0, part.frame, torch.einsum("pci,pc->pi", J, r))
        squares, count = squares + r.square().sum().item(), count + r.numel()
        freedom += part.texture.freedom
    visible = int((scores != 0).any(1).sum())
    left = max(0.2, 1 - freedom / max(1, count))
    centered = scores - scores.sum(0) / max(1, visible)
    M = centered.mT @ centered
    for lag in range(1, LAGS + 1):
        cross = centered[lag:].mT @ centered[:-lag]
        M = M + (1 - lag / (LAGS + 1)) * (cross + cross.mT)
    M = M * visible / max(1, visible - n)
    patch, direction = [_patches(part) for part in parts], [_directions(part) for part in parts]
    frame = [part.frame.numpy() for part in parts]
    for sign, kinds in KINDS:
        chosen = [labels for labels, kind in zip((frame, patch, direction), "fpd", strict=True) if kind in kinds]
        M = M + sign * _between(torch.cat([_sums(part, *groups) for part, *groups in zip(parts, *chosen, strict=True)]))
    M = M / left
    variance = squares / max(1.0, count - freedom)
    balance = H.diagonal().clamp(min=1e-300).rsqrt()
    values, vectors = torch.linalg.eigh(H * balance[:, None] * balance)
    good = values > 1e-9 * values.max()
    root = vectors[:, good] / values[good].sqrt()
    factors, axes = torch.linalg.eigh(root.mT @ (M * balance[:, None] * balance) @ root)
    factors = factors.clamp(min=variance)  # noise of single pixels, which few groups may hide
    back = vectors[:, good] * values[good].sqrt() @ axes / balance[:, None]
    M = (back * factors) @ back.mT
    return ColorErrors(H, M, gradient, (squares / max(1, count)) ** 0.5, factors.median().item())
