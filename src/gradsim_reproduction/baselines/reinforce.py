"""REINFORCE on one number through a black box, as the paper's H.1 and Table 5 have it (Williams 1992).

    s_i = mean + σ ε_i,   R_i = −Σ_t L2_t(s_i),   A_i = d^k (R_i − mean R) / std R
    loss = −1/n Σ_i A_i log N(s_i; mean, σ)

with n = 5, σ = 0.05 and d = 0.925 in the k-th of 125 steps. The paper names neither the optimiser nor its rate: ours is
Adam, with the best of seven rates on ten training samples, whose masses are 2 to 12 kg; for lighter bodies it is too fast
(see `fig11`). Since d^k sums to 13, the search stalls: a start that is many rates from the answer does not arrive.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from gradsim.scene import Scene
from gradsim_reproduction.baselines.bullet import bullet, reward_of, squared_error

LEAST = 0.01  # [kg] a sample below it is taken as it: a mass is positive, and a normal distribution is not


@dataclass(frozen=True)
class Plan:
    """Hyper-parameters, by default the paper's (Table 5).

    Attributes:
        samples: Numbers drawn in a step.
        steps: Steps of the optimiser.
        noise: Standard deviation of the draws.
        decay: Factor of the rewards from one step to the next.
        rate: Rate of Adam; tuned on masses of 2 to 12 kg.
    """

    samples: int = 5
    steps: int = 125
    noise: float = 0.05
    decay: float = 0.925
    rate: float = 0.8


def reinforce(reward: Callable[[float], float], start: float, plan: Plan, rng: np.random.Generator) -> list[float]:
    """The means, from the start to the last, (steps + 1); the answer is the last.

    Args:
        reward: Reward of one number.
        start: First mean.
        plan: Hyper-parameters.
        rng: Rng of the samples.
    """
    mean = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    adam, means = torch.optim.Adam([mean], plan.rate), [start]
    for k in range(plan.steps):
        samples = np.maximum(mean.item() + plan.noise * rng.standard_normal(plan.samples), LEAST)
        advantage = plan.decay**k * normalized(np.array([reward(float(s)) for s in samples]))
        adam.zero_grad()
        loss = (torch.tensor(advantage) * negative_log_likelihood(torch.tensor(samples), mean, plan.noise)).mean()
        loss.backward()
        adam.step()
        with torch.no_grad():
            mean.clamp_(min=LEAST)
        means.append(mean.item())
    return means


def normalized(rewards: np.ndarray) -> np.ndarray:
    """With mean 0 and standard deviation 1 (n,); 0 where all are the same."""
    spread = rewards.std()
    return (rewards - rewards.mean()) / spread if spread > 0 else np.zeros_like(rewards)


def negative_log_likelihood(number: torch.Tensor, mean: torch.Tensor | float, noise: float) -> torch.Tensor:
    """−log N(number; mean, noise)."""
    return torch.as_tensor((number - mean) / noise).square() / 2 + np.log(noise * np.sqrt(2 * np.pi))


ESTIMATES = (0.5, 2.0, 4.0)  # [kg] current means whose samples are drawn: below, near and far above the truth


def pybullet_landscape(
    masses: Sequence[float] | np.ndarray,
    scene: Scene,
    truth: float = 1.0,
    estimates: Sequence[float] = ESTIMATES,
    seed: int = 0,
    frames: int | None = None,
    plan: Plan | None = None,
) -> dict[str, np.ndarray]:
    """Losses of a body's mass in PyBullet, the target being PyBullet's own video (caption of Fig. 4).

    Args:
        masses: Masses at which the curves are computed [kg] (n,).
        scene: One rigid body, one level ground, a push at the start.
        truth: Mass of the target [kg].
        estimates: Means of REINFORCE whose next step is shown [kg] (k,).
        seed: Seed of the samples.
        frames: Length of the video; None takes the scene's.
        plan: Hyper-parameters; None takes the paper's.

    Returns:
        By name: `mass` (n,); `mse`, the mean square over all frames (n,); `mse_ends`, over the first and last (n,);
        `reward`, minus the sum of the frames' L2 distances (H.1), with mean 0 and standard deviation 1 over the masses
        (n,); and for each estimate: `estimate` (k,), `sample` [kg] and `sample_reward`, normalised over the samples (k, samples),
        `likelihood`, the negative log-likelihood of every mass (k, n), and `surrogate`, that times `reward` (k, n):
        what the method lowers.

    Raises:
        InputError: As `bullet` does.
    """
    plan, masses = plan or Plan(), np.asarray(masses, dtype=np.float64)
    rng, means = np.random.default_rng(seed), np.asarray(estimates, dtype=np.float64)
    samples = np.maximum(means[:, None] + plan.noise * rng.standard_normal((len(means), plan.samples)), LEAST)
    with bullet(scene) as world:
        target = world.video(truth, frames)
        errors = np.array([squared_error(world.video(float(m), frames), target) for m in masses])
        sampled = np.array([squared_error(world.video(float(m), frames), target) for m in samples.ravel()])
    reward, sample_reward = normalized(reward_of(errors)), reward_of(sampled).reshape(samples.shape)
    likelihood = negative_log_likelihood(torch.tensor(masses), torch.tensor(means)[:, None], plan.noise).numpy()
    return {
        "mass": masses,
        "mse": errors.mean(1),
        "mse_ends": errors[:, [0, -1]].mean(1),
        "reward": reward,
        "estimate": means,
        "sample": samples,
        "sample_reward": np.stack([normalized(row) for row in sample_reward]),
        "likelihood": likelihood,
        "surrogate": likelihood * reward,
    }
