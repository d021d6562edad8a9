from types import SimpleNamespace

import pytest

from gradsim.identification.fit import Estimate
from gradsim.identification.uncertainty.fisher import NullDirection
from gradsim.identification.unknowns import Space
from gradsim_reproduction.statistics import verdicts as experiment
from gradsim_reproduction.statistics.verdict_cases import CASES


def test_half_of_the_fifty_cases_are_open_and_each_names_its_own_unknowns():
    assert len(CASES) == 50 and sum(case.null is not None for case in CASES) == 25
    assert len({case.name for case in CASES}) == 50
    for case in CASES:
        names = Space(case.scene(), case.unknowns).names
        assert case.null is None or (list(case.null) == names and case.words)


def fit(status, null, value=6.0, words="only their ratios show by a common factor"):
    direction = [NullDirection(null, words, 1.0)] if null else []
    estimate = Estimate(value, 0.1, (value - 0.2, value + 0.2), "kg", 2, 12, not null)
    unknowns = {name: estimate for name in ("body.mass", "ground.stiffness")}
    return SimpleNamespace(status=status, null_directions=direction, unknowns=unknowns, chi2_per_n=1.0, cpu_seconds=1.0)


TRUTH = {"body.mass": 6.05, "ground.stiffness": 6.05}
BOTH = {"body.mass": 0.7071, "ground.stiffness": 0.7071}


@pytest.mark.parametrize(
    ("given", "right"),
    [
        (fit("unidentifiable", BOTH), True),
        (fit("unidentifiable", {name: -c for name, c in BOTH.items()}), True),  # a direction has no sign
        (fit("ok", None), False),  # a missed flag
        (fit("unidentifiable", {"body.mass": 1.0, "ground.stiffness": 0.0}), False),  # another direction
        (fit("unidentifiable", BOTH, words="no idea"), False),
    ],
)
def test_an_open_case_is_right_with_its_direction_and_its_words(given, right):
    assert experiment.compare_verdict(CASES[4], given, TRUTH)["right"] is right


@pytest.mark.parametrize(
    ("given", "right"),
    [(fit("ok", None), True), (fit("unidentifiable", BOTH), False), (fit("ok", None, value=7.0), False)],
)
def test_a_known_case_is_right_if_nothing_is_open_and_the_truth_is_near(given, right):
    assert experiment.compare_verdict(CASES[5], given, TRUTH)["right"] is right


def test_a_mass_shows_by_a_push_alone():
    assert all(experiment.judge((k, 1000))["right"] for k in (0, 1))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_all_verdicts_are_right(tmp_path):
    result = experiment.verdicts(tmp_path)
    assert result["figures"]["verdicts_right"]["value"] == 50 and (tmp_path / "verdicts.png").is_file()
