"""Environments of real bodies: a soft slug that crawls, and a ball that is thrown."""

import numpy as np
import pytest
import torch
from control_scenes import ball, slug
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv
from tolerances import ROUNDING, assert_near, near

from gradsim.control.goals.base import Reward
from gradsim.control.goals.state import StateGoal
from gradsim.control.gym.env import PlantEnv, PlantVectorEnv
from gradsim.control.policies import PiecewiseConstant
from gradsim.errors import InputError


def heavier(generator):
    return {"slug.density": 300 * torch.tensor([generator.uniform(0.8, 1.2)], dtype=torch.float64)}


@pytest.mark.parametrize("case", [slug, ball])
def test_gymnasium_finds_nothing_wrong(case, recwarn):
    check_env(PlantEnv(*case()), skip_render_check=True)
    assert not [w for w in recwarn if "gymnasium" in str(w.filename)]


def test_soft_worlds_that_step_together_go_as_each_alone():
    """Through an episode and into the next, with densities drawn anew; lanes add in other orders, hence not 0."""
    together, alone = PlantVectorEnv(*slug(), 3, heavier), SyncVectorEnv([lambda: PlantEnv(*slug(), heavier)] * 3)
    np.testing.assert_array_equal(together.reset(seed=1)[0], alone.reset(seed=1)[0])
    together.action_space.seed(0)
    for _ in range(7):
        u = together.action_space.sample()
        for one, other in zip(together.step(u)[:4], alone.step(u)[:4], strict=True):
            assert_near(one, other, ROUNDING, scale=1.0)


@pytest.mark.parametrize("case", [slug, ball])
def test_an_episode_ends_where_a_rollout_of_the_same_actions_does(case):
    """The slug's last interval has one frame, the others two."""
    plant, goal = case()
    env = PlantEnv(plant, goal)
    _, info = env.reset(seed=0)
    env.action_space.seed(4)
    actions, total, ended = [], 0.0, False
    start = info["loss"]
    while not ended:
        actions.append(env.action_space.sample())
        _, reward, ended, _, info = env.step(actions[-1])
        total += reward
    table = torch.tensor(np.stack(actions))
    policy = PiecewiseConstant(
        plant.outputs, len(table), len(table) * plant.interval / plant.model.scene.timing.fps, table
    )
    with torch.no_grad():
        episode = plant.rollout(policy)
    for name, y in next(iter(env.batch.states.values())).items():
        assert_near(y, next(iter(episode.trajectory.states.values()))[name][:, -1], ROUNDING, scale=1.0)
    assert info["loss"] == near(goal.loss(episode).item(), ROUNDING, scale=1.0)
    assert total == near(1 - info["loss"] / start, ROUNDING, scale=1.0)


def test_a_image_shows_the_present():
    env = PlantEnv(*slug(), render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    env.step(np.ones(15))
    after = env.render()
    assert before is not None and after is not None
    assert before.shape == (32, 48, 3) and before.dtype == np.uint8 and (before != after).any()
    envs = PlantVectorEnv(*slug(), 2, render_mode="rgb_array")
    envs.reset(seed=0)
    assert [(image == before).all() for image in envs.render() or ()] == [True, True]
    assert PlantEnv(*slug()).render() is None


def test_a_reward_of_ones_own_is_given_as_it_grows():
    plant, _ = slug()
    goal = Reward(lambda episode: 7 * episode.centre()[:, -1, 0])
    env = PlantEnv(plant, goal)
    env.reset(seed=0)
    x = lambda: plant.model.systems[0].mass(plant.model.values())[0] @ env.batch.states["slug"]["x"][0, :, 0]
    before = x()
    reward = env.step(np.linspace(-1, 1, 15))[1]
    mass = plant.model.systems[0].mass(plant.model.values()).sum().item()
    assert reward == near(7 * (x() - before).item() / mass, ROUNDING, scale=1.0) and reward != 0


def test_a_goal_before_the_end_is_refused():
    plant, _ = slug()
    goal = StateGoal("slug", torch.zeros(3, dtype=torch.float64), [3, -1])
    with pytest.raises(InputError, match="the goal is in frames -1, 3"):
        PlantEnv(plant, goal)
