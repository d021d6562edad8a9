"""Vector environment for Stable-Baselines3; importing this file needs the extra `control`."""

from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode

from gradsim.control.gym.env import PlantVectorEnv
from gradsim.runtime.optional import require_extra

vec_env: Any = require_extra("stable_baselines3.common.vec_env", "the baseline ppo", "control")


class StableBaselinesVecEnv(vec_env.VecEnv):
    """Worlds that step together, and are reset in the step that ends them.

    Args:
        envs: Environment with `autoreset_mode` SAME_STEP.
        shares: Matrix from actions to u (outputs, actions), with u in [-1, 1].
        seed: Seed of the first reset.
    """

    def __init__(self, envs: PlantVectorEnv, shares: np.ndarray, seed: int | None = None):
        if envs.autoreset_mode is not AutoresetMode.SAME_STEP:
            raise ValueError(f"autoreset is {envs.autoreset_mode}; Stable-Baselines3 expects SAME_STEP.")
        self.envs, self.shares, self._seed, self._actions = envs, shares, seed, np.zeros(0)
        super().__init__(envs.num_envs, envs.single_observation_space, Box(-1.0, 1.0, shares.shape[1:], np.float64))

    def reset(self) -> np.ndarray:
        observations, _ = self.envs.reset(seed=self._seed)
        self._seed = None
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions @ self.shares.T

    def step_wait(self):
        observations, rewards, ended, _, info = self.envs.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for k in ended.nonzero()[0]:
            infos[k] = {"terminal_observation": info["final_obs"][k], "TimeLimit.truncated": False}
        return observations, rewards, ended, infos

    def close(self) -> None:
        self.envs.close()

    def get_attr(self, attr_name: str, indices=None) -> list[Any]:
        return [getattr(self.envs, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices=None) -> None:
        raise NotImplementedError("the worlds share one plant; attributes cannot be set for a single world.")

    def env_method(self, method_name: str, *method_args, indices=None, **method_kwargs) -> list[Any]:
        raise NotImplementedError("the worlds share one plant; methods cannot be called for a single world.")

    def env_is_wrapped(self, wrapper_class, indices=None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]
