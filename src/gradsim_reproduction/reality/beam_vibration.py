"""Small vibrations of the silicone beam about its place at rest, in a viscoelastic solid: fits within seconds.

    (K - ω² M) φ = 0,   q̈ + c q̇ + ω² (q + g (q - a)) = 0,   ȧ = (q - a)/τ,   c = η φᵀ C φ

of each mode q: with one Poisson's ratio, relaxation leaves the shapes of modes as they are (Christensen, Theory of Viscoelasticity, 1982, §2.1). Let go
from rest at the level pose, where branches are relaxed: a = q. `swing` has the same law in a scene, without small displacements.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from scipy.interpolate import CubicSpline
from scipy.optimize import least_squares

from gradsim.identification.uncertainty.discrepancy import Discrepancy, Scores, combine
from gradsim.physics.model import Model
from gradsim.scene import Scene
from gradsim_reproduction.real import beam_recordings as recorded
from gradsim_reproduction.real.beam_model import DENSITY, FPS, GRAVITY, LENGTH, WIDTH, Beam
from gradsim_reproduction.real.beam_recordings import Recording, Swing

YOUNG = 2.7e5  # [Pa] of the modes; other moduli scale ω² and the distance to rest
MODES = 6
LAWS = {  # numbers of each law besides E: viscosity [Pa s], then ratio and time [s] of a branch; where their fits start
    "viscous": (400.0,),
    "viscous and relaxing": (400.0, 0.06, 1.0),
}
STARTS = ((-0.01, 0.0), (-0.01, -1e-3))  # of release time [s] and height [m]
RANGE = ((-0.04, 0.04), (-0.004, 0.004))  # of the same
SCALES = (0.005, 0.002)
SECONDS = 4.2  # [s] of the track, from the first trough on
PROBE = 1e-4  # of coordinates, for derivatives
MILLIMETER = 1e-3  # [m]
BLOCKS = 24  # of the track, for the comparison of laws: a little longer than a swing


@dataclass(frozen=True, eq=False)
class Vibration:
    """Modes of the beam with a load.

    Args:
        beam: Mesh, masses and markers.
        load: Mass on the tip [kg].
    """

    beam: Beam
    load: float

    @cached_property
    def modes(self) -> dict[str, np.ndarray]:
        """Frequencies, damping per η, and by the height of the markers: shapes, start, and change of start by height."""
        beam = self.beam
        rest, level = (beam.at_rest(YOUNG, self.load, height) for height in (None, 0.0))
        step = 1e-3
        lifted = beam.at_rest(YOUNG, self.load, step, level)
        free = np.repeat(~beam.clamped.numpy(), 3)
        K = beam.stiffness(rest)[1][free][:, free] * YOUNG
        mass = beam.masses(self.load).repeat_interleave(3).numpy()[free]
        squares, shapes = scipy.sparse.linalg.eigsh(K, k=MODES, M=scipy.sparse.diags(mass), sigma=0)
        full = np.zeros((len(free), MODES))
        full[free] = shapes
        C = self._viscous(rest)[free][:, free]
        height = lambda y: np.einsum("kn,ndm->m", beam.markers.numpy() / 3, y.reshape(len(rest), 3, -1)[:, :1])
        on_modes = lambda x: shapes.T @ (mass * x.flatten().numpy()[free])
        return {
            "omega": np.sqrt(squares),
            "loss": np.array([shape @ (C @ shape) for shape in shapes.T]),
            "shape": height(full),
            "start": on_modes(level - rest),
            "lift": on_modes(lifted - level) / step,
            "sag": height((level - rest).numpy()),
        }

    def _viscous(self, x: torch.Tensor) -> scipy.sparse.csr_matrix:
        """C (3n, 3n) of small rates about vertices x (n, 3) for η = 1 Pa s, of the dissipation of `neo_hookean`.

        ∂P/∂Ḟ is F Fᵀ δ + F ⊗ F, transposed in the last, + cof F ⊗ cof F.
        """
        one = torch.eye(3, dtype=torch.float64)
        F = torch.einsum("mni,mpnj->mpij", x[self.beam.mesh[1]], self.beam.gradients[0])
        cof = torch.linalg.det(F)[..., None, None] * torch.linalg.inv(F).mT
        slopes = torch.einsum("mpia,mpla,jb->mpijlb", F, F, one) + torch.einsum("mpib,mplj->mpijlb", F, F)
        matrices = self.beam._assembled(slopes + torch.einsum("mpij,mplb->mpijlb", cof, cof))
        elements = self.beam.mesh[1]
        place = (3 * elements[:, :, None] + torch.arange(3)).flatten(1)
        k, n = place.shape[1], 3 * len(self.beam.mesh[0])
        rows, columns = place[:, :, None].expand(-1, -1, k), place[:, None, :].expand(-1, k, -1)
        content = (matrices.flatten().numpy(), (rows.flatten().numpy(), columns.flatten().numpy()))
        return scipy.sparse.csr_matrix(scipy.sparse.csc_matrix(content, (n, n)))

    def heights(self, u: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Mean height of the markers over the level pose at times after the release (k,) [m].

        Args:
            u: Logarithms of E over `YOUNG` and of the numbers of a law, then release time [s] and height [m].
            times: Times [s]; before the release the beam is at its start.
        """
        young, viscosity, *branch = np.exp(u[:-2])
        ratio, tau = branch or (0.0, 1.0)
        modes, total = self.modes, -self.modes["sag"] / young
        times = np.maximum(times - u[-2], 0.0)
        for omega, loss, shape, start, lift in zip(
            *(modes[k] for k in ("omega", "loss", "shape", "start", "lift")), strict=True
        ):
            square = omega**2 * young
            q = start / young + lift * u[-1]
            A = np.array(
                [[0, 1, 0], [-square * (1 + ratio), -viscosity * loss, square * ratio], [1 / tau, 0, -1 / tau]]
            )
            values, vectors = np.linalg.eig(A)
            parts = np.linalg.solve(vectors, np.array([q, 0, q], complex))
            total = total + shape * (vectors[0] * parts * np.exp(np.outer(times, values))).sum(1).real
        return total


def track(recording: Recording, seconds: float = SECONDS) -> tuple[np.ndarray, np.ndarray]:
    """Times after the first frame off the level pose [s], and heights [m], from the first trough on."""
    first = recording.release + int(recording.height[recording.release : recording.release + 30].argmin())
    frames = np.arange(first, min(first + round(seconds * recorded.FPS), len(recording.height)))
    return (frames - recording.release) / recorded.FPS, recording.height[frames]


def fit(vibration: Vibration, law: str, times: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Coordinates of the law, see `Vibration.heights`, that fit a track best by least squares.

    Args:
        vibration: Modes.
        law: Name in `LAWS`.
        times, heights: The track [s], [m].
    """
    numbers = np.log([1.0, *LAWS[law]])
    low, high = (np.r_[numbers + sign * 4, [pair[k] for pair in RANGE]] for sign, k in ((-1, 0), (1, 1)))
    solutions = [
        least_squares(
            lambda u: vibration.heights(u, times) - heights,
            np.r_[numbers, start],
            bounds=(low, high),
            x_scale=np.r_[np.full(len(numbers), 0.1), SCALES],
        )
        for start in STARTS
    ]
    return min(solutions, key=lambda solution: solution.cost).x


def align(vibration: Vibration, u: np.ndarray, times: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """The same law with the release time and height of another recording."""
    move = lambda release: vibration.heights(np.r_[u[:-2], release], times) - heights
    bounds = tuple(zip(*RANGE, strict=True))
    ends = [least_squares(move, start, bounds=bounds, x_scale=SCALES) for start in STARTS]
    return np.r_[u[:-2], min(ends, key=lambda end: end.cost).x]


def leave_blocks_out(
    vibration: Vibration, law: str, times: np.ndarray, heights: np.ndarray
) -> tuple[np.ndarray, float]:
    """Fits to a track without each of `BLOCKS` parts (blocks, coordinates), and the RMS error [m] of what they left out."""
    fits, squares = [], []
    for block in np.array_split(np.arange(len(times)), BLOCKS):
        others = np.setdiff1d(np.arange(len(times)), block)
        fits.append(fit(vibration, law, times[others], heights[others]))
        squares.append((vibration.heights(fits[-1], times[block]) - heights[block]) ** 2)
    return np.array(fits), float(np.sqrt(np.concatenate(squares).mean()))


def discrepancy_of(vibration: Vibration, u: np.ndarray, times: np.ndarray, heights: np.ndarray) -> Discrepancy:
    """Error bars of a fit to a track, whose residuals have a memory (`identification.uncertainty.discrepancy`).

    Args:
        vibration: Modes.
        u: The fit.
        times, heights: The track [s], [m].
    """
    residual, steps = vibration.heights(u, times) - heights, np.full(len(u), PROBE)
    columns = [
        (vibration.heights(u + step, times) - vibration.heights(u - step, times)) / (2 * PROBE)
        for step in np.diag(steps)
    ]
    slopes = np.stack(columns, 1)[:, None]
    everywhere = np.ones(len(u), bool)
    part = Scores(times, slopes / MILLIMETER, -residual[:, None] / MILLIMETER, np.arange(len(u)), everywhere)
    return combine([part], np.zeros((len(u),) * 2), u, float(((residual / MILLIMETER) ** 2).mean()))


def jackknife(fits: np.ndarray) -> np.ndarray:
    """Covariance (k, k) of coordinates by fits (blocks, k) that leave one block out each (Künsch 1989)."""
    off = fits - fits.mean(0)
    return (len(fits) - 1) / len(fits) * off.T @ off


def agreement(first: np.ndarray, second: np.ndarray, covariance: np.ndarray) -> float:
    """χ² per degree of freedom of the difference of two fits (k,), whose covariances add up to the given one (k, k)."""
    difference = second - first
    return float(difference @ np.linalg.solve(covariance, difference) / len(difference))


def scene(beam: Beam, u: Sequence[float] | np.ndarray, seconds: float) -> Scene:
    """The beam of a law as a scene: clamped at z = 0, its weight along -x."""
    young, viscosity, *branch = np.exp(np.asarray(u)[:-2])
    across, along = beam.cells
    solid = {
        "kind": "solid",
        "shape": {"box": {"size": [WIDTH, WIDTH, LENGTH], "cells": [across, across, along]}},
        "position": [0, 0, LENGTH / 2],
        "elements": "quadratic",
        "density": DENSITY,
        "young": YOUNG * young,
        "poisson": beam.poisson,
        "damping": viscosity,
        "pinned": [{"box": [[-1, -1, -LENGTH / 2 - 1e-6], [1, 1, -LENGTH / 2 + 1e-6]]}],
        "collision": "none",
    }
    if branch:
        solid["relaxation"] = [{"ratio": branch[0], "time": branch[1]}]
    timing = {"fps": FPS, "frames": round(seconds * FPS) + 1}
    return Scene.parse({"bodies": {"beam": solid}, "gravity": [-GRAVITY, 0, 0], "timing": timing})


def swing(beam: Beam, u: Sequence[float] | np.ndarray, load: float, seconds: float) -> np.ndarray:
    """Heights of the three markers over the level pose (frames, 3) [m] at `FPS` after the release, by a rollout of the scene."""
    young = YOUNG * float(np.exp(u[0]))
    level = beam.at_rest(young, load, 0.0)
    held = beam.at_rest(young, load, float(u[-1]), level)
    model = Model(scene(beam, u, seconds))
    system, factor = model.systems[0], (beam.masses(load) / beam.masses(0.0))[None]
    values = model.values({"beam.vertex_mass_factor": factor})
    x = held[None]
    if system.count < len(system.rest):
        x = torch.cat([x, system.matter.relaxed_strains(x, values)], 1)
    start = {"beam": {"x": x, "v": torch.zeros_like(x)}}
    with torch.no_grad():
        states = model.rollout({"beam.vertex_mass_factor": factor}, start=start)["beam"]["x"]
    return (beam.markers @ (states[0, :, : len(level)] - level))[..., 0].numpy()


def features(height: np.ndarray, rest: float) -> Swing:
    """Frequency, decay and creep of simulated heights (frames,) at `FPS` with the place at rest [m]."""
    return recorded.swing(height, FPS, rest=rest)


def at_frames(heights: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Simulated heights (frames, k) at `FPS` at times after the release [s], by a cubic spline."""
    return CubicSpline(np.arange(len(heights)) / FPS, heights)(np.maximum(times, 0.0))
