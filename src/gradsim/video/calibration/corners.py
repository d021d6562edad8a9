"""Sub-pixel corners of squares: a least-squares fit of two blurred edges that cross.

    I(x) = m + g·(x - u) + c erf(d_1 / (√2 s)) erf(d_2 / (√2 s)),   d_i = (x - u)·(cos α_i, sin α_i)

where a black and a white square meet twice, seen through a Gaussian blur of s px, which also takes the place of the area
of a pixel. Nine numbers (u, α_1, α_2, s, c, m, g) of each corner by Gauss–Newton on the pixels of a disc. The fit also tells the
corner's covariance, σ² (JᵀJ)⁻¹ with the noise σ of the pixels from its residuals.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import erf

ITERATIONS = 12
MAX_CORNER_SHIFT = 2.0  # [px] from the first guess; farther is another corner
MIN_DISC_RADIUS, MAX_DISC_RADIUS = 2.5, 12.0  # [px] radius of the disc
BLUR = 0.4, 4.0  # [px] range of s


@dataclass(frozen=True, eq=False)
class FittedCorners:
    """Corners with their noise.

    Attributes:
        pixels: (n, 2), pixel centers at +0.5.
        covariance: (n, 2, 2) [px²].
        is_good: (n,) False where the fit did not converge; the corner is the first guess there.
    """

    pixels: np.ndarray
    covariance: np.ndarray
    is_good: np.ndarray


def fit_corners(gray: np.ndarray, pixels: np.ndarray, edges: np.ndarray, radius: np.ndarray) -> FittedCorners:
    """Fit corners.

    Args:
        gray: (height, width) image.
        pixels: (n, 2) first guesses, pixel centers at +0.5.
        edges: (n, 2, 2) directions of the two edges through each, as rows.
        radius: (n,) [px] of the discs; what they hold besides the four squares spoils the fit.
    """
    n = len(pixels)
    result = np.array(pixels, np.float64)
    covariance = np.tile(np.eye(2), (n, 1, 1))
    is_good = np.zeros(n, bool)
    height, width = gray.shape
    reach = np.clip(np.floor(radius), 0, MAX_DISC_RADIUS).astype(int)
    for r in np.unique(reach):
        inside = (pixels >= r + 1).all(1) & (pixels <= [width - r - 1, height - r - 1]).all(1)
        at = np.flatnonzero((reach == r) & inside)
        if r < MIN_DISC_RADIUS or not len(at):
            continue
        result[at], covariance[at], is_good[at] = _fit(gray, result[at], edges[at], int(r))
    return FittedCorners(result, covariance, is_good)


def _fit(gray: np.ndarray, pixels: np.ndarray, edges: np.ndarray, r: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Corners whose discs have one radius; returns pixels, covariance and convergence."""
    cell = np.floor(pixels).astype(int)
    dy, dx = np.mgrid[-r : r + 1, -r : r + 1]
    disc = dx**2 + dy**2 <= (r + 0.3) ** 2
    dx, dy = dx[disc], dy[disc]
    values = gray[cell[:, 1, None] + dy, cell[:, 0, None] + dx].astype(np.float64)
    x = cell[:, 0, None] + dx + 0.5 - pixels[:, 0, None]
    y = cell[:, 1, None] + dy + 0.5 - pixels[:, 1, None]
    p = _first(values, x, y, edges)
    damping = np.full(len(p), 1e-3)
    model, J = _model(p, x, y)
    cost = ((values - model) ** 2).sum(1)
    for _ in range(ITERATIONS):
        A = np.einsum("npi,npj->nij", J, J)
        g = np.einsum("npi,np->ni", J, values - model)
        diagonal = np.einsum("nii->ni", A) + 1e-12
        step = np.linalg.solve(A + np.einsum("ni,ij->nij", damping[:, None] * diagonal, np.eye(9)), g[..., None])[
            ..., 0
        ]
        trial = p + step
        trial[:, 4] = np.clip(trial[:, 4], *BLUR)
        new_model, new_J = _model(trial, x, y)
        new_cost = ((values - new_model) ** 2).sum(1)
        better = new_cost <= cost
        p, model, J = (
            np.where(better[:, None], trial, p),
            np.where(better[:, None], new_model, model),
            np.where(better[:, None, None], new_J, J),
        )
        cost = np.where(better, new_cost, cost)
        damping = np.where(better, damping * 0.1, damping * 10)
    noise = cost / max(1, len(dx) - 9)
    A = np.einsum("npi,npj->nij", J, J) + 1e-12 * np.eye(9)
    covariance = np.linalg.inv(A)[:, :2, :2] * noise[:, None, None]
    distance = np.linalg.norm(p[:, :2], axis=1)
    sine = np.abs(np.sin(p[:, 2] - p[:, 3]))
    is_good = (
        (distance < MAX_CORNER_SHIFT) & (np.abs(p[:, 5]) > 3 * np.sqrt(noise)) & (sine > 0.2) & (p[:, 4] < BLUR[1])
    )
    is_good &= np.isfinite(covariance).all((1, 2))
    out = np.where(is_good[:, None], pixels + p[:, :2], pixels)
    return out, np.where(is_good[:, None, None], covariance, np.eye(2)), is_good


def _first(values: np.ndarray, x: np.ndarray, y: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Initial numbers: u = 0, normals of the edges, s = 0.8 px, contrast and mean by linear least squares."""
    p = np.zeros((len(values), 9))
    p[:, 2] = np.arctan2(edges[:, 0, 0], -edges[:, 0, 1])
    p[:, 3] = np.arctan2(edges[:, 1, 0], -edges[:, 1, 1])
    p[:, 4] = 0.8
    p[:, 5] = 1.0
    shape = _model(p, x, y)[0]
    centred = shape - shape.mean(1, keepdims=True)
    p[:, 5] = (centred * values).sum(1) / ((centred**2).sum(1) + 1e-12)
    p[:, 6] = values.mean(1)
    return p


def _model(p: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Intensities (n, pixels) and derivatives (n, pixels, 9)."""
    u, v, a, b, s, c, m, gx, gy = (p[:, k, None] for k in range(9))
    x, y = x - u, y - v
    d1, e1 = x * np.cos(a) + y * np.sin(a), -x * np.sin(a) + y * np.cos(a)
    d2, e2 = x * np.cos(b) + y * np.sin(b), -x * np.sin(b) + y * np.cos(b)
    q = np.sqrt(2) * s
    f1, f2 = erf(d1 / q), erf(d2 / q)
    h1, h2 = (2 / np.sqrt(np.pi) / q * np.exp(-((d / q) ** 2)) for d in (d1, d2))
    D1, D2 = c * h1 * f2, c * f1 * h2  # by d1 and d2
    J = np.stack(
        [
            -D1 * np.cos(a) - D2 * np.cos(b) - gx,
            -D1 * np.sin(a) - D2 * np.sin(b) - gy,
            D1 * e1,
            D2 * e2,
            -(D1 * d1 + D2 * d2) / s,
            f1 * f2,
            np.ones_like(x),
            x,
            y,
        ],
        -1,
    )
    return m + gx * x + gy * y + c * f1 * f2, J
