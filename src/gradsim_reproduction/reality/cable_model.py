"""A cable as a rod of a scene: six numbers for all runs, and least squares for them by forward sensitivities.

Only ratios to mass show, so the density is 1 kg/m, and the numbers are bending and twisting stiffness over density [m⁴/s²],
the retardation time of bending [s], the mass of a marker over density [m], and the natural curvature about both axes [1/m]. The
first axis of the section is horizontal at the first vertex when a run begins. Lengths are those of the first frame,
velocities at the start are the difference of the first two.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.interpolate import CubicSpline
from torch import Tensor

from gradsim.physics.model import Model
from gradsim.scene import Scene
from gradsim_reproduction.reality.cable_recordings import ENDS, FPS, GIVEN, Recording

NUMBERS = ("bending", "twisting", "bending_time", "marker", "curvature1", "curvature2")
UNITS = ("m^4/s^2", "m^4/s^2", "s", "m", "1/m", "1/m")
POSITIVE = 4  # the first numbers, which are fitted by their logarithms
START = (0.07, 0.01, 0.1, 2.5e-3, 0.0, 0.0)
STRETCHING = 1e4  # E A over density [m²/s²]: 1 m of cable is 1 mm longer under its own weight
PARTS = 2  # edges between two markers
SUBSTEPS = 2
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
    """

    recording: Recording
    frames: int

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
        rod |= {"stretching": STRETCHING, **dict(zip(NUMBERS[:3], START, strict=False))}
        timing = {"fps": FPS, "frames": self.frames, "substeps": SUBSTEPS}
        return Model(Scene.parse({"bodies": {"cable": rod}, "timing": timing}))

    @cached_property
    def _start(self) -> Tensor:
        """Velocities of all vertices at the start (1, points, 3) [m/s]."""
        before, after = (subdivide(self.recording.x[k])[0] for k in (0, 1))
        v = (after - before) * FPS
        return torch.tensor(np.concatenate([v, (v[1:] + v[:-1]) / 2]))[None]

    def values(self, u: Tensor) -> tuple[dict[str, Tensor], list[dict[str, Tensor]]]:
        """Parameters (1, ...) at the fitted coordinates (numbers,), and their derivative by each of these."""
        numbers = torch.cat([u[:POSITIVE].exp(), u[POSITIVE:]])
        slopes = torch.cat([u[:POSITIVE].exp(), torch.ones_like(u[POSITIVE:])])
        system = self.model.systems[0]
        mass = system.matter.mass(self.model.values()).detach()
        markers = torch.zeros_like(mass)
        markers[0, self.markers[1:-1]] = 1.0
        values = {f"cable.{key}": numbers[k : k + 1] for k, key in enumerate(NUMBERS) if key != "marker"}
        values["cable.vertex_mass_factor"] = 1 + numbers[3] * markers / mass
        values["cable.vertex_velocity"] = self._start
        along = [{f"cable.{key}": slopes[k : k + 1]} for k, key in enumerate(NUMBERS)]
        along[3] = {"cable.vertex_mass_factor": slopes[3] * markers / mass}
        return values, along

    def predict(self, u: Tensor) -> Tensor:
        """Predicted positions of the markers that are not given (frames - 2, n - 4, 3) [m]."""
        values = self.model.values(self.values(u)[0])
        return self._free(self.model.rollout_unchecked(values, self.frames)["cable"]["x"])[0]

    def sensitivity(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """The prediction, and its derivative by each coordinate (numbers, frames - 2, n - 4, 3)."""
        overrides, along = self.values(u)
        wide = lambda y: y.expand(len(NUMBERS), *y.shape[1:]).contiguous()
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
    """Numbers (6,) that fit runs best, by Levenberg and Marquardt's method with weights of the loss.

    Args:
        runs: The runs.
        u: Coordinates at the start (6,).
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
            rows = slopes.nan_to_num().flatten(1)
            normal += (rows * weight.flatten()) @ rows.T
            gradient += (rows * weight.flatten()) @ residual.nan_to_num().flatten()
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
