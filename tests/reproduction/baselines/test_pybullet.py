import numpy as np
import pytest

from gradsim.dataset import sample
from gradsim.errors import InputError
from gradsim_reproduction.baselines import pybullet as experiment
from gradsim_reproduction.baselines.pybullet import STARTS, first, solve

pytest.importorskip("pybullet")
PLAN = {"samples": 2, "steps": 3, "noise": 0.05, "decay": 0.925, "rate": 0.3}


def test_a_search_begins_where_its_kind_says_and_loses_nothing_at_the_truth():
    for start in STARTS:
        job = {"number": 4, "seed": 0, "start": start, "plan": PLAN}
        found = solve(job)
        assert found["losses"]["truth"] == 0 < found["losses"]["start"]
        assert found["means"][0] == round(found["begun"], 4) and found["values"]["body.mass"] != found["begun"]
        assert {**solve(job), "cpu_seconds": 0} == {**found, "cpu_seconds": 0}


def test_starts_fill_their_ranges_without_regard_to_the_truth():
    one, rng = sample("rigid", 4), np.random.default_rng(0)
    for kind, low, high in (("range", 2, 12), ("vertices", 0, 120)):
        drawn = np.array([first(one, kind, 120, rng) for _ in range(100)])
        assert low <= drawn.min() < low + 0.1 * (high - low) and high - 0.1 * (high - low) < drawn.max() <= high


@pytest.mark.slow
def test_the_experiment_goes_on_from_its_ledger_and_tells_its_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "SHORT", 1)
    out = tmp_path / "pybullet"
    done = experiment.pybullet(out, quick=True)
    assert len(done["rows"]) == 4 and done["figures"]["loss_at_truth_largest"]["ok"]
    assert (out / "searches.png").stat().st_size > 1000 and "REINFORCE" in (out / "table.md").read_text()
    monkeypatch.setattr("gradsim_reproduction.baselines.pybullet.solve", lambda job: 1 / 0)
    rows = experiment.rows([9, 4, 14], 0, tmp_path / "table1", quick=True)  # beside it: nothing is run again
    assert [(r["number"], r["start"]) for r in rows] == [(4, "range"), (9, "range")]


def test_only_the_mass_is_looked_for(tmp_path):
    with pytest.raises(InputError, match="looks for body.mass alone"):
        experiment.rows([4], 0, tmp_path, unknowns=("body.mass", "ground.friction"))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quick_form_walks_downhill_from_the_range(tmp_path):
    rows = [row for row in experiment.pybullet(tmp_path, quick=True)["rows"] if row["start"] == "range"]
    ends, starts = (sum(row["losses"][key] for row in rows) for key in ("end", "start"))
    assert len(rows) == 2 and ends < 0.9 * starts
