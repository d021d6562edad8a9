"""Figures of `reproduce plan`, and open cases after the change that a fit names."""

import numpy as np
import pytest
import torch

from gradsim.errors import Status
from gradsim.identification.unknowns import Space
from gradsim.planning.choices import read_choices
from gradsim_reproduction.planning import plan as experiment
from gradsim_reproduction.planning.cases import FAMILIES
from gradsim_reproduction.planning.real import CHOSEN, Tosses, compare_threes, jackknife, real_figures, scatter_ratio
from gradsim_reproduction.planning.simulated_tosses import choose, expected_sd, trajectory_distances
from gradsim_reproduction.statistics.verdict_cases import CASES


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_its_numbers(name):
    """Three continuous choices of a video of 64²."""
    family = FAMILIES[name]
    one = family.scene(torch.rand(3, generator=torch.manual_seed(0)).numpy())
    assert len(read_choices(one, family.choose)) == 3 and tuple(one.view("camera").size) == (64, 64)
    assert family.want in Space(one, family.unknowns).names and family.body in one.bodies


def test_there_are_25_open_cases():
    assert len(experiment.OPEN) == 25


@pytest.mark.slow  # `planning/test_quick.py` asserts it of such a pendulum
@pytest.mark.parametrize("number", [20, 22])  # damping and drag of a pendulum at rest
def test_an_open_case_is_ok_after_the_change_that_its_fit_names(number):
    record = experiment.resolve((number, 1))
    assert CASES[number].null is not None
    assert record["before"] == Status.UNIDENTIFIABLE and record["after"] == Status.OK
    assert "set bob.angle" in record["words"]


def test_figures_count_what_is_within_their_bounds():
    record = {"family": "arm", "gain": 4.0, "against_best": 0.9, "cpu_seconds": 9.0, "achieved": 1.0}
    plans = [{**record, "predicted": x} for x in (0.95, 1.0, 1.05, 2.0)]
    cases = [{"after": "ok"}, {"after": "unidentifiable"}]
    figures = experiment.summary(plans, cases)
    assert figures["predicted_over_achieved"]["value"] == pytest.approx(1.025)
    assert figures["predicted_over_achieved, share within 0.7 to 1.4"] == {
        "value": 0.75,
        "paper": None,
        "goal": 0.9,
        "ok": False,
    }
    assert figures["resolved"]["value"] == 1 and not figures["resolved"]["ok"]


@pytest.mark.parametrize("count", [5, 12])  # all threes are compared; one toss after the other
def test_three_tosses_are_chosen_that_tell_most(count):
    """Tosses whose trajectories are apart by the difference of friction times a speed."""
    y = torch.linspace(-1, 1, 41).double()
    speeds = torch.linspace(0.1, 1, count)[torch.randperm(count, generator=torch.manual_seed(0))]
    apart = [speed * (y[:9, None] - y).abs() for speed in speeds]
    fastest = tuple(sorted(speeds.argsort(descending=True)[:CHOSEN].tolist()))
    assert choose(apart, y, 0.1, range(count), CHOSEN) == fastest


def test_expected_sd_is_that_of_the_posterior():
    """A normal distribution within a wide range: n trajectories apart by y have s/√n."""
    y = torch.linspace(-1, 1, 4001).double()
    apart = (y[1000:3000:100, None] - y).abs()
    for tosses in (1, 4):
        assert expected_sd([apart] * tosses, y, 0.02) == pytest.approx(0.02 / tosses**0.5, rel=1e-3)


def test_distances_of_trajectories_are_means_over_frames_and_points():
    x = torch.zeros(3, 4, 2, 3)
    x[1, :, 0, 0] = 1.0
    x[2, :2] = torch.nan
    assert torch.allclose(trajectory_distances(x, 2)[:, :2], torch.tensor([[0.0, 0.5], [0.5, 0.0]]))
    assert trajectory_distances(x, 1)[0, 2] > 5


def test_distance_of_threes_is_relative_to_the_friction_of_all():
    repetitions = [
        {"half": ["a"], "planned": 0.21, "random": [0.24]},
        {"half": ["b"], "planned": 0.19, "random": [0.16]},
    ]
    figures = real_figures({"cube": {"all": 0.2, "repetitions": repetitions}})
    assert figures["real cube: distance of planned threes"]["value"] == pytest.approx(0.05)
    assert figures["real cube: distance from all tosses, random over planned"]["value"] == pytest.approx(4.0)


def test_all_halves_of_few_tosses_are_compared_with_all_of_their_threes():
    tosses = Tosses(tuple("abcdefgh"), [torch.rand(3, 9) for _ in range(8)], torch.rand(9).double(), friction=sum)
    record = compare_threes(tosses, 0, 70, lambda k: None)
    assert len({tuple(r["half"]) for r in record["repetitions"]}) == 70
    assert all(len(r["random"]) == 4 and set(r["chosen"]) <= set(r["half"]) for r in record["repetitions"])
    sampled = compare_threes(tosses, 0, 69, lambda k: None)["repetitions"]
    assert len(sampled) == 69 and all(len(r["random"]) == 1 for r in sampled)


def test_the_error_of_a_ratio_is_that_of_the_tosses_that_repetitions_lack():
    repetitions = [
        {"half": [name], "planned": planned, "random": random}
        for name, planned, random in [("a", 0.0, [0, 4]), ("b", 1.0, [0, 2]), ("c", 3.0, [1, 3])]
    ]
    ratios = np.array([scatter_ratio([r for r in repetitions if r["half"] != [name]]) for name in "abc"])
    assert ratios == pytest.approx([np.std([0, 2, 1, 3]), np.std([0, 4, 1, 3]) / 1.5, np.std([0, 4, 0, 2]) / 0.5])
    assert jackknife(repetitions) == pytest.approx(np.sqrt(2 / 3 * np.sum((ratios - ratios.mean()) ** 2)))
