"""Proximal policy optimisation (Schulman et al. 2017), by Stable-Baselines3: model-free, from rewards of pictures.

It sees the state, interval by interval; what it lacks is the gradient of the physics. Its step is bounded by the ratio of
probabilities of whole actions, which for a thousand numbers is far from 1 after the smallest change: bodies of many
elements are acted on by the shares of `common.py` instead, few numbers for each interval. It explores by noise that
depends on the state and is drawn once for each episode (Raffin et al. 2021): noise of every interval anew shakes a body and
moves it nowhere.
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
FEATURE = 0.5  # of the last hidden layer, roughly: noise is their sum with normal weights
MANY = 30  # outputs, above which it acts by shares
MINIBATCHES = (4, 3, 2, 1)  # of each batch; the first that cuts it evenly


class Actor(nn.Module):
    """The mean of what PPO does, as a policy with feedback.

    Args:
        net: Policy of Stable-Baselines3.
        shares: From its actions to u (outputs, actions).
        duration: Of an episode [s], which its clock counts in.
    """

    feedback = True

    def __init__(self, net: nn.Module, shares: Tensor, duration: float):
        super().__init__()
        self.net, self.shares, self.duration = net, shares, duration

    def forward(self, times: Tensor, observation: Tensor) -> Tensor:
        share = (2 * times / self.duration - 1).expand(len(observation), 1)
        return self.act(torch.cat([share, observation], 1))[:, None]

    def act(self, seen: Tensor) -> Tensor:
        """u (worlds, outputs) of what environments show (worlds, inputs)."""
        mean = self.net.get_distribution(seen.float()).distribution.mean  # pyright: ignore[reportCallIssue]
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
    """Train a perceptron of what the worlds show, by rewards.

    One iteration is one batch, an episode of each of all worlds but one, and then one without noise of what was learnt
    before it, whose loss is the iteration's. Rewards are not discounted, since they add up to the loss at the end.

    Args:
        setup: Plant and goal; senses as for `EnvBatch`. Its policy is not used.
        budget: `worlds` - 1 is the size of the batch.
        seed: Of everything; PyTorch's, NumPy's and Python's own generators stay as they were.
        progress: Is told each iteration.
        rate: Of Adam.
        hidden: Widths of the perceptron's layers.
        noise: Standard deviation of actions at the start, roughly.

    Returns:
        The best `Actor`, for a plant with the same senses (of a launch, a `PiecewiseConstant`), and the history.

    Raises:
        InputError: If Gymnasium or Stable-Baselines3 is not installed, or the budget is less than a batch.
    """
    library = require_extra("stable_baselines3", "the baseline ppo", "control")
    from gradsim.control.baselines.ppo_env import StableBaselinesVecEnv
    from gradsim.control.gym.env import PlantVectorEnv

    plant, count = setup.plant, max(2, budget.worlds - 1)
    shares = basis_weights(plant) if plant.outputs > MANY else torch.eye(plant.outputs, dtype=torch.float64)
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
            found = evaluate_episode(setup.goal, last_instant(setup, actor))
            before = {name: x.clone() for name, x in actor.state_dict().items()}
            learner.learn(batch, reset_num_timesteps=False)
            entry = found.entry(0, time.process_time() - start, count + 1, plant)
            record_iteration(history, entry, before, rounds, progress)
    actor.load_state_dict(history.policies["best"])
    if plant.launched:  # what it does once: policies of launches do not look
        return PiecewiseConstant(plant.outputs, start=last_instant(setup, actor).actions[0]), history
    return actor, history


@torch.no_grad()
def last_instant(setup: "Setup", actor: Actor) -> Episode:
    """The end of an episode without noise, and the action of its last interval."""
    worlds, u = EnvBatch(setup.plant, setup.goal), torch.empty(0)
    worlds.reset([np.random.default_rng(0)])
    while not worlds.terminated.all():
        u = actor.act(worlds.observe())
        worlds.step(u)
    return Episode(worlds.snapshot(), u[:, None])


def _span(plant) -> float:
    """Of a control interval [s]; of a launch, the whole film."""
    frames = plant.frames - 1 if plant.launched else plant.interval
    return frames / plant.model.scene.timing.fps


@contextlib.contextmanager
def _own_randomness() -> Iterator[None]:
    """Stable-Baselines3 seeds the generators of everybody: they are put back."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        yield
    random.setstate(python)
    np.random.set_state(numpy)
