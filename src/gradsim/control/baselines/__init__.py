"""Baselines for gradients through physics and images, on the same goals and budgets.

Each is called as `baseline(setup, budget, seed, progress)` and returns a policy and a `History`.
"""

from gradsim.control.baselines.cma_es import cma
from gradsim.control.baselines.common import Budget
from gradsim.control.baselines.ppo import ppo
from gradsim.control.baselines.random_policies import random
from gradsim.control.baselines.reinforce import reinforce
from gradsim.control.baselines.state_supervised import diffphysics, tuned_rate

BASELINES = {one.__name__: one for one in (random, cma, reinforce, ppo, diffphysics)}

__all__ = ["BASELINES", "Budget", "cma", "diffphysics", "ppo", "random", "reinforce", "tuned_rate"]
