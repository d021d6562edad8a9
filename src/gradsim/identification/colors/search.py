"""Search for what only colors show, such as the spin of a ball: coarse colors of few frames first.

Colors that are blurred over an eighth of the body and few frames in which it turns little have a wide basin: the turn between frames has to be
right to the size of the pattern only. Draws of the unknowns that outlines leave open are compared on the first frames, the best of
them descend, and follow the clip as it grows; then come finer pixels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.colors.interior import InteriorColors
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.multistart import Outcome, history_entry
from gradsim.identification.uncertainty.fisher import KNOWN

DRAWS = 200  # of candidates for each unknown that outlines leave open: the basin of a spin in three frames is some hundredth of its range
MOST = 1000  # candidates
FOLLOWERS = 8, 4, 2  # candidates that descend in the first stages, and in later ones
FIRST, GROWTH = 3, 1.6  # frames of the first stage, and their growth
COARSE_STEPS, FINE_STEPS = 8, 12  # linearizations of a stage, at most
RTOL = 1e-3  # relative decrease of the cost at which a candidate rests


@dataclass(frozen=True)
class Levels:
    """The same colors in pixels of several sizes.

    Args:
        coarse: Blurred, for the search.
        fine: For the answer.
    """

    coarse: InteriorColors
    fine: InteriorColors


def open_directions(problem: Problem) -> Tensor:
    """Orthonormal directions (k, unknowns), in relative units, that the priors of a problem leave open."""
    unit = problem.space.unit
    eigenvalues, axes = torch.linalg.eigh(problem.prior_precision * unit[:, None] * unit)
    return axes[:, eigenvalues.clamp(min=0).sqrt() < 1 / KNOWN].mT


def draw(problem: Problem, u: Tensor, rng: np.random.Generator, count: int) -> Tensor:
    """Candidates (count, unknowns): u moved at random over the ranges along the open directions."""
    space, axes = problem.space, open_directions(problem)
    if not len(axes):
        return u[None]
    wide = (space.draw(rng, count) - u) / space.unit
    return (u + space.unit * (wide @ axes.mT @ axes)).clamp(space.low, space.high)


def search_colors(
    problem: Problem,
    levels: Levels,
    u: Tensor,
    rng: np.random.Generator,
    report: Callable[[dict], None] = lambda entry: None,
) -> Outcome:
    """Search for the lowest cost of colors with the outlines as a prior.

    Args:
        problem: Its priors are what outlines say; its observation does not matter.
        levels: Colors.
        u: Where outlines lead (unknowns,).
        rng: Draws the candidates.
        report: Called after each stage with its entry of the history.
    """
    coarse, history = problem.with_observation(levels.coarse.with_steps(2)), []
    k = len(open_directions(problem))
    starts = draw(problem, u, rng, min(MOST, DRAWS * k) if k else 1)
    stages = _stages(levels.coarse.frames)
    cost = torch.cat([coarse.cost(part, stages[0]) for part in starts.split(16)])
    best = cost.argsort()[: FOLLOWERS[0]]
    iterates, iterations, who = Population.at(starts[best]), 0, best

    def note(stage: str, frames: int) -> None:
        history.append(history_entry(problem, stage, frames, iterates.u, iterates.cost, iterations))
        report(history[-1])

    for j, frames in enumerate(stages):
        iterates, n = descend(coarse, iterates, frames, "pixels", COARSE_STEPS, rtol=RTOL, tries=1)
        iterations += n
        order = _distinct(problem, iterates)[: FOLLOWERS[min(j + 1, len(FOLLOWERS) - 1)]]
        iterates, who = iterates[order], who[order]
        note("colors", frames)
    order = iterates.cost.argsort()[: 1 if _clear(iterates.cost) else FOLLOWERS[-1]]
    iterates, who = iterates[order], who[order]
    trajectory = problem.model.rollout_unchecked(
        problem.model.values(problem.space.values(iterates.u[:1])), levels.fine.frames
    )
    fine = problem.with_observation(levels.fine.with_exposures(trajectory))
    iterates, n = descend(fine, iterates, levels.fine.frames, "pixels", FINE_STEPS, rtol=RTOL / 10, tries=2)
    iterations += n
    note("fine colors", levels.fine.frames)
    final, costs = torch.full_like(starts, torch.nan), torch.full((len(starts),), torch.inf).double()
    final[who], costs[who] = iterates.u, iterates.cost
    k = int(iterates.cost.argmin())
    return Outcome(starts, final, costs, iterates.u[k], iterates.cost[k].item(), iterations, history)


def _stages(frames: int) -> list[int]:
    stages = [min(FIRST, frames)]
    while stages[-1] < frames:
        stages.append(min(frames, int(np.ceil(GROWTH * stages[-1]))))
    return stages


def _clear(cost: Tensor) -> bool:
    """True if the best candidate is far better than the next one."""
    ordered = cost.sort().values
    return len(ordered) < 2 or bool(ordered[1] > 1.3 * ordered[0])


def _distinct(problem: Problem, iterates: Population) -> Sequence[int]:
    """Candidates by cost, of which one of each place."""
    order: list[int] = []
    for k in iterates.cost.argsort().tolist():
        gaps = [((iterates.u[k] - iterates.u[j]) / problem.space.unit).abs().max() for j in order]
        if not order or min(gaps) > 2e-3:
            order.append(k)
    return order
