"""Gymnasium environments of the tasks in the library; importing this file registers them.

import gymnasium
import gradsim.control.gym.register

env = gymnasium.make("gradsim/Walker-v0", goal_seed=3)
envs = gymnasium.make_vec("gradsim/Walker-v0", num_envs=64)
"""

from pathlib import Path

from gradsim.control.gym.env import PlantEnv, PlantVectorEnv
from gradsim.control.task.setup import Setup
from gradsim.control.task.task import Task, library

NAMESPACE = "gradsim"


def env_id(name: str) -> str:
    """Name of a task for `gymnasium.make`: `gradsim/SheetThrow-v0` of `sheet_throw`."""
    return f"{NAMESPACE}/{''.join(part.capitalize() for part in name.split('_'))}-v0"


def make_env(task: str | Path, goal_seed: int = 0, quick: bool = False, **options) -> PlantEnv:
    """Environment of one world of a task.

    Args:
        task: Name in the library, or path of a task file.
        goal_seed: Seed of the random numbers of the task, usually of its goal.
        quick: Apply the task's changes for a quick trial.
        **options: As for `PlantEnv`.
    """
    ready = Setup.of(Task.load(task), goal_seed, quick)
    return PlantEnv(ready.plant, ready.goal, **options)


def make_vector_env(
    task: str | Path, num_envs: int = 1, goal_seed: int = 0, quick: bool = False, **options
) -> PlantVectorEnv:
    """Environment of several worlds of a task; arguments as for `make_env`, options as for `PlantVectorEnv`."""
    ready = Setup.of(Task.load(task), goal_seed, quick)
    return PlantVectorEnv(ready.plant, ready.goal, num_envs, **options)


def _register() -> None:
    import gymnasium  # after `env`, whose error names what to install

    module = __name__
    for path in library():
        name = path.stem
        kwargs = {"task": name}
        gymnasium.register(
            env_id(name), f"{module}:make_env", vector_entry_point=f"{module}:make_vector_env", kwargs=kwargs
        )


_register()

__all__ = ["env_id", "make_env", "make_vector_env"]
