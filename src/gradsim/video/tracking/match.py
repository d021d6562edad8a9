"""Match of a square patch in another image: place, affine deformation, gain and offset, with the covariance of the place.

    minimize  Σ_i e_i²,   e_i = I(p + A x_i) - (g T_i + b)                     (Baker and Matthews 2004, with a photometric part)

over p, A, g and b, with the offsets x_i of the patch's pixels from its center, by Gauss–Newton steps. I is interpolated by cubic
splines. The covariance of the place is that of least squares, σ² H⁻¹ with σ² = Σ e²/(n - 8), and no less than H⁻¹ B H⁻¹ with B the
sum of products of scores J_iᵀ e_i of neighbours (Newey and West 1987, Bartlett's weights in two dimensions): residuals of compressed
video are alike over several pixels.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import ndimage

ITERATIONS = 25  # Gauss–Newton steps at most
CONVERGED_STEP = 1e-3  # [px] of the last step
DIFFERENCE = 0.25  # [px] half of the base of derivatives of the spline
PARAMETERS = 8  # p (2), A (4), gain, offset
BARTLETT = 4  # [px] from which on residuals count as independent
MIN_EIGENVALUE_RATIO = 1e-6  # of the largest eigenvalue of H (scaled), below which a patch has no place


class Image:
    """A frame for sub-pixel sampling.

    Args:
        gray: (height, width) brightness.
    """

    def __init__(self, gray: np.ndarray):
        self.gray = np.asarray(gray, np.float64)

    @cached_property
    def _spline(self) -> np.ndarray:
        return ndimage.spline_filter(self.gray, 3)

    def sample(self, points: np.ndarray) -> np.ndarray:
        """Brightness at points (..., 2), pixel centers at +0.5."""
        at = np.moveaxis(points, -1, 0)[::-1] - 0.5
        return ndimage.map_coordinates(self._spline, at, order=3, prefilter=False, mode="nearest")

    def gradient(self, points: np.ndarray) -> np.ndarray:
        """Derivative (..., 2) of the same along u and v."""
        step = DIFFERENCE * np.eye(2)
        return np.stack([self.sample(points + d) - self.sample(points - d) for d in step], -1) / (2 * DIFFERENCE)

    def contains(self, points: np.ndarray) -> bool:
        """True if all points (..., 2) are in the image."""
        height, width = self.gray.shape
        return bool(((points >= 0) & (points <= [width, height])).all())


@dataclass(frozen=True, eq=False)
class Patch:
    """A square piece of an image around a place.

    Attributes:
        values: Brightness (n, n).
        offsets: Offsets (n, n, 2) of its pixels from the center [px].
    """

    values: np.ndarray
    offsets: np.ndarray

    @classmethod
    def cut(cls, image: Image, place: np.ndarray, radius: int) -> "Patch | None":
        """The patch of (2 radius + 1)² pixels around a place (2,) [px]; None if it is not whole in the image."""
        x = np.arange(-radius, radius + 1.0)
        offsets = np.stack(np.meshgrid(x, x), -1)
        if not image.contains(place + offsets):
            return None
        return cls(image.sample(place + offsets), offsets)


@dataclass(frozen=True, eq=False)
class Match:
    """A patch in an image.

    Attributes:
        place: Center (2,) [px].
        deformation: A (2, 2).
        covariance: Of the place (2, 2) [px²], from the noise of both images.
        correlation: Between the deformed patch and the image, at most 1.
    """

    place: np.ndarray
    deformation: np.ndarray
    covariance: np.ndarray
    correlation: float


def match(image: Image, patch: Patch, place: np.ndarray, deformation: np.ndarray) -> Match | None:
    """Match of a patch in an image from an initial place (2,) [px] and deformation (2, 2); None if there is none nearby."""
    T, x = patch.values.ravel(), patch.offsets.reshape(-1, 2)
    p, A, radius = np.array(place, float), np.array(deformation, float), np.abs(x).max()
    if T.std() == 0:
        return None
    for _ in range(ITERATIONS):
        points = p + x @ A.T
        if not image.contains(points):
            return None
        values, slope = image.sample(points), image.gradient(points)
        warp = (slope[:, :, None] * x[:, None, :]).reshape(-1, 4)
        J = np.concatenate([slope, warp, -T[:, None], -np.ones((len(T), 1))], 1)
        step, gain, offset = _step(J, values)
        if step is None:
            return None
        p, A = p + step[:2], A + step[2:6].reshape(2, 2)
        if np.linalg.norm(step[:2]) > radius or not 0.3 < np.linalg.det(A) < 3:
            return None
        if np.linalg.norm(step[:2]) < CONVERGED_STEP:
            break
    else:
        return None
    points = p + x @ A.T
    if not image.contains(points):
        return None
    residual = image.sample(points) - gain * T - offset
    spread = values.std() * T.std()
    correlation = float(((values - values.mean()) * (T - T.mean())).mean() / spread) if spread > 0 else 0.0
    return Match(p, A, _covariance(J, residual, patch.values.shape), correlation)


def _step(J: np.ndarray, values: np.ndarray) -> tuple[np.ndarray | None, float, float]:
    """Change of place and deformation, and the gain and offset; gain and offset are linear, so that they are solved for anew."""
    scale = np.linalg.norm(J, axis=0)
    if (scale == 0).any():
        return None, 1.0, 0.0
    H = (J / scale).T @ (J / scale)
    if np.linalg.eigvalsh(H)[0] < MIN_EIGENVALUE_RATIO:
        return None, 1.0, 0.0
    solved = -np.linalg.solve(H, (J / scale).T @ values) / scale
    return solved[:6], float(solved[6]), float(solved[7])


def _covariance(J: np.ndarray, residual: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Covariance (2, 2) of the place from residuals in the order of a patch of this shape."""
    inverse = np.linalg.inv(J.T @ J)
    count = len(residual)
    simple = residual @ residual / (count - PARAMETERS) * inverse
    scores = (J * residual[:, None]).reshape(*shape, PARAMETERS)
    padded = np.pad(scores, ((BARTLETT, BARTLETT), (BARTLETT, BARTLETT), (0, 0)))
    sums = ndimage.uniform_filter(padded, (BARTLETT, BARTLETT, 0))  # pyright: ignore[reportArgumentType] -- by axis
    sums = sums.reshape(-1, PARAMETERS) * BARTLETT
    alike = inverse @ (sums.T @ sums) @ inverse * count / (count - PARAMETERS)
    a, b = simple[:2, :2], alike[:2, :2]
    return a if np.trace(a) > np.trace(b) else b
