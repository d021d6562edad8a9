"""Maximum-likelihood calibration: lens and poses of all views from corners, with covariance.

    minimize  Σ_v Σ_i |W_v (project(lens, exp(ω_v) R_v, t_v, X_i) - u_i)|² / s_v²  +  |W_0 (lens - prior)|²

over the lens, ω_v and t_v (Triggs et al. 2000). s_v, the noise of the corners of a view, is estimated from the residuals,
Σ r² / Σ (1 - h) with the leverages h (unbiased where the model is linear). The start is robust (Huber 1964); then a corner
farther than 1 in 10 000 Gaussian ones is left out, and the covariance of all unknowns is (JᵀJ)⁻¹ of the whitened
residuals at the minimum.

W_v has the errors that neighboring corners share (`gradsim.video.calibration.shared_errors`), such as those of a codec.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from scipy.special import chdtri

from gradsim.errors import InputError
from gradsim.video.calibration.lens import Lens, project, rotation
from gradsim.video.calibration.shared_errors import INDEPENDENT, SharedErrors, estimate_shared

OUTLIER_DISTANCE = float(
    chdtri(2, 1e-4)
)  # squared distance of a corner, in units of the noise, beyond which it is left out
ROUNDS = 8  # of noise and outliers
BAD_VIEW = 0.3  # share of far corners above which a view was not detected right
NOISY_VIEW_FACTOR = 5.0  # times the usual noise above which it was not either
FLOOR = 1e-4  # [px] least noise of corners
RELIABLE_FREEDOM = 30  # degrees of freedom of a view at which its residuals alone tell its noise
PULL = 10  # degrees of freedom that the usual noise counts as
MAX_SD = 0.1  # relative sd of the focal length above which it is not determined


@dataclass(frozen=True, eq=False)
class View:
    """Corners of one frame.

    Attributes:
        frame: Index of the frame.
        points: (n, 3) in the world [m].
        pixels: (n, 2), pixel centers at +0.5.
        covariance: (2n, 2n) [px²] of the corners; None: equal and independent, of unknown size.
        expected_noise: Standard deviation of a corner [px] where residuals cannot tell it.
        label: Name of the frame.
    """

    frame: int
    points: np.ndarray
    pixels: np.ndarray
    covariance: np.ndarray | None = None
    expected_noise: float = 0.1
    label: str = ""

    def relative_covariance(self) -> np.ndarray:
        """Covariance (2n, 2n) of the corners, scaled so that a corner's noise is about 1 px."""
        n = 2 * len(self.pixels)
        return np.eye(n) if self.covariance is None else self.covariance / (np.trace(self.covariance) / n)

    def whitener(self, used: np.ndarray | None = None, shared: SharedErrors = INDEPENDENT) -> np.ndarray:
        """W (2n, 2n) with Wᵀ W the inverse of the relative covariance, and of errors that are shared; 0 at corners (n,) not used."""
        n = 2 * len(self.pixels)
        at = np.arange(n) if used is None else np.flatnonzero(np.repeat(used, 2))
        covariance = (self.relative_covariance() + shared.covariance(self.pixels))[np.ix_(at, at)]
        W = np.zeros((n, n))
        W[np.ix_(at, at)] = np.linalg.inv(np.linalg.cholesky(covariance))
        return W

    @property
    def scale(self) -> float:
        """Stated noise of a corner [px]; `expected_noise` without a covariance."""
        n = 2 * len(self.pixels)
        return self.expected_noise if self.covariance is None else float(np.sqrt(np.trace(self.covariance) / n))


@dataclass(frozen=True, eq=False)
class Calibration:
    """Lens, poses and their covariance.

    Attributes:
        lens: The lens and its unknowns.
        unknowns: Estimated unknowns of the lens.
        R: (views, 3, 3) world → camera.
        t: (views, 3) [m].
        covariance: Of the unknowns of the lens, then for each view of ω and t, where R = exp(ω) R of the estimate.
        views: Views that were used.
        used: For each view, (n,) False at corners that were left out.
        residuals: For each view (n, 2), image - model [px].
        noise: Standard deviation of a corner of each view [px], less what it shares with others.
        dropped: Frames of views that were left out as a whole.
        shared: Errors that neighboring corners share, in units of the noise.
    """

    lens: Lens
    unknowns: np.ndarray
    R: np.ndarray
    t: np.ndarray
    covariance: np.ndarray
    views: list[View]
    used: list[np.ndarray]
    residuals: list[np.ndarray]
    noise: np.ndarray
    dropped: list[int]
    shared: SharedErrors = INDEPENDENT

    @property
    def numbers(self) -> np.ndarray:
        """f_x, f_y, c_x, c_y [px] and the coefficients."""
        return self.lens.numbers(self.unknowns)

    @property
    def corner_rms(self) -> float:
        """RMS distance between corners used and model [px]."""
        squares = np.concatenate([(r[u] ** 2).sum(1) for r, u in zip(self.residuals, self.used, strict=True)])
        return float(np.sqrt(squares.mean()))

    def camera_names(self) -> tuple[str, ...]:
        """Names of the unknowns of the lens and of one pose."""
        pose = [f"camera.{key}.{axis}" for key in ("rotation_vector", "translation") for axis in "xyz"]
        return (*self.lens.names, *pose)

    def camera(self, view: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of `camera_names` for a view; the rotation vector is 0 at its R."""
        n = len(self.unknowns)
        at = [*range(n), *range(n + 6 * view, n + 6 * view + 6)]
        return np.concatenate([self.unknowns, np.zeros(3), self.t[view]]), self.covariance[np.ix_(at, at)]


@dataclass(eq=False)
class _Problem:
    """Whitened residuals and their Jacobian, for poses relative to R."""

    lens: Lens
    views: list[View]
    R: np.ndarray
    used: list[np.ndarray]
    noise: np.ndarray
    shared: SharedErrors = INDEPENDENT

    def __post_init__(self):
        self.correlate(INDEPENDENT)
        self.independent = self.whiteners
        self.starts = np.cumsum([0, *(2 * len(view.pixels) for view in self.views)])
        self.points = np.concatenate([view.points for view in self.views])
        self.pixels = np.concatenate([view.pixels for view in self.views])
        self.owner = np.repeat(np.arange(len(self.views)), [len(view.pixels) for view in self.views])

    def correlate(self, shared: SharedErrors) -> None:
        """Whiten with errors that neighboring corners share, at the corners that are used."""
        self.shared = shared
        self.whiteners = [view.whitener(used, shared) for view, used in zip(self.views, self.used, strict=True)]

    def predict(self, lens_unknowns: np.ndarray, omega: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Pixels (n, 2) of all corners."""
        R = rotation(omega) @ self.R
        numbers = self.lens.numbers(lens_unknowns)
        camera = np.einsum("nij,nj->ni", R[self.owner], self.points) + t[self.owner]
        return project(self.lens.model, numbers, np.eye(3), np.zeros(3), camera)

    def split(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Unknowns of the lens, ω (views, 3) and t (views, 3)."""
        n = len(self.lens.names)
        pose = x[n:].reshape(-1, 6)
        return x[:n], pose[:, :3], pose[:, 3:]

    def residuals(self, x: np.ndarray) -> np.ndarray:
        raw = self.predict(*self.split(x)) - self.pixels
        prior = self.lens.prior_root @ (x[: len(self.lens.names)] - self.lens.prior_mean)
        return np.concatenate([*self._whitened(raw.ravel()[:, None])[:, 0:1].T, prior])

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Derivatives by complex steps: one for each unknown of the lens, and six for the poses of all views."""
        lens, omega, t = self.split(x)
        n, rows, step = len(lens), self.starts[-1], 1e-20
        J = np.zeros((rows + len(self.lens.prior_root), len(x)))
        raw = np.zeros((rows, n + 6))
        for k in range(n):
            raw[:, k] = np.imag(self.predict(lens + 1j * step * (np.arange(n) == k), omega, t)).ravel() / step
        for k in range(3):
            turned = 1j * step * (np.arange(3) == k)
            raw[:, n + k] = np.imag(self.predict(lens, omega + turned, t)).ravel() / step
            raw[:, n + 3 + k] = np.imag(self.predict(lens, omega, t + turned)).ravel() / step
        raw = self._whitened(raw)
        J[:rows, :n] = raw[:, :n]
        for v in range(len(self.views)):
            block = slice(self.starts[v], self.starts[v + 1])
            J[block, n + 6 * v : n + 6 * v + 6] = raw[block, n:]
        J[rows:, :n] = self.lens.prior_root
        return J

    def _whitened(self, raw: np.ndarray) -> np.ndarray:
        """Rows (2 corners, k) in units of the noise, 0 where a corner is left out."""
        out = np.empty_like(raw)
        for v, W in enumerate(self.whiteners):
            block = slice(self.starts[v], self.starts[v + 1])
            mask = np.repeat(self.used[v], 2)[:, None]
            out[block] = W @ (raw[block] * mask) / self.noise[v]
        return out


def calibrate(
    views: Sequence[View], lens: Lens, poses: tuple[np.ndarray, np.ndarray], correlated: bool = True
) -> Calibration:
    """Estimate the lens and the pose of each view.

    Args:
        views: Corners of each view.
        lens: The lens, with its initial unknowns.
        poses: Initial R (views, 3, 3) and t (views, 3) [m].
        correlated: Whether errors that neighboring corners share are estimated.

    Raises:
        InputError: If the views do not determine the unknowns.
    """
    views, dropped = list(views), []
    R, t = np.array(poses[0], np.float64), np.array(poses[1], np.float64)
    unknowns = lens.start
    while True:
        problem = _Problem(lens, views, R, [np.ones(len(v.pixels), bool) for v in views], _initial_noise(views))
        unknowns, R, t = _minimize(problem, unknowns, R, t, robust=True)
        bad = _bad_views(problem, unknowns, t) if len(views) > 3 else []
        if not bad:
            break
        dropped += [views[v].frame for v in bad]
        keep = [v for v in range(len(views)) if v not in bad]
        views, R, t = [views[v] for v in keep], R[keep], t[keep]
    for _ in range(ROUNDS):
        before = [mask.copy() for mask in problem.used], problem.noise.copy()
        _update_noise(problem, unknowns, t)
        if correlated:
            _update_shared(problem, unknowns, t)
        unknowns, R, t = _minimize(problem, unknowns, R, t)
        is_same = all((a == b).all() for a, b in zip(before[0], problem.used, strict=True))
        if is_same and np.allclose(before[1], problem.noise, rtol=1e-3):
            break
    return _result(problem, unknowns, t, dropped)


def _initial_noise(views: Sequence[View]) -> np.ndarray:
    return np.array([view.scale for view in views])


def _minimize(
    problem: _Problem, unknowns: np.ndarray, R: np.ndarray, t: np.ndarray, robust: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unknowns of the lens, R and t at the minimum; the poses of the problem are moved there."""
    problem.R = R
    x = np.concatenate([unknowns, np.concatenate([np.zeros_like(t), t], 1).ravel()])
    options = {"loss": "huber", "f_scale": 3.0} if robust else {}
    for _ in range(3 if robust else 1):
        jacobian: Any = problem.jacobian
        fit = least_squares(problem.residuals, x, jacobian, x_scale="jac", xtol=1e-10, ftol=1e-12, **options)
        x = fit.x
        if robust:  # noise from the median, before the next
            _median_noise(problem, x)
    lens, omega, t = problem.split(x)
    problem.R = rotation(omega) @ R
    return lens, problem.R, t


def _distances(problem: _Problem, x: np.ndarray) -> list[np.ndarray]:
    """Whitened distance of each corner, in units of the view's noise, for each view; corners left out included."""
    raw = (problem.predict(*problem.split(x)) - problem.pixels).ravel()
    out = []
    for v, W in enumerate(problem.independent):
        block = raw[problem.starts[v] : problem.starts[v + 1]]
        out.append(np.linalg.norm((W @ block).reshape(-1, 2), axis=1) / problem.noise[v])
    return out


def _median_noise(problem: _Problem, x: np.ndarray) -> None:
    """Noise of all views together, from the median distance of their corners."""
    distances = [d * s for d, s in zip(_distances(problem, x), problem.noise, strict=True)]
    free = max(0.1, 1 - (len(x)) / problem.starts[-1])
    if problem.starts[-1] - len(x) < RELIABLE_FREEDOM:
        return
    noise = np.median(np.concatenate(distances)) / np.sqrt(2 * np.log(2)) / np.sqrt(free)  # median of a Rayleigh law
    problem.noise = np.full(len(problem.views), max(noise, FLOOR))


def _bad_views(problem: _Problem, unknowns: np.ndarray, t: np.ndarray) -> list[int]:
    """Views in which many corners are far off, the worst one only: it bends the others."""
    x = np.concatenate([unknowns, np.concatenate([np.zeros_like(t), t], 1).ravel()])
    distances = _distances(problem, x)
    medians = np.array([np.median(d) for d in distances])
    shares = np.array([np.mean(d**2 > 4 * OUTLIER_DISTANCE) for d in distances])
    worst = int(np.argmax(medians))
    return [worst] if medians[worst] > NOISY_VIEW_FACTOR * np.median(medians) or shares[worst] > BAD_VIEW else []


def _update_noise(problem: _Problem, unknowns: np.ndarray, t: np.ndarray) -> None:
    """Leave far corners out, and estimate the noise of each view from the others."""
    x = np.concatenate([unknowns, np.concatenate([np.zeros_like(t), t], 1).ravel()])
    sizes = [2 * len(view.pixels) for view in problem.views]
    if problem.starts[-1] - len(x) >= RELIABLE_FREEDOM:
        problem.used = [d**2 <= OUTLIER_DISTANCE * (1 + problem.shared.variance) for d in _distances(problem, x)]
        problem.correlate(problem.shared)
    r, J = problem.residuals(x), problem.jacobian(x)
    leverage = (np.linalg.qr(J)[0] ** 2).sum(1)
    sums = []
    for v in range(len(sizes)):
        block = slice(problem.starts[v], problem.starts[v + 1])
        mask = np.repeat(problem.used[v], 2)
        sums.append((np.sum(r[block] ** 2) * problem.noise[v] ** 2, np.sum(mask * (1 - leverage[block]))))
    total, free = map(sum, zip(*sums, strict=True))
    few = max(0.0, RELIABLE_FREEDOM - free)  # as if so much had been measured before, at the stated noise
    stated = np.mean([view.scale for view in problem.views]) ** 2
    usual = np.median([s / f for s, f in sums if f > 1] or [total / max(free, 1e-9)])
    common = (usual * free + few * stated) / (free + few)
    # each view by itself, drawn towards the usual noise as far as it has few corners
    problem.noise = np.sqrt([max((s + PULL * common) / (f + PULL), FLOOR**2) for s, f in sums])


def _update_shared(problem: _Problem, unknowns: np.ndarray, t: np.ndarray) -> None:
    """Errors that corners share, from residuals; none where these are too few to show it."""
    x = np.concatenate([unknowns, np.concatenate([np.zeros_like(t), t], 1).ravel()])
    if problem.starts[-1] - len(x) < RELIABLE_FREEDOM:
        return
    before = problem.whiteners, problem.noise
    problem.whiteners, problem.noise = [np.eye(2 * len(view.pixels)) for view in problem.views], np.ones(len(before[1]))
    r, J = problem.residuals(x), problem.jacobian(x)
    problem.whiteners, problem.noise = before
    parts = []
    for v, (view, used) in enumerate(zip(problem.views, problem.used, strict=True)):
        rows, at = slice(problem.starts[v], problem.starts[v + 1]), np.repeat(used, 2)
        parts.append((r[rows][at], J[rows][at], view.relative_covariance()[np.ix_(at, at)], view.pixels[used]))
    rest = slice(problem.starts[-1], None)
    problem.correlate(estimate_shared(parts, problem.noise, J[rest].T @ J[rest]))


def _result(problem: _Problem, unknowns: np.ndarray, t: np.ndarray, dropped: list[int]) -> Calibration:
    x = np.concatenate([unknowns, np.concatenate([np.zeros_like(t), t], 1).ravel()])
    J = problem.jacobian(x)
    size = np.linalg.norm(J, axis=0)
    weak = [name for name, s in zip(problem.lens.names, size, strict=False) if s == 0]
    scaled = J / np.where(size > 0, size, 1)
    singular = np.linalg.svd(scaled, compute_uv=False)
    if weak or len(J) < J.shape[1] or singular[-1] < 1e-9 * singular[0]:
        raise InputError(
            "the views do not determine the camera: take more views, tilted by 20 to 50 degrees in different directions "
            "and all over the image, or hold numbers (--fix k3 square centre), or give the lens (--intrinsics capture.json)."
        )
    covariance = np.linalg.inv(scaled.T @ scaled) / np.outer(size, size)
    covariance = (covariance + covariance.T) / 2  # rounding
    residuals = problem.pixels - problem.predict(*problem.split(x))
    parts = np.split(residuals, np.cumsum([len(view.pixels) for view in problem.views])[:-1])
    return Calibration(
        problem.lens,
        unknowns,
        problem.R,
        t,
        covariance,
        problem.views,
        problem.used,
        parts,
        problem.noise,
        dropped,
        problem.shared,
    )
