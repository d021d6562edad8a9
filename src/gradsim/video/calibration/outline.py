"""Outline of a quadrilateral in an image: its four sides by least squares on the pixels, and the corners where they meet.

A side is a polynomial in the axes of its chord, n = a_0 + a_1 τ + a_2 τ² + a_3 τ³ + a_4 τ⁴ with τ from -1 to 1: a line where
nothing more is significant, a parabola, or the whole. A lens bends sides, and the corners of a polygon with straight sides
would be off by many pixels. Pixels in a band around it are

    I = m_0 + m_1 τ + (c_0 + c_1 τ) erf(d / (√2 s)),   d = (n - a(τ)) / √(1 + a'²)

the brightness of one side, of the other, and half of both on the outline, through a Gaussian blur of s px, by Gauss–Newton,
without the ends, where the other sides begin. The corners' covariance follows from those of the sides.
"""

from dataclasses import dataclass

import numpy as np
from numpy.polynomial.polynomial import polyder, polyval
from scipy.linalg import block_diag
from scipy.ndimage import map_coordinates
from scipy.special import erf

MARGIN = 7.0  # [px] of a side at each end that is not used, but at most
LARGEST_MARGIN = 0.1  # of the side
BAND = 4.0  # [px] half width of the band of pixels
SEARCH = 0.045  # of a side: how far from its chord it may be bent
LEAST_SEARCH = 4.0  # [px]
MIN_SIDE = 12.0  # [px] side
SIGNIFICANT_SIGMAS = 4.0  # standard deviations above which a coefficient is significant
DEGREES = (4, 2, 1)  # of sides, the next where nothing above it is significant
FLOOR = 0.02  # [px] added to the noise of corners: texture, rounded edges
ITERATIONS = 15
NUMBERS = 5  # a_0 to a_4
BLUR = 0.3, 3.5  # [px] range of s


@dataclass(frozen=True, eq=False)
class Outline:
    """Four corners and sides.

    Attributes:
        corners: (4, 2), pixel centers at +0.5.
        covariance: (8, 8) [px²] of the corners.
        bend: (4,) largest distance of each side from its chord [px]; 0 where sides are straight.
        noise: RMS of the residuals over the contrast.
    """

    corners: np.ndarray
    covariance: np.ndarray
    bend: np.ndarray
    noise: float


@dataclass(frozen=True, eq=False)
class _Side:
    """One side in the axes of its chord.

    Attributes:
        middle, along, normal: Of the chord; `along` has half its length.
        curve: a_0 to a_4 [px].
        covariance: (5, 5).
        noise: RMS of the residuals over the contrast.
    """

    middle: np.ndarray
    along: np.ndarray
    normal: np.ndarray
    curve: np.ndarray
    covariance: np.ndarray
    noise: float

    def is_bent(self, degree: int) -> bool:
        """True if a coefficient above this degree is significant."""
        sd = np.sqrt(np.diag(self.covariance)[degree + 1 :])
        return bool((np.abs(self.curve[degree + 1 :]) > SIGNIFICANT_SIGMAS * sd + 1e-12).any())


def fit_outline(gray: np.ndarray, corners: np.ndarray) -> Outline | None:
    """Fit the outline of a quadrilateral near first guesses of its corners; None if a side has no clear edge.

    Args:
        gray: (height, width).
        corners: (4, 2) in order around it, pixel centers at +0.5.
    """
    gray = np.asarray(gray, np.float64)
    guess = np.array(corners, np.float64)
    sides: list[_Side | None] = []
    for k, degree in enumerate(DEGREES):
        sides = [_fit_side(gray, guess[i], guess[(i + 1) % 4], degree) for i in range(4)]
        if any(side is None for side in sides):
            return None
        if degree == 1 or any(side is not None and side.is_bent(DEGREES[k + 1]) for side in sides):
            break
    fitted = [side for side in sides if side is not None]
    curves = np.array([side.curve for side in fitted])
    meeting = _meet(fitted, curves)
    if meeting is None or np.linalg.norm(meeting - guess, axis=1).max() > 0.25 * np.linalg.norm(guess[0] - guess[2]):
        return None
    J = np.zeros((8, 4 * NUMBERS))
    for k in range(4 * NUMBERS):
        step = 1e-3 * (np.arange(4 * NUMBERS) == k).reshape(4, NUMBERS)
        ahead, behind = _meet(fitted, curves + step), _meet(fitted, curves - step)
        if ahead is None or behind is None:
            return None
        J[:, k] = (ahead - behind).ravel() / 2e-3
    block = np.asarray(block_diag(*(side.covariance for side in fitted)))
    covariance = J @ block @ J.T + FLOOR**2 * np.eye(8)
    bend = np.abs(curves[:, 2] + curves[:, 4])  # at the middle, from the chord
    return Outline(meeting, covariance, bend, float(np.mean([side.noise for side in fitted])))


def _fit_side(gray: np.ndarray, start: np.ndarray, end: np.ndarray, degree: int) -> _Side | None:
    middle, along = (start + end) / 2, (end - start) / 2
    half = np.linalg.norm(along)
    if 2 * half < MIN_SIDE:
        return None
    normal = np.array([along[1], -along[0]]) / half
    curve = _crossings(gray, middle, along, normal, half)
    if curve is None:
        return None
    fitted = _fit_band(gray, middle, along, normal, half, curve, degree)
    return None if fitted is None else _Side(middle, along, normal, *fitted)


def _crossings(gray, middle, along, normal, half) -> np.ndarray | None:
    """First guess of the parabola: where profiles across the chord come to half brightness."""
    search = max(LEAST_SEARCH, SEARCH * 2 * half)
    end = _end(half)
    tau = np.linspace(-end, end, int(np.clip(half, 9, 60)))
    offset = np.arange(-search, search + 0.5, 0.5)
    points = middle + tau[:, None, None] * along + offset[None, :, None] * normal
    profile = map_coordinates(gray, [points[..., 1] - 0.5, points[..., 0] - 0.5], order=1, mode="nearest")
    slope = profile[:, 4:] - profile[:, :-4]  # over 2 px
    sign = np.sign(slope[np.arange(len(tau)), np.abs(slope).argmax(1)].sum())
    at = (sign * slope).argmax(1)
    n = offset[at + 2]
    use = np.abs(n) < search
    for _ in range(5):
        if use.sum() < 5:
            return None
        powers = np.stack([np.ones_like(tau), tau, tau**2], 1)
        curve = np.linalg.lstsq(powers[use], n[use], rcond=None)[0]
        off = np.abs(n - powers @ curve)
        use = off < max(1.5, 3 * np.median(off))
    return np.pad(curve, (0, NUMBERS - 3)) if use.mean() > 0.6 else None


def _end(half: float) -> float:
    """Largest τ that is used."""
    return 1 - min(MARGIN / half, 2 * LARGEST_MARGIN)


def _fit_band(gray, middle, along, normal, half, curve, degree) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Curve, its covariance and the relative noise from the pixels of a band."""
    band = float(min(BAND, 0.06 * 2 * half))
    box = np.array([middle + s * along + t * (_reach(curve) + band) * normal for s in (-1, 1) for t in (-1, 1)])
    low = np.floor(box.min(0)).astype(int).clip(0)
    high = np.minimum(np.ceil(box.max(0)).astype(int), [gray.shape[1], gray.shape[0]])
    if (high - low < 2).any():
        return None
    y, x = np.mgrid[low[1] : high[1], low[0] : high[0]]
    rel = np.stack([x, y], -1) + 0.5 - middle
    tau, n = rel @ along / half**2, rel @ normal
    near = (np.abs(tau) < _end(half)) & (np.abs(n - polyval(tau, curve)) < band)
    if near.sum() < 40:
        return None
    values, tau, n = gray[low[1] : high[1], low[0] : high[0]][near], tau[near], n[near]
    return _gauss_newton(values, tau, n, half, curve, degree)


def _gauss_newton(values, tau, n, half, curve, degree) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Numbers a_0 … a_degree, s, m_0, m_1, c_0, c_1; returns the curve, its covariance and the relative noise."""
    shape = degree + 1
    powers = np.stack([tau**k for k in range(NUMBERS)], 1)
    p = np.array([*curve[:shape], 0.8, values.mean(), 0.0, 0.0, 0.0])
    for k in range(ITERATIONS):
        a, s = np.pad(p[:shape], (0, NUMBERS - shape)), p[shape]
        cosine = 1 / np.sqrt(1 + (polyval(tau, polyder(a)) / half) ** 2)
        d = (n - powers @ a) * cosine
        q = np.sqrt(2) * s
        f, h = erf(d / q), 2 / np.sqrt(np.pi) / q * np.exp(-((d / q) ** 2))
        if k == 0:  # brightness of both sides
            linear = np.stack([np.ones_like(f), tau, f, f * tau], 1)
            p[shape + 1 :] = np.linalg.lstsq(linear, values, rcond=None)[0]
        m0, m1, c0, c1 = p[shape + 1 :]
        c = c0 + c1 * tau
        J = np.column_stack([-(c * h * cosine)[:, None] * powers[:, :shape], -c * h * d / s, f**0, tau, f, f * tau])
        r = values - m0 - m1 * tau - c * f
        step = np.linalg.lstsq(J, r, rcond=None)[0]
        step[: shape + 1] = np.clip(step[: shape + 1], -1, 1)
        p += step
        p[shape] = np.clip(p[shape], *BLUR)
        if np.abs(step[:shape]).max() < 1e-5:
            break
    noise = np.sqrt((r**2).sum() / max(1, len(r) - len(p)))
    if abs(p[shape + 3]) < 4 * noise or not np.isfinite(p).all():
        return None
    covariance = np.zeros((NUMBERS, NUMBERS))
    covariance[:shape, :shape] = (np.linalg.pinv(J.T @ J) * noise**2)[:shape, :shape]
    return np.pad(p[:shape], (0, NUMBERS - shape)), covariance, float(noise / abs(p[shape + 3]))


def _reach(curve: np.ndarray) -> float:
    """Bound of the distance of a parabola from its chord [px]."""
    return float(np.abs(curve).sum())


def _meet(sides: list[_Side], curves: np.ndarray) -> np.ndarray | None:
    """Corners (4, 2): corner k is where side k - 1 ends and side k begins, by Newton's method."""
    corners = np.zeros((4, 2))
    for k in range(4):
        one, two = sides[k - 1], sides[k]
        at = np.array([1.0, -1.0])
        for _ in range(20):
            a, da = _point(one, curves[k - 1], at[0])
            b, db = _point(two, curves[k], at[1])
            step = np.linalg.lstsq(np.stack([da, -db], 1), b - a, rcond=None)[0]
            at += step
            if np.abs(step).max() < 1e-12:
                break
        if np.abs(at - [1, -1]).max() > 0.5:
            return None
        corners[k] = _point(one, curves[k - 1], at[0])[0]
    return corners


def _point(side: _Side, curve: np.ndarray, tau: float) -> tuple[np.ndarray, np.ndarray]:
    """Point of a side and its derivative by τ."""
    n, slope = polyval(tau, curve), polyval(tau, polyder(curve))
    return side.middle + tau * side.along + n * side.normal, side.along + slope * side.normal
