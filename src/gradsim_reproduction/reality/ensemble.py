"""Fits and bands of tosses: the cross-entropy method, and quantiles of an ensemble, widened until they cover runs that its fit left out.

u ~ N(m, S) within the unit cube;   m, S ← those of the best of them, mixed with the former         (Rubinstein 1999)
score = |y - median|/half width of the band of its side;   factor = 95 % quantile of the scores of such runs
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy.special
import torch
from torch import Tensor

KEEP = 0.3  # share of the former mean and covariance in the next
WIDE = 0.3  # standard deviation at first, of a range
BAND = 0.95
FLOOR = 2e-3  # [m] half width of a band at least: where a body and a table meet is not known better
NODES = 99  # of Student's distribution
TINY, LARGEST = 1e-6, 5.0  # least quantile of scores; logarithm of the largest over their mean


def cross_entropy(
    loss: Callable[[np.ndarray], np.ndarray],
    n: int,
    population: int,
    elite: int,
    generations: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, float]:
    """The best point of all, then those of the last elite (members, n), and its loss.

    Args:
        loss: Losses (k,) of points (k, n) of the unit cube.
        n: Number of coordinates.
        population: Points of a generation.
        elite: Best of them, which make the next.
        generations: Number of generations.
        rng: Source of the points.
    """
    mean, cov, best = np.full(n, 0.5), np.eye(n) * WIDE**2, (np.inf, np.full(n, 0.5))
    members = mean[None]
    for _ in range(generations):
        u = np.clip(rng.multivariate_normal(mean, cov, population), 0, 1)
        u[0] = best[1]
        losses = loss(u)
        order = losses.argsort()
        members = u[order[:elite]]
        best = min(best, (float(losses[order[0]]), u[order[0]]), key=lambda pair: pair[0])
        mean = KEEP * mean + (1 - KEEP) * members.mean(0)
        cov = KEEP * cov + (1 - KEEP) * (np.cov(members.T) + 1e-6 * np.eye(n))
    return np.concatenate([best[1][None], members]), best[0]


def band(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Median of an ensemble (members, frames, k), and distances from it to the quantiles of a 95 % band [m]."""
    tail = (1 - BAND) / 2
    low, middle, high = (x.quantile(torch.tensor(q).to(x), 0) for q in (tail, 0.5, 1 - tail))
    return middle, middle - low, high - middle


def scores(x: Tensor, truth: Tensor) -> Tensor:
    """Distance of each coordinate (frames, k) from the median over the half width of its band."""
    middle, below, above = band(x)
    off = truth - middle
    return off.abs() / torch.where(off < 0, below, above).clamp(min=FLOOR)


def widening(ensembles: Sequence[Tensor], truths: Sequence[Tensor]) -> float:
    """Factor of the bands that covers 95 % of the coordinates of a further run.

    Args:
        ensembles: Ensemble of each run (members, frames, k).
        truths: The runs (frames, k).
    """
    return factor_for_another([scores(x, y).numpy() for x, y in zip(ensembles, truths, strict=True)])


def factor_for_another(parts: Sequence[np.ndarray]) -> float:
    """95 % quantile of the scores of a further run.

    Few runs do not show how far runs differ, so their scatter is a random effect: with the 95 % quantile q of the scores of each of n runs, log q of a further one has Student's distribution of
    n - 1 degrees of freedom about their mean, √(1 + 1/n) times as wide as they scatter. Scores over q are those of all runs.

    Args:
        parts: Scores of the coordinates of each run: errors over what a band of factor 1 is wide.
    """
    parts = [np.ravel(part) for part in parts]
    sizes = np.clip([np.quantile(part, BAND) for part in parts], TINY, None)
    n, log = len(parts), np.log(sizes)
    spread = float(log.std(ddof=1)) * math.sqrt(1 + 1 / n) if n > 1 else 0.0
    shares = (np.arange(NODES) + 0.5) / NODES
    further = np.exp(log.mean() + np.minimum(scipy.special.stdtrit(max(n - 1, 1), shares) * spread, LARGEST))
    relative = np.concatenate([part / size for part, size in zip(parts, sizes, strict=True)])
    return float(np.quantile(relative[:, None] * further, BAND))
