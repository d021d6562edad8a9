"""A cable as a rod of a scene: three numbers for all runs by least squares, with forward sensitivities, and a natural shape.

Only ratios to mass show, so the density is 1 kg/m, and the numbers are bending and twisting stiffness over density [m⁴/s²] and
the retardation time of bending [s]. The natural shape is that of `cable_shape.py`, turned by the roll of the run, linear
between markers. Lengths are those of the first frame, velocities at the start are the difference of the first two.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from scipy.interpolate import CubicSpline
from torch import Tensor

from gradsim.physics.model import Model
from gradsim.scene import Scene
from gradsim_reproduction.reality.cable_recordings import ENDS, FPS, GIVEN, Recording
from gradsim_reproduction.reality.cable_shape import Shape, natural_shape, turned

NUMBERS = ("bending", "twisting", "bending_time")  # fitted by their logarithms
UNITS = ("m^4/s^2", "m^4/s^2", "s")
TWISTING = 0.3  # of the bending stiffness, at the start of a fit; of a round rod of rubber 2/3
CURVATURES = ("curvature1", "curvature2")
STRETCHING = 1e4  # E A over density [m²/s²]: 1 m of cable is 1 mm longer under its own weight
PARTS = 2  # edges between two markers
SUBSTEPS, MAX_SUBSTEPS = 2, 16
LOWEST_STIFFNESS, SHORTEST_TIME = 1e-3, 1e-2  # [m⁴/s²], [s] at the start of a fit
OUTLIER = 0.03  # [m] scale of the Cauchy loss
FAR = 1.0  # [m] in place of a state that is not finite


def subdivide(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vertices of the rod (m, 3) on a cubic spline through markers (n, 3), and the vertex of each marker (n,)."""
    s = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(x, axis=0), axis=1))])
    counts = np.array([1, *[PARTS] * (len(s) - 3), 1])
    at = np.concatenate([s[k] + (s[k + 1] - s[k]) * np.arange(c) / c for k, c in enumerate(counts)] + [s[-1:]])
    return CubicSpline(s, x)(at), np.concatenate([[0], np.cumsum(counts)])


@dataclass(frozen=True, eq=False)
class CableRun:
    """The rod of one recording.

    Args:
        recording: The recording.
        frames: Number of frames that are predicted, from the first.
        curvature: Natural curvatures of the markers between the ends (2, n - 2) [1/m], at the roll 0.
        roll: Turn of the section at the first edge when the run begins [rad].
        substeps: Steps of a frame.
    """

    recording: Recording
    frames: int
    curvature: np.ndarray
    roll: float
    substeps: int = SUBSTEPS

    @cached_property
    def markers(self) -> np.ndarray:
        """Vertex of each marker."""
        return subdivide(self.recording.x[0])[1]

    @cached_property
    def model(self) -> Model:
        """The scene of the run: the given vertices follow the recording."""
        x = self.recording.x[: self.frames]
        points, markers = subdivide(x[0])
        motion = {
            "vertices": markers[self.recording.held].tolist(),
            "times": (np.arange(len(x)) / FPS).tolist(),
            "positions": x[:, self.recording.held].tolist(),
        }
        rod = {"kind": "rod", "shape": {"points": points.tolist()}, "motion": motion, "density": 1.0, "radius": 0.005}
        rod |= {"stretching": STRETCHING, **dict.fromkeys(NUMBERS, 0.1)}  # of which `values` has those that count
        timing = {"fps": FPS, "frames": self.frames, "substeps": self.substeps}
        return Model(Scene.parse({"bodies": {"cable": rod}, "timing": timing}))

    @cached_property
    def _start(self) -> Tensor:
        """Velocities of all vertices at the start (1, points, 3) [m/s]."""
        before, after = (subdivide(self.recording.x[k])[0] for k in (0, 1))
        v = (after - before) * FPS
        return torch.tensor(np.concatenate([v, (v[1:] + v[:-1]) / 2]))[None]

    @cached_property
    def _between(self) -> Tensor:
        """Weights (inner vertices, n - 2) of the markers between the ends in the natural shape: linear between them."""
        inner = np.arange(1, self.markers[-1])
        return torch.tensor(
            np.stack([np.interp(inner, self.markers[1:-1], row) for row in np.eye(len(self.markers) - 2)], 1)
        )

    @cached_property
    def natural(self) -> dict[str, Tensor]:
        """Natural curvatures of the inner vertices (1, vertices) [1/m], and their derivatives by the roll."""
        both = {}
        for key, angle in (("", self.roll), ("_by_roll", self.roll + np.pi / 2)):
            rows = torch.tensor(turned(self.curvature, angle)) @ self._between.T
            both |= {f"curvature{k + 1}{key}": row[None] for k, row in enumerate(rows)}
        return both

    def values(self, u: Tensor) -> tuple[dict[str, Tensor], list[dict[str, Tensor]]]:
        """Parameters (1, ...) at the fitted coordinates (numbers,), and their derivative by each of these and by the roll."""
        numbers = u.exp()
        values = {f"cable.{key}": numbers[k : k + 1] for k, key in enumerate(NUMBERS)}
        along = [{f"cable.{key}": numbers[k : k + 1]} for k, key in enumerate(NUMBERS)]
        along.append({f"cable.{key}": self.natural[f"{key}_by_roll"] for key in CURVATURES})
        values |= {f"cable.{key}": self.natural[key] for key in CURVATURES}
        return values | {"cable.vertex_velocity": self._start}, along

    def predict(self, u: Tensor) -> Tensor:
        """Predicted positions of the markers that are not given (frames - 2, n - 4, 3) [m]."""
        values = self.model.values(self.values(u)[0])
        return self._free(self.model.rollout_unchecked(values, self.frames)["cable"]["x"])[0]

    def sensitivity(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """The prediction, and its derivative by each coordinate and the roll (numbers + 1, frames - 2, n - 4, 3)."""
        overrides, along = self.values(u)
        wide = lambda y: y.expand(len(along), *y.shape[1:]).contiguous()
        values = self.model.values({key: wide(y) for key, y in overrides.items()})
        direction = {}
        for k, slopes in enumerate(along):
            for key, slope in slopes.items():
                direction.setdefault(key, torch.zeros_like(values[key]))[k] = slope[0]
        states, tangents = self.model.tangent(values, direction, self.frames)
        return self._free(states["cable"]["x"])[0], self._free(tangents["cable"]["x"])

    @property
    def target(self) -> Tensor:
        """Recorded positions of the same markers."""
        return torch.tensor(self.recording.x[GIVEN : self.frames, ENDS:-ENDS])

    def _free(self, x: Tensor) -> Tensor:
        return x[:, GIVEN:][:, :, torch.as_tensor(self.markers[ENDS:-ENDS])]


def loss(residual: Tensor) -> float:
    """Half of a Cauchy loss [m²]: quadratic below `OUTLIER`, so that a run that slips to another side counts little."""
    residual = residual.nan_to_num(FAR)
    return 0.5 * OUTLIER**2 * torch.log1p((residual / OUTLIER).square()).sum().item()


def fit(runs: Sequence[CableRun], u: Tensor, iterations: int, report=lambda *_: None) -> tuple[Tensor, float]:
    """Numbers (3,) that fit runs best, by Levenberg and Marquardt's method with weights of the loss.

    Args:
        runs: The runs.
        u: Coordinates at the start (3,).
        iterations: Most steps.
        report: Called after each step with its number, the coordinates and the loss.
    """
    damping, cost = 1e-2, math.inf
    for step in range(iterations):
        normal, gradient, cost = torch.zeros(len(u), len(u)).double(), torch.zeros(len(u)).double(), 0.0
        for run in runs:
            predicted, slopes = (y.detach() for y in run.sensitivity(u))
            residual = predicted - run.target
            cost += loss(residual)
            good = residual.isfinite() & slopes.isfinite().all(0)
            weight = torch.where(good, 1 / (1 + (residual / OUTLIER).square()), 0.0).nan_to_num()
            rows = slopes[: len(u)].nan_to_num().flatten(1)
            normal += (rows * weight.flatten()) @ rows.T
            gradient += (rows * weight.flatten()) @ residual.nan_to_num().flatten()
        if not (normal.diagonal() > 0).all():  # no step of any run was solved
            break
        for _ in range(4):
            move = torch.linalg.solve(normal + damping * torch.diag(normal.diagonal()), -gradient).clamp(-1.0, 1.0)
            ahead = sum(loss(run.predict(u + move) - run.target) for run in runs)
            if ahead < cost:
                break
            damping *= 8
        else:
            break
        u, gain, damping = u + move, cost - ahead, damping / 5
        report(step, u, ahead)
        cost = ahead
        if gain < 1e-3 * cost:
            break
    return u, cost


@dataclass(frozen=True, eq=False)
class Cable:
    """A cable that was fitted to some runs.

    Args:
        shape: Its natural shape.
        u: Coordinates of its numbers (3,).
        runs: The fitted runs, with their rolls.
        loss: Loss of the fit [m²].
    """

    shape: Shape
    u: Tensor
    runs: list[CableRun]
    loss: float

    @cached_property
    def roll_spread(self) -> float:
        """Root mean square [rad] of the rolls of the fitted runs by their first two frames, less those of the fit."""
        off = [self.shape.roll_of(run.recording)[0] - run.roll for run in self.runs]
        return float(np.sqrt(np.mean(np.angle(np.exp(1j * np.array(off))) ** 2)))

    def run(self, recording: Recording, frames: int) -> CableRun:
        """A run that was not fitted, with the roll that its first two frames tell, in steps that can be solved."""
        run = CableRun(recording, frames, self.shape.curvature, self.shape.roll_of(recording)[0])
        while run.substeps < MAX_SUBSTEPS and not run.predict(self.u).isfinite().all():
            run = replace(run, substeps=2 * run.substeps)
        return run


def fit_runs(recordings: Sequence[Recording], frames: int, iterations: int) -> Cable:
    """The cable that fits runs best: its shape by the balance of moments, then its numbers by rollouts.

    Args:
        recordings: The runs.
        frames: Frames of each that count.
        iterations: Most steps of the fit.
    """
    shape = natural_shape(recordings)
    runs = [
        CableRun(recording, min(frames, len(recording.x)), shape.curvature, float(roll))
        for recording, roll in zip(recordings, shape.rolls, strict=True)
    ]
    stiffness = max(shape.stiffness, LOWEST_STIFFNESS)
    start = torch.tensor([stiffness, TWISTING * stiffness, max(shape.time, SHORTEST_TIME)], dtype=torch.float64).log()
    u, cost = fit(runs, start, iterations)
    return Cable(shape, u, runs, cost)
