"""Motion capture of a clamped silicone beam: marker tracks, when the beam is let go, and what a swing shows.

The beam (Dragon Skin 10, 3 × 3 × 10 cm) is held level by its tip and let go, under its own weight and with 52 g on the
upper edge of its tip; six markers at 100 Hz (Dubied, Michelis, Spielberg & Katzschmann, RA-L 2022). The data are no part
of gradsim; see `cube_recordings.recordings`. Up is +x, the beam runs along +z from the clamp; markers 0 to 2 are balls 6 mm above
the skin at the tip (on top, and on both sides), 3 to 5 sit on the clamp.

Positions of the tip are **in the frame of the clamp's markers**, as a rigid body. Its turn hangs on marker 4 alone,
since 3 and 5 are on one horizontal line. But the position of one marker sometimes steps within one frame while the
others and the tip move on smoothly (the cameras that see it change): in all files at frames 3, 7 and 13, and in
`load52_a` by 0.6 mm just after the release. A clamp that turned so would throw the tip by 2 mm, which no track shows.
Hence a marker is not believed before its last such step (`first_trusted_frames`); with fewer than three the clamp is taken to be
turned as at the end. `believe_all` shows what that is worth.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from gradsim.errors import InputError
from gradsim_reproduction.real.cube_recordings import recordings

FPS = 100.0  # [Hz]
NAMES = ("gravity_a", "gravity_b", "load52_a")
LOAD = {"gravity_a": 0.0, "gravity_b": 0.0, "load52_a": 0.052}  # [kg]
STEP = 2e-4  # [m] in one frame: more than the clamp moves, less than the steps
LEFT = 3e-4  # [m] off the level pose: let go
REST = 50  # frames at the end of a file, at rest
MARGIN = 4  # frames before the release that are left out of the level pose


@dataclass(frozen=True)
class Swing:
    """Damped oscillation y = A e^(−d t) cos(2π f t + φ) + c + D e^(−r t) of the tip's height, from its first trough.

    Args:
        frequency: f [Hz].
        decay: d [1/s].
        creep: D, how far above its last place at rest the beam is at first, about which it swings [m].
        creep_rate: r [1/s].
        rms: Root mean square of the residual [m].
    """

    frequency: float
    decay: float
    creep: float
    creep_rate: float
    rms: float


@dataclass(frozen=True, eq=False)
class Recording:
    """One file.

    Args:
        name: Name of the file.
        markers: Positions (frames, 6, 3) [m].
        level: Mean positions of the tip's markers in the clamp's frame, held level (3, 3) [m].
        tip: Positions of the tip's markers in the clamp's frame (frames, 3, 3) [m].
        release: First frame that is off the level pose.
        turn: Turn of the clamp from level pose to rest [rad].
    """

    name: str
    markers: np.ndarray
    level: np.ndarray
    tip: np.ndarray
    release: int
    turn: float

    @property
    def height(self) -> np.ndarray:
        """Mean height of the tip's markers over the level pose (frames,) [m]."""
        return (self.tip - self.level)[..., 0].mean(1)

    @property
    def sag(self) -> float:
        """From the level pose to rest at the end, mean of the three markers [m]."""
        return -float(self.height[-REST:].mean())

    @property
    def noise(self) -> float:
        """Standard deviation of a coordinate at rest [m]."""
        return float(self.tip[-REST:].std(0).mean())

    def swing(self) -> Swing:
        """From the first trough on, for 2.5 s."""
        return swing(self.height[self.release :], FPS)


def load(name: str, believe_all: bool = False, level_from: int | None = None) -> Recording:
    """Read a recording.

    Args:
        name: One of `NAMES`.
        believe_all: Whether steps of single markers count as motion of the clamp.
        level_from: First frame of the level pose; None starts after the steps of the first frames. With a number, only
            that frame.

    Raises:
        InputError: If the file is missing or no table of six markers at 100 Hz.
    """
    path = recordings() / "silicone_beam" / f"{name}.csv"
    markers = _read(path)
    tip = markers[:, :3, 0].mean(1)
    release = int((abs(tip - np.median(tip[14:30])) > LEFT).argmax())
    last_step = _last_step(markers[: release - MARGIN, 3:])
    first = last_step if level_from is None else level_from
    last = release - MARGIN if level_from is None else level_from + 1
    trusted = np.zeros(3, int) if believe_all else first_trusted_frames(markers)
    end = markers[-REST:].mean(0)
    tip_track = np.stack([_into_clamp(frame, end, k >= trusted) for k, frame in enumerate(markers)])
    mean_pose = markers[first:last].mean(0)
    level = _into_clamp(mean_pose, end, trusted <= first)
    turn = _turn(mean_pose[3:], end[3:], trusted <= first)
    return Recording(name, markers, level, tip_track, release, float(np.linalg.norm(turn)))


def _read(path: Path) -> np.ndarray:
    if not path.is_file():
        raise InputError(f"{path} does not exist; set GRADSIM_REAL_DATA to the folder that holds silicone_beam/.")
    try:
        rows = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    except ValueError as error:
        raise InputError(f"{path} is not a table of numbers: {error}") from None
    if rows.shape[1] != 19 or len(rows) < 4 * REST or not np.isfinite(rows).all():
        raise InputError(f"{path} has shape {rows.shape}; a recording has time and x y z of six markers in each row.")
    if not np.allclose(np.diff(rows[:, 0]), 1 / FPS, rtol=1e-3):
        raise InputError(f"{path} is not sampled at {FPS:g} Hz.")
    return rows[:, 1:].reshape(-1, 6, 3)


def first_trusted_frames(markers: np.ndarray) -> np.ndarray:
    """First frame from which each marker of the clamp (3,) is believed: the one after its last step."""
    return np.array([_last_step(markers[:, [k]]) for k in (3, 4, 5)])


def _last_step(markers: np.ndarray) -> int:
    """The frame after the last in which one of the markers (frames, k, 3) steps; 0 if none does."""
    steps = np.linalg.norm(np.diff(markers, axis=0), axis=-1).max(1) > STEP
    return int(np.flatnonzero(steps)[-1]) + 1 if steps.any() else 0


def _into_clamp(frame: np.ndarray, end: np.ndarray, trusted: np.ndarray) -> np.ndarray:
    """The tip's markers of a frame (6, 3) where they would be with the clamp at its place at the end (3, 3)."""
    R = _rotation(_turn(frame[3:], end[3:], trusted))
    end_centre, centre = end[3:][trusted].mean(0), frame[3:][trusted].mean(0)
    return (frame[:3] - centre) @ R.T + end_centre


def _turn(markers: np.ndarray, end: np.ndarray, trusted: np.ndarray) -> np.ndarray:
    """Rotation vector that turns the clamp's markers (3, 3) to those of the end, for small turns; 0 if fewer than 3."""
    if not trusted.all():
        return np.zeros(3)
    a, b = markers - markers.mean(0), end - end.mean(0)
    rows = np.concatenate([[[0, r[2], -r[1]], [-r[2], 0, r[0]], [r[1], -r[0], 0]] for r in a])
    return np.linalg.lstsq(rows, (b - a).ravel(), rcond=None)[0]


def _rotation(turn: np.ndarray) -> np.ndarray:
    x, y, z = turn
    small = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + small + small @ small / 2


def swing(height: np.ndarray, fps: float, seconds: float = 2.5, rest: float | None = None) -> Swing:
    """The damped oscillation and creep in heights (frames,) from the release on; it is fitted from the first trough.

    Args:
        height: Height of the tip [m].
        fps: Frames per second.
        seconds: That count.
        rest: Height at rest; that of the last frames if None.
    """
    rest = height[-REST:].mean() if rest is None else rest
    first = int(height[: int(0.3 * fps)].argmin())
    y = height[first : first + int(seconds * fps)] - rest
    t = np.arange(len(y)) / fps
    peaks = np.abs(np.fft.rfft(y, 8192))
    start = np.fft.rfftfreq(8192, 1 / fps)[peaks[50:].argmax() + 50]  # above 0.6 Hz: not the creep

    def left(p):
        wave = p[0] * np.exp(-p[1] * t) * np.cos(2 * np.pi * p[2] * t + p[3])
        return wave + p[4] + p[5] * np.exp(-np.abs(p[6]) * t) - y

    solution = least_squares(left, [y[0], 2.0, start, 0.0, 0.0, -0.1 * y[0], 2.0], x_scale="jac")
    p = solution.x
    return Swing(*(float(y) for y in (abs(p[2]), p[1], p[5], abs(p[6]), np.sqrt(2 * solution.cost / len(t)))))
