"""Differential-evolution MCMC, for error bars where contact kinks the likelihood.

    u_i' = u_i + γ (u_a − u_b) + ε,   accepted with probability min(1, exp(−(χ²(u') − χ²(u_i))/2))

with γ = 2.38/√(2n), and γ = 1 every tenth time (ter Braak 2006). The proposals take scale and direction from the chains
themselves, so no derivative is needed: tangents of a motion with many contacts hold in one tooth of the likelihood.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.problem import Problem
from gradsim.runtime.progress import CheckpointStore, NoCheckpoint

GENERATIONS_PER_CHECKPOINT = 40  # generations between two checkpoints


@dataclass(frozen=True)
class Samples:
    """Posterior samples.

    Args:
        u: Solver coordinates (samples, unknowns).
        best: Sample of lowest cost (unknowns,).
        best_cost: Its cost.
        accepted: Fraction of accepted proposals.
        agreed: Whether independent explorations found the same valley.
    """

    u: Tensor
    best: Tensor
    best_cost: float
    accepted: float
    agreed: bool = True


def sample(
    problem: Problem,
    start: Tensor,
    scale: Tensor,
    rng: np.random.Generator,
    chains: int = 24,
    generations: int = 320,
    checkpoint: CheckpointStore | None = None,
    frames: int | None = None,
    report: Callable[[int, int], None] = lambda finished, total: None,
) -> Samples:
    """Sample exp(−χ²/2) within the bounds.

    Args:
        problem: The problem, with residuals whitened by the true noise.
        start: The estimate (unknowns,).
        scale: Columns that spread the first chains about it (unknowns, unknowns): principal axes, one σ long.
        rng: Random generator.
        chains: Number of chains.
        generations: Proposals of each chain; the first half is burn-in.
        checkpoint: Store of the chains, under "sample".
        frames: Number of first frames that count; None: all.
        report: Called after each generation with its number and that of all.
    """
    low, high, n, checkpoint = problem.space.low, problem.space.high, len(start), checkpoint or NoCheckpoint()
    frames = frames or problem.frames
    # first spread over three decades around the tangents' scale, which may be far off
    size = torch.tensor(10 ** rng.uniform(-1.5, 1.5, (chains, 1)))
    points = (start + (size * torch.tensor(rng.standard_normal((chains, n)))) @ scale.T).clamp(low, high)
    points[0] = start
    cost = problem.cost(points, frames)
    best, best_cost = points[cost.argmin()].clone(), cost.min().item()
    draws, taken, done = [], 0, 0
    if saved := checkpoint.load("sample"):
        points, cost, best, best_cost = (saved[key] for key in ("here", "cost", "best", "best_cost"))
        draws, taken, done = list(saved["kept"]), saved["taken"], saved["done"]
        rng.bit_generator.state = saved["rng"]
        problem.effort.resume(saved["effort"])
    for generation in range(done, generations):
        pairs = np.array([rng.choice(chains - 1, 2, replace=False) for _ in range(chains)])
        pairs += pairs >= np.arange(chains)[:, None]  # two chains other than oneself
        gamma = 1.0 if generation % 10 == 9 else 2.38 / math.sqrt(2 * n)
        jitter = 1e-3 * torch.tensor(rng.standard_normal((chains, n))) @ scale.T
        trial = points + gamma * (points[pairs[:, 0]] - points[pairs[:, 1]]) + jitter
        inside = ((trial >= low) & (trial <= high)).all(1)
        trial_cost = torch.where(inside, problem.cost(trial.clamp(low, high), frames), torch.inf)
        won = torch.log(torch.tensor(rng.random(chains))) < (cost - trial_cost) / 2
        points, cost = torch.where(won[:, None], trial, points), torch.where(won, trial_cost, cost)
        if cost.min() < best_cost:
            best, best_cost = points[cost.argmin()].clone(), cost.min().item()
        if generation == generations // 4:  # chains that never came near begin again at those that did
            lost = cost > cost.median() + 20
            fresh = torch.tensor(rng.choice(np.flatnonzero(~lost.numpy()), int(lost.sum())))
            points[lost], cost[lost] = points[fresh], cost[fresh]
        if generation >= generations // 2:
            draws.append(points.clone())
            taken += int(won.sum())
        report(generation + 1, generations)
        if (generation + 1) % GENERATIONS_PER_CHECKPOINT == 0:
            state = {"here": points, "cost": cost, "best": best, "best_cost": best_cost, "kept": draws, "taken": taken}
            state |= {"done": generation + 1, "rng": rng.bit_generator.state, "effort": problem.effort.state()}
            checkpoint.save("sample", state)
    return Samples(torch.cat(draws), best, best_cost, taken / (chains * len(draws)))
