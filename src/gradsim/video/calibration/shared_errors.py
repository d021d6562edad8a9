"""Errors that neighboring corners of a view share, estimated from the residuals of a calibration.

    C_v = s_v² (V_v + K_v),    K_v = Σ_k a_k exp(-|u_i - u_j| / l_k)  for each coordinate of corners i and j

A codec moves edges that are near one another alike, a board is not flat, and a lens is not quite the model. V_v are the
independent errors. The likelihood of a and l is that of the residuals with the unknowns eliminated (REML: Patterson & Thompson 1971),

    -2 log p = Σ_v log|C_v| + log|JᵀC⁻¹J| + rᵀ(C⁻¹ - C⁻¹J (JᵀC⁻¹J)⁻¹ JᵀC⁻¹) r,

with the noise s_v² of each view scaled so that a corner's variance stays what it is. K is the mean over a grid of a and l, weighed
by the likelihood: one view alone hardly shows what its corners share, and error bars count what cannot be excluded.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

VARIANCE_RATIOS = 0.0, 0.01, 0.03, 0.06, 0.12, 0.25, 0.5  # of shared over independent variance
CORRELATION_LENGTHS = 0.5, 1.0, 2.0  # of the correlation, over the RMS distance of corners from their middle


@dataclass(frozen=True)
class SharedErrors:
    """Covariance of errors that corners share, in units of the squared noise of a corner.

    Attributes:
        variances: a of each part.
        reaches: l of each part, over the RMS distance of a view's corners from their middle.
    """

    variances: tuple[float, ...] = ()
    reaches: tuple[float, ...] = ()

    @property
    def variance(self) -> float:
        """Variance of a corner."""
        return sum(self.variances)

    def covariance(self, pixels: np.ndarray) -> np.ndarray:
        """K (2n, 2n) of corners (n, 2), whose coordinates alternate."""
        distance = _distances(pixels)
        parts = [a * np.exp(-distance / reach) for a, reach in zip(self.variances, self.reaches, strict=True) if a > 0]
        return np.kron(sum(parts, np.zeros_like(distance)), np.eye(2))


INDEPENDENT = SharedErrors()


def _distances(pixels: np.ndarray) -> np.ndarray:
    """Distances (n, n) between corners over their RMS distance from the middle."""
    size = np.sqrt(((pixels - pixels.mean(0)) ** 2).sum(1).mean())
    return np.linalg.norm(pixels[:, None] - pixels[None], axis=-1) / max(float(size), 1e-9)


def estimate_shared(
    views: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]], noise: np.ndarray, prior: np.ndarray
) -> SharedErrors:
    """Shared errors of all views.

    Args:
        views: Of each, residuals (2n,) [px], their derivatives (2n, unknowns), V (2n, 2n), and corners (n, 2).
        noise: Standard deviation of a corner of each view [px], shared errors not included.
        prior: Information on the unknowns besides (unknowns, unknowns).
    """
    grid = [(a, reach) for a in VARIANCE_RATIOS for reach in (CORRELATION_LENGTHS if a else CORRELATION_LENGTHS[:1])]
    cost = np.array([_cost(views, noise, prior, SharedErrors((a,), (reach,))) for a, reach in grid])
    if not np.isfinite(cost).all():  # the views do not determine the unknowns
        return INDEPENDENT
    likelihood = np.exp(-0.5 * (cost - cost.min()))
    weight = likelihood * np.array(
        [1.0 if a else len(CORRELATION_LENGTHS) for a, _ in grid]
    )  # each share is as likely before
    weight /= weight.sum()
    variances = [
        sum(w * a for w, (a, r) in zip(weight, grid, strict=True) if r == reach) for reach in CORRELATION_LENGTHS
    ]
    return SharedErrors(tuple(map(float, variances)), CORRELATION_LENGTHS)


def _cost(views, noise: np.ndarray, prior: np.ndarray, shared: SharedErrors) -> float:
    """-2 log of the restricted likelihood, at the scale of the noise that is likeliest."""
    information, pull, squares, count, logs = prior.copy(), np.zeros(len(prior)), 0.0, 0, 0.0
    for (r, J, V, pixels), s in zip(views, noise, strict=True):
        root = np.linalg.cholesky(V + shared.covariance(pixels)) * s
        white = np.linalg.solve(root, np.column_stack([r, J]))
        information += white[:, 1:].T @ white[:, 1:]
        pull += white[:, 1:].T @ white[:, 0]
        squares += white[:, 0] @ white[:, 0]
        count += len(r)
        logs += 2 * np.log(np.diag(root)).sum()
    least = max(float(squares - pull @ np.linalg.lstsq(information, pull)[0]), 1e-300)
    free = count - np.linalg.matrix_rank(information)
    return logs + np.linalg.slogdet(information)[1] + free * np.log(least / free)
