"""What REINFORCE through PyBullet sees of a mass: the curves of the paper's Fig. 4 (left) and Fig. 11b."""

from collections.abc import Sequence

import numpy as np
import torch

from gradsim.scene import Scene
from gradsim_reproduction.baselines.bullet import bullet, reward_of, squared_error
from gradsim_reproduction.baselines.reinforce import LEAST, Plan, negative_log_likelihood, normalised

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
    """Losses of a body's mass in PyBullet, the target being PyBullet's own film (caption of Fig. 4).

    Args:
        masses: Where the curves are asked for [kg] (n,).
        scene: One rigid body, one level ground, a push at the start.
        truth: Mass of the target [kg].
        estimates: Means of REINFORCE whose next step is shown [kg] (k,).
        seed: Of the samples.
        frames: Length of the film; None takes the scene's.
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
        target = world.film(truth, frames)
        errors = np.array([squared_error(world.film(float(m), frames), target) for m in masses])
        sampled = np.array([squared_error(world.film(float(m), frames), target) for m in samples.ravel()])
    reward, own = normalised(reward_of(errors)), reward_of(sampled).reshape(samples.shape)
    likelihood = negative_log_likelihood(torch.tensor(masses), torch.tensor(means)[:, None], plan.noise).numpy()
    return {
        "mass": masses,
        "mse": errors.mean(1),
        "mse_ends": errors[:, [0, -1]].mean(1),
        "reward": reward,
        "estimate": means,
        "sample": samples,
        "sample_reward": np.stack([normalised(row) for row in own]),
        "likelihood": likelihood,
        "surrogate": likelihood * reward,
    }
