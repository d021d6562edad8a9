"""Many jobs in a ledger."""

import inspect
import json
import os
import sys

import pytest

from gradsim.app.figures import figure
from gradsim.errors import InputError
from gradsim.runtime.checkpoint import Ledger
from gradsim_reproduction.runner import Run, experiment, run_missing

CALLS = []


def double(x: float) -> dict:
    CALLS.append(x)
    return {"value": 2 * x}


def test_finished_jobs_are_kept_and_the_rest_is_made_in_the_order_of_the_jobs(tmp_path):
    CALLS.clear()
    ledger = Ledger(tmp_path / "done.jsonl")
    ledger.put("b", {"value": "kept"})
    records = run_missing(ledger, {"a": 1.0, "b": 2.0, "c": 3.0}, double)
    assert [record["value"] for record in records] == [2.0, "kept", 6.0]
    assert CALLS == [1.0, 3.0]
    again = run_missing(Ledger(tmp_path / "done.jsonl"), {"c": 3.0, "a": 1.0}, double)
    assert [record["value"] for record in again] == [6.0, 2.0]
    assert CALLS == [1.0, 3.0]


def test_a_record_that_did_not_come_is_an_error_and_no_empty_record(tmp_path, monkeypatch):
    monkeypatch.setattr("gradsim_reproduction.runner.run_jobs", lambda *given, **options: iter([(0, {"value": 1})]))
    with pytest.raises(RuntimeError, match="fits: no record of b"):
        run_missing(Ledger(tmp_path / "done.jsonl"), {"a": 1.0, "b": 2.0}, double, label="fits")


def test_an_experiment_takes_its_options_and_writes_what_it_did(tmp_path):
    @experiment("sizes", "Sizes", parallel=True)
    def sizes(run: Run, foreign: bool = False):
        ledger = run.ledger("done.jsonl")
        records = run.records(ledger, {f"{k}": float(k) for k in range(run.scenes or 2)}, double)
        return {"records": records, "foreign": foreign}, {"count": figure(len(records), goal=3)}

    assert list(inspect.signature(sizes).parameters) == [
        "out", "quick", "seed", "progress", "scenes", "workers", "engine", "foreign"
    ]  # fmt: skip
    result = sizes(tmp_path / "run", quick=True, seed=7, scenes=3, foreign=True)
    assert result["command"] == "reproduce sizes --scenes 3 --foreign --quick"
    assert (result["title"], result["seed"], result["quick"], result["foreign"]) == ("Sizes", 7, True, True)
    assert result["figures"]["count"] == {"value": 3, "paper": None, "goal": 3, "ok": True}
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == json.loads(json.dumps(result))
    assert json.loads((tmp_path / "run" / "done.jsonl").read_bytes().splitlines()[1])["settings"]["seed"] == 7
    with pytest.raises(TypeError, match="scene"):
        sizes(tmp_path, scene=3)


def test_an_experiment_that_lacks_something_leaves_no_folder(tmp_path):
    @experiment("lacking", "Lacking")
    def lacking(run: Run):
        raise InputError("no recordings")

    with pytest.raises(InputError, match="no recordings"):
        lacking(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="locks of files are POSIX's")
def test_an_experiment_clears_up_after_one_that_was_killed(tmp_path):
    draft = tmp_path / "clips" / ".side_by_side.webm.x7.part"
    draft.mkdir(parents=True)
    (draft / "side_by_side.webm").write_text("half")
    os.utime(draft, (1.0, 1.0))
    experiment("sizes", "Sizes")(lambda run: ({}, {}))(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["clips", "result.json"]
