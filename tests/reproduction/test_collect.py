"""Results of full runs that are kept with the source."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from gradsim.app import figures as figures_module
from gradsim.app.figures import figure, write_result
from gradsim.errors import InputError
from gradsim_reproduction.tables import write_table

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
collect = importlib.import_module("collect")


def test_a_run_is_kept_with_its_figures_and_without_its_long_records(tmp_path):
    run, out = tmp_path / "table1", tmp_path / "results"
    run.mkdir()
    table = write_table(run, "Table 1", [{"name": "mass", "paper": 1e-4, "ours": 1e-8}])
    records = [{"number": k, "error": 0.1 * k} for k in range(5000)]
    write_result(run, "reproduce table1", {"table": table, "records": records}, {"error": figure(1e-3, goal=1e-6)})
    page = collect.collect([run], out).read_text()
    assert "| mass | 0.0001 | 1e-08 | 1e+04 |" in page
    assert "| `error` | 0.001 | – | 1e-06 | **no** |" in page
    content = json.loads((out / "table1.json").read_text())
    assert content["left_out"] == ["records"] and "records" not in content
    assert content["made_by"]["commit"] in page


def test_a_folder_without_a_result_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="no result.json"):
        collect.collect([tmp_path], tmp_path / "results")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "path", sorted((Path(collect.__file__).parent / "results").glob("*.json")), ids=lambda p: p.stem
)
def test_what_is_kept_names_its_commit_and_machine(path):
    made = json.loads(path.read_text())["made_by"]
    assert made["commit"] and made["processor"] and made["cores"]
    assert f"## {path.stem}\n" in (path.parent / "results.md").read_text()


def test_a_run_of_benchmarks_goes_on_where_it_stopped(tmp_path, monkeypatch):
    run = importlib.import_module("run")
    made_by, calls = {**run.provenance(), "commit": "1"}, []
    for module in (run, figures_module):
        monkeypatch.setattr(module, "provenance", lambda: made_by)

    def case(name):
        calls.append(name)
        if calls == ["first", "second"]:
            raise KeyboardInterrupt
        return {name: figure(float(len(calls)), goal=2.0)}, [f"{name} ran"]

    cases = {name: (lambda name=name: case(name)) for name in ("first", "second")}
    with pytest.raises(KeyboardInterrupt):
        run.run(cases, tmp_path, "benchmarks all")
    assert json.loads((tmp_path / "result.json").read_text())["figures"]["first"]["value"] == 1
    with pytest.raises(InputError, match="did not end"):
        collect.collect([tmp_path], tmp_path / "results")
    figures = run.run(cases, tmp_path, "benchmarks all")
    assert calls == ["first", "second", "second"]
    assert [run.line(name, f).split() for name, f in figures.items()] == [
        ["first", "1", "goal", "2:", "met"],
        ["second", "3", "goal", "2:", "missed"],
    ]
    run.run(cases, tmp_path, "benchmarks all")
    assert len(calls) == 5  # a whole run is made again
    (tmp_path / "result.json").write_text(json.dumps({"command": "benchmarks all"}))
    assert run.unfinished(tmp_path, "benchmarks all") == ({}, {})
    made_by["commit"] = "1+"
    run.write_result(tmp_path, "benchmarks all", {"notes": {"first": []}, "complete": False}, {})
    assert run.unfinished(tmp_path, "benchmarks all") == ({}, {})
    run.run(cases, tmp_path, "benchmarks all")
    assert "`benchmarks/run.py all`" in collect.section("speed", json.loads((tmp_path / "result.json").read_text()))
