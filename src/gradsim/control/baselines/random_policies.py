"""Random policies: the weakest baseline."""

import copy
import time
from typing import TYPE_CHECKING

import torch
from torch import nn

from gradsim.control.baselines.cma_es import evaluate_population, parameter_vector, policy_state, scale
from gradsim.control.baselines.common import Budget, record_iteration
from gradsim.control.training.history import History
from gradsim.control.training.train import IterationProgress

if TYPE_CHECKING:
    from gradsim.control.task.setup import Setup


def random(
    setup: "Setup", budget: Budget, seed: int = 0, progress: IterationProgress | None = None, size: float = 0.5
) -> tuple[nn.Module, History]:
    """Sample a policy in each iteration: normal parameters, scaled to actions with the root mean square `size`.

    Args:
        setup: Plant, policy and goal.
        budget: One rollout is one iteration.
        seed: Seed of the samples.
        progress: Called after each iteration.
        size: Root mean square of u in [-1, 1].

    Returns:
        The best policy, and the history.
    """
    plant, policy = setup.plant, copy.deepcopy(setup.policy)
    generator, history = torch.Generator().manual_seed(seed), History(names={"method": "random", "seed": seed})
    while len(history) < budget.rollouts:
        start = time.process_time()
        count = min(budget.worlds, budget.rollouts - len(history))
        directions = torch.randn(count, len(parameter_vector(policy)), generator=generator, dtype=torch.float64)
        vectors = torch.stack([row * scale(plant, policy, row, size) for row in directions])
        outcome = evaluate_population(plant, setup.goal, policy, vectors)
        seconds = (time.process_time() - start) / count
        for k, vector in enumerate(vectors):
            entry = outcome.entry(k, seconds, 1, plant)
            record_iteration(history, entry, policy_state(policy, vector), budget.rollouts, progress)
    policy.load_state_dict(history.policies["best"], strict=False)
    return policy, history
