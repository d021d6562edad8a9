"""Score-function gradient (REINFORCE, Williams 1992) of the same policy, without a gradient of the physics.

    u = μ_θ + σ ε,   ε ~ N(0, 1)
    ∇_θ E[L] ≈ 1/n Σ_b A_b Σ_t (ε_bt / σ) · ∇_θ μ_θ(t, o_bt),   A_b = (L_b - mean L) / std L

L is the final loss. Rewards of the intervals would add up to the same, see `vector_env.py`.
"""

import copy
import time
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from gradsim.control.baselines.common import Budget, evaluate_episode, record_iteration
from gradsim.control.training.history import History
from gradsim.control.training.train import IterationProgress
from gradsim.physics.model import Divergence

if TYPE_CHECKING:
    from gradsim.control.task.setup import Setup


class ExploringPolicy(nn.Module):
    """Policy with noise that records its observations.

    Args:
        policy: Policy of the mean.
        times: Starts of the intervals (k,) [s].
        noise: Noise added to u (worlds, k, outputs).
        bounded: Clamp u to [-1, 1].
    """

    def __init__(self, policy: nn.Module, times: Tensor, noise: Tensor, bounded: bool):
        super().__init__()
        self.policy, self.times, self.noise, self.bounded = policy, times, noise, bounded
        self.feedback = bool(policy.feedback)
        self.seen: list[Tensor] = []

    def forward(self, times: Tensor, observation: Tensor | None = None) -> Tensor:
        first = int((self.times - times[0]).abs().argmin())
        if observation is not None:
            self.seen.append(observation)
        u = self.policy(times, observation) + self.noise[:, first : first + len(times)]
        return u.clamp(-1, 1) if self.bounded else u

    def means(self) -> Tensor:
        """Differentiable outputs of the policy without noise (worlds or 1, k, outputs)."""
        if not self.feedback:
            return self.policy(self.times, None)
        pairs = zip(self.times.split(1), self.seen, strict=True)
        return torch.cat([self.policy(time, observation) for time, observation in pairs], 1)


def reinforce(
    setup: "Setup",
    budget: Budget,
    seed: int = 0,
    progress: IterationProgress | None = None,
    rate: float = 0.03,
    noise: float = 0.3,
) -> tuple[nn.Module, History]:
    """Train the policy by Adam with this gradient.

    One iteration is one batch: all worlds but one with noise; one without, whose loss is the iteration's.

    Args:
        setup: Plant, policy and goal.
        budget: `worlds` is the size of the batch, at least 3.
        seed: Seed of the noise.
        progress: Called after each iteration.
        rate: Learning rate of Adam.
        noise: σ, of u in [-1, 1].

    Returns:
        The best policy, and the history. If a batch diverges, it is repeated with half of σ (`history.retreats`).

    Raises:
        InputError: If the budget is less than a batch.
    """
    plant, policy = setup.plant, copy.deepcopy(setup.policy)
    generator, history = torch.Generator().manual_seed(seed), History(names={"method": "reinforce", "seed": seed})
    adam, worlds = torch.optim.Adam(policy.parameters(), rate), max(3, budget.worlds)
    rounds = budget.rounds(worlds)
    while not history or history.total()[-1] + worlds <= budget.rollouts:  # halved batches take more
        start = time.process_time()
        epsilon = torch.randn(worlds, plant.intervals, plant.outputs, generator=generator, dtype=torch.float64)
        epsilon[0] = 0.0
        exploring, episode, halved = _explored(plant, policy, epsilon, noise)
        outcome = evaluate_episode(setup.goal, episode)
        before = {name: x.clone() for name, x in policy.state_dict().items()}
        adam.zero_grad()
        surrogate(exploring, epsilon / (noise * 0.5**halved), outcome.loss).backward()
        adam.step()
        history.retreats += halved
        entry = outcome.entry(0, time.process_time() - start, (1 + halved) * worlds, plant)
        record_iteration(history, entry, before, rounds, progress)
    policy.load_state_dict(history.policies["best"])
    return policy, history


def surrogate(exploring: ExploringPolicy, score: Tensor, loss: Tensor) -> Tensor:
    """Surrogate loss with the gradient above, for a batch whose first world has no noise.

    Args:
        exploring: Policy after its rollout.
        score: ε / σ (worlds, k, outputs).
        loss: L (worlds,).
    """
    others = loss[1:]
    advantage = (others - others.mean()) / others.std().clamp(min=torch.finfo(loss.dtype).tiny)
    return (advantage * (score * exploring.means()).sum((1, 2))[1:]).mean()


@torch.no_grad()
def _explored(plant, policy: nn.Module, epsilon: Tensor, noise: float, most: int = 8):
    """A batch, and how often its noise was halved until no world diverged."""
    for halved in range(most):
        exploring = ExploringPolicy(policy, plant.times, noise * 0.5**halved * epsilon, not plant.launched)
        try:
            return exploring, plant.rollout(exploring, worlds=len(epsilon)), halved
        except Divergence:
            if halved == most - 1:
                raise
    raise AssertionError
