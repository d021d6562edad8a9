"""Covariance matrix adaptation, by the library `cma` (Hansen and Ostermeier 2001): no gradients, many rollouts.

Many policies of one kind at once: other parameters in each world.
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

from gradsim.control.baselines.common import Outcome, evaluate_episode
from gradsim.control.gym.vector_env import make_snapshot
from gradsim.control.plant import Episode, Plant
from gradsim.physics.model import Divergence

DOUBLED = 2.0  # a rollout that diverges counts as if it ended with so many times the loss of its start
HALVINGS = 60  # of the bracket of `scale`


class PolicyPopulation(nn.Module):
    """A policy whose parameters differ by world.

    Args:
        policy: The kind.
        vectors: All its parameters one after another, (worlds, n).
    """

    def __init__(self, policy: nn.Module, vectors: Tensor):
        super().__init__()
        self.kind, self.vectors = [policy], vectors  # in a list: its parameters are not ours
        self.feedback = bool(policy.feedback)

    def forward(self, times: Tensor, observation: Tensor | None = None) -> Tensor:
        policy, found = self.kind[0], []
        for k, vector in enumerate(self.vectors):
            seen = observation[k : k + 1] if observation is not None else None
            found.append(functional_call(policy, policy_state(policy, vector), (times, seen)))
        return torch.cat(found)


def parameter_vector(policy: nn.Module) -> Tensor:
    """All parameters of a policy one after another (n,)."""
    return torch.cat([p.detach().reshape(-1) for p in policy.parameters()])


def policy_state(policy: nn.Module, vector: Tensor) -> dict[str, Tensor]:
    """The parameters of a policy by name, from `parameter_vector`."""
    names, sizes = zip(*((name, p.shape) for name, p in policy.named_parameters()), strict=True)
    parts = vector.split([size.numel() for size in sizes])
    return {name: part.reshape(size) for name, part, size in zip(names, parts, sizes, strict=True)}


@torch.no_grad()
def evaluate_population(plant: Plant, goal, policy: nn.Module, vectors: Tensor) -> Outcome:
    """How policies end that differ by world.

    Args:
        plant: Plant.
        goal: Goal; its loss is that of iteration 0, for all that is tried.
        policy: Their kind.
        vectors: Their parameters (worlds, n).
    """
    try:
        return evaluate_episode(goal, plant.rollout(PolicyPopulation(policy, vectors), worlds=len(vectors)))
    except Divergence:
        if len(vectors) > 1:  # each alone tells which
            rows = [evaluate_population(plant, goal, policy, row[None]) for row in vectors]
            return Outcome(*(torch.cat(own) for own in zip(*rows, strict=True)))
    still = torch.zeros(1, 1, plant.outputs, dtype=torch.float64)
    start = evaluate_episode(goal, Episode(make_snapshot(plant, plant.begin()), still))
    return Outcome(DOUBLED * start.loss, *start[1:])


@torch.no_grad()
def scale(plant: Plant, policy: nn.Module, vector: Tensor, size: float) -> float:
    """The factor of a vector of parameters at which actions have this root mean square.

    Of an open loop over all times; of a feedback policy, at the start. It makes what is drawn mean the same for all kinds of
    policies. It is found by halving on a logarithmic scale.
    """
    times, seen = plant.times, None
    if policy.feedback:
        times, seen = plant.times[:1], plant.observe(plant.begin())
    rms = lambda factor: PolicyPopulation(policy, factor * vector[None])(times, seen).square().mean().sqrt()
    low, high = 1e-6, 1e6
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if rms(middle) < size else (low, middle)
    return low


MANY = 200  # parameters of a policy, above which a smooth controller takes its place


def cma(
    setup: "Setup", budget: Budget, seed: int = 0, progress: IterationProgress | None = None, size: float = 0.3
) -> tuple[nn.Module, History]:
    """Search among the policy's parameters, or, where these are more than `MANY`, among those of `SmoothActions`.

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
    library = require_extra("cma", "the baseline cma", "control")
    plant, policy = setup.plant, copy.deepcopy(setup.policy)
    if len(parameter_vector(policy)) > MANY:
        policy = SmoothActions(plant)
    drawn, mean = np.random.default_rng(seed), parameter_vector(policy)
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
        found = evaluate_population(plant, setup.goal, policy, vectors)
        search.tell(samples, found.loss[1:].tolist())
        entry = found.entry(0, time.process_time() - start, len(vectors), plant)
        record_iteration(history, entry, policy_state(policy, vectors[0]), rounds, progress)
    policy.load_state_dict(history.policies["best"], strict=False)
    return policy, history
