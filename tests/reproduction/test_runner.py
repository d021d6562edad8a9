"""Many jobs in a ledger."""

import pytest

from gradsim.runtime.checkpoint import Ledger
from gradsim_reproduction.runner import many

CALLS = []


def double(x: float) -> dict:
    CALLS.append(x)
    return {"value": 2 * x}


def test_finished_jobs_are_kept_and_the_rest_is_made_in_the_order_of_the_jobs(tmp_path):
    CALLS.clear()
    ledger = Ledger(tmp_path / "done.jsonl")
    ledger.put("b", {"value": "kept"})
    records = many(ledger, {"a": 1.0, "b": 2.0, "c": 3.0}, double)
    assert [record["value"] for record in records] == [2.0, "kept", 6.0]
    assert CALLS == [1.0, 3.0]
    again = many(Ledger(tmp_path / "done.jsonl"), {"c": 3.0, "a": 1.0}, double)
    assert [record["value"] for record in again] == [6.0, 2.0]
    assert CALLS == [1.0, 3.0]


def test_a_record_that_did_not_come_is_an_error_and_no_empty_record(tmp_path, monkeypatch):
    monkeypatch.setattr("gradsim_reproduction.runner.run_jobs", lambda *given, **options: iter([(0, {"value": 1})]))
    with pytest.raises(RuntimeError, match="fits: no record of b"):
        many(Ledger(tmp_path / "done.jsonl"), {"a": 1.0, "b": 2.0}, double, label="fits")
