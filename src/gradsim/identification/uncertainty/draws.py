"""Draws from the posterior of a fit, for domain randomization: random unknowns with the errors and correlations of an answer.

The posterior is normal in solver coordinates (logarithms of positive quantities), with the standard deviations of the result
and its correlations, within the ranges of the unknowns. A range of width w counts as information 12/w², as a uniform one of its variance,
so directions that the data leave open are as wide as the ranges.
"""

import math
from collections.abc import Mapping

import numpy as np

from gradsim.errors import InputError

LARGEST = 1_000_000  # draws
BATCHES = 200  # of draws, after which what is outside of a range goes to its end


def draws(result: Mapping, count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Draws (count,) of each unknown of a fit, in SI units.

    Args:
        result: Content of `result.json` (`Fit.result`).
        count: Number of draws.
        seed: Random seed.

    Raises:
        InputError: If the count is not between 1 and a million, or the result has no finite covariance of its unknowns.
    """
    if not 1 <= count <= LARGEST:
        raise InputError(f"got {count} draws; choose from 1 to {LARGEST}.")
    unknowns, posterior = result.get("unknowns") or {}, result.get("posterior") or {}
    covariance = np.array(posterior.get("covariance") or [], np.float64)
    values = [u["value"] for u in unknowns.values()]
    if (
        not unknowns
        or covariance.shape != (len(unknowns), len(unknowns))
        or not np.isfinite(covariance).all()
        or None in values
    ):
        raise InputError(
            "the result has no covariance of its unknowns to draw from; fit again with this version of gradsim."
        )
    logarithmic = np.array(posterior["logarithmic"], bool)
    inner = lambda key: np.array([u[key] for u in unknowns.values()], np.float64)
    value, low, high = (
        np.where(logarithmic, np.log(np.where(logarithmic, x, 1)), x) for x in map(inner, ("value", "low", "high"))
    )
    std = np.array([math.nan if u["std"] is None else u["std"] for u in unknowns.values()], np.float64)
    std = np.where(logarithmic, std / inner("value"), std)
    scale = np.where(np.isfinite(std), std / np.sqrt(covariance.diagonal().clip(1e-300)), 1.0)
    root = _root(covariance * scale * scale[:, None], high - low)
    rng, inside = np.random.default_rng(seed), np.zeros((0, len(value)))
    for _ in range(BATCHES):
        trial = value + rng.standard_normal((count, len(value))) @ root.T
        inside = np.concatenate([inside, trial[((trial >= low) & (trial <= high)).all(1)]])
        if len(inside) >= count:
            break
    else:
        inside = np.concatenate([inside, trial.clip(low, high)])
    inside = inside[:count]
    return dict(zip(unknowns, np.where(logarithmic, np.exp(np.where(logarithmic, inside, 0)), inside).T, strict=True))


def _root(covariance: np.ndarray, width: np.ndarray) -> np.ndarray:
    """R with R Rᵀ = (C⁻¹ + 12/w²)⁻¹ for a covariance C and widths w of ranges."""
    eigenvalues, axes = np.linalg.eigh(covariance / width / width[:, None])
    eigenvalues = eigenvalues.clip(0)
    return width[:, None] * axes * np.sqrt(eigenvalues / (1 + 12 * eigenvalues))
