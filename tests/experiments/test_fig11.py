"""Fig. 11: where its extremes are, and its quick form."""

import pytest

from gradsim.experiments import fig11


def test_extremes_are_where_the_reward_is_highest_and_the_product_lowest():
    box = {"mass": [0.5, 1.0, 1.5], "reward": [-1.0, 1.2, -0.2], "surrogate": [[3.0, 2.0, -5.0], [-1.0, 0.0, 1.0]]}
    assert fig11.extremes(box) == {"reward": 1.0, "surrogate": [1.5, 0.5]}


def test_the_first_index_of_the_map_is_mu():
    plane = {"values": [1.0, 2.0, 3.0], "losses": {"coverage": [[9, 9, 9], [9, 9, 0], [9, 9, 9]]}}
    assert fig11.lowest(plane) == (2.0, 3.0)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quick_form_finds_the_truth_on_both_sides(tmp_path):
    pytest.importorskip("pybullet", reason="the extra `baselines` is not installed")
    result = fig11.fig11(tmp_path, quick=True)
    figures = result["figures"]
    assert figures["lowest_mu"]["ok"] and figures["lowest_lam"]["ok"]
    for kind in fig11.KINDS:
        assert figures[f"reward_maximum_{kind}"]["value"] == pytest.approx(1)
    assert all((tmp_path / p["file"]).is_file() for p in result["pictures"])
    lines = (tmp_path / "landscapes.jsonl").read_text()
    assert fig11.fig11(tmp_path, quick=True)["figures"] == figures
    assert (tmp_path / "landscapes.jsonl").read_text() == lines
