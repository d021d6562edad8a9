"""Error bars of a model that does not explain its data: a discrepancy correlated in time, and numbers that scatter between recordings.

    data_k(t) = f(t; u + b_k) + δ_k(t) + ε,        b_k ~ N(0, T)
    cov δ_k(t), δ_k(t′) = s² exp(−|t − t′|/τ),     ε white                   (Kennedy & O'Hagan 2001, with δ of Ornstein and Uhlenbeck)

What of δ matters for u is its part along the derivatives J_t of frame t, in coordinates of unit noise:

    y_t = −A_t^{-1/2} J_tᵀ r_t = A_t^{1/2} (u_true − u) + δ-part + ε-part,      A_t = J_tᵀ J_t,  r_t: whitened residuals

1. s, τ and the white variance w maximize the restricted likelihood of all y, each recording about its own best u (Patterson & Thompson 1971;
   by a Kalman filter, since δ + ε is a state-space model).
2. T maximizes the restricted likelihood of the scores g_k = Σ_t J_tᵀ r_t of the recordings, whose covariance is M_k + A_k T A_k with
   M_k = Σ_tt′ A_t^{1/2} (s² e^{−|t−t′|/τ} + w [t = t′]) A_t′^{1/2}: random effects of a meta-analysis (DerSimonian & Laird 1986). T = Π D Π with D diagonal: a scatter of each number, without that along directions which
   recordings hardly tell, where none can be seen and where it would spread to all numbers (Π is the projection on the others).
3. The answer u remains that of least squares, which needs none of this to be consistent; its covariance is

    A⁻¹ (Σ_k M_k + A_k T A_k + P) A⁻¹,       A = Σ_k A_k + P           (White 1982; P: precision of priors)

Intervals use Student's distribution where scatter between few recordings makes them (degrees of freedom: Satterthwaite 1946).

A recording that was not fitted has b_k and δ_k of its own, so the variance of a coordinate there is J (cov + T) Jᵀ + the mean square of the residuals.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
import torch
from torch import Tensor

from gradsim.errors import Status
from gradsim.identification.fit import Estimate, Fit
from gradsim.identification.observation.base import Coordinates
from gradsim.identification.problem import Problem
from gradsim.identification.uncertainty.intervals import Z95
from gradsim.identification.unknowns import Ranges

NULL = 1e-9  # share of the information of a recording below which a direction is open
OPEN = 1e-6  # squared part of an unknown in open directions above which it is open
SHORTEST, LONGEST = 0.05, 5.0  # correlation time at least in frames, at most in lengths of the longest recording
LEAST_WHITE = 1e-4  # white variance at least, of the mean square of y
# Correlation times over the length, and white variances, where a search starts
SHARES, WHITES = (0.02, 0.1, 0.5), (0.02, 0.5)
QUIET = 1e-6  # share of the largest derivative of a channel below which a frame tells nothing of it
WEAK = 1e-3  # eigenvalue of the information, scaled to a diagonal of 1, below which a direction has no scatter
LARGEST_SCATTER = 30.0  # of a recording, in standard deviations of an unknown by one recording


@dataclass(frozen=True, eq=False)
class Scores:
    """Derivatives of the cost of one recording, frame by frame.

    Args:
        times: Times of the frames (t,) [s].
        roots: A_t^{1/2} (t, n, n); or derivatives of c < n coordinates over their noise (t, c, n).
        y: See above (t, n); of c coordinates −r_t (t, c).
        columns: Which of all unknowns the n are.
        shared: Which of the n are numbers that other recordings share (n,).
    """

    times: np.ndarray
    roots: np.ndarray
    y: np.ndarray
    columns: np.ndarray
    shared: np.ndarray

    @property
    def information(self) -> np.ndarray:
        """A_k (n, n)."""
        return np.einsum("tci,tcj->ij", self.roots, self.roots)

    @property
    def score(self) -> np.ndarray:
        """−g_k (n,)."""
        return np.einsum("tci,tc->i", self.roots, self.y)

    def noise(self, process: "Process") -> np.ndarray:
        """M_k (n, n)."""
        lag = np.abs(self.times[:, None] - self.times)
        kernel = process.scale**2 * np.exp(-lag / process.time) + process.white * np.eye(len(lag))
        flat = self.roots.reshape(len(lag), -1)
        return np.einsum("tci,tcj->ij", self.roots, (kernel @ flat).reshape(self.roots.shape))


@dataclass(frozen=True)
class Process:
    """Discrepancy of a recording, in standard deviations of the noise.

    Args:
        scale: s.
        time: τ [s].
        white: w, variance of the part without memory.
    """

    scale: float
    time: float
    white: float


@dataclass(frozen=True, eq=False)
class Discrepancy:
    """Answer of a model with a discrepancy.

    Args:
        u: The answer (unknowns,) in solver coordinates, by least squares.
        covariance: Its covariance (unknowns, unknowns), without that along directions which the data leave open.
        is_open: Whether an unknown takes part in such a direction (unknowns,).
        scatter: T (unknowns, unknowns); 0 with one recording.
        process: The discrepancy.
        mean_square: Of the residuals of all recordings, in squares of the noise.
        degrees: Degrees of freedom of each standard deviation (unknowns,).
        recordings: Number of recordings.
    """

    u: np.ndarray
    covariance: np.ndarray
    is_open: np.ndarray
    scatter: np.ndarray
    process: Process
    mean_square: float
    degrees: np.ndarray
    recordings: int

    @property
    def std(self) -> np.ndarray:
        """Standard deviation of each unknown in solver coordinates (unknowns,); infinite where the data leave it open."""
        return np.where(self.is_open, np.inf, np.sqrt(np.clip(self.covariance.diagonal(), 0.0, None)))

    def estimates(self, space: Ranges) -> dict[str, Estimate]:
        """Estimates of all unknowns by name, with these error bars.

        Args:
            space: The unknowns.
        """
        values, estimates = space.numbers(torch.tensor(self.u)).tolist(), {}
        for k, name in enumerate(space.names):
            spread = float(self.std[k])
            wide = spread * float(scipy.special.stdtrit(max(self.degrees[k], 1.0), 0.975))
            if space.logarithmic[k]:
                factor = math.exp(min(wide, 700.0))
                std, interval = values[k] * spread, (values[k] / factor, values[k] * factor)
            else:
                std, interval = spread, (values[k] - wide, values[k] + wide)
            known = spread < 0.1 * (1.0 if space.logarithmic[k] else max(abs(values[k]), 1e-300))
            estimates[name] = Estimate(values[k], std, interval, space.units[k], *space.range(k), known)
        return estimates

    def band(self, problem: Problem, u: Tensor, columns: Sequence[int], own: np.ndarray | None = None) -> np.ndarray:
        """Half width (n,) of the 95 % predictive band of each coordinate of a recording, in standard deviations of its noise.

        Args:
            problem: A recording that was not fitted, observed by coordinates.
            u: Its unknowns in solver coordinates.
            columns: Which of all unknowns they are; -1 for those of this recording alone.
            own: Covariance of the latter; None: known.
        """
        J = torch.cat([slope[0] for _, slope in problem.jacobian(u[None], problem.frames)]).numpy()
        place = np.array(columns)
        known = place >= 0
        spread = np.zeros((len(place), len(place)))
        mine = place[known]
        spread[np.ix_(known, known)] = (self.covariance + self.scatter)[np.ix_(mine, mine)]
        if own is not None:
            spread[np.ix_(~known, ~known)] = own
        return Z95 * np.sqrt(np.einsum("ni,ij,nj->n", J, spread, J) + self.mean_square)

    def result(self, space: Ranges) -> dict:
        """For `result.json`."""
        values = space.numbers(torch.tensor(self.u)).numpy()
        natural = np.where(space.logarithmic, values, 1.0) * np.sqrt(self.scatter.diagonal())
        estimates = self.estimates(space)
        return {
            "unknowns": {
                name: {
                    "value": e.value,
                    "std": e.std,
                    "interval95": list(e.interval95),
                    "low": e.low,
                    "high": e.high,
                    "unit": e.unit,
                    "between_recordings": float(natural[k]),
                }
                for k, (name, e) in enumerate(estimates.items())
            },
            "scale": self.process.scale,
            "time": self.process.time,
            "white": math.sqrt(self.process.white),
            "residual": math.sqrt(self.mean_square),
            "recordings": self.recordings,
            "words": self.words(space),
        }

    def words(self, space: Ranges) -> str:
        """The discrepancy in a sentence or two."""
        text = (
            f"If the model is off by a discrepancy that keeps its sign for {self.process.time:.2g} s ({self.process.scale:.2g} σ, besides "
            f"{math.sqrt(self.process.white):.2g} σ without memory), these are the error bars."
        )
        sd = np.sqrt(self.scatter.diagonal())
        scattered = [(sd[k] / max(self.std[k], 1e-300), name) for k, name in enumerate(space.names)]
        share, name = max(scattered)
        if self.recordings < 2:
            return f"{text} One recording does not show what changes between recordings; those that were not fitted may be off by more."
        if share <= 0:
            return f"{text} Between the {self.recordings} recordings no number scatters by more than that."
        return f"{text} Of {self.recordings} recordings `{name}` scatters most, beyond what the discrepancy of each explains."


def discrepancy(problem: Problem, u: Tensor) -> Discrepancy:
    """Discrepancy and error bars at the least-squares answer of one recording or several.

    Args:
        problem: Of one recording, or a joint one.
        u: The answer (unknowns,) in solver coordinates.
    """
    return combine(recordings_of(problem, u), problem.prior_precision.numpy(), u.numpy(), mean_square(problem, u))


def with_discrepancy(fit: Fit, problem: Problem) -> Fit:
    """The fit with the error bars of a discrepancy, where there is an answer.

    Args:
        fit: The fit.
        problem: What it solved, with the time step of the answer.
    """
    if fit.status == Status.FAILED:
        return fit
    numbers = [fit.unknowns[name].value for name in problem.space.names]
    u = problem.space.inner(torch.tensor(numbers, dtype=torch.float64))
    return replace(fit, discrepancy=discrepancy(problem, u).result(problem.space))


def combine(parts: Sequence[Scores], precision: np.ndarray, u: np.ndarray, square: float) -> Discrepancy:
    """Discrepancy from the scores of recordings.

    Args:
        parts: Scores of each recording at the answer.
        precision: Of the priors (unknowns, unknowns).
        u: The answer (unknowns,).
        square: Mean square of the residuals.
    """
    n, process = len(u), estimate_process(parts)
    scatter = between_recordings(parts, process, n)
    A, meat, between = precision.reshape(n, n).copy(), precision.reshape(n, n).copy(), np.zeros((n, n))
    for part in parts:
        place, information = np.ix_(part.columns, part.columns), part.information
        A[place] += information
        meat[place] += part.noise(process)
        between[place] += information @ scatter[place] @ information
    unit = 1 / np.sqrt(np.clip(A.diagonal(), 1e-300, None))
    squares, axes = np.linalg.eigh(A * unit[:, None] * unit)
    known = squares > NULL * max(squares[-1], 1e-300)
    inverse = unit[:, None] * ((axes[:, known] / squares[known]) @ axes[:, known].T) * unit
    is_open = (axes[:, ~known] ** 2).sum(1) > OPEN
    within, random = inverse @ meat @ inverse, inverse @ between @ inverse
    ratio = (within + random).diagonal() / np.clip(random.diagonal(), 1e-300, None)
    degrees = np.minimum(max(1, len(parts) - 1) * np.minimum(ratio, 1e6) ** 2, 1e9)
    return Discrepancy(u, within + random, is_open, scatter, process, square, degrees, len(parts))


def mean_square(problem: Problem, u: Tensor) -> float:
    """Mean square of the whitened residuals of all recordings at u (unknowns,), those that are 0 left out."""
    r = problem.residuals(u[None])[0]
    return float(r.square().sum() / (r != 0).sum().clamp(min=1))


def recordings_of(problem: Problem, u: Tensor) -> list[Scores]:
    """Scores of each recording at u (unknowns,)."""
    if problem.problems == [problem]:
        return [scores(problem, u, np.arange(len(u)), np.ones(len(u), bool))]
    space = problem.space
    counts = torch.zeros(len(space))
    for columns in space.columns:  # pyright: ignore[reportAttributeAccessIssue] -- of a joint problem
        counts[columns] += 1
    return [
        scores(part, u[columns], columns.numpy(), (counts[columns] > 1).numpy())
        for part, columns in zip(problem.problems, space.columns, strict=True)  # pyright: ignore[reportAttributeAccessIssue]
    ]


def scores(problem: Problem, u: Tensor, columns: np.ndarray, shared: np.ndarray) -> Scores:
    """Scores of one recording at its unknowns u (n,)."""
    frames = range(problem.frames)
    parts = problem.linearizations(u[None], [problem.stretch(k, k + 1) for k in frames])
    A, g = torch.cat([part[1] for part in parts]), torch.cat([part[2] for part in parts])
    A[0] -= problem.prior_precision
    g[0] -= problem.prior_gradient(u[None])[0]
    squares, axes = torch.linalg.eigh((A + A.mT) / 2)
    positive = squares > NULL * squares.amax().clamp(min=1e-300)
    root = torch.where(positive, squares.clamp(min=0.0), 0.0).sqrt()
    inverse = torch.where(positive, 1 / root.clamp(min=1e-300), 0.0)
    y = -(axes * inverse[:, None]) @ (axes.mT @ g[..., None])
    seconds = np.array([problem.model.scene.timing.time(k) for k in frames])
    return Scores(seconds, ((axes * root[:, None]) @ axes.mT).numpy(), y[..., 0].numpy(), columns, shared)


def estimate_process(parts: Sequence[Scores]) -> Process:
    """Scale, correlation time and white variance of greatest restricted likelihood."""
    kalman = _Filter.of(parts)
    power = kalman.power
    length = max(float(np.ptp(part.times)) for part in parts)
    if not power > 0 or not length > 0:
        return Process(0.0, length, max(power, 0.0))
    low = np.log([1e-3 * power, SHORTEST * length / max(len(part.times) for part in parts), LEAST_WHITE * power])
    high = np.log([1e3 * power, LONGEST * length, 1e2 * power])

    def deviance(x: np.ndarray) -> float:
        inside = np.clip(x, low, high)
        return kalman.deviance(*np.exp(inside)) + float((x - inside) @ (x - inside))

    grid = [np.log([power, share * length, white * power]) for share in SHARES for white in WHITES]
    start = min(grid, key=deviance)
    simplex = np.concatenate([start[None], start + np.diag([0.5, 0.7, 0.7])])
    options = {"xatol": 0.02, "fatol": 0.02, "maxiter": 150, "initial_simplex": simplex}
    end = scipy.optimize.minimize(deviance, start, method="Nelder-Mead", options=options)
    variance, time, white = np.exp(np.clip(end.x, low, high)).tolist()
    return Process(math.sqrt(variance), time, white)


@dataclass(frozen=True, eq=False)
class _Filter:
    """Kalman filter of the channels of all recordings; shorter ones tell nothing at their end.

    Args:
        z: y and the columns of A^{1/2} that are identified (frames, recordings, channels, 1 + rank).
        steps: Times between frames (frames - 1, recordings) [s].
        informative: Which channels tell anything in a frame (frames, recordings, channels).
    """

    z: np.ndarray
    steps: np.ndarray
    informative: np.ndarray

    @classmethod
    def of(cls, parts: Sequence[Scores]) -> "_Filter":
        frames, channels = (max(p.y.shape[k] for p in parts) for k in (0, 1))
        z = np.zeros((frames, len(parts), channels, 1 + max(p.roots.shape[2] for p in parts)))
        steps, informative = np.ones((max(frames - 1, 0), len(parts))), np.zeros(z.shape[:3], bool)
        for k, part in enumerate(parts):
            t, n = part.y.shape
            A = part.information
            unit = 1 / np.sqrt(np.clip(A.diagonal(), 1e-300, None))
            squares, axes = np.linalg.eigh(A * unit[:, None] * unit)
            X = part.roots @ (unit[:, None] * axes[:, squares > NULL * max(squares[-1], 1e-300)])
            z[:t, k, :n, 0], z[:t, k, :n, 1 : 1 + X.shape[2]] = part.y, X
            sizes = np.linalg.norm(part.roots, axis=2)
            informative[:t, k, :n] = sizes > QUIET * np.clip(sizes.max(0), 1e-300, None)
            steps[: t - 1, k] = np.diff(part.times)
        return cls(z, steps, informative)

    @property
    def power(self) -> float:
        """Mean square of y."""
        return float((self.z[..., 0] ** 2)[self.informative].mean()) if self.informative.any() else 0.0

    def deviance(self, variance: float, time: float, white: float) -> float:
        """−2 × restricted log-likelihood, but for a constant."""
        decay = np.concatenate([np.zeros((1, self.z.shape[1])), np.exp(-self.steps / time)])[..., None]
        mean, spread = np.zeros(self.z.shape[1:]), np.full(self.z.shape[1:3], variance)
        whitened, logs = np.empty_like(self.z), 0.0
        for t, phi in enumerate(decay):
            mean, spread, use = phi[..., None] * mean, phi**2 * (spread - variance) + variance, self.informative[t]
            total = np.where(use, spread + white, np.inf)
            innovation = self.z[t] - mean
            whitened[t] = innovation / np.sqrt(total)[..., None]
            logs += float(np.log(total[use]).sum())
            gain = spread / total
            mean, spread = mean + gain[..., None] * innovation, (1 - gain) * spread
        value = logs
        for flat in whitened.swapaxes(0, 1).reshape(self.z.shape[1], -1, self.z.shape[3]):
            X = flat[:, 1:][:, np.abs(flat[:, 1:]).max(0) > 0]
            normal, right = X.T @ X, X.T @ flat[:, 0]
            value += float(
                flat[:, 0] @ flat[:, 0] - right @ np.linalg.solve(normal, right) + np.linalg.slogdet(normal)[1]
            )
        return value


def between_recordings(parts: Sequence[Scores], process: Process, n: int) -> np.ndarray:
    """T (n, n) of greatest restricted likelihood; 0 with one recording."""
    scatter = np.zeros((n, n))
    common = sorted({int(k) for part in parts for k in part.columns[part.shared]})
    if len(parts) < 2 or not common:
        return scatter
    profiles = [_profile(part, process, common) for part in parts]
    total = np.sum([A for A, _, _ in profiles], 0)
    unit = 1 / np.sqrt(np.clip(total.diagonal() / len(parts), 1e-300, None))  # one recording's bound, others known
    squares, axes = np.linalg.eigh(total * unit[:, None] * unit / len(parts))
    strong = axes[:, squares > WEAK]
    project = strong @ strong.T
    scaled = [(A * unit[:, None] * unit, M * unit[:, None] * unit, y * unit) for A, M, y in profiles]

    def deviance(sd: np.ndarray) -> float:
        normal, right, value = np.zeros((len(common),) * 2), np.zeros(len(common)), 0.0
        for A, M, y in scaled:
            W = M + A @ project @ np.diag(sd**2) @ project @ A
            squares, axes = np.linalg.eigh(W)
            good = squares > NULL * squares[-1]
            inverse = (axes[:, good] / squares[good]) @ axes[:, good].T
            normal, right = normal + A @ inverse @ A, right + A @ inverse @ y
            value += float(np.log(squares[good]).sum() + y @ inverse @ y)
        squares = np.linalg.eigvalsh(normal)
        good = squares[squares > NULL * squares[-1]]
        return value + float(np.log(good).sum() - right @ np.linalg.lstsq(normal, right, rcond=None)[0])

    noise = np.sqrt(np.mean([np.clip(M.diagonal(), 0, None) for _, M, _ in scaled], 0))
    ends = [
        scipy.optimize.minimize(
            deviance, share * noise, method="L-BFGS-B", bounds=[(0.0, LARGEST_SCATTER * x + 1e-300) for x in noise]
        )
        for share in (0.3, 2.0)
    ]
    best = min(ends, key=lambda end: end.fun).x
    scatter[np.ix_(common, common)] = project @ np.diag(best**2) @ project * unit[:, None] * unit
    return scatter


def _profile(part: Scores, process: Process, common: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, M and −g of the numbers that recordings share, with those of this recording at their best."""
    A, M, y = part.information, part.noise(process), part.score
    inside, outside = np.flatnonzero(part.shared), np.flatnonzero(~part.shared)
    L = np.zeros((len(inside), len(A)))
    L[np.arange(len(inside)), inside] = 1.0
    if len(outside):
        inner = np.linalg.pinv(A[np.ix_(outside, outside)], hermitian=True)
        L[:, outside] = -A[np.ix_(inside, outside)] @ inner
    place = np.searchsorted(common, part.columns[inside])
    full = np.zeros((len(common), len(common)))
    profile, noise, right = full.copy(), full.copy(), np.zeros(len(common))
    profile[np.ix_(place, place)] = L @ A @ L.T
    noise[np.ix_(place, place)] = L @ M @ L.T
    right[place] = L @ y
    return profile, noise, right


def is_of_coordinates(problem: Problem) -> bool:
    """True if every recording is observed by coordinates, of which bands are."""
    return all(isinstance(part.observation, Coordinates) for part in problem.problems)
