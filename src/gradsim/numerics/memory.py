"""Memory of noise in time: one correlation from instant to instant, or a part that is forgotten soon and one that lasts.

    c(k) = (1 − s) fᵏ + s wᵏ,      0 ≤ f < w < 1          correlation of a stationary series with itself, k instants later

Both parts are autoregressive, so the likelihood of a series follows from one-step predictions (Kalman 1960; Harvey 1989), in a time linear in its
length, without what is not measured. All series have the same memory, each its own variance.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# Correlations of a memory of one part
SINGLE_CORRELATIONS = np.concatenate([np.arange(0.0, 0.9, 0.05), np.arange(0.9, 0.995, 0.01)])
# Those of the part that is forgotten soon
FAST_CORRELATIONS = (0.0, 0.2, 0.4, 0.6, 0.8)
LASTING_TIMES = 4.0 * 2.0 ** np.arange(7)  # [instants] in which the other part falls to 1/e
# Its share of the variance
LASTING_SHARES = (0.03, 0.06, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8)
MIN_TIME_RATIO = 2.0  # times as long as the fast part, at least, that the slow one lasts
MIN_EVIDENCE = 12.0  # twice the gain in log likelihood above which a slow part is a finding (χ² of 2 numbers: 0.25 %)


@dataclass(frozen=True)
class Memory:
    """Correlation of noise with itself at a later instant.

    Args:
        fast: Correlation f of the part that is forgotten soon with the next instant.
        slow: That of the part that lasts, w.
        share: s, its share of the variance.
    """

    fast: float
    slow: float = 0.0
    share: float = 0.0

    @property
    def time(self) -> float:
        """Instants in which the part that lasts falls to 1/e; 0 where there is one part alone."""
        return -1 / math.log(self.slow) if self.share else 0.0

    def at(self, lag: Tensor) -> Tensor:
        """c at some lags."""
        lag = lag.double()
        if not self.share:
            return self.fast**lag
        return (1 - self.share) * self.fast**lag + self.share * self.slow**lag

    def inflation(self, count: int) -> float:
        """Variance of the mean of `count` instants over that of a series without memory; of one part alone that of a long series."""
        if not self.share:
            return (1 + self.fast) / (1 - self.fast)
        lag = torch.arange(1, count).double()
        return 1 + 2 * float((self.at(lag) * (1 - lag / count)).sum())


def lasting_memory(series: Sequence[Tensor]) -> Memory | None:
    """The memory of most likelihood that has a part that lasts; None where one part alone explains the series about as well.

    Args:
        series: Values (instants, quantities) of normal noise of mean 0, one tensor for each independent recording; rows that are NaN were not measured.
    """
    values = [part.numpy() for part in series if len(part)]
    varied = np.any([np.nan_to_num(part).any(0) for part in values], 0)  # a quantity that is 0 has no memory
    if not np.any(varied):
        return None
    values = [part[:, varied] for part in values]
    single = _misfit(
        values, SINGLE_CORRELATIONS, np.zeros(len(SINGLE_CORRELATIONS)), np.zeros(len(SINGLE_CORRELATIONS))
    )
    last = [math.exp(-1 / time) for time in LASTING_TIMES]
    pairs = [
        (f, w, s)
        for f in FAST_CORRELATIONS
        for w in last
        for s in LASTING_SHARES
        if not f or math.log(f) < MIN_TIME_RATIO * math.log(w)
    ]
    fast, slow, share = np.array(pairs).T
    double = _misfit(values, fast, slow, share)
    k = int(double.argmin())
    return Memory(*pairs[k]) if single.min() - double[k] > MIN_EVIDENCE else None


def _misfit(series: Sequence[np.ndarray], fast: np.ndarray, slow: np.ndarray, share: np.ndarray) -> np.ndarray:
    """−2 log likelihood (memories,) of all series, at the likeliest variances, but for a constant."""
    correlation, variance = np.stack([fast, slow], 1), np.stack([1 - share, share], 1)
    fresh = (1 - correlation**2) * variance
    squares, logarithms, count = 0.0, np.zeros(len(fast)), 0
    for values in series:
        spread = variance[:, :, None] * np.eye(2)
        mean = np.zeros((len(fast), 2, values.shape[1]))
        for row in values:
            if np.isfinite(row).all():
                along = spread.sum(2)
                total = along.sum(1)
                gain = along / total[:, None]
                surprise = row - mean.sum(1)
                squares = squares + surprise**2 / total[:, None]
                logarithms += np.log(total)
                count += 1
                mean += gain[:, :, None] * surprise[:, None]
                spread -= gain[:, :, None] * along[:, None]
            mean *= correlation[:, :, None]
            spread = correlation[:, :, None] * correlation[:, None] * spread + fresh[:, :, None] * np.eye(2)
    if not count:
        return np.zeros(len(fast))
    quantities = series[0].shape[1]
    return quantities * logarithms + count * np.log(np.maximum(squares / count, 1e-300)).sum(-1)
