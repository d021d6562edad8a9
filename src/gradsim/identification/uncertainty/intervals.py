"""95 % intervals of a fit: from standard deviations in solver coordinates, or quantiles of posterior samples.

Solver coordinates are logarithms where a quantity is positive, so there σ is relative and the interval is

    value / e^{1.96 σ} … value · e^{1.96 σ},        else value − 1.96 σ … value + 1.96 σ
"""

import math

import torch
from torch import Tensor

from gradsim.identification.fit import Estimate
from gradsim.identification.solvers.de_mcmc import Samples
from gradsim.identification.uncertainty.fisher import KNOWN, Uncertainty
from gradsim.identification.unknowns import Ranges

Z95 = 1.959963984540054  # of the normal distribution
BLIND = 10.0  # relative bound above which the data say nothing at all


def estimates_with_intervals(
    space: Ranges, u: Tensor, uncertainty: Uncertainty, samples: Samples | None = None
) -> dict[str, Estimate]:
    """Estimates of all unknowns with standard deviations and 95 % intervals, by name.

    Args:
        space: The unknowns.
        u: The answer in solver coordinates (unknowns,).
        uncertainty: Its bounds.
        samples: Samples of the posterior; standard deviations and intervals are then theirs.
    """
    estimates = {}
    numbers = space.numbers(u)
    for k, unknown in enumerate(space.unknowns):
        spread, value = uncertainty.std_inner[k].item(), numbers[k].item()
        if space.logarithmic[k]:
            std = value * spread
            wide = math.exp(min(Z95 * spread, 700.0))
            interval = (value / wide, value * wide)
        else:
            std, interval = spread, (value - Z95 * spread, value + Z95 * spread)
        if samples is not None:
            values = space.numbers(samples.u)[:, k]
            std = values.std().item()
            interval = tuple(torch.quantile(values, torch.tensor([0.025, 0.975], dtype=values.dtype)).tolist())
        known = uncertainty.relative[k].item() < KNOWN
        estimates[unknown.name] = Estimate(value, std, interval, space.units[k], *space.range(k), known)
    return estimates


def estimate_in_range(space: Ranges, k: int, inner: float, uncertainty: Uncertainty) -> Estimate:
    """Estimate of the k-th unknown; an interval wider than its range is its range."""
    spread = uncertainty.std_inner[k].item()
    ends = torch.tensor([inner - Z95 * spread, inner, inner + Z95 * spread]).double()
    low, value, high = ends.clamp(space.low[k], space.high[k]).tolist()
    if space.logarithmic[k]:
        low, value, high, spread = math.exp(low), math.exp(value), math.exp(high), math.exp(value) * spread
    relative = uncertainty.relative[k].item()
    std = spread if relative < BLIND else math.inf
    lowest, highest = space.numbers(torch.stack([space.low, space.high]))[:, k].tolist()
    return Estimate(value, std, (low, high), space.units[k], lowest, highest, relative < KNOWN)
