"""Covariance matrix adaptation, by the library `cma` (Hansen and Ostermeier 2001): no gradients, many rollouts."""

import copy
import math
import time
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from gradsim.control.baselines.budget import Budget, keep
from gradsim.control.baselines.population import flattened, scale, tried, unflattened
from gradsim.control.baselines.smooth import Smooth
from gradsim.control.history import History
from gradsim.control.training import Progress
from gradsim.runtime.optional import extra

if TYPE_CHECKING:
    from gradsim.control.setup import Setup

MANY = 200  # parameters of a policy, above which a smooth controller takes its place


def cma(
    setup: "Setup", budget: Budget, seed: int = 0, progress: Progress | None = None, size: float = 0.3
) -> tuple[nn.Module, History]:
    """Search among the policy's parameters, or, where these are more than `MANY`, among those of `Smooth`.

    Covariances of thousands of numbers cannot be learnt from hundreds of rollouts. One iteration is one generation: all
    worlds but one try samples; in the other goes the mean of the distribution, whose loss is the iteration's.

    Args:
        setup: Plant, kind of policy and goal.
        budget: `worlds` is the size of a generation, and one more for the mean; at least 4.
        seed: Of what is drawn.
        progress: Is told each iteration.
        size: Root mean square of u of the first samples, which says how far they lie from the start.

    Returns:
        The best of the means, and the history.

    Raises:
        InputError: If `cma` is not installed, or the budget is less than a generation.
    """
    library = extra("cma", "the baseline cma", "control")
    plant, policy = setup.plant, copy.deepcopy(setup.policy)
    if len(flattened(policy)) > MANY:
        policy = Smooth(plant)
    drawn, mean = np.random.default_rng(seed), flattened(policy)
    direction = torch.as_tensor(drawn.standard_normal(len(mean)))
    sigma = scale(plant, policy, direction, size)
    generation = max(3, budget.worlds - 1)
    rounds = budget.rounds(generation + 1)
    own = {"popsize": generation, "verbose": -9, "maxiter": math.inf, "seed": math.nan}
    own["randn"] = lambda *shape: drawn.standard_normal(shape)
    search = library.CMAEvolutionStrategy(mean.numpy(), sigma, own)
    history = History(names={"method": "cma", "seed": seed, "parameters": len(mean)})
    for _ in range(rounds):
        start = time.process_time()
        samples = search.ask()
        vectors = torch.as_tensor(np.stack([search.mean, *samples]))
        found = tried(plant, setup.goal, policy, vectors)
        search.tell(samples, found.loss[1:].tolist())
        entry = found.entry(0, time.process_time() - start, len(vectors), plant)
        keep(history, entry, unflattened(policy, vectors[0]), rounds, progress)
    policy.load_state_dict(history.policies["best"], strict=False)
    return policy, history
