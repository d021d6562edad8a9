"""Error bars and predictive bands of cables: a discrepancy with memory, and numbers that scatter between runs.

Scores are those of the loss of the fit, whose weights are 1/(1 + (r/s)²). The mass of a marker is left out: recordings hardly tell it (its share of the information is
some 1e-5), and its logarithm runs off where it is small.
"""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from gradsim.identification.uncertainty.discrepancy import Discrepancy, Scores, combine
from gradsim.identification.uncertainty.intervals import Z95
from gradsim_reproduction.reality import cable_model as cables
from gradsim_reproduction.reality.cable_recordings import FPS

TOLD = [k for k, name in enumerate(cables.NUMBERS) if name != "marker"]  # numbers that have error bars
NULL = 1e-9  # share of the information of a run below which a direction of a frame is open


def scores_of(residual: Tensor, slopes: Tensor) -> Scores:
    """Scores of a run by the numbers in `TOLD`.

    Args:
        residual: Prediction minus recording (frames, n, 3) [m].
        slopes: Derivatives of the prediction by all numbers (numbers, frames, n, 3).
    """
    r, J = residual.detach().flatten(1).numpy(), slopes[TOLD].detach().flatten(2).permute(1, 2, 0).numpy()
    weight = 1 / (1 + (r / cables.OUTLIER) ** 2)
    A, g = np.einsum("tci,tc,tcj->tij", J, weight, J), np.einsum("tci,tc->ti", J, weight * r)
    squares, axes = np.linalg.eigh(A)
    root = np.where(squares > NULL * squares.max(), np.sqrt(np.clip(squares, 0.0, None)), 0.0)
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    roots, y = (np.einsum("tij,tj,tkj->tik", axes, d, axes) for d in (root, inverse))
    everywhere = np.ones(len(TOLD), bool)
    return Scores(np.arange(len(r)) / FPS, roots, -np.einsum("tij,tj->ti", y, g), np.arange(len(TOLD)), everywhere)


def discrepancy_of(runs: Sequence[cables.CableRun], u: Tensor) -> Discrepancy:
    """Discrepancy of the runs that u (numbers,) was fitted to."""
    parts, squares = [], []
    for run in runs:
        predicted, slopes = (y.detach() for y in run.sensitivity(u))
        residual = predicted - run.target
        parts.append(scores_of(residual, slopes))
        squares.append(residual.square().mean().item())
    return combine(parts, np.zeros((len(TOLD), len(TOLD))), u[TOLD].numpy(), float(np.mean(squares)))


def half_width(fitted: Discrepancy, slopes: Tensor) -> np.ndarray:
    """Half width (frames, n, 3) [m] of the 95 % band of a run that was not fitted.

    Args:
        fitted: Discrepancy of the fitted runs.
        slopes: Derivatives of the run's prediction by all numbers (numbers, frames, n, 3).
    """
    J = slopes[TOLD].detach().numpy()
    spread = np.einsum("itnc,ij,jtnc->tnc", J, fitted.covariance + fitted.scatter, J)
    return Z95 * np.sqrt(spread + fitted.mean_square)


def chi2_of_halves(first: Discrepancy, second: Discrepancy) -> float:
    """χ² of the difference of two fits to disjoint runs, of as many degrees of freedom as `TOLD` has numbers."""
    difference = first.u - second.u
    return float(difference @ np.linalg.solve(first.covariance + second.covariance, difference))
