"""Young's modulus and damping of the beam from the tracks of its markers, by least squares on its simulated swing.

E and η come with two nuisance parameters per recording: when the hand lets go, and at what height, which the first
trough shows, where the hand has left (with the load it follows the beam for a part of the way, so that neither is known
before). The tracks count from the first trough on, as displacements from the level pose: they show sag, frequency and
decay. Starts are drawn over wide ranges; windows grow, since a swing whose frequency is far off shows no slope of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.interpolate import CubicSpline
from scipy.optimize import least_squares

from gradsim_reproduction.real import beam_recordings as recorded
from gradsim_reproduction.real.beam_model import FPS, Beam
from gradsim_reproduction.real.beam_recordings import Recording, Swing

RANGES = {"young": (1e5, 1e6), "damping": (10.0, 1000.0)}  # [Pa], [Pa s]
EARLY, HIGH = 0.04, 0.008  # bounds of the release's time about the first frame off the pose [s], and of its height [m]
WINDOWS = (0.35, 0.7, 1.3)  # of the fit, from the first trough on [s]
SCALES = np.array([1.0, 1.0, 0.005, 0.002])  # of log E, log η, time and height
STEPS = np.array([1e-4, 1e-3, 0.0, 1e-5])  # of difference quotients
UP_AND_ALONG = [0, 2]


@dataclass(frozen=True, eq=False)
class BeamEstimate:
    """Result of a fit.

    Args:
        young: E [Pa].
        damping: η [Pa s].
        time: Time of the release after the first frame off the level pose [s].
        height: At which it was let go, over the level pose [m].
        cost: Mean square of what is left [m²].
    """

    young: float
    damping: float
    time: float
    height: float
    cost: float

    @property
    def u(self) -> np.ndarray:
        return np.array([np.log(self.young), np.log(self.damping), self.time, self.height])


@dataclass(eq=False)
class Tracks:
    """Residuals of one recording and their slopes by (log E, log η, time, height).

    Args:
        beam: Mesh.
        recording: Measured recording.
        seconds: From the first trough on.
        markers: Which of the tip's markers count.
    """

    beam: Beam
    recording: Recording
    seconds: float
    markers: Sequence[int] = (0, 1, 2)

    def __post_init__(self):
        r = self.recording
        trough = r.release + int(r.height[r.release : r.release + 30].argmin())
        frames = np.arange(trough, min(trough + round(self.seconds * recorded.FPS), len(r.tip)))
        self.times = (frames - r.release) / recorded.FPS
        self.seen = (r.tip - r.level)[frames][:, list(self.markers)][..., UP_AND_ALONG]

    def simulate(self, u: np.ndarray, seconds: float | None = None) -> CubicSpline:
        """Displacements (worlds, 3, 3) from the level pose by time after the release, for each u (worlds, 4)."""
        load = recorded.LOAD[self.recording.name]
        young, damping, height = np.exp(u[:, 0]), np.exp(u[:, 1]), u[:, 3]
        level = self.beam.at_rest(young[0], load, 0.0)
        poses, near = {}, level
        for key in zip(young, height, strict=True):
            near = poses[key] = poses[key] if key in poses else self.beam.at_rest(key[0], load, key[1], near)
        start = torch.stack([poses[key] for key in zip(young, height, strict=True)])
        seconds = float(self.times[-1]) + EARLY if seconds is None else seconds
        tracks = self.beam.swings(young.tolist(), damping.tolist(), [load] * len(u), start, seconds)
        return CubicSpline(
            np.arange(tracks.shape[1]) / FPS, (tracks - self.beam.markers @ level).transpose(0, 1).numpy()
        )

    def linearize(self, u: np.ndarray, free: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Residuals [m], and their slopes by the free ones of the four."""
        probed = [k for k in free if STEPS[k]]
        ways = np.stack([u, *(u + STEPS * (np.arange(4) == k) for k in probed)])
        swing = self.simulate(ways)
        at, rate = (swing(self.times - u[2], order)[..., list(self.markers), :][..., UP_AND_ALONG] for order in (0, 1))
        slopes = {k: (at[:, 1 + j] - at[:, 0]) / STEPS[k] for j, k in enumerate(probed)} | {2: -rate[:, 0]}
        return (at[:, 0] - self.seen).ravel(), np.stack([slopes[k].ravel() for k in free], 1)

    def fit(self, u: np.ndarray, free: Sequence[int] = (0, 1, 2, 3), evaluations: int = 12) -> BeamEstimate:
        """From u on, with the others held."""
        free, last = list(free), {}

        def at(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            key = part.tobytes()
            if key not in last:
                last.clear()
                full = u.copy()
                full[free] = part
                last[key] = self.linearize(full, free)
            return last[key]

        low, high = np.log(np.array(list(RANGES.values()))).T
        bounds = [np.array([*low, -EARLY, -HIGH])[free], np.array([*high, EARLY, HIGH])[free]]
        solution = least_squares(
            lambda p: at(p)[0],
            u[free],
            lambda p: at(p)[1],  # pyright: ignore[reportArgumentType] -- a function is fine
            bounds,
            x_scale=SCALES[free],
            xtol=1e-5,
            ftol=1e-6,
            max_nfev=evaluations,
        )
        full = u.copy()
        full[free] = solution.x
        left = np.mean(solution.fun**2)
        young, damping = np.exp(full[:2])
        return BeamEstimate(float(young), float(damping), float(full[2]), float(full[3]), float(left))

    def swing(self, answer: BeamEstimate, seconds: float = 3.0) -> tuple[np.ndarray, Swing]:
        """Mean height of the markers over the level pose at `FPS` (frames,) [m], and what it shows."""
        track = self.simulate(answer.u[None], seconds)
        times = np.arange(round(seconds * FPS)) / FPS
        height = track(times)[:, 0, :, 0].mean(1)
        sag = self.beam.sag(answer.young, recorded.LOAD[self.recording.name])
        return height, recorded.swing(height, FPS, rest=-sag)


def draw_starts(count: int, rng: np.random.Generator) -> np.ndarray:
    """Starts (count, 4): E and η log-uniform over `RANGES`, the release where the record has it."""
    low, high = np.log(np.array(list(RANGES.values()))).T
    return np.concatenate([rng.uniform(low, high, (count, 2)), np.zeros((count, 2))], 1)


def start_on_finer_mesh(u: np.ndarray, coarse: Beam, fine: Beam, load: float) -> np.ndarray:
    """The start on a finer mesh that swings as fast as the answer on a coarse one."""
    young = float(np.exp(u[0]))
    ratio = coarse.frequency(young, load) / fine.frequency(young, load)
    return u + np.array([2 * np.log(ratio), 0, 0, 0])
