"""Proximal policy optimisation (Schulman et al. 2017), by Stable-Baselines3: model-free, from rewards of images.

It observes the state in each interval, but has no gradient of the physics. Its step is bounded by the probability ratio
of whole actions, which for a thousand numbers is far from 1 after the smallest change: bodies of many elements are
actuated through the basis of `common.py` instead, few numbers for each interval. Exploration noise depends on the state
and is sampled once for each episode (Raffin et al. 2021): independent noise in each interval shakes a body without
moving it.
"""

import contextlib
import math
import random
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from gradsim.control.baselines.common import Budget, basis_weights, evaluate_episode, record_iteration
from gradsim.control.gym.vector_env import EnvBatch
from gradsim.control.plant import Episode
from gradsim.control.policies import PiecewiseConstant
from gradsim.control.training.history import History
from gradsim.control.training.train import IterationProgress
from gradsim.runtime.optional import require_extra

if TYPE_CHECKING:
    from gradsim.control.task.setup import Setup
FEATURE = 0.5  # rough size of features of the last hidden layer: noise is their sum with normal weights
MAX_DIRECT_OUTPUTS = 30  # outputs, above which it acts through `basis_weights`
MINIBATCHES = (4, 3, 2, 1)  # candidates for each batch; the first that divides it evenly


class Actor(nn.Module):
    """Mean action of PPO, as a policy with feedback.

    Args:
        net: Policy of Stable-Baselines3.
        shares: Matrix from its actions to u (outputs, actions).
        duration: Duration of an episode [s], by which its time input is normalized.
    """

    feedback = True

    def __init__(self, net: nn.Module, shares: Tensor, duration: float):
        super().__init__()
        self.net, self.shares, self.duration = net, shares, duration

    def forward(self, times: Tensor, observation: Tensor) -> Tensor:
        share = (2 * times / self.duration - 1).expand(len(observation), 1)
        return self.act(torch.cat([share, observation], 1))[:, None]

    def act(self, observation: Tensor) -> Tensor:
        """u (worlds, outputs) for observations of environments (worlds, inputs)."""
        mean = self.net.get_distribution(observation.float()).distribution.mean  # pyright: ignore[reportCallIssue]
        return mean.double().clamp(-1, 1) @ self.shares.T


def ppo(
    setup: "Setup",
    budget: Budget,
    seed: int = 0,
    progress: IterationProgress | None = None,
    rate: float = 1e-3,
    hidden: tuple[int, ...] = (64, 64),
    noise: float = 0.5,
) -> tuple[nn.Module, History]:
    """Train a perceptron of the observations by rewards.

    One iteration is one batch, with an episode in each of all worlds but one, and an episode without noise of the
    policy before the batch, whose loss is the iteration's. Rewards are not discounted, since they add up to the final
    loss.

    Args:
        setup: Plant and goal; observation as for `EnvBatch`. Its policy is not used.
        budget: `worlds` - 1 is the size of the batch.
        seed: Seed of all random numbers; the global generators of PyTorch, NumPy and Python are restored.
        progress: Called after each iteration.
        rate: Learning rate of Adam.
        hidden: Widths of the hidden layers.
        noise: Rough standard deviation of actions at the start.

    Returns:
        The best `Actor`, for a plant with the same observation (for a launch, a `PiecewiseConstant`), and the history.

    Raises:
        InputError: If Gymnasium or Stable-Baselines3 is not installed, or the budget is less than a batch.
    """
    library = require_extra("stable_baselines3", "the baseline ppo", "control")
    from gradsim.control.baselines.ppo_env import StableBaselinesVecEnv
    from gradsim.control.gym.env import PlantVectorEnv

    plant, count = setup.plant, max(2, budget.worlds - 1)
    shares = (
        basis_weights(plant) if plant.outputs > MAX_DIRECT_OUTPUTS else torch.eye(plant.outputs, dtype=torch.float64)
    )
    envs = StableBaselinesVecEnv(
        PlantVectorEnv(plant, setup.goal, count, autoreset_mode="SameStep"), shares.numpy(), seed
    )
    batch = count * plant.intervals
    with _own_randomness():
        learner = library.PPO(
            "MlpPolicy",
            envs,
            learning_rate=rate,
            n_steps=plant.intervals,
            batch_size=next(batch // m for m in MINIBATCHES if batch % m == 0 and batch > m),
            gamma=1.0,
            use_sde=True,
            policy_kwargs={"net_arch": list(hidden), "log_std_init": math.log(noise / (FEATURE * hidden[-1] ** 0.5))},
            seed=seed,
            device="cpu",
        )
        actor = Actor(learner.policy, shares, plant.intervals * _span(plant))
        history = History(names={"method": "ppo", "seed": seed})
        rounds = budget.rounds(count + 1)
        for _ in range(rounds):
            start = time.process_time()
            outcome = evaluate_episode(setup.goal, last_instant(setup, actor))
            before = {name: x.clone() for name, x in actor.state_dict().items()}
            learner.learn(batch, reset_num_timesteps=False)
            entry = outcome.entry(0, time.process_time() - start, count + 1, plant)
            record_iteration(history, entry, before, rounds, progress)
    actor.load_state_dict(history.policies["best"])
    if plant.launched:  # policies of launches are called once, without an observation
        return PiecewiseConstant(plant.outputs, start=last_instant(setup, actor).actions[0]), history
    return actor, history


@torch.no_grad()
def last_instant(setup: "Setup", actor: Actor) -> Episode:
    """Last frame of an episode without noise, with the action of its last interval."""
    worlds, u = EnvBatch(setup.plant, setup.goal), torch.empty(0)
    worlds.reset([np.random.default_rng(0)])
    while not worlds.terminated.all():
        u = actor.act(worlds.observe())
        worlds.step(u)
    return Episode(worlds.snapshot(), u[:, None])


def _span(plant) -> float:
    """Duration [s] of a control interval, or of the whole episode for a launch."""
    frames = plant.frames - 1 if plant.launched else plant.interval
    return frames / plant.model.scene.timing.fps


@contextlib.contextmanager
def _own_randomness() -> Iterator[None]:
    """Restore the global random generators, which Stable-Baselines3 seeds."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        yield
    random.setstate(python)
    np.random.set_state(numpy)
