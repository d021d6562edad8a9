"""Figures with goals, and results that have them."""

import json

import pytest

from gradsim.app.figures import figure, write_result


@pytest.mark.parametrize("value, ok", [(0.5, True), (1.5, False), (float("nan"), False)])
def test_a_figure_is_met_up_to_its_goal(value, ok):
    assert figure(value, goal=1.0)["ok"] is ok
    assert figure(value, goal=1.0, ok=True)["ok"] is True


def test_a_result_with_figures_keeps_what_the_experiment_says(tmp_path):
    content = write_result(tmp_path / "new", "reproduce x", {"status": "unidentifiable"}, {"a": figure(float("inf"))})
    on_disk = json.loads((tmp_path / "new" / "result.json").read_text())
    assert content["status"] == on_disk["status"] == "unidentifiable" and on_disk["command"] == "reproduce x"
    assert on_disk["figures"]["a"]["value"] is None and on_disk["schema"].startswith("gradsim.result/")
