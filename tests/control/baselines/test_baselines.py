import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from env_cases import PointGoal, point
from tolerances import ROUNDING, SOLVED, assert_near, near

from gradsim.control.baselines import Budget, cma, ppo, random, reinforce
from gradsim.control.baselines.cma_es import PolicyPopulation, evaluate_population, parameter_vector, scale
from gradsim.control.baselines.common import hat_weights
from gradsim.control.baselines.reinforce import ExploringPolicy, surrogate
from gradsim.control.policies import Feedback, Spline
from gradsim.errors import InputError


def setup(policy=None) -> Any:
    return SimpleNamespace(plant=point(), goal=PointGoal(), policy=policy or Spline(2, 4, 1.2, seed=3))


@pytest.mark.slow
@pytest.mark.parametrize("baseline", [random, cma, reinforce, ppo])
def test_a_seed_gives_the_same_numbers(baseline):
    one, other, different = (baseline(setup(), Budget(24, 6), seed)[1] for seed in (4, 4, 5))
    assert one.raw() == other.raw() != different.raw()


@pytest.mark.parametrize("baseline", [random, cma, reinforce, ppo])
def test_no_baseline_spends_more_than_its_budget_or_touches_the_policy(baseline):
    given = setup()
    before = [p.clone() for p in given.policy.parameters()]
    _, history = baseline(given, Budget(26, 6), 0)
    assert 20 <= history.total("rollouts")[-1] <= 26
    assert history.total("steps")[-1] == history.total("rollouts")[-1] * given.plant.steps
    assert all(torch.equal(a, b) for a, b in zip(before, given.policy.parameters(), strict=True))


@pytest.mark.parametrize("baseline", [cma, reinforce, ppo])
def test_a_budget_of_less_than_an_iteration_is_refused(baseline):
    with pytest.raises(InputError, match="the budget is 10 rollouts, and one iteration takes 16"):
        baseline(setup(), Budget(10, 16), 0)


def test_a_small_generation_stays_within_its_budget():
    assert cma(setup(), Budget(10, 2), 0)[1].total()[-1] == 8


@pytest.mark.parametrize("kind", ["open", "closed"])
def test_the_score_function_points_along_the_gradient(kind):
    """Its mean is the slope of the mean loss; with 4 000 worlds its error is a few per cent of it."""
    plant, goal = point(), PointGoal()
    policy = (
        Spline(2, 4, 1.2, seed=3, start=0.4) if kind == "open" else Feedback(4, 2, (3,), phases=2, seed=3, start=0.4)
    )
    drawn = torch.randn(4001, 12, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn[0] = 0
    exploring = ExploringPolicy(policy, plant.times, 0.1 * drawn, bounded=True)
    with torch.no_grad():
        loss = goal.loss(plant.rollout(exploring, worlds=4001))
    found = torch.autograd.grad(surrogate(exploring, drawn / 0.1, loss), list(policy.parameters()))
    right = torch.autograd.grad(goal.loss(plant.rollout(policy)).sum(), list(policy.parameters()))
    one, other = (torch.cat([g.flatten() for g in gradients]) for gradients in (found, right))
    assert torch.cosine_similarity(one, other, 0) > 0.98


@pytest.mark.parametrize(
    ("baseline", "share"), [(cma, 0.05), (reinforce, 0.3), pytest.param(ppo, 0.1, marks=pytest.mark.slow)]
)
def test_what_learns_lowers_the_loss(baseline, share):
    raw = baseline(setup(), Budget(400, 16), 0)[1].raw()
    assert raw[-1] < share * raw[0]


def test_a_population_acts_as_its_members_alone():
    members = [Feedback(4, 2, (3,), phases=1, seed=k, start=0.7) for k in range(3)]
    together = point().rollout(
        PolicyPopulation(members[0], torch.stack([parameter_vector(m) for m in members])), worlds=3
    )
    for k, member in enumerate(members):
        torch.testing.assert_close(together.actions[k], point().rollout(member).actions[0], rtol=0, atol=1e-15)


def test_random_policies_act_with_the_strength_that_is_asked_for():
    policy = Spline(2, 4, 1.2)
    vector = torch.randn(8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = PolicyPopulation(policy, scale(point(), policy, vector, 0.5) * vector[None])(point().times)
    assert found.square().mean().sqrt().item() == near(0.5, SOLVED, scale=1.0)


def test_a_population_goes_on_without_its_member_that_diverges():
    class Wild(Spline):
        def forward(self, times, observation=None):
            return super().forward(times) / (self.coefficients[0, 0] != 1.0)

    found = evaluate_population(
        point(), PointGoal(), Wild(2, 4, 1.2), torch.stack([torch.full((8,), 0.3), torch.ones(8)]).double()
    )
    start = PointGoal.place.square().sum()
    assert found.loss[1] == 2 * start and found.loss[0] < 2 * start


def test_hats_share_out_linear_functions_exactly():
    """They add up to 1, and interpolate what is linear in place."""
    generator = np.random.default_rng(3)
    places = torch.tensor(generator.uniform(-1, 2, (40, 3)) * [1.0, 0.0, 2.0])
    shares, low, high = hat_weights(places, 2), places.amin(0), places.amax(0)
    points = torch.cartesian_prod(*(torch.linspace(low[k], high[k], 3, dtype=torch.float64) for k in (0, 2)))
    assert shares.shape == (40, 9) and (shares >= 0).all()
    assert_near(shares.sum(1), torch.ones(40, dtype=torch.float64), ROUNDING, scale=1.0)
    assert_near(shares @ points, places[:, [0, 2]], ROUNDING, scale=1.0)


def test_ppo_leaves_the_generators_of_others_alone():
    torch.manual_seed(1)
    np.random.seed(1)
    before = torch.rand(1), np.random.rand()
    torch.manual_seed(1)
    np.random.seed(1)
    ppo(setup(), Budget(12, 6), 0)
    assert (torch.rand(1), np.random.rand()) == before


@pytest.mark.parametrize(("baseline", "library"), [(cma, "cma"), (ppo, "stable_baselines3")])
def test_a_library_that_is_missing_is_named_with_its_extra(baseline, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=rf'{library}.*pip install "gradsim\[control\]"'):
        baseline(setup(), Budget(6, 6), 0)
