"""All experiments of the paper in one run."""

import json

import pytest

from gradsim.app import experiments
from gradsim.app.figures import figure, write_result
from gradsim.app.report.report import write_report
from gradsim.errors import InputError
from gradsim_reproduction import all
from gradsim_reproduction.tables import write_table

RUNS = []


def good(out, quick=False, seed=0, progress=None, scenes=None):
    RUNS.append(("good", quick, scenes))
    table = write_table(out, "Table 1", [{"name": "mass", "paper": 1e-4, "ours": 1e-8}])
    figures = {"error": figure(1e-8, paper=1e-4, goal=1e-6), "idle": figure(3.0)}
    return write_result(out, "reproduce good", {"table": table}, figures)


def lacking(out, quick=False, seed=0, progress=None):
    raise InputError('it needs pybullet: pip install "gradsim[baselines]".')


@pytest.fixture
def two(monkeypatch):
    """Two experiments, one of which cannot run."""
    RUNS.clear()
    monkeypatch.setattr(all, "PAPER", ("good", "lacking"))
    for name in ("good", "lacking"):
        monkeypatch.setitem(experiments.experiments(), name, f"{__name__}:{name}")


def test_what_cannot_run_is_named_and_the_rest_is_on_the_page(two, tmp_path):
    result = experiments.reproduce("all", tmp_path, quick=True, scenes=5)
    assert result["status"] == "failed"
    assert result["notes"] == ['lacking was left out: it needs pybullet: pip install "gradsim[baselines]".']
    assert list(result["figures"]) == ["good: error"]
    assert "| mass | 0.0001 | 1e-08 | 1e+04 |" in (tmp_path / "tables.md").read_text()
    assert "Table 1" in write_report(tmp_path).read_text()
    assert json.loads((tmp_path / "good" / "result.json").read_text())["made_by"]["cores"] >= 1


def test_what_is_finished_is_not_run_again(two, tmp_path):
    for _ in range(2):
        experiments.reproduce("all", tmp_path, scenes=5)
    assert RUNS == [("good", False, 5)]
    with pytest.raises(InputError, match="scenes: 5 then, 6 now"):
        experiments.reproduce("all", tmp_path, scenes=6)


def test_every_experiment_of_the_paper_is_there():
    assert set(all.PAPER) <= set(experiments.experiments())


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("tabel3", {}, "did you mean 'table3'"),
        ("no-push", {"scenes": 3}, "takes no --scenes.*table3"),
        ("table3", {"foreign": True}, "takes no --foreign; joint does"),
    ],
)
def test_a_wrong_name_or_option_says_what_there_is(name, options, words, tmp_path):
    with pytest.raises(InputError, match=words):
        experiments.reproduce(name, tmp_path, **options)
