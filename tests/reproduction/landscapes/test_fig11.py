"""Fig. 11: where its extremes are, and its quick form."""

import pytest

from gradsim_reproduction.landscapes import fig11

WAYS = [
    {"rate": 0.8, "loss": 9.0, "means": [2.0, 0.01]},
    {"rate": 0.1, "loss": 5.0, "means": [2.0, 1.02]},
    {"rate": 0.3, "loss": 4.0, "means": [2.0, 1.4]},
]
PARTS = {"plane": {"values": [900.0, 1000.0], "losses": {"coverage": [[2.0, 1.0], [1.0, 0.0]]}}}
PARTS |= {f"cut along {name}": {"curves": {"coverage": {"all": {"inner": 1}}}} for name in ("mu", "lam")}


def test_extremes_are_where_the_reward_is_highest_and_the_product_lowest():
    box = {"mass": [0.5, 1.0, 1.5], "reward": [-1.0, 1.2, -0.2], "surrogate": [[3.0, 2.0, -5.0], [-1.0, 0.0, 1.0]]}
    assert fig11.extremes(box) == {"reward": 1.0, "surrogate": [1.5, 0.5]}


def test_the_first_index_of_the_map_is_mu():
    plane = {"values": [1.0, 2.0, 3.0], "losses": {"coverage": [[9, 9, 9], [9, 9, 0], [9, 9, 9]]}}
    assert fig11.lowest(plane) == (2.0, 3.0)


def test_maxima_of_the_reward_are_counted_within_the_range():
    assert fig11.maxima({"mass": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "reward": [2.0, 1.0, 2.0, -1.0, -3.0, 2.0]}) == 1


def test_of_the_rates_the_one_with_the_lowest_loss_is_shown_whatever_the_truth_is():
    assert [way["rate"] for way in fig11.best_first(WAYS)] == [0.3, 0.1, 0.8]
    box = {"mass": [0.5, 1.0, 1.5], "reward": [-1.0, 1.0, 0.0], "estimate": [2.0], "surrogate": [[1.0, 2.0, 0.0]]}
    boxes = {"slide": {**box, "ways": [fig11.best_first(WAYS)]}}
    row = next(row for row in fig11.rows(PARTS, boxes) if "REINFORCE" in row["name"])
    assert row["ours"] == 1.4 and row["note"] == "rate 0.3; 1.02 at 0.1, 0.01 at 0.8"
    values = {name: one["value"] for name, one in fig11.figures(PARTS, boxes).items()}
    assert values["reinforce_end_slide_from_2"] == 1.4 and values["reinforce_rate_slide_from_2"] == 0.3
    assert [values[f"reinforce_home_slide{at}"] for at in ("", "_at_0.1", "_at_0.3", "_at_0.8")] == [0, 1, 0, 0]


def test_a_loss_that_is_lowest_at_the_truth_by_construction_meets_no_goal():
    assert all(one["goal"] is None for name, one in fig11.figures(PARTS, {}).items() if name.startswith("lowest"))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quick_form_finds_the_truth_on_both_sides(tmp_path):
    pytest.importorskip("pybullet", reason="the extra `baselines` is not installed")
    result = fig11.fig11(tmp_path, quick=True)
    figures = result["figures"]
    assert (figures["lowest_mu"]["value"], figures["lowest_lam"]["value"]) == (1000, 1000)
    for kind in fig11.KINDS:
        assert figures[f"reward_maximum_{kind}"]["value"] == pytest.approx(1)
    assert all((tmp_path / p["file"]).is_file() for p in result["images"])
    lines = (tmp_path / "landscapes.jsonl").read_text()
    assert fig11.fig11(tmp_path, quick=True)["figures"] == figures
    assert (tmp_path / "landscapes.jsonl").read_text() == lines
