"""New starts of a search: samples that look for better valleys, and neighbors of starts along directions that a clip leaves open."""

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.problem import Problem
from gradsim.identification.solvers.de_mcmc import sample
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.thresholds import least_decrease, rounding_cost

CHAINS, GENERATIONS = 16, 40  # of the samples that look for better valleys after a stage, from five unknowns on
EXPLAINED_CHI2 = 1e-9  # χ² that no restart can lower by anything that counts


def explore(
    problem: Problem,
    iterates: Population,
    who: Tensor,
    frames: int,
    rng: np.random.Generator,
    side_by_side: bool = False,
) -> tuple[Population, Tensor, int]:
    """Look for a better valley within the error bars of the clip so far, and put it in place of the worst start. One start alone stays.

    Contact cuts the cost into valleys narrower than the error bars of a few frames. One that is a little worse than
    another now is far worse when more frames have come, and far from where the other went. Chains that follow the
    posterior cross the ridges between them, which descents do not. `side_by_side` is for where one valley has shown so far:
    as many samples, of more and shorter chains, which take less time.

    Returns the population, which start each is, and the number of linearisations.
    """
    k = int(iterates.cost.argmin())
    _, A, _ = problem.linearize(iterates.u[[k]], frames)
    eigenvalues, axes = torch.linalg.eigh(A[0].nan_to_num(0.0))
    scale = axes * eigenvalues.clamp(min=2.0).rsqrt()
    few = min(1.0, (1 + len(scale)) / 6)  # fewer unknowns have fewer places to look
    chains, generations = (CHAINS, few**2 * GENERATIONS) if side_by_side else (few * CHAINS, few * GENERATIONS)
    samples = sample(problem, iterates.u[k], scale, rng, round(chains), round(generations), frames=frames)
    if samples.best_cost > iterates.cost[k] - 1e-3:
        return iterates, who, 1
    refined, n = descend(problem, Population.at(samples.best[None]), frames, "pixels", 8)
    last = int(iterates.cost.argmax())
    if len(who) == 1:
        (iterates, who), last = copied(iterates, who, 2), 1
    iterates.put([last], refined)
    who[last] = -1
    return iterates, who, n + 1


def copied(iterates: Population, who: Tensor, count: int) -> tuple[Population, Tensor]:
    """Starts with copies of the best, which are no start, up to a number of them; where they are as many, themselves."""
    k, copies = int(iterates.cost.argmin()), max(0, count - len(who))
    rows = torch.cat([torch.arange(len(who)), torch.full((copies,), k)])
    return iterates[rows], torch.cat([who, torch.full((copies,), -1)])


def replace_unsolved(
    problem, iterates: Population, who: Tensor, solved: Tensor, frames: int, keep: int, rng: np.random.Generator
):
    """Unsolved starts give their places to neighbours of solved ones; places that are not needed go."""
    sources = solved.nonzero()[:, 0]
    missing = max(0, keep - len(sources))
    if not len(sources) or not missing:
        chosen = solved if len(sources) else torch.ones_like(solved)
        return iterates[chosen], who[chosen]
    parents = iterates.u[sources[torch.tensor(rng.integers(len(sources), size=missing))]]
    _, A, _ = problem.linearize(parents, _fewer(frames, rng))
    fresh = Population.at(_along_weak(problem, parents, A, rng.uniform(0.3, 3.0, missing), rng))
    fresh.cost = problem.cost(fresh.u, frames)
    old = iterates[sources]
    joined = Population(*(torch.cat([getattr(old, k), getattr(fresh, k)]) for k in ("u", "cost", "damping")))
    return joined, torch.cat([who[sources], torch.full((missing,), -1)])


def _fewer(frames: int, rng: np.random.Generator) -> int:
    """Frames whose Fisher information shapes a new start: fewer leave more open, and know less of late contacts."""
    return max(2, round(frames * rng.choice([0.5, 0.75, 1.0])))


def resample(
    problem: Problem, iterates: Population, places: Tensor, frames: int, rng: np.random.Generator
) -> Population:
    """New starts in place of those at `places`, from the best four or from themselves, along weak directions."""
    order = iterates.cost.argsort()[:4]
    sources = [int(order[rng.integers(len(order))]) if rng.random() < 0.8 else int(p) for p in places]
    _, A, _ = problem.linearize(iterates.u[sources], _fewer(frames, rng))
    return Population.at(_along_weak(problem, iterates.u[sources], A, 10 ** rng.uniform(-2, 2, len(places)), rng))


def _along_weak(problem: Problem, u: Tensor, A: Tensor, size: np.ndarray, rng: np.random.Generator) -> Tensor:
    """u moved by `size` standard deviations of the Fisher information, by at most 0.7 in any one of its axes."""
    eigenvalues, axes = torch.linalg.eigh(A.nan_to_num(0.0))
    spread = (torch.tensor(size)[:, None] * eigenvalues.clamp(min=1e-12).rsqrt()).clamp(max=0.7)
    noise = torch.tensor(rng.standard_normal(u.shape))
    return (u + (axes @ (spread * noise)[..., None])[..., 0]).clamp(problem.space.low, problem.space.high)


def restart_around_best(
    problem: Problem, iterates: Population, rng: np.random.Generator, rounds: int
) -> tuple[Population, int]:
    """Escape the small valleys that contact makes at the scale of the noise: restarts around the best.

    It ends after two rounds in a row without a gain.

    Args:
        problem: The problem.
        iterates: With their costs; the best is overwritten where a restart is better.
        rng: Draws the restarts.
        rounds: Most rounds.

    Returns:
        The population, and the number of linearizations.
    """
    count = failures = 0
    if iterates.cost.min() < EXPLAINED_CHI2:
        return iterates, count
    least = max(EXPLAINED_CHI2, rounding_cost(problem, iterates.u[int(iterates.cost.argmin())], problem.frames))
    for _ in range(rounds):
        k = int(iterates.cost.argmin())
        if iterates.cost[k] < least or failures == 2:
            break
        tries = 8
        parents = iterates.u[k].expand(tries, -1)
        _, A, _ = problem.linearize(parents[:1], _fewer(problem.frames, rng))
        u = _along_weak(problem, parents, A.expand(tries, -1, -1), 10 ** rng.uniform(-1, 1, tries), rng)
        near, n = descend(problem, Population.at(u), problem.frames, "pixels", 12, min_decrease=least_decrease(problem))
        count += n
        best = int(near.cost.argmin())
        failures = 0 if near.cost[best] < iterates.cost[k] - 0.01 else failures + 1
        if near.cost[best] < iterates.cost[k]:
            iterates.put([k], near[[best]])
    return iterates, count
