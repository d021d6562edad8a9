"""Finished items of a ledger outlive a crash."""

import math

import numpy as np
import pytest

from gradsim.errors import InputError
from gradsim.runtime.checkpoint import Ledger


def test_finished_items_are_not_made_again(tmp_path):
    made = []

    def item(k):
        made.append(k)
        return {"value": k / 3}

    for _ in range(2):  # the second time as after a crash
        ledger = Ledger(tmp_path / "deep" / "finished.jsonl", {"seed": 3})
        rows = [ledger.once(f"scene {k}", lambda k=k: item(k)) for k in range(3)]
    assert rows == [{"value": k / 3} for k in range(3)] and made == [0, 1, 2] and len(ledger) == 3
    assert ledger.get("scene 7") is None


def test_an_item_is_the_same_to_the_last_bit_before_and_after(tmp_path):
    item = {"x": 0.1 + 0.2, "inf": math.inf, "row": (1, np.float32(0.1)), "grid": np.eye(2), 5: None, "n": np.int64(3)}
    before = Ledger(tmp_path / "f.jsonl").put("a", item)
    assert Ledger(tmp_path / "f.jsonl").get("a") == before
    assert before["x"] == 0.1 + 0.2 and before["row"] == [1, float(np.float32(0.1))] and before["5"] is None


@pytest.mark.parametrize("left", (1, 8, 20, 33))
def test_a_torn_line_costs_its_item_only(tmp_path, left):
    ledger = Ledger(tmp_path / "f.jsonl")
    ledger.put("a", {"value": 1})
    size = ledger.path.stat().st_size
    ledger.put("b", {"value": "a long enough text"})
    assert ledger.path.stat().st_size > size + left
    with ledger.path.open("r+b") as file:
        file.truncate(size + left)
    again = Ledger(ledger.path)
    assert again.get("a") == {"value": 1} and again.get("b") is None
    again.put("b", {"value": 2})
    assert Ledger(ledger.path).get("b") == {"value": 2}


def test_items_of_other_settings_are_refused_by_name(tmp_path):
    Ledger(tmp_path / "f.jsonl", {"seed": 3, "quick": True}).put("a", {})
    with pytest.raises(InputError, match=r"seed: 3 then, 4 now.*choose another folder"):
        Ledger(tmp_path / "f.jsonl", {"seed": 4, "quick": True})
