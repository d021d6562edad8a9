"""The tasks of the library as environments of Gymnasium; importing this file registers them.

import gymnasium
import gradsim.control.gym.register

env = gymnasium.make("gradsim/Walker-v0", goal_seed=3)
envs = gymnasium.make_vec("gradsim/Walker-v0", num_envs=64)
"""

from pathlib import Path

from gradsim.control.gym.env import Env, WorldsEnv
from gradsim.control.task.setup import Setup
from gradsim.control.task.task import Task, library

NAMESPACE = "gradsim"


def env_id(name: str) -> str:
    """The name of a task for `gymnasium.make`: `gradsim/SheetThrow-v0` of `sheet_throw`."""
    return f"{NAMESPACE}/{''.join(part.capitalize() for part in name.split('_'))}-v0"


def single(task: str | Path, goal_seed: int = 0, quick: bool = False, **options) -> Env:
    """One world of a task.

    Args:
        task: Name or file.
        goal_seed: Of the numbers that the task draws: its goal, as a rule.
        quick: Take the trial that the file describes.
        **options: As for `Env`.
    """
    ready = Setup.of(Task.load(task), goal_seed, quick)
    return Env(ready.plant, ready.goal, **options)


def many(task: str | Path, num_envs: int = 1, goal_seed: int = 0, quick: bool = False, **options) -> WorldsEnv:
    """Many worlds of a task; arguments as for `single`, options as for `WorldsEnv`."""
    ready = Setup.of(Task.load(task), goal_seed, quick)
    return WorldsEnv(ready.plant, ready.goal, num_envs, **options)


def _register() -> None:
    import gymnasium  # after `env`, which says what to install

    here = __name__
    for path in library():
        name = path.stem
        own = {"task": name}
        gymnasium.register(env_id(name), f"{here}:single", vector_entry_point=f"{here}:many", kwargs=own)


_register()

__all__ = ["env_id", "many", "single"]
