"""Error bars and predictive bands of cables: a discrepancy with memory, numbers that scatter between runs, and predictions of runs that were not fitted.

Scores are those of the loss of the fit, whose weights are 1/(1 + (r/s)²). The roll of each run is an unknown of this run alone. The width of bands is taken from training
runs: each half is predicted from a fit to the other (cross-conformal: Vovk 2015), and the scatter of these eight runs is a random effect in the width (`factor_for_another`).
"""

import numpy as np
from torch import Tensor

from gradsim.identification.uncertainty.discrepancy import Discrepancy, Scores, combine
from gradsim_reproduction.reality import cable_model as cables
from gradsim_reproduction.reality.cable_recordings import FPS

NULL = 1e-9  # share of the information of a run below which a direction of a frame is open


def scores_of(residual: Tensor, slopes: Tensor, run: int) -> Scores:
    """Scores of a run by the numbers, and by its roll.

    Args:
        residual: Prediction minus recording (frames, n, 3) [m].
        slopes: Derivatives of the prediction by all numbers and the roll (numbers + 1, frames, n, 3).
        run: Its place among the runs.
    """
    r, J = residual.detach().flatten(1).numpy(), slopes.detach().flatten(2).permute(1, 2, 0).numpy()
    good = np.isfinite(r) & np.isfinite(J).all(2)  # a run whose steps cannot be solved ends early
    weight, r, J = (
        np.where(good, 1 / (1 + (r / cables.OUTLIER) ** 2), 0.0),
        np.where(good, r, 0.0),
        np.where(good[..., None], J, 0.0),
    )
    A, g = np.einsum("tci,tc,tcj->tij", J, weight, J), np.einsum("tci,tc->ti", J, weight * r)
    squares, axes = np.linalg.eigh(A)
    root = np.where(squares > NULL * squares.max(), np.sqrt(np.clip(squares, 0.0, None)), 0.0)
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    roots, y = (np.einsum("tij,tj,tkj->tik", axes, d, axes) for d in (root, inverse))
    count = len(slopes) - 1
    columns = np.array([*range(count), count + run])
    return Scores(np.arange(len(r)) / FPS, roots, -np.einsum("tij,tj->ti", y, g), columns, columns < count)


def discrepancy_of(cable: cables.Cable) -> Discrepancy:
    """Discrepancy of the runs that a cable was fitted to; unknowns are its numbers, then the rolls of the runs."""
    parts, squares = [], []
    for k, run in enumerate(cable.runs):
        predicted, slopes = (y.detach() for y in run.sensitivity(cable.u))
        residual = predicted - run.target
        parts.append(scores_of(residual, slopes, k))
        squares.append(residual.nan_to_num(cables.FAR).square().mean().item())
    u = np.concatenate([cable.u.numpy(), [run.roll for run in cable.runs]])
    return combine(parts, np.zeros((len(u), len(u))), u, float(np.mean(squares)))


def scale_of(cable: cables.Cable, fitted: Discrepancy, slopes: Tensor) -> np.ndarray:
    """Standard deviations (frames, n, 3) [m] of a run that was not fitted, but for a factor.

    Args:
        cable: The cable.
        fitted: Its discrepancy.
        slopes: Derivatives of the run's prediction by all numbers and the roll (numbers + 1, frames, n, 3).
    """
    J = slopes.detach().nan_to_num().numpy()
    count = len(cable.u)
    spread = np.zeros((count + 1, count + 1))
    spread[:count, :count] = (fitted.covariance + fitted.scatter)[:count, :count]
    spread[count, count] = cable.roll_spread**2
    return np.sqrt(np.einsum("itnc,ij,jtnc->tnc", J, spread, J) + fitted.mean_square)


def chi2_of_halves(first: Discrepancy, second: Discrepancy) -> float:
    """χ² per degree of freedom of the difference of two fits to disjoint runs; there are as many degrees as numbers."""
    numbers = slice(0, len(first.u) - first.recordings)  # rolls of the runs follow
    difference = first.u[numbers] - second.u[numbers]
    covariance = (first.covariance + second.covariance)[numbers, numbers]
    return float(difference @ np.linalg.solve(covariance, difference)) / len(difference)
