import math

import numpy as np
import pytest

from gradsim_reproduction.statistics import coverage as experiment
from gradsim_reproduction.statistics.coverage_families import FAMILIES, draw


def record(family, z, inside, status="ok"):
    rows = {
        f"body.{k}": {"z": x, "z_crb": x, "inside": there, "identifiable": True}
        for k, (x, there) in enumerate(zip(z, inside, strict=True))
    }
    return {"family": family, "status": status, "kinked": False, "cpu_seconds": 1.0, "unknowns": rows}


def test_the_families_make_a_thousand_fits_and_any_smaller_number_keeps_their_shares():
    assert sum(experiment.counts(False, None).values()) == 1000
    some = experiment.counts(False, 100)
    assert 100 <= sum(some.values()) <= 100 + len(FAMILIES)
    assert all(some[name] == math.ceil(f.count / 10) for name, f in FAMILIES.items())


@pytest.mark.parametrize("family", FAMILIES)
def test_truths_are_within_the_ranges_and_the_scene_does_not_hold_them(family):
    one, again, other = (draw(family, k, 5) for k in (2, 2, 3))
    assert one.truth == again.truth and one.truth != other.truth
    for text in one.unknowns:
        name, low, high = text.split(":")
        assert float(low) <= one.truth[name] <= float(high)
    if "body.mass" in one.truth:
        assert one.scene.bodies["body"].mass == 7.0


def test_coverage_counts_intervals_and_its_error_counts_fits():
    """Two fits, one all inside, one all outside: half, with the standard error of two coins, 1/(2 √2)."""
    told = experiment.interval_statistics(
        [record("mass", [0.5, 1.0], [True, True]), record("mass", [4.0, 3.5], [False, False])]
    )
    assert told["coverage"] == 0.5
    assert told["standard_error"] == pytest.approx(1 / (2 * math.sqrt(2)))
    assert told["z_rms"] == pytest.approx(math.sqrt((0.25 + 1 + 16 + 12.25) / 4)) and told["beyond_3"] == 0.5


def test_a_fit_that_does_not_explain_its_video_counts_for_coverage_but_claims_no_error_bar():
    records = [
        record("mass", [1.0], [True]),
        record("mass", [-1.0], [True]),
        record("mass", [7e3], [False], "mismatch"),
    ]
    told = experiment.interval_statistics(records)
    assert told["coverage"] == pytest.approx(2 / 3) and told["z_rms"] == 1 and told["z_rms_all"] > 4e3
    assert told["mismatch"] == 1


def test_normal_errors_meet_the_goals_and_narrow_bars_do_not():
    """1000 fits of two normal errors: the coverage is 95 ± 0.5 %. Bars of 2/3 the width cover 81 %."""
    z = np.random.default_rng(0).standard_normal((1000, 2))
    for width, met in ((1.0, True), (2 / 3, False)):
        scaled = z / width
        records = [record("flight", row, np.abs(row) < 1.96) for row in scaled]
        figures = experiment.summary(records)
        assert figures["coverage"]["ok"] is met and figures["z_rms"]["ok"] is met
    assert "coverage_contact" not in figures


def test_few_intervals_judge_nothing():
    """All of 20 inside is likely where intervals are right; all of 200 is not."""
    right = lambda count: [record("flight", [0.5, 0.5], [True, True])] * count
    assert experiment.summary(right(10))["coverage"] == {"value": 1.0, "paper": None, "goal": None, "ok": True}
    assert not experiment.summary(right(100))["coverage"]["ok"]


def test_a_fit_knows_how_far_off_it_is():
    """Errors beyond 5 σ have a chance of 1e-6."""
    told = experiment.fit_one(("flight", 3, 1000))
    assert told["status"] == "ok" and told["chi2_per_n"] < 1.3
    assert all(abs(row["z"]) < 5 and 0.5 < row["z"] / row["z_crb"] < 2 for row in told["unknowns"].values())


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quick_form_runs_and_goes_on_from_what_it_kept(tmp_path):
    first = experiment.coverage(tmp_path, quick=True, seed=1000)
    assert (tmp_path / "coverage.png").is_file() and (tmp_path / "table.md").is_file()
    again = experiment.coverage(tmp_path, quick=True, seed=1000)
    assert again["figures"] == first["figures"] and first["figures"]["coverage"]["value"] > 0.7
