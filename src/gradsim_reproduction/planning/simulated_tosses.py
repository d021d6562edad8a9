"""Expected standard deviations from simulated tosses, where trajectories are so kinked that no derivative tells them.

    w_ij ∝ exp(-½ Σ_tosses d_ij²/s²),        sd² = mean over truths i of Σ_j w_ij (y_j - Σ_k w_ik y_k)²

Samples j of the numbers are rolled out from the start of each toss, and the first ones count as truths in turn. d_ij [m] is the mean distance of
trajectories i and j, s by how much a law of contact is off in a toss as a whole. It is the expected posterior variance of Bayesian design (Chaloner, Verdinelli
1995) by importance sampling, with one error per toss, shared by all of its frames.
"""

from collections.abc import Sequence
from itertools import combinations
from math import comb

import torch
from torch import Tensor

EXHAUSTIVE = 100  # subsets up to which all are compared; tosses are chosen one after the other beyond
CHUNK = 20  # truths at once


def trajectory_distances(x: Tensor, truths: int) -> Tensor:
    """Mean distances d (truths, samples) [m] of trajectories x (samples, frames, points, 3), the first ones to all.

    A trajectory that is not finite is far from every other.
    """
    x = x.nan_to_num(10.0, 10.0, 10.0).clamp(-10, 10)
    parts = [(part[:, None] - x).norm(dim=-1).mean((2, 3)) for part in x[:truths].split(CHUNK)]
    return torch.cat(parts)


def expected_sd(distances: Sequence[Tensor], y: Tensor, error: float) -> float:
    """Expected standard deviation of a number after some tosses.

    Args:
        distances: d (truths, samples) of each toss [m].
        y: The number at each sample (samples,).
        error: s [m].
    """
    exponent = -0.5 * sum((d.double() / error).square() for d in distances)
    assert isinstance(exponent, Tensor)  # of at least one toss
    w = torch.softmax(exponent, 1)
    return (w @ y.square() - (w @ y).square()).clamp(min=0).mean().sqrt().item()


def choose(
    distances: Sequence[Tensor], y: Tensor, error: float, among: Sequence[int], count: int, known: dict | None = None
) -> tuple[int, ...]:
    """The tosses that leave the smallest standard deviation: best of all subsets, or one after the other where these are many.

    Args:
        distances: d (truths, samples) of each toss [m].
        y: The number at each sample (samples,).
        error: s [m].
        among: Tosses that are there.
        count: Number to choose.
        known: Standard deviations by tosses, extended here.
    """
    known = {} if known is None else known

    def sd(chosen: tuple[int, ...]) -> float:
        if chosen not in known:
            known[chosen] = expected_sd([distances[k] for k in chosen], y, error)
        return known[chosen]

    if comb(len(among), count) <= EXHAUSTIVE:
        return min(combinations(sorted(among), count), key=sd)
    chosen: tuple[int, ...] = ()
    for _ in range(count):
        chosen = min((tuple(sorted((*chosen, k))) for k in among if k not in chosen), key=sd)
    return chosen
