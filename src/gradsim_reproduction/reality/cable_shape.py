"""Natural shape of a cable, and roll of its grippers, by the balance of moments in recordings: least squares without a rollout.

Markers i with masses ρ_i and accelerations a_i, edges e_k from marker k to k + 1, both ends held:

    F_k = F_1 + Σ_{1 < i ≤ k} ρ_i (a_i - g),   M_{k+1} = M_k - e_k × F_k            forces in edges, moments at markers
    M_k = B κ_k + C κ̇_k - B (κ̄1_k d2 - κ̄2_k d1) + M_t t                           of a rod, κ = κ1 d2 - κ2 d1

F_1, M_1 and an even part of the twisting moment M_t are unknown in each frame and eliminated. What is left is linear in B, C and B κ̄, two natural
curvatures of each marker. The material frame (d1, d2) is that of `soft/rod.py`: its first axis is horizontal at the first edge when a
run begins, then turned by the roll of the run; held edges turn by the smallest angle, and the twist between them has the least energy (`twist_of`). Since it
depends on the natural shape, both are computed alternately. Rolls are not recorded. Those of fitted runs minimize the same sum of squares; that of another run comes from its first two
frames (`Shape.roll_of`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.optimize

from gradsim_reproduction.reality.cable_recordings import ENDS, FPS, GRAVITY, Recording

WINDOW, ORDER = 13, 3  # of the smoothing filter in time [frames]
EVERY = 3  # frames between two balances
CALM = 20.0  # [m/s²]; frames with larger accelerations count less
CIRCLE = np.linspace(-np.pi, np.pi, 145)[:-1]  # rolls that are compared [rad]
STARTS, ROUNDS = 6, 60
MOMENT_NOISE = 0.03  # of a balance over mass per length [m³/s²], of training runs
ACCELERATIONS = (5.0, 4.0, 3.0)  # [m/s²] of a half wave, a whole one, ... that two frames do not show
RATIO = 2 / 3  # twisting over bending stiffness, of a round rod that keeps its volume
TURNS, TWISTS = 3, 30  # rounds of the twist, steps of its method
LOWEST_STIFFNESS = 1e-3  # [m⁴/s²]
NUISANCE = 1e3  # standard deviation of an unknown force or moment, over that of the others: as good as free


@dataclass(frozen=True, eq=False)
class Twist:
    """Twist of a cable in some frames.

    Args:
        angles: Turns of the axes of each edge (frames, edges) [rad], less those of an even twist.
        moments: Twisting moments over mass per length at the inner markers (frames, n - 2), but for one that is even.
    """

    angles: np.ndarray
    moments: np.ndarray


@dataclass(frozen=True, eq=False)
class Balance:
    """Balance of moments in some frames: Y = X b + Z w, with w of each frame alone.

    Args:
        known: Y (frames, rows): moments by inertia and weight.
        slopes: X (frames, rows, 2 + 2 markers): by B, C, B κ̄1 and B κ̄2.
        free: Z (frames, rows, 7): by F_1, M_1 and M_t.
        waves: Moments by accelerations of half waves (frames, rows, 3 waves) along x, y, z.
    """

    known: np.ndarray
    slopes: np.ndarray
    free: np.ndarray
    waves: np.ndarray


@dataclass(frozen=True, eq=False)
class Shape:
    """Natural shape of a cable.

    Args:
        stiffness: Bending stiffness over mass per length [m⁴/s²].
        time: Retardation time [s].
        curvature: Natural curvatures κ̄1 and κ̄2 of the markers between the ends (2, n - 2) [1/m], at the roll 0.
        rolls: Rolls of the fitted runs [rad].
        unexplained: Share of the squares of moments that is left.
    """

    stiffness: float
    time: float
    curvature: np.ndarray
    rolls: np.ndarray
    unexplained: float

    def roll_of(self, recording: Recording) -> tuple[float, float]:
        """Roll of a run by its first two frames and the ends [rad], and its standard deviation.

        The accelerations of these frames are those of the ends, linear between them, and waves that vanish at the ends.

        Args:
            recording: The run.
        """
        x = recording.x
        ends = _smooth(x[:, recording.held], 2)[: WINDOW // 2].mean(0)
        s = _along(x[0])
        a = np.stack([np.interp(s, s[recording.held], ends[:, k]) for k in range(3)], 1)
        cost = np.array([self._cost(roll, x[:2], a) for roll in CIRCLE])
        weight = np.exp(cost.min() - cost)
        mean = (weight * np.exp(1j * CIRCLE)).sum() / weight.sum()
        return float(np.angle(mean)), float(np.sqrt(-2 * np.log(min(abs(mean), 1.0))))

    def _cost(self, roll: float, x: np.ndarray, a: np.ndarray) -> float:
        """Minus the logarithm of the likelihood of a roll, by two frames (2, n, 3) and the accelerations (n, 3) of the first."""
        natural = turned(self.curvature, roll)
        twist = twist_of(_curvatures(x)[3], natural, _both(x), self.stiffness)
        rates = np.diff(_curvatures(x, twist)[3], axis=0) * FPS
        balance = balance_of(x[:1], rates, a[None], Twist(twist.angles[:1], twist.moments[:1]))
        waves = balance.waves[0] * np.repeat(ACCELERATIONS, 3)
        rows, free = len(waves), balance.free[0]
        covariance = MOMENT_NOISE**2 * np.eye(rows) + waves @ waves.T + NUISANCE * free @ free.T
        b = self.stiffness * np.concatenate([[1.0, self.time], natural.ravel()])
        residual = balance.known[0] - balance.slopes[0] @ b
        return float(0.5 * residual @ np.linalg.solve(covariance, residual))


def turned(curvature, roll):
    """Curvatures (2, n) of a section that is turned by `roll`."""
    first, second = curvature
    c, s = np.cos(roll), np.sin(roll)
    return np.stack([c * first - s * second, s * first + c * second])


def natural_shape(recordings: Sequence[Recording]) -> Shape:
    """Natural shape of a cable from some of its runs, and their rolls.

    Args:
        recordings: The runs.
    """
    runs = [_Moments(recording) for recording in recordings]
    rng = np.random.default_rng(0)
    starts = [np.zeros(len(runs)), *rng.uniform(-np.pi, np.pi, (STARTS - 1, len(runs)))]
    b, rolls, unexplained = _rolls([run.sums for run in runs], starts)
    for _ in range(TURNS):
        stiffness = max(b[0], LOWEST_STIFFNESS)
        for run, roll in zip(runs, rolls, strict=True):
            run.turn(turned(b[2:].reshape(2, -1) / stiffness, roll), stiffness)
        b, rolls, unexplained = _rolls([run.sums for run in runs], [rolls])
    stiffness = max(b[0], LOWEST_STIFFNESS)  # runs that are short or still may not show one
    return Shape(stiffness, b[1] / stiffness, b[2:].reshape(2, -1) / stiffness, rolls, unexplained)


def _rolls(
    sums: list[tuple[np.ndarray, np.ndarray, float]], starts: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, float]:
    """Coefficients and rolls that explain moments best, and the share of squares that is left."""
    markers = (len(sums[0][1]) - 2) // 2
    square = sum(y for *_, y in sums)

    def solve(rolls: np.ndarray) -> tuple[np.ndarray, float]:
        turns = [_turn(roll, markers) for roll in rolls]
        A = sum(R.T @ P @ R for R, (P, _, _) in zip(turns, sums, strict=True))
        g = sum(R.T @ p for R, (_, p, _) in zip(turns, sums, strict=True))
        b = np.linalg.lstsq(A, g, rcond=1e-12)[0]
        return b, float(1 - b @ g / square)

    def improve(rolls: np.ndarray) -> np.ndarray:
        for _ in range(ROUNDS):
            b, before = solve(rolls)
            turned = [_turn(roll, markers) @ b for roll in CIRCLE]
            rolls = CIRCLE[np.argmin([[y @ (P @ y - 2 * p) for y in turned] for P, p, _ in sums], 1)]
            if before - solve(rolls)[1] < 1e-6:
                break
        return rolls

    rolls = min((improve(start) for start in starts), key=lambda rolls: solve(rolls)[1])
    rolls = scipy.optimize.minimize(lambda rolls: solve(rolls)[1], rolls, method="BFGS", options={"maxiter": 30}).x
    return solve(rolls)[0], rolls, solve(rolls)[1]


def balance_of(x: np.ndarray, rates: np.ndarray, a: np.ndarray, twist: Twist | None = None) -> Balance:
    """Balance of moments of markers in some frames, one after another.

    Args:
        x: Positions (frames, n, 3) [m].
        rates: Rates of κ1 and κ2 of the inner markers (frames, 2, n - 2) [1/(m s)].
        a: Accelerations (frames, n, 3) [m/s²].
        twist: By default even.
    """
    frames, n = x.shape[:2]
    e = np.diff(x, axis=1)
    t, mass = _unit(e), np.convolve(np.linalg.norm(e, axis=2).mean(0), [0.5, 0.5])
    kappa, d1, d2, _ = _curvatures(x, twist)
    rate = rates[:, 0, :, None] * d2 - rates[:, 1, :, None] * d1
    inner = slice(1, n - 1)
    moment = lambda q: _moments(e, mass[:, None] * q)[:, inner].reshape(frames, -1)
    natural = np.zeros((frames, n - 2, 3, 2, n - 2))
    k = np.arange(n - 2)
    natural[:, k, :, 0, k], natural[:, k, :, 1, k] = -d2.transpose(1, 0, 2), d1.transpose(1, 0, 2)
    slopes = np.concatenate([kappa[..., None], rate[..., None], natural.reshape(frames, n - 2, 3, -1)], 3)
    arm = x[:, inner] - x[:, 1:2]
    force = -np.cross(arm[..., None, :], np.eye(3)).swapaxes(2, 3)
    tangent = _unit(t[:, 1:] + t[:, :-1])
    free = np.concatenate([np.broadcast_to(np.eye(3), force.shape), force, -tangent[..., None]], 3)
    s = _along(x[0])
    waves = [
        moment(np.broadcast_to(np.sin(k * np.pi * s)[:, None] * axis, x.shape))
        for k in range(1, len(ACCELERATIONS) + 1)
        for axis in np.eye(3)
    ]
    rows = (frames, 3 * (n - 2), -1)
    known = moment(a - np.array(GRAVITY))
    if twist is not None:
        known = known - (twist.moments[..., None] * tangent).reshape(frames, -1)
    return Balance(known, slopes.reshape(rows), free.reshape(rows), np.stack(waves, 2))


class _Moments:
    """Balances of the frames of a run, smooth in time.

    Args:
        recording: The run.
    """

    def __init__(self, recording: Recording):
        self.x, self.a = (_smooth(recording.x, k) for k in (0, 2))
        self.calm = slice(WINDOW // 2, len(self.x) - WINDOW // 2, EVERY)  # derivatives at the ends are bad
        self.weight = 1 / (1 + (np.linalg.norm(self.a[self.calm], axis=2).max(1) / CALM) ** 2)
        self.twist: Twist | None = None
        self.update()

    def update(self) -> None:
        """XᵀX, XᵀY and YᵀY, without the unknowns of each frame, with the twist as it is."""
        rates = _smooth(_curvatures(self.x, self.twist)[3], 1)
        balance = balance_of(self.x, rates, self.a, self.twist)
        Q = np.linalg.qr(balance.free[self.calm])[0]
        without = lambda y: y - Q @ (Q.swapaxes(1, 2) @ y)
        X, Y = without(balance.slopes[self.calm]), without(balance.known[self.calm, :, None])
        total = lambda y, z: np.einsum("t,tri,trj->ij", self.weight, y, z)
        self.sums = total(X, X), total(X, Y)[:, 0], float(total(Y, Y)[0, 0])

    def turn(self, curvature: np.ndarray, stiffness: float) -> None:
        """Twist the edges as natural curvatures (2, n - 2) do."""
        self.twist = twist_of(_curvatures(self.x)[3], curvature, _both(self.x), stiffness)
        self.update()


def _smooth(y: np.ndarray, order: int) -> np.ndarray:
    """Derivative of an order in time of smooth samples (frames, ...)."""
    from scipy.signal import savgol_filter  # half a second of imports

    return np.asarray(savgol_filter(y, WINDOW, ORDER, deriv=order, delta=1 / FPS, axis=0))


def twist_of(strains: np.ndarray, natural: np.ndarray, both: np.ndarray, stiffness: float) -> Twist:
    """Twist that minimizes the energy of bending and twist.

        Σ l (½ |κ(θ) - κ̄|² + ½ r (θ_k - θ_{k-1})²/l²)        with θ = 0 at both ends, by Newton's method with the convex part

    Args:
        strains: κ1 and κ2 of inner markers with an even twist (frames, 2, n - 2) [1/m].
        natural: κ̄1 and κ̄2 (2, n - 2) [1/m].
        both: Mean length of the edges at inner markers, l (n - 2,) [m].
        stiffness: Bending stiffness over mass per length, B [m⁴/s²]; r is `RATIO`.
    """
    markers = len(both)
    along = (strains * natural).sum(1)
    across = strains[:, 0] * natural[1] - strains[:, 1] * natural[0]
    mean = 0.5 * (np.eye(markers, markers + 1) + np.eye(markers, markers + 1, 1))[:, 1:-1]
    step = (np.eye(markers, markers + 1, 1) - np.eye(markers, markers + 1))[:, 1:-1]
    spring = RATIO * step.T @ (step / both[:, None])
    theta = np.zeros((len(strains), markers - 1))
    for _ in range(TWISTS):
        s, c = np.sin(theta @ mean.T), np.cos(theta @ mean.T)
        slope = (both * (s * along + c * across)) @ mean + theta @ spring
        curved = np.clip(both * (c * along - s * across), 0.0, None)
        theta = (
            theta - np.linalg.solve(np.einsum("ki,tk,kj->tij", mean, curved, mean) + spring, slope[..., None])[..., 0]
        )
    s, c = np.sin(theta @ mean.T), np.cos(theta @ mean.T)
    moments = stiffness * np.cumsum(both * (s * along + c * across), 1)
    return Twist(np.pad(theta, ((0, 0), (1, 1))), moments)


def _turn(roll: float, markers: int) -> np.ndarray:
    """Matrix by which coefficients (2 + 2 markers) turn with the section."""
    c, s = np.cos(roll), np.sin(roll)
    R = np.eye(2 + 2 * markers)
    R[2:, 2:] = np.kron([[c, -s], [s, c]], np.eye(markers))
    return R


def _moments(e: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Moments at markers (frames, n, 3) by forces q on those between the ends."""
    q = q.copy()
    q[:, :ENDS] = 0.0
    forces = np.cumsum(q, 1)[:, 1:-2]
    moments = np.zeros_like(q)
    moments[:, 2:-1] = -np.cumsum(np.cross(e[:, 1:-1], forces), 1)
    return moments


def directors(t: np.ndarray, both: np.ndarray, bent: np.ndarray | float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """First and second axis of the section of each edge (frames, edges, 3), at the roll 0."""
    first = _carried_in_time(_unit(np.cross(t[0, 0], [0.0, 0.0, 1.0])), t[:, 0])
    rows = [first]
    for before, after in pairwise(t.swapaxes(0, 1)):
        rows.append(_unit(_carried(before, after, rows[-1])))
    last = _carried_in_time(rows[-1][0], t[:, -1])
    turn = np.arctan2(_dot(np.cross(rows[-1], last), t[:, -1]), _dot(rows[-1], last))[:, 0]
    angle = np.unwrap(np.concatenate([[0.0], turn]))[1:]  # a twist of more than half a turn goes on
    share = np.concatenate([[0.0], np.cumsum(both)]) / both.sum()
    twist = (angle[:, None] * share + np.broadcast_to(bent, t.shape[:2]))[..., None]
    row = np.stack(rows, 1)
    first = np.cos(twist) * row + np.sin(twist) * np.cross(t, row)
    return first, np.cross(t, first)


def _carried_in_time(d: np.ndarray, t: np.ndarray) -> np.ndarray:
    """d at all times (frames, 3), turned with the tangents (frames, 3) of an edge from time to time."""
    axes = [d]
    for before, after in pairwise(t):
        axes.append(_unit(_carried(before, after, axes[-1])))
    return np.array(axes)


def _curvatures(x: np.ndarray, twist: Twist | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Curvature κ of inner markers [1/m], d1 and d2 of these (frames, n - 2, 3), and κ1 and κ2 (frames, 2, n - 2)."""
    e = np.diff(x, axis=1)
    t, both = _unit(e), _both(x)
    chi = 1 + (t[:, :-1] * t[:, 1:]).sum(2, keepdims=True)
    kappa = 2 * np.cross(t[:, :-1], t[:, 1:]) / chi / both[:, None]
    first, second = directors(t, both, 0.0 if twist is None else twist.angles)
    components = [0.5 * (kappa * (d[:, 1:] + d[:, :-1])).sum(2) for d in (second, -first)]
    d1, d2 = (_unit(d[:, 1:] + d[:, :-1]) for d in (first, second))
    return kappa, d1, d2, np.stack(components, 1)


def _both(x: np.ndarray) -> np.ndarray:
    """Mean length of the edges at each inner marker (n - 2,) [m]."""
    lengths = np.linalg.norm(np.diff(x, axis=1), axis=2).mean(0)
    return (lengths[1:] + lengths[:-1]) / 2


def _along(x: np.ndarray) -> np.ndarray:
    """Share of the length of each marker (n,)."""
    s = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(x, axis=0), axis=1))])
    return s / s[-1]


def _carried(before: np.ndarray, after: np.ndarray, d: np.ndarray) -> np.ndarray:
    """d (..., 3), turned by the smallest rotation from one tangent to another."""
    return d - _dot(d, after) / (1 + _dot(before, after)) * (before + after)


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Inner products (..., 1) of vectors (..., 3)."""
    return (a * b).sum(-1, keepdims=True)


def _unit(y: np.ndarray) -> np.ndarray:
    return y / np.linalg.norm(y, axis=-1, keepdims=True)
