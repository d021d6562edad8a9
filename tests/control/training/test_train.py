"""Training: what an iteration is, what is counted and kept, and where it stops."""

import math
from dataclasses import replace

import pytest
import torch
from control_cases import Line, Reach
from tolerances import ROUNDING, near
from torch import nn

from gradsim.control.policies import Feedback, PiecewiseConstant, Sinusoids
from gradsim.control.training.optimizers import OPTIMIZERS
from gradsim.control.training.settings import Horizon, TrainingConfig
from gradsim.control.training.train import train
from gradsim.errors import InputError
from gradsim.physics.model import Divergence
from gradsim.runtime.checkpoint import CheckpointFile

RATES = {"sgd": 0.02, "adagrad": 0.3, "asgd": 0.1, "adadelta": 20.0, "rprop": 0.02, "adafactor": 0.3}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimiser_lowers_the_loss_in_its_own_number_of_iterations(name):
    plant = Line()
    history = train(plant, Sinusoids(2), Reach(), TrainingConfig(name, RATES.get(name), 12))
    losses = history.raw()
    assert len(losses) == 12 and min(losses[1:]) < 0.7 * losses[0]
    assert history.total("rollouts")[-1] == len(plant.calls)


def test_an_iteration_is_one_rollout_of_each_world_and_its_steps_are_counted():
    plant = Line()
    history = train(plant, Sinusoids(2), Reach(), TrainingConfig(iterations=5), worlds=3)
    assert plant.calls == [3] * 5
    assert history.raw("rollouts") == [3] * 5
    assert history.total("steps") == [3 * 8 * 4 * k for k in range(1, 6)]


def test_rollouts_of_a_line_search_are_counted_in_their_iteration():
    plant = Line()
    history = train(plant, Sinusoids(2), Reach(), TrainingConfig("lbfgs", iterations=4))
    assert sum(history.raw("rollouts")) == len(plant.calls) > 4


def test_entries_are_what_the_policy_was_before_each_step_and_it_ends_as_in_the_last():
    plant, policy = Line(), Sinusoids(2, seed=3)
    history = train(plant, policy, Reach(), TrainingConfig(iterations=6, rate=0.2))
    again = Sinusoids(2)
    at = {}
    for name in ("first", "middle", "best", "last"):
        again.load_state_dict(history.policies[name])
        at[name] = Reach().loss(plant.rollout(again), 0).item()
    assert at["first"] == history.raw()[0] and at["middle"] == history.raw()[3] and at["last"] == history.raw()[-1]
    assert at["best"] == min(history.raw()) == history.at_best()[-1]
    assert torch.equal(policy.weight, history.policies["last"]["weight"])


def test_the_gradient_norm_is_that_before_clipping_and_the_step_that_after():
    """Without momentum a step is rate times the clipped gradient."""
    plant, policy = Line(), PiecewiseConstant(2)
    (gradient,) = torch.autograd.grad(Reach().loss(plant.rollout(policy), 0).mean(), policy.table)
    search = TrainingConfig("sgd", 0.5, 2, clip=0.01, options={"momentum": 0.0})
    history = train(plant, policy, Reach(), search)
    assert gradient.norm() > 0.02
    assert history.raw("gradient_norm")[0] == near(gradient.norm().item(), ROUNDING)
    assert torch.allclose(policy.table, -0.5 * 0.01 * gradient / gradient.norm(), rtol=1e-4)  # torch adds 1e-6 to norms


def test_figures_are_those_of_the_goal_and_no_search_sees_them():
    class Blind(Reach):
        def distance(self, episode):
            return torch.full((len(episode.actions),), math.nan)

    one, other = Sinusoids(2), Sinusoids(2)
    seen = train(Line(), one, Reach(), TrainingConfig(iterations=4))
    train(Line(), other, Blind(), TrainingConfig(iterations=4))
    assert torch.equal(one.weight, other.weight)
    assert seen.raw("distance") == pytest.approx([math.sqrt(x) for x in seen.raw()])
    assert seen.raw("position_error") == pytest.approx([x / 3 for x in seen.raw()])


def test_the_video_grows_with_its_horizon():
    history = train(Line(), Sinusoids(2), Reach(0.2), TrainingConfig(iterations=6, horizon=Horizon(0.25, 4)))
    assert history.raw("frames") == [3, 5, 6, 8, 9, 9]  # 1 + ceil(8 (0.25 + 0.75 k/4))
    assert history.raw("steps") == [4 * (n - 1) for n in history.raw("frames")]
    assert history.best >= 4  # a loss of less of the film is not comparable


def test_it_stops_where_the_loss_is_enough():
    history = train(Line(), PiecewiseConstant(2), Reach(), TrainingConfig("polyak", 2.0, 50, target_loss=1e-6))
    assert len(history) < 50 and history.raw()[-1] <= 1e-6 < history.raw()[-2]


@pytest.mark.parametrize("schedule", ["cosine_annealing", {"name": "step", "step_size": 2, "gamma": 0.5}, "one_cycle"])
def test_the_rate_follows_its_schedule(schedule):
    if schedule == "one_cycle":
        schedule = {"name": schedule, "max_lr": 0.1}
    rates = train(Line(), Sinusoids(2), Reach(), TrainingConfig(rate=0.1, iterations=6, schedule=schedule)).raw("rate")
    expected = {
        "cosine_annealing": [0.05 * (1 + math.cos(math.pi * k / 6)) for k in range(6)],
        "step": [0.1, 0.1, 0.05, 0.05, 0.025, 0.025],
    }
    name = schedule if isinstance(schedule, str) else schedule["name"]
    if name in expected:
        assert rates == pytest.approx(expected[name])
    else:
        assert max(rates) > 0.09 and rates[0] < 0.05 and rates[-1] < 0.05


def test_feedback_is_trained_through_its_observations_in_many_worlds():
    """Masses that the policy does not know: one open loop cannot suit them all, a closed one comes nearer."""
    masses = {"mass": torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)}
    search = TrainingConfig("adam", 0.03, 60)
    closed = train(Line(21, observation=True, interval=1), Feedback(2, 2, (8,)), Reach(), search, overrides=masses)
    opened = train(Line(21, interval=1), Sinusoids(2), Reach(), search, overrides=masses)
    assert min(closed.raw()) < 0.3 * min(opened.raw())


def test_what_is_given_is_asked_anew_in_each_iteration():
    asked = []

    def given(iteration: int):
        asked.append(iteration)
        return {"mass": torch.full((2,), 1.0 + iteration, dtype=torch.float64)}

    history = train(Line(), Sinusoids(2), Reach(), TrainingConfig("lbfgs", iterations=3), overrides=given)
    assert asked == [0, 1, 2] and len(history) == 3


class Wall(Line):
    """Pushed too hard, it leaves the numbers."""

    def rollout(self, policy, overrides=None, frames=None, worlds=1):
        episode = super().rollout(policy, overrides, frames, worlds)
        if episode.actions.detach().abs().max() > 0.4:
            raise Divergence("`mass` diverges: x is not finite from step 7 on.")
        return episode


class Steep(Reach):
    """Its gradient is infinite at a place that is reached after a step."""

    def loss(self, episode, iteration):
        over = episode.actions.detach().abs().amax((1, 2)) > 0.4
        return super().loss(episode, iteration) + torch.where(
            over, torch.sqrt(0 * episode.actions.sum((1, 2)) + ~over), 0.0
        )


@pytest.mark.parametrize(
    "plant, goal, words", [(Wall(), Reach(), "step 7"), (Line(), Steep(), "gradient is not finite")]
)
def test_what_is_not_finite_is_told_with_its_iteration_or_halved_and_counted(plant, goal, words):
    search = TrainingConfig("sgd", 3.0, 12, options={"momentum": 0.0})
    with pytest.raises(Divergence, match=f"^iteration 1: .*{words}"):
        train(plant, PiecewiseConstant(2), goal, search)
    history = train(plant, PiecewiseConstant(2), goal, replace(search, not_finite="halve"))
    bad = [k for k, loss in enumerate(history.raw()) if math.isnan(loss)]
    assert history.retreats == len(bad) >= 1 and bad[0] == 1
    assert any(math.isfinite(loss) for loss in history.raw()[2:]) and len(history) == 12


def test_a_start_that_is_not_finite_is_never_passed_over():
    with pytest.raises(Divergence, match="iteration 0"):
        train(Wall(), PiecewiseConstant(2, start=0.9), Reach(), TrainingConfig(not_finite="halve"))


def test_a_loss_that_does_not_depend_on_the_policy_is_refused():
    with pytest.raises(InputError, match="does not depend on the policy"):
        train(Line(force=0.0), Sinusoids(2), Reach())


@pytest.mark.parametrize("options", [{}, {"floor": 0.9}])
def test_a_loss_below_its_least_value_is_refused(options):
    """The rule of Polyak makes no step there, as for most rewards."""
    goal = Reach()
    if not options:
        goal.loss = lambda episode, iteration: -episode.x[:, -1]
    with pytest.raises(InputError, match="below the minimum 0(.9)? that polyak assumes"):
        train(Line(), Sinusoids(2), goal, TrainingConfig("polyak", options=options))


class Stop(Exception):
    pass


class Plug:
    """Stops the search after some iterations."""

    def __init__(self, after: int):
        self.left = after

    def update(self, iteration, loss, values):
        self.left -= 1
        if self.left < 0:
            raise Stop


@pytest.mark.parametrize("name", ["adam", "sgd", "lbfgs", "polyak", "rprop"])
def test_an_interrupted_search_goes_on_to_the_same_bits(name, tmp_path):
    options = {"retreat": True} if name == "polyak" else {}
    schedule = {"name": "cosine_annealing", "T_max": 5}
    search = TrainingConfig(name, RATES.get(name), 9, schedule=schedule, options=options, horizon=Horizon(0.5, 3))
    noise = lambda k: {"mass": 1 + 0.2 * torch.rand(2, generator=torch.Generator().manual_seed(k), dtype=torch.float64)}
    policies = [Feedback(2, 2, (4,), seed=1) for _ in range(3)]
    plant, path = Line(observation=True), tmp_path / "deep" / "search.pt"
    whole = train(plant, policies[0], Reach(), search, overrides=noise)
    for after, policy in zip((3, 2), policies[1:], strict=True):
        with pytest.raises(Stop):
            train(plant, policy, Reach(), search, Plug(after), path, noise)
    policies[1].load_state_dict(Feedback(2, 2, (4,), seed=7).state_dict())  # what it had before does not matter
    again = train(plant, policies[1], Reach(), search, None, path, noise)
    for quantity in ("loss", "gradient_norm", "rollouts", "frames", "rate"):
        assert again.raw(quantity) == whole.raw(quantity)
    for kept, state in whole.policies.items():
        assert all(torch.equal(again.policies[kept][key], value) for key, value in state.items())
    assert all(torch.equal(a, b) for a, b in zip(policies[0].parameters(), policies[1].parameters(), strict=True))
    calls = len(plant.calls)
    assert train(plant, policies[2], Reach(), search, None, path, noise).raw() == whole.raw()
    assert len(plant.calls) == calls  # it was over


def test_a_finished_search_goes_on_for_more_iterations_as_if_it_had_never_stopped(tmp_path):
    one, other, path = Sinusoids(2), Sinusoids(2), tmp_path / "search.pt"
    whole = train(Line(), one, Reach(), TrainingConfig(iterations=7))
    train(Line(), other, Reach(), TrainingConfig(iterations=4), checkpoint=path)
    assert train(Line(), other, Reach(), TrainingConfig(iterations=7), checkpoint=path).raw() == whole.raw()
    assert torch.equal(one.weight, other.weight)


def test_a_search_whose_schedule_has_ended_is_not_gone_on_with(tmp_path):
    """Else the rate rises again behind its end, and nothing is as if the search had never stopped."""
    path, policy = tmp_path / "search.pt", Sinusoids(2, seed=2)
    train(Line(), policy, Reach(), TrainingConfig(iterations=4, schedule="cosine_annealing"), checkpoint=path)
    with pytest.raises(InputError, match="another search"):
        train(Line(), policy, Reach(), TrainingConfig(iterations=8, schedule="cosine_annealing"), checkpoint=path)


def test_a_checkpoint_of_another_search_or_no_checkpoint_is_refused(tmp_path):
    path = tmp_path / "search.pt"
    train(Line(), Sinusoids(2), Reach(), TrainingConfig(iterations=2), checkpoint=CheckpointFile(path, "one"))
    for keeper, search, words in (
        (CheckpointFile(path, "other"), TrainingConfig(iterations=2), "another job"),
        (CheckpointFile(path, "one"), TrainingConfig("sgd", iterations=2), "another search: .*adam.* this is .*sgd"),
    ):
        with pytest.raises(InputError, match=words):
            train(Line(), Sinusoids(2), Reach(), search, checkpoint=keeper)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(InputError, match="is not a checkpoint of a search; remove it"):
        train(Line(), Sinusoids(2), Reach(), TrainingConfig(iterations=2), checkpoint=path)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"optimizer": "polyack"}, "did you mean `polyak`"),
        ({"iterations": 0}, "iterations: got 0"),
        ({"rate": -1.0}, "rate: got -1.0"),
        ({"optimizer": "polyak", "clip": 1.0}, "polyak takes no `clip`"),
        ({"not_finite": "ignore"}, "'raise' or 'halve'"),
        ({"schedule": "cosine"}, "unknown schedule 'cosine'.*did you mean|choose one"),
        ({"schedule": {"name": "step"}}, "the schedule 'step' refuses .*step_size"),
        ({"options": {"beta": 1}}, "no option `beta`; did you mean `betas`"),
    ],
)
def test_settings_that_are_wrong_are_refused_before_a_rollout(settings, words):
    plant = Line()
    with pytest.raises(InputError, match=words):
        train(plant, Sinusoids(2), Reach(), TrainingConfig(**settings))
    assert not plant.calls


def test_weights_that_are_frozen_stay():
    policy = Sinusoids(2, bias=True)
    policy.weight.requires_grad_(False)
    before = policy.weight.clone()
    history = train(Line(), policy, Reach(), TrainingConfig(iterations=3))
    assert torch.equal(policy.weight, before) and history.raw()[-1] < history.raw()[0]
    assert isinstance(policy.bias, nn.Parameter) and policy.bias.abs().max() > 0
