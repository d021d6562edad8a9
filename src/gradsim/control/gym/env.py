"""Gymnasium environments: one world of a plant, or several in parallel.

Actions are u in [-1, 1], one for each control interval; `vector_env.py` defines observations and rewards. An episode
*terminates* after the plant's last interval, since the end is part of the task and the observation includes the time;
it is never truncated. A world whose simulation diverges terminates too, with `info["diverged"]`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradsim.control.gym.vector_env import BOUND, Draw, EnvBatch
from gradsim.control.plant import Plant
from gradsim.errors import InputError
from gradsim.render.renderer import Renderer

try:
    import gymnasium
    from gymnasium.spaces import Box
    from gymnasium.utils import seeding
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise InputError(f'environments need Gymnasium ({error}): pip install "gradsim[control]".') from None


class PlantEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One world.

    Args:
        plant: Plant.
        goal: Goal, see `EnvBatch`.
        draw: Samples the parameters of the world at each reset, from the environment's generator, see `EnvBatch`.
        iteration: See `EnvBatch`.
        render_mode: "rgb_array" or None.
        camera: Name of the scene's camera that `render` takes.
    """

    def __init__(
        self,
        plant: Plant,
        goal,
        draw: Draw | None = None,
        iteration: int = 0,
        render_mode: str | None = None,
        camera: str = "camera",
    ):
        self.batch = EnvBatch(plant, goal, 1, draw, iteration)
        self.metadata = _metadata(plant)
        self.render_mode = _mode(render_mode)
        self.action_space, self.observation_space = _spaces(self.batch)
        self.camera = camera

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Reset the world; see `gymnasium.Env.reset`."""
        super().reset(seed=seed)
        self.batch.reset([self.np_random])
        return self.batch.observe().numpy()[0], self._info()

    def step(self, action: np.ndarray):
        """One control interval; see `gymnasium.Env.step`.

        Raises:
            InputError: If the action has another shape or is not finite.
        """
        reward = self.batch.step(_actions(action, (self.batch.plant.outputs,))[None])
        ended = bool(self.batch.terminated[0])
        return self.batch.observe().numpy()[0], float(reward[0]), ended, False, self._info()

    def render(self) -> np.ndarray | None:
        """Image of the current state (height, width, 3), uint8; None without a render mode."""
        return _render(self.batch, self.camera)[0] if self.render_mode else None

    def _info(self) -> dict[str, Any]:
        return {"loss": float(self.batch.loss[0]), "diverged": bool(self.batch.diverged[0])}


class PlantVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Worlds of one plant that step together, at little more than the cost of one.

    World k equals a `PlantEnv` that is reset with seed + k.

    Args:
        plant: Plant.
        goal: As for `PlantEnv`.
        num_envs: Number of worlds.
        draw: As for `PlantEnv`.
        iteration: As for `PlantEnv`.
        render_mode: As for `PlantEnv`.
        camera: As for `PlantEnv`.
        autoreset_mode: When a world that has ended is reset: in the next step, whose action is ignored (NEXT_STEP,
            Gymnasium's default), in the same step, with the last observation in `info["final_obs"]` (SAME_STEP), or by
            `reset(options={"reset_mask": ...})` (DISABLED).
    """

    def __init__(
        self,
        plant: Plant,
        goal,
        num_envs: int = 1,
        draw: Draw | None = None,
        iteration: int = 0,
        render_mode: str | None = None,
        camera: str = "camera",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ):
        self.batch = EnvBatch(plant, goal, num_envs, draw, iteration)
        self.num_envs, self.camera = num_envs, camera
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**_metadata(plant), "autoreset_mode": self.autoreset_mode}
        self.render_mode = _mode(render_mode)
        self.single_action_space, self.single_observation_space = _spaces(self.batch)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._generators = [seeding.np_random()[0] for _ in range(num_envs)]

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None):
        """Reset worlds; see `gymnasium.vector.VectorEnv.reset`.

        Args:
            seed: World k gets seed + k, or element k of a sequence; None continues with its generator.
            options: {"reset_mask": bool (num_envs,)} resets these worlds only.

        Raises:
            InputError: If the number of seeds is not that of worlds, or the mask has another shape or type.
        """
        which = self._mask((options or {}).get("reset_mask"))
        seeds = [seed + k for k in range(self.num_envs)] if isinstance(seed, int) else seed or [None] * self.num_envs
        if len(seeds) != self.num_envs:
            raise InputError(
                f"got {len(seeds)} seeds for {self.num_envs} worlds; give one for each, or a single number."
            )
        for world, world_seed in enumerate(seeds):
            if world_seed is not None and which[world]:
                self._generators[world] = seeding.np_random(world_seed)[0]
        self.batch.reset(self._generators, which)
        return self.batch.observe().numpy(), self._info()

    def step(self, actions: np.ndarray):
        """One control interval of all worlds; see `gymnasium.vector.VectorEnv.step`.

        Raises:
            InputError: If actions have another shape or are not finite, or autoreset is disabled and a world has ended.
        """
        u = _actions(actions, (self.num_envs, self.batch.plant.outputs))
        before = self.batch.terminated
        if self.autoreset_mode is AutoresetMode.DISABLED and before.any():
            over = before.nonzero()[:, 0].tolist()
            raise InputError(f"worlds {over} have ended and autoreset is disabled; reset them with a `reset_mask`.")
        reward = self.batch.step(u)
        ended, info = self.batch.terminated & ~before, self._info()
        if before.any():
            self.batch.reset(self._generators, before)
            info = self._info()
        if self.autoreset_mode is AutoresetMode.SAME_STEP and ended.any():
            observations, final = self.batch.observe().numpy(), info
            self.batch.reset(self._generators, ended)
            info = {**self._info(), "final_info": final, "_final_info": ended.numpy()}
            info |= {"final_obs": _objects(observations, ended.numpy()), "_final_obs": ended.numpy()}
        none = np.zeros(self.num_envs, dtype=bool)
        return self.batch.observe().numpy(), reward.numpy(), ended.numpy(), none, info

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Image of the current state of each world (height, width, 3), uint8; None without a render mode."""
        return tuple(_render(self.batch, self.camera)) if self.render_mode else None

    def _mask(self, given) -> Tensor:
        if given is None:
            return torch.ones(self.num_envs, dtype=torch.bool)
        mask = np.asarray(given)
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise InputError(
                f"`reset_mask` has shape {mask.shape} and type {mask.dtype}; expected ({self.num_envs},) of bool."
            )
        return torch.tensor(mask)

    def _info(self) -> dict[str, Any]:
        all_worlds = lambda: np.ones(self.num_envs, dtype=bool)
        values = {"loss": self.batch.loss.numpy().copy(), "diverged": self.batch.diverged.numpy().copy()}
        return {**values, **{f"_{name}": all_worlds() for name in values}}


def _spaces(batch: EnvBatch) -> tuple[Box, Box]:
    return Box(-1.0, 1.0, (batch.plant.outputs,), np.float64), Box(-BOUND, BOUND, (batch.inputs,), np.float64)


def _metadata(plant: Plant) -> dict[str, Any]:
    return {"render_modes": ["rgb_array"], "render_fps": plant.model.scene.timing.fps / plant.interval}


def _mode(mode: str | None) -> str | None:
    if mode not in (None, "rgb_array"):
        raise InputError(f"render_mode is {mode!r}; expected 'rgb_array' or None.")
    return mode


def _actions(given: np.ndarray, shape: tuple[int, ...]) -> Tensor:
    """Actions as a tensor, float64, within [-1, 1]."""
    u = np.asarray(given, np.float64)
    if u.shape != shape:
        raise InputError(f"actions have shape {u.shape}; expected {shape}.")
    if not np.isfinite(u).all():
        raise InputError("actions are not finite; expected numbers in [-1, 1].")
    return torch.tensor(u).clamp(-1.0, 1.0)


def _render(batch: EnvBatch, camera: str) -> np.ndarray:
    """(worlds, height, width, 3), uint8."""
    trajectory = batch.snapshot()
    with torch.no_grad():
        rgb = Renderer.of(batch.plant.model.scene, camera=camera)(trajectory.scene_surface, trajectory.values)[:, 0]
    return (rgb.clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()


def _objects(rows: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Object array of rows, None where not `which`: the format of `final_obs` in Gymnasium."""
    objects = np.full(len(rows), None, dtype=object)
    for k in which.nonzero()[0]:
        objects[k] = rows[k]
    return objects


__all__ = ["PlantEnv", "PlantVectorEnv"]
