"""A cable as a rod of a scene: few numbers for all runs by least squares, with forward sensitivities, and a natural shape.

Only ratios to mass show, so the density is 1 kg/m, and the numbers are bending and twisting stiffness over density [m⁴/s²] and
the retardation time of bending [s]; with relaxation also ratio and time [s] of one branch of bending and twist. The natural shape is that of `cable_shape.py`, turned by the roll of the run, linear
between markers. Lengths are those of the first frame, velocities at the start are the difference of the first two.
"""

import math
from collections.abc import Callable, Mapping, Sequence
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
BRANCH = ("relaxation.0.ratio", "relaxation.0.time")
LAWS = {"viscosity": NUMBERS, "relaxation": (*NUMBERS, *BRANCH)}
UNITS = dict(zip((*NUMBERS, *BRANCH), ("m^4/s^2", "m^4/s^2", "s", "1", "s"), strict=True))
RATIO, TIME = 0.5, 0.3  # of the branch, at the start of a fit [s]
TWISTING = 0.3  # of the bending stiffness, at the start of a fit; of a round rod of rubber 2/3
CURVATURES = ("curvature1", "curvature2")
STRETCHING = 1e4  # E A over density [m²/s²]: 1 m of cable is 1 mm longer under its own weight
PARTS = 2  # edges between two markers
SUBSTEPS, MAX_SUBSTEPS = 2, 16
LOWEST_STIFFNESS, SHORTEST_TIME = 1e-3, 1e-2  # [m⁴/s²], [s] at the start of a fit
OUTLIER = 0.03  # [m] scale of the Cauchy loss
FAR = 1.0  # [m] in place of a state that is not finite
TRIALS, ENOUGH = 4, 1e-3  # steps of rising damping; gain over the loss at which a fit ends


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
        law: One of `LAWS`.
        substeps: Steps of a frame.
    """

    recording: Recording
    frames: int
    curvature: np.ndarray
    roll: float
    law: str = "viscosity"
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
        if self.law == "relaxation":
            rod["relaxation"] = [{"ratio": RATIO, "time": TIME}]
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
        values = {f"cable.{key}": numbers[k : k + 1] for k, key in enumerate(LAWS[self.law])}
        along = [{key: number} for key, number in values.items()]
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


@dataclass(frozen=True, eq=False)
class Squares:
    """Weighted squares of residuals about coordinates.

    Args:
        normal: Σ J W Jᵀ (n, n).
        gradient: Σ J W r (n,).
        loss: Sum of the losses [m²].
    """

    normal: Tensor
    gradient: Tensor
    loss: float

    @classmethod
    def of(cls, run: CableRun, u: Tensor) -> "Squares":
        """Those of one run, by its numbers and its roll (numbers + 1)."""
        predicted, slopes = (y.detach() for y in run.sensitivity(u))
        residual = predicted - run.target
        good = residual.isfinite() & slopes.isfinite().all(0)
        weight = torch.where(good, 1 / (1 + (residual / OUTLIER).square()), 0.0).nan_to_num().flatten()
        rows = slopes.nan_to_num().flatten(1)
        return cls((rows * weight) @ rows.T, (rows * weight) @ residual.nan_to_num().flatten(), loss(residual))


def descend(squares: Callable[[Tensor], Squares], u: Tensor, iterations: int) -> tuple[Tensor, float]:
    """Coordinates (n,) of least loss by Levenberg and Marquardt's method, and the loss [m²].

    Args:
        squares: Squares about coordinates.
        u: Where it starts (n,).
        iterations: Most steps.
    """
    damping, at = 1e-2, squares(u)
    for _ in range(iterations):
        if not (at.normal.diagonal() > 0).all():  # no step of any run was solved
            break
        for _ in range(TRIALS):
            scaled = at.normal + damping * torch.diag(at.normal.diagonal())
            move = torch.linalg.solve(scaled, -at.gradient).clamp(-1.0, 1.0)
            ahead = squares(u + move)
            if ahead.loss < at.loss:
                break
            damping *= 8
        else:
            break
        u, gain, at, damping = u + move, at.loss - ahead.loss, ahead, damping / 5
        if gain < ENOUGH * at.loss:
            break
    return u, at.loss


def fit(runs: Sequence[CableRun], u: Tensor, iterations: int) -> tuple[Tensor, float]:
    """Numbers (n,) that fit runs best, with the rolls that they have, and the loss [m²]; arguments as of `descend`."""

    def squares(u: Tensor) -> Squares:
        parts, n = [Squares.of(run, u) for run in runs], len(u)
        normal, gradient = sum(p.normal[:n, :n] for p in parts), sum(p.gradient[:n] for p in parts)
        return Squares(torch.as_tensor(normal), torch.as_tensor(gradient), sum(p.loss for p in parts))

    return descend(squares, u, iterations)


@dataclass(frozen=True, eq=False)
class Cable:
    """A cable that was fitted to some runs.

    Args:
        shape: Its natural shape.
        law: One of `LAWS`.
        u: Coordinates of its numbers (n,).
        runs: The fitted runs, with their rolls.
        loss: Loss of the fit [m²].
    """

    shape: Shape
    law: str
    u: Tensor
    runs: list[CableRun]
    loss: float

    @property
    def numbers(self) -> dict[str, float]:
        """Its numbers by name."""
        return dict(zip(LAWS[self.law], self.u.exp().tolist(), strict=True))

    @cached_property
    def roll_spread(self) -> float:
        """Root mean square [rad] of the rolls of the fitted runs by their first two frames, less those of the fit."""
        off = [self.shape.roll_of(run.recording)[0] - run.roll for run in self.runs]
        return float(np.sqrt(np.mean(np.angle(np.exp(1j * np.array(off))) ** 2)))

    def run(self, recording: Recording, frames: int) -> CableRun:
        """A run that was not fitted, with the roll that its first two frames tell, in steps that can be solved."""
        run = CableRun(recording, frames, self.shape.curvature, self.shape.roll_of(recording)[0], self.law)
        while run.substeps < MAX_SUBSTEPS and not run.predict(self.u).isfinite().all():
            run = replace(run, substeps=2 * run.substeps)
        return run

    def record(self) -> dict:
        """The cable as JSON holds it."""
        shape = {**vars(self.shape), "curvature": self.shape.curvature.tolist(), "rolls": self.shape.rolls.tolist()}
        return {"shape": shape, "law": self.law, "u": self.u.tolist(), "loss_m2": self.loss}


def cable_of(record: Mapping, recordings: Sequence[Recording], frames: int) -> Cable:
    """The cable of a record that `Cable.record` made from a fit to these recordings, at most `frames` frames of each."""
    arrays = {key: np.array(record["shape"][key]) for key in ("curvature", "rolls")}
    shape = Shape(**{**record["shape"], **arrays})
    u = torch.tensor(record["u"], dtype=torch.float64)
    return Cable(shape, record["law"], u, _runs(recordings, frames, shape, record["law"]), record["loss_m2"])


def fit_laws(recordings: Sequence[Recording], frames: int, iterations: int) -> dict[str, Cable]:
    """The cable of each law that fits runs best: its shape by the balance of moments, then its numbers by rollouts.

    Relaxation starts from the answer of viscosity to the same runs, with the stiffness halfway between what lasts and what relaxes.

    Args:
        recordings: The runs.
        frames: Frames of each that count.
        iterations: Most steps of each fit.
    """
    shape = natural_shape(recordings)
    stiffness = max(shape.stiffness, LOWEST_STIFFNESS)
    start = torch.tensor([stiffness, TWISTING * stiffness, max(shape.time, SHORTEST_TIME)], dtype=torch.float64).log()
    viscous = _fit_law(shape, "viscosity", start, recordings, frames, iterations)
    start = torch.cat([viscous.u, torch.tensor([RATIO, TIME], dtype=torch.float64).log()])
    start[:2] -= math.log(1 + RATIO / 2)
    relaxing = _fit_law(shape, "relaxation", start, recordings, frames, iterations)
    return {"viscosity": viscous, "relaxation": relaxing}


def fit_from(halves: Sequence[Cable], recordings: Sequence[Recording], frames: int, iterations: int) -> Cable:
    """The cable that fits runs best, by the law of fits to parts of them, and from the mean of their coordinates on."""
    shape, start = natural_shape(recordings), torch.stack([half.u for half in halves]).mean(0)
    return _fit_law(shape, halves[0].law, start, recordings, frames, iterations)


def _fit_law(
    shape: Shape, law: str, start: Tensor, recordings: Sequence[Recording], frames: int, iterations: int
) -> Cable:
    runs = _runs(recordings, frames, shape, law)
    u, cost = fit(runs, start, iterations)
    return Cable(shape, law, u, runs, cost)


def _runs(recordings: Sequence[Recording], frames: int, shape: Shape, law: str) -> list[CableRun]:
    return [
        CableRun(recording, min(frames, len(recording.x)), shape.curvature, float(roll), law)
        for recording, roll in zip(recordings, shape.rolls, strict=True)
    ]
