"""Search where the noise of masks is that of their outlines: on large pixels first.

An outline that is off by a third of a pixel is off alike in its neighbours, so pixels of an eighth of the body lose little.
After the search, σ of a pixel becomes that at which pixels tell as much as outlines do (`uncertainty.outline`): steps of time are
judged by it.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from gradsim.identification.estimators import Estimator
from gradsim.identification.held_numbers import search_with_priors_held
from gradsim.identification.observation.base import Masks
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.multistart import MultistartConfig, Outcome, history_entry
from gradsim.identification.uncertainty.outline import with_outline_scale
from gradsim.runtime.progress import CheckpointStore

RATIO = 1.25  # of the frames of two stages
FOLLOWERS = 6  # starts that follow the clip
SEARCH_BODY_PIXELS = 8  # pixels across a body that are enough for the search
POLISHING_LINEARIZATIONS = 10  # linearizations on the pixels of the problem


def on_large_pixels(problem: Problem) -> Problem:
    """The problem of `Masks` on the largest pixels that are enough for a search."""
    observation = problem.observation
    assert isinstance(observation, Masks)
    return problem.with_observation(observation.binned(observation.largest_bin(SEARCH_BODY_PIXELS)))


def search_outlines(
    problem: Problem,
    plan: MultistartConfig,
    rng: np.random.Generator,
    report: Callable[[dict], None],
    checkpoint: CheckpointStore | None,
    search: Estimator,
) -> tuple[Problem, Outcome]:
    """Search on large pixels, then on those of the problem.

    Args:
        problem: Of one clip and camera with `Masks`, whose σ is only a scale.
        plan: Settings of the search.
        rng: Random generator of starts and resampling.
        report: Called after each stage with its entry of the history.
        checkpoint: Store of the search.
        search: The estimator.

    Returns:
        The problem with a σ that fits to the outlines, and the outcome in it.
    """
    coarse = on_large_pixels(problem)
    plan = replace(plan, ratio=RATIO, followers=FOLLOWERS)
    coarse_outcome = search_with_priors_held(coarse, plan, rng, report, checkpoint, search)
    ended = coarse_outcome.cost.isfinite()
    ends = [coarse_outcome.best[None], coarse_outcome.final[ended]]
    ends += [] if coarse_outcome.resampled is None else [coarse_outcome.resampled]
    iterates = Population.at(torch.cat(ends))
    iterates, n = descend(problem, iterates, problem.frames, "pixels", POLISHING_LINEARIZATIONS)
    k = int(iterates.cost.argmin())
    problem = with_outline_scale(problem, iterates.u[k])
    cost = problem.cost(iterates.u, problem.frames)
    final, costs = coarse_outcome.final.clone(), coarse_outcome.cost.clone()
    starts = slice(1, 1 + int(ended.sum()))
    final[ended], costs[ended] = iterates.u[starts], cost[starts]
    entry = history_entry(problem, "fine pixels", problem.frames, iterates.u, cost, coarse_outcome.iterations + n)
    report(entry)
    history = [*coarse_outcome.history, entry]
    return problem, Outcome(
        coarse_outcome.initial,
        final,
        costs,
        iterates.u[k],
        cost[k].item(),
        coarse_outcome.iterations + n,
        history,
        iterates.u[starts.stop :],
    )
