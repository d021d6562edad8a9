"""Many jobs in a ledger."""

from gradsim.experiments.ledger import Ledger
from gradsim.experiments.many import many

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
