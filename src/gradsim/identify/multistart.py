"""Many starts through a growing clip.

A long clip of a tumbling body has a jagged cost; its first frames do not. So the clip grows by a few frames a stage,
and every start follows: on pixels where it can, on the far-seeing CDF residuals where it must. A start whose cost is
above what the noise explains is not solved. While enough starts are solved, the others are dropped (successive
halving); when too few are, the unsolved are sown again from the better ones along the directions that the clip so far
leaves most open (the weak eigenvectors of the Fisher information).

Nothing here knows the truth: starts come from the ranges, and "solved" is judged against the noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradsim.identify.least_squares import Population, descend
from gradsim.identify.problem import Problem

KEEP = 3  # solved starts that make sowing again needless


@dataclass
class Search:
    """How starts are led to the answer.

    Args:
        starts: Number drawn from the ranges.
        first: Frames of the first stage.
        grow: Frames added at each stage.
        rounds: Most rounds of sowing again in one stage.
        seconds: CPU time after which no more rounds are made.
        curriculum: False goes to all frames at once.
    """

    starts: int = 16
    first: int = 4
    grow: int = 2
    rounds: int = 12
    seconds: float = 120.0
    curriculum: bool = True


@dataclass
class Outcome:
    """Where the starts came to.

    Args:
        initial: All starts drawn (starts, unknowns).
        final: Where each ended, in the same order; NaN for those dropped or sown again.
        cost: Their costs; infinite for those.
        best: The answer (unknowns,).
        best_cost: Its cost.
        iterations: Linearisations of the whole population.
        history: One entry a stage and a polish: frames, kind, cost, and the best u.
    """

    initial: Tensor
    final: Tensor
    cost: Tensor
    best: Tensor
    best_cost: float
    iterations: int
    history: list[dict]

    def converged(self) -> int:
        """Starts that came to the answer's cost on their own, to half a unit of χ²."""
        return int((self.cost < self.best_cost + 1.0 + 1e-9 * self.best_cost).sum())


def search(problem: Problem, plan: Search, rng: np.random.Generator, report: Callable[[dict], None]) -> Outcome:
    """Lead many starts through the curriculum to the lowest cost.

    Args:
        problem: The problem.
        plan: How.
        rng: Draws the starts and what is sown again.
        report: Called after each stage with its entry of the history.
    """
    initial = problem.space.draw(rng, plan.starts)
    people, who = Population.at(initial), torch.arange(plan.starts)  # who: which start each is, -1 once sown again
    history, iterations = [], 0

    def note(stage: str, frames: int) -> None:
        k = int(people.cost.argmin())
        history.append(
            {"stage": stage, "frames": frames, "cost": people.cost[k].item(), "u": people.u[k].tolist()}
            | {"iteration": iterations, "rollouts": problem.effort.rollouts, "population": len(people.cost)}
        )
        report(history[-1])

    stages = list(range(min(plan.first, problem.frames), problem.frames, plan.grow)) if plan.curriculum else []
    for frames in stages:
        floor, informative = problem.observation.floor(frames)
        enough = floor + _explained(floor, informative, problem, frames)
        people, n = _attempt(problem, people, frames, enough)
        iterations += n
        solved = people.cost < enough
        rounds = 0
        while solved.sum() < min(KEEP, plan.starts) and rounds < plan.rounds:
            if problem.effort.cpu_seconds > plan.seconds:
                break
            rounds += 1
            fresh = _sow(problem, people, ~solved, frames, rng)
            fresh, n = _attempt(problem, fresh, frames, enough)
            iterations += n
            places = (~solved).nonzero()[:, 0]
            better = fresh.cost < people.cost[places]
            people.put(places[better], fresh[better])
            who[places[better]] = -1
            solved = people.cost < enough
        if solved.sum() >= KEEP:
            people, who = people[solved], who[solved]
        note("curriculum", frames)

    if not plan.curriculum:
        people, n = descend(problem, people, problem.frames, True, 30)
        iterations += n
    people, n = descend(problem, people, problem.frames, False, 60)
    iterations += n
    note("pixels", problem.frames)
    people, n = _polish(problem, people, rng)
    iterations += n
    note("polish", problem.frames)

    k = int(people.cost.argmin())
    final, cost = torch.full_like(initial, torch.nan), torch.full((plan.starts,), torch.inf).double()
    own = who >= 0
    final[who[own]], cost[who[own]] = people.u[own], people.cost[own]
    return Outcome(initial, final, cost, people.u[k], people.cost[k].item(), iterations, history)


def _explained(floor: float, informative: float, problem: Problem, frames: int) -> float:
    """χ² of the informative residuals that noise of the level seen elsewhere would leave.

    The clear pixels tell the true level: `floor` over their number is 1 for the stated noise, 0 for float frames.
    """
    masks = getattr(problem.observation, "masks", None)
    if masks is None:
        return math.inf
    clear = masks[:frames].numel() - informative
    level = floor / clear if clear else 1.0
    return max(level, 1e-8) * (1.5 * informative + 5 * math.sqrt(2 * informative) + 5 * math.sqrt(2 * clear))


def _attempt(problem: Problem, people: Population, frames: int, enough: float) -> tuple[Population, int]:
    """Pixels first; where that does not solve a start, CDF and then pixels, keeping the better."""
    people, count = descend(problem, people, frames, False, 10, enough)
    stuck = (people.cost >= enough).nonzero()[:, 0]
    if len(stuck) and math.isfinite(enough):
        far, n = descend(problem, people[stuck], frames, True, 10)
        far.damping.fill_(1e-2)
        near, m = descend(problem, far, frames, False, 10, enough)
        better = near.cost < people.cost[stuck]
        people.put(stuck[better], near[better])
        count += n + m
    return people, count


def _sow(problem: Problem, people: Population, where: Tensor, frames: int, rng: np.random.Generator) -> Population:
    """New starts in place of those at `where`, from the best four or from themselves, along weak directions."""
    order = people.cost.argsort()[:4]
    places = where.nonzero()[:, 0]
    sources = [int(order[rng.integers(len(order))]) if rng.random() < 0.8 else int(p) for p in places]
    _, A, _ = problem.linearise(people.u[sources], frames)
    return Population.at(_along_weak(problem, people.u[sources], A, 10 ** rng.uniform(-4, 0.5, len(places)), rng))


def _along_weak(problem: Problem, u: Tensor, A: Tensor, size: np.ndarray, rng: np.random.Generator) -> Tensor:
    """u moved by so many standard deviations of the Fisher information, by at most 0.7 in any one of its axes."""
    eigenvalues, axes = torch.linalg.eigh(A.nan_to_num(0.0))
    spread = (torch.tensor(size)[:, None] * eigenvalues.clamp(min=1e-12).rsqrt()).clamp(max=0.7)
    noise = torch.tensor(rng.standard_normal(u.shape))
    return (u + (axes @ (spread * noise)[..., None])[..., 0]).clamp(problem.space.low, problem.space.high)


def _polish(problem: Problem, people: Population, rng: np.random.Generator, rounds: int = 6) -> tuple[Population, int]:
    """Leave the small valleys that contact makes at the scale of the noise: restarts a few σ away, from the best."""
    count = 0
    for _ in range(rounds):
        k = int(people.cost.argmin())
        if people.cost[k] < 1e-12:
            break
        _, A, _ = problem.linearise(people.u[k : k + 1], problem.frames)
        tries = 4
        u = _along_weak(
            problem, people.u[k].expand(tries, -1), A.expand(tries, -1, -1), 10 ** rng.uniform(-1, 1.5, tries), rng
        )
        near, n = descend(problem, Population.at(u), problem.frames, False, 12)
        count += n
        best = int(near.cost.argmin())
        if near.cost[best] >= people.cost[k]:
            break
        people.put([k], near[[best]])
    return people, count
