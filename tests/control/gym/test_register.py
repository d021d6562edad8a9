import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from tolerances import ROUNDING, assert_near

from gradsim.control.gym import register
from gradsim.control.task.task import library


def test_every_task_of_the_library_is_registered():
    names = {register.env_id(path.stem) for path in library()}
    assert {"gradsim/Walker-v0", "gradsim/Gear-v0", "gradsim/Cloth-v0"} <= names <= set(gymnasium.registry)


@pytest.mark.filterwarnings("error")
def test_gymnasium_finds_nothing_wrong_with_the_walker():
    env = gymnasium.make("gradsim/Walker-v0", quick=True, render_mode="rgb_array")
    check_env(env.unwrapped)


def test_worlds_of_a_task_begin_as_one_does():
    one = gymnasium.make("gradsim/Walker-v0", quick=True, goal_seed=2)
    many = gymnasium.make_vec("gradsim/Walker-v0", num_envs=3, quick=True, goal_seed=2, autoreset_mode="SameStep")
    first, info = one.reset(seed=0)
    seen, infos = many.reset(seed=0)
    assert_near(seen, np.stack([first] * 3), ROUNDING, scale=1.0)
    assert_near(infos["loss"], info["loss"], ROUNDING)
    assert many.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    other = gymnasium.make("gradsim/Walker-v0", quick=True, goal_seed=3).reset(seed=0)[1]
    assert other["loss"] != info["loss"]
