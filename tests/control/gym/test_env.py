import importlib
import sys
import warnings

import numpy as np
import pytest
import torch
from env_cases import PointGoal, point
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tolerances import ROUNDING, assert_near, near

from gradsim.control.gym.env import PlantEnv, PlantVectorEnv
from gradsim.control.gym.vector_env import EnvBatch
from gradsim.errors import InputError


def drawn(generator):
    return {"point.mass": torch.tensor([generator.uniform(0.5, 2.0)], dtype=torch.float64)}


def single():
    return PlantEnv(point(), PointGoal(), draw=drawn)


def test_gymnasium_finds_nothing_wrong_with_an_environment():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(single(), skip_render_check=True)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_worlds_that_step_together_go_as_each_alone(mode):
    """Over two and a half episodes, with masses drawn anew at each."""
    together = PlantVectorEnv(point(), PointGoal(), 3, draw=drawn, autoreset_mode=mode)
    alone = SyncVectorEnv([single] * 3, autoreset_mode=mode)
    np.testing.assert_array_equal(together.reset(seed=5)[0], alone.reset(seed=5)[0])
    together.action_space.seed(1)
    for _ in range(30):
        u = together.action_space.sample()
        one, other = together.step(u), alone.step(u)
        for a, b in zip(one[:4], other[:4], strict=True):
            assert_near(a, b, ROUNDING, scale=1.0)
            assert a.dtype == b.dtype and a.shape == b.shape
        assert set(one[4]) == set(other[4])
        assert_near(one[4]["loss"], other[4]["loss"], ROUNDING, scale=1.0)
        for k in one[4].get("_final_obs", np.zeros(3)).nonzero()[0]:
            assert_near(one[4]["final_obs"][k], other[4]["final_obs"][k], ROUNDING, scale=1.0)


def test_rewards_add_up_to_the_share_of_the_loss_that_is_gone():
    env = single()
    first = env.reset(seed=3)[1]["loss"]
    env.action_space.seed(2)
    total, ended = 0.0, False
    while not ended:
        _, reward, ended, _, info = env.step(env.action_space.sample())
        total += reward
    assert total == near(1 - info["loss"] / first, ROUNDING, scale=1.0)


def test_a_world_that_diverges_ends_alone():
    masses = iter([1.0, 0.0, 1.0])
    draw = lambda _: {"point.mass": torch.tensor([next(masses)], dtype=torch.float64)}
    envs = PlantVectorEnv(point(), PointGoal(), 3, draw=draw, autoreset_mode=AutoresetMode.DISABLED)
    before = envs.reset(seed=0)[0]
    seen, reward, ended, _, info = envs.step(np.full((3, 2), 0.5))
    assert ended.tolist() == info["diverged"].tolist() == [False, True, False]
    assert reward[1] == -1 and np.isfinite(seen).all() and (seen[1, 1:] == before[1, 1:]).all()
    with pytest.raises(InputError, match=r"worlds \[1\] have ended"):
        envs.step(np.zeros((3, 2)))


def test_a_world_that_diverges_begins_anew_while_the_others_go_on():
    masses = iter([1.0, 0.0, 2.0])
    draw = lambda _: {"point.mass": torch.tensor([next(masses)], dtype=torch.float64)}
    envs = PlantVectorEnv(point(), PointGoal(), 2, draw=draw)
    start = envs.reset(seed=0)[0]
    seen = [envs.step(np.full((2, 2), 0.5))[0] for _ in range(3)]
    assert [bool(row[1, 1] > 0) for row in seen] == [False, False, True]
    assert (seen[1][1] == start[1]).all()
    x = [row[0, 1] for row in seen]
    np.testing.assert_allclose(x, [0.005, 0.015, 0.03], rtol=0, atol=1e-15)  # dt² u n (n + 1) / 2 of mass 1


def test_a_world_that_has_ended_stays_as_it_is():
    worlds = EnvBatch(point(), PointGoal())
    worlds.reset([np.random.default_rng(0)])
    times, u = [worlds.observe()[0, 0].item()], torch.full((1, 2), 0.3, dtype=torch.float64)
    for _ in range(12):
        worlds.step(u)
        times.append(worlds.observe()[0, 0].item())
    before, loss = worlds.observe(), worlds.loss
    np.testing.assert_allclose(times, np.linspace(-1, 1, 13), rtol=0, atol=1e-15)
    assert worlds.step(u).item() == 0
    assert torch.equal(worlds.observe(), before) and torch.equal(worlds.loss, loss) and worlds.terminated.all()


def test_a_mask_resets_only_its_worlds():
    envs = PlantVectorEnv(point(), PointGoal(), 2, autoreset_mode=AutoresetMode.DISABLED)
    start = envs.reset(seed=0)[0]
    later = envs.step(np.full((2, 2), 0.5))[0]
    mixed = envs.reset(options={"reset_mask": np.array([True, False])})[0]
    assert (mixed[0] == start[0]).all() and (mixed[1] == later[1]).all() and (later != start).any()


def test_what_is_wrong_with_actions_is_said():
    env = single()
    env.reset(seed=0)
    with pytest.raises(InputError, match=r"actions have shape \(3,\); expected \(2,\)"):
        env.step(np.zeros(3))
    with pytest.raises(InputError, match="not finite"):
        env.step(np.array([0.0, np.nan]))
    with pytest.raises(InputError, match="render_mode is 'human'"):
        PlantEnv(point(), PointGoal(), render_mode="human")
    with pytest.raises(InputError, match="got 2 seeds for 3 worlds"):
        PlantVectorEnv(point(), PointGoal(), 3).reset(seed=[1, 2])


def test_a_missing_gymnasium_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "gradsim.control.gym.env")
    with pytest.raises(InputError, match=r'pip install "gradsim\[control\]"'):
        importlib.import_module("gradsim.control.gym.env")
