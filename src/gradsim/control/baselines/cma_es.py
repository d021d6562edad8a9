"""Covariance matrix adaptation, by the library `cma` (Hansen and Ostermeier 2001): no gradients, many rollouts.

Evaluates policies of one kind in parallel, with different parameters in each world.
"""

import copy
import math
import time
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from gradsim.control.baselines.common import Budget, SmoothActions, record_iteration
from gradsim.control.training.history import History
from gradsim.control.training.train import IterationProgress
from gradsim.runtime.optional import require_extra

if TYPE_CHECKING:
    from gradsim.control.task.setup import Setup
from torch import Tensor
from torch.func import functional_call

from gradsim.control.baselines.common import BaselineOutcome, evaluate_episode
from gradsim.control.gym.vector_env import make_snapshot
from gradsim.control.plant import Episode, Plant
from gradsim.physics.model import Divergence

DIVERGED_LOSS_FACTOR = 2.0  # the loss of a diverged rollout, relative to that of the start
HALVINGS = 60  # of the bracket of `scale`


class PolicyPopulation(nn.Module):
    """Policy with different parameters in each world.

    Args:
        policy: Policy whose parameters are replaced.
        vectors: All parameters, concatenated, (worlds, n).
    """

    def __init__(self, policy: nn.Module, vectors: Tensor):
        super().__init__()
        self.kind, self.vectors = [policy], vectors  # in a list, so that its parameters are not registered here
        self.feedback = bool(policy.feedback)

    def forward(self, times: Tensor, observation: Tensor | None = None) -> Tensor:
        policy, actions = self.kind[0], []
        for k, vector in enumerate(self.vectors):
            row = observation[k : k + 1] if observation is not None else None
            actions.append(functional_call(policy, policy_state(policy, vector), (times, row)))
        return torch.cat(actions)


def parameter_vector(policy: nn.Module) -> Tensor:
    """All parameters of a policy, concatenated (n,)."""
    return torch.cat([p.detach().reshape(-1) for p in policy.parameters()])


def policy_state(policy: nn.Module, vector: Tensor) -> dict[str, Tensor]:
    """The parameters of a policy by name, from `parameter_vector`."""
    names, sizes = zip(*((name, p.shape) for name, p in policy.named_parameters()), strict=True)
    parts = vector.split([size.numel() for size in sizes])
    return {name: part.reshape(size) for name, part, size in zip(names, parts, sizes, strict=True)}


@torch.no_grad()
def evaluate_population(plant: Plant, goal, policy: nn.Module, vectors: Tensor) -> BaselineOutcome:
    """Outcome of one episode for each vector of policy parameters.

    Args:
        plant: Plant.
        goal: Goal; the loss is always that of iteration 0, so that all candidates are comparable.
        policy: Policy whose parameters are replaced.
        vectors: Parameters (worlds, n).
    """
    try:
        return evaluate_episode(goal, plant.rollout(PolicyPopulation(policy, vectors), worlds=len(vectors)))
    except Divergence:
        if len(vectors) > 1:  # one by one, to tell which of them diverge
            rows = [evaluate_population(plant, goal, policy, row[None]) for row in vectors]
            return BaselineOutcome(*(torch.cat(values) for values in zip(*rows, strict=True)))
    still = torch.zeros(1, 1, plant.outputs, dtype=torch.float64)
    start = evaluate_episode(goal, Episode(make_snapshot(plant, plant.begin()), still))
    return BaselineOutcome(DIVERGED_LOSS_FACTOR * start.loss, *start[1:])


@torch.no_grad()
def scale(plant: Plant, policy: nn.Module, vector: Tensor, size: float) -> float:
    """Factor of a parameter vector for which the actions have the root mean square `size`.

    The actions are those of all times for an open loop, and of the start for a feedback policy. Samples of all kinds of
    policies get the same scale. Computed by bisection of the logarithm.
    """
    times, observation = plant.times, None
    if policy.feedback:
        times, observation = plant.times[:1], plant.observe(plant.begin())
    rms = lambda factor: PolicyPopulation(policy, factor * vector[None])(times, observation).square().mean().sqrt()
    low, high = 1e-6, 1e6
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if rms(middle) < size else (low, middle)
    return low


MAX_DIRECT_PARAMETERS = 200  # parameters of a policy, above which `SmoothActions` replaces it


def cma(
    setup: "Setup", budget: Budget, seed: int = 0, progress: IterationProgress | None = None, size: float = 0.3
) -> tuple[nn.Module, History]:
    """Optimize the parameters of the policy, or those of `SmoothActions` if it has more than `MAX_DIRECT_PARAMETERS`.

    Covariances of thousands of numbers cannot be learnt from hundreds of rollouts. One iteration is one generation: all
    worlds but one evaluate samples; the other evaluates the mean of the distribution, whose loss is the iteration's.

    Args:
        setup: Plant, policy and goal.
        budget: `worlds` is the size of a generation plus one for the mean; at least 4.
        seed: Seed of the samples.
        progress: Called after each iteration.
        size: Root mean square of u of the first samples, that is, their distance from the start.

    Returns:
        The best mean, and the history.

    Raises:
        InputError: If `cma` is not installed, or the budget is less than a generation.
    """
    library = require_extra("cma", "the baseline cma", "control")
    plant, policy = setup.plant, copy.deepcopy(setup.policy)
    if len(parameter_vector(policy)) > MAX_DIRECT_PARAMETERS:
        policy = SmoothActions(plant)
    generator, mean = np.random.default_rng(seed), parameter_vector(policy)
    direction = torch.as_tensor(generator.standard_normal(len(mean)))
    sigma = scale(plant, policy, direction, size)
    generation = max(3, budget.worlds - 1)
    rounds = budget.rounds(generation + 1)
    options = {"popsize": generation, "verbose": -9, "maxiter": math.inf, "seed": math.nan}
    options["randn"] = lambda *shape: generator.standard_normal(shape)
    search = library.CMAEvolutionStrategy(mean.numpy(), sigma, options)
    history = History(names={"method": "cma", "seed": seed, "parameters": len(mean)})
    for _ in range(rounds):
        start = time.process_time()
        samples = search.ask()
        vectors = torch.as_tensor(np.stack([search.mean, *samples]))
        outcome = evaluate_population(plant, setup.goal, policy, vectors)
        search.tell(samples, outcome.loss[1:].tolist())
        entry = outcome.entry(0, time.process_time() - start, len(vectors), plant)
        record_iteration(history, entry, policy_state(policy, vectors[0]), rounds, progress)
    policy.load_state_dict(history.policies["best"], strict=False)
    return policy, history
