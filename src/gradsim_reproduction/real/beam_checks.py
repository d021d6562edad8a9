"""Sensitivity of the beam's stiffness: the frame of the clamp, meshes and elements, assumptions; and beam theory.

Error bars where the errors of pixels belong together.

What is wrong with a mask is wrong with all of its edge at once, and what a model lacks shows in frame after frame; the
plain Fisher information takes each pixel for another witness. Here blocks of consecutive frames are the witnesses:

    jackknife   cov = (G − 1)/G Σ d_g d_gᵀ,   d_g = (A − A_g)⁻¹ g_g          leave each of G blocks out in turn
    bootstrap   d = −(Σ A_b)⁻¹ Σ g_b                                         over blocks drawn with replacement

with A_g = J_gᵀ J_g and g_g = J_gᵀ r_g of a block, at the estimate, where Σ g_g = 0: one Gauss–Newton step in place of a
whole fit (Künsch 1989; Cameron & Miller 2015, whose CR3 is the first).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import root_scalar
from torch import Tensor

from gradsim_reproduction.real import beam_recordings as recorded
from gradsim_reproduction.real.beam_fit import WINDOWS, BeamEstimate, Tracks
from gradsim_reproduction.real.beam_model import DENSITY, FPS, LENGTH, SAFE, WIDTH, Beam
from gradsim_reproduction.real.beam_recordings import Recording, Swing

FITTED, AGAIN, LOADED = recorded.NAMES
SOFTER = 0.49  # Poisson's ratio whose influence is shown
ALONG = 1e-3  # [m] to which it is known where along the beam markers and clamp are
STEPS = 1000  # fewest steps of a run that times a mesh


def believe_all_markers(
    coarse: Beam, first: BeamEstimate, beam: Beam, young: float, evaluations: int
) -> dict[str, dict]:
    """Fit and prediction once more, with other frames of the clamp: every step of a marker believed to be its motion.

    Args:
        coarse: Mesh of the search, on which E is fitted again.
        first: Its answer.
        beam: Mesh of the answer, which predicts.
        young: E on it [Pa], which changes as on the coarse one.
        evaluations: Result of a fit.
    """
    by_frame = {}
    for name, frame in (("every marker believed", None), ("every marker believed, level pose of frame 0", 0)):
        recordings = {k: recorded.load(k, True, frame) for k in (FITTED, LOADED)}
        answer = Tracks(coarse, recordings[FITTED], WINDOWS[-1]).fit(first.u, evaluations=evaluations)
        ratio = answer.young / first.young
        sag = {k: beam.sag(young * ratio, recorded.LOAD[k]) for k in recordings}
        by_frame[name] = {
            "young_over_the_answer": ratio,
            "measured_sag_m": {k: r.sag for k, r in recordings.items()},
            "predicted_sag_m": sag,
            "sag_error": sag[LOADED] / recordings[LOADED].sag - 1,
        }
    return by_frame


def error_bar(
    beam: Beam, young: float, finest: Beam, recording: Recording, oscillation: Swing, simulated: Swing
) -> dict[str, float]:
    """Relative standard deviations of E by cause; residuals are correlated, so no formula applies.

    Args:
        beam: Mesh of the answer.
        young: The answer [Pa].
        finest: The finest mesh of all.
        recording: Fitted recording.
        oscillation, simulated: The oscillation in it, and that of the answer.
    """
    sag = root_scalar(
        lambda log: beam.sag(young * np.exp(log), 0.0) - recording.sag, bracket=(-0.5, 0.5), xtol=1e-4
    ).root
    fast = 2 * np.log(oscillation.frequency / simulated.frequency)
    soft, softer = (mesh.frequency(young, 0.0) for mesh in (finest, Beam(finest.cells, SOFTER)))
    return {
        "sag alone against frequency alone": float(abs(fast - sag) / 2),
        "Poisson's ratio 0.49 instead of 0.45": abs(2 * np.log(soft / softer)),
        "place of the markers along the beam": 4
        / 3
        * ALONG
        / LENGTH,  # sag of a cantilever near its tip: δ'/δ = 4/(3 L)
        "length that is free of the clamp": 4 * ALONG / LENGTH,  # E ∝ f² L⁴
    }


def compare(beam: Beam, answer: BeamEstimate, meshes: Sequence[tuple[int, int]], loaded: Recording) -> list[dict]:
    """Sag and frequency of other meshes and elements, the E that gives the answer's frequency, and what each costs."""
    wanted, rows = beam.frequency(answer.young, 0.0), []
    for linear in (True, False):
        for cells in meshes:
            mesh = Beam(cells, beam.poisson, linear)
            frequency = mesh.frequency(answer.young, 0.0)
            young = answer.young * (wanted / frequency) ** 2
            step = mesh.largest_step(young, answer.damping)
            start = mesh.mesh[0][None]
            mesh.swings([young], [answer.damping], [0.0], start, 1 / FPS)  # built and laid out
            begun, seconds = time.process_time(), np.ceil(STEPS * step * SAFE * FPS) / FPS
            mesh.swings([young], [answer.damping], [0.0], start, seconds)
            cost = (time.process_time() - begun) / seconds
            rows.append(
                {
                    "elements": "linear" if linear else "quadratic",
                    "cells": list(cells),
                    "tets": len(mesh.mesh[1]),
                    "vertices": len(mesh.mesh[0]),
                    "sag_m": mesh.sag(answer.young, 0.0),
                    "frequency_hz": frequency,
                    "young_pa": young,
                    "loaded_sag_error": mesh.sag(young, recorded.LOAD[LOADED]) / loaded.sag - 1,
                    "loaded_over_own_frequency": mesh.frequency(young, recorded.LOAD[LOADED]) / wanted,
                    "largest_step_s": step,
                    "cpu_seconds_per_second": cost,
                }
            )
    return rows


def beam_theory(sag: float, frequency: float) -> tuple[float, float]:
    """Sag and frequency with the load of an Euler–Bernoulli cantilever, from those without."""
    share = recorded.LOAD[LOADED] / (DENSITY * WIDTH**2 * LENGTH)

    def whole(m: float):
        return lambda b: 1 + np.cos(b) * np.cosh(b) + m * b * (np.cos(b) * np.sinh(b) - np.sin(b) * np.cosh(b))

    free, loaded = (root_scalar(whole(m), bracket=(0.5, 2.0)).root for m in (0.0, share))
    return sag * (1 + 8 / 3 * share), frequency * (loaded / free) ** 2


@dataclass(frozen=True)
class Clusters:
    """The information in each frame at an estimate.

    Args:
        matrices: Jᵀ J of each frame (frames, unknowns, unknowns).
        gradients: Jᵀ r of each frame (frames, unknowns).
        prior: Information from priors (unknowns, unknowns), which no block takes away.
    """

    matrices: Tensor
    gradients: Tensor
    prior: Tensor

    @classmethod
    def at(cls, residuals: Tensor, jacobian: Tensor, prior: Tensor) -> "Clusters":
        """From residuals (frames, m) and their derivatives (frames, m, unknowns)."""
        return cls(jacobian.mT @ jacobian, (jacobian.mT @ residuals[..., None])[..., 0], prior)

    @property
    def block(self) -> int:
        """Frames in a block: n^(1/3), the rate that is best for variances of correlated series (Künsch 1989)."""
        return max(1, round(len(self.gradients) ** (1 / 3)))

    def jackknife(self) -> Tensor:
        """Covariance (unknowns, unknowns) by leaving out one block after the other."""
        indices = torch.arange(len(self.gradients))
        whole, total = self._sum(indices), self.gradients.sum(0)
        moves = torch.stack(
            [
                torch.linalg.solve(whole - self.matrices[g].sum(0), self.gradients[g].sum(0) - total)
                for g in indices.split(self.block)
            ]
        )
        moves = moves - moves.mean(0)
        return (len(moves) - 1) / len(moves) * moves.T @ moves

    def bootstrap(self, rng: np.random.Generator, draws: int = 500) -> Tensor:
        """Standard deviations (unknowns,) over moving blocks; half the width of their middle 68 %."""
        count, block = len(self.gradients), self.block
        first = rng.integers(0, count - block + 1, (draws, -(-count // block)))
        frames = torch.tensor(first[..., None] + np.arange(block)).flatten(1)[:, :count]
        moves = torch.stack([-torch.linalg.solve(self._sum(f), self.gradients[f].sum(0)) for f in frames])
        low, high = moves.quantile(torch.tensor([0.1587, 0.8413], dtype=moves.dtype), 0)
        return (high - low) / 2

    def independent(self, variance: float) -> Tensor:
        """Standard deviations (unknowns,) if pixels had independent errors of this variance, in units of σ²."""
        return torch.linalg.inv(self.matrices.sum(0) / variance + self.prior).diagonal().sqrt()

    def _sum(self, frames: Tensor) -> Tensor:
        return self.matrices[frames].sum(0) + self.prior
