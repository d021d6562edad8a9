"""Fig. 4: its searches, its table, and its quick form."""

import pytest
import torch

from gradsim.identification.observation.base import Masks
from gradsim_reproduction.landscapes import fig4, lame
from gradsim_reproduction.landscapes.descents import problem, run_descents
from gradsim_reproduction.landscapes.fig4 import _lame, _row
from gradsim_reproduction.landscapes.rigid import TRUTH, UNKNOWNS
from gradsim_reproduction.landscapes.scenes import TRUE_LAME, cube


def test_descents_come_home_from_near_and_not_from_where_the_body_has_left_the_image():
    one = problem(cube("slide"), UNKNOWNS, TRUTH, ends=True)
    found = run_descents(one, TRUTH, torch.tensor([[0.2], [1.0], [1.4]]).double(), 4)
    (lost,), (curve_record,), (nearer,) = found["ends"]
    assert (lost, curve_record) == pytest.approx((0.2, 1.0))  # no gradient at either
    assert 1 < nearer < 1.4 * 0.96**4 and found["share"] == pytest.approx(1 / 3)


def test_only_the_first_and_the_last_frame_count_where_it_says_so():
    for ends, counted in ((False, list(range(61))), (True, [0, 60])):
        seen = problem(cube("drift"), UNKNOWNS, TRUTH, ends).observation
        assert isinstance(seen, Masks)
        assert seen.weight.sum((1, 2)).nonzero()[:, 0].tolist() == counted


def test_the_truth_of_the_beam_is_on_its_grids():
    for step in (10.0, 40.0, 50.0, 100.0):
        assert TRUE_LAME in lame.axis(step)


def test_a_row_names_second_minima_but_neither_the_lowest_nor_the_ends():
    ends = {"place": 0.1, "loss": 0.9, "barrier": 0.1, "end": True}
    second = {"place": 0.139, "loss": 0.959, "barrier": 0.009, "end": False}
    lowest = {"place": 1.0, "loss": 0.0, "barrier": 1.0, "end": False}
    row = _row("curve", 2, {"minima": [ends, second, lowest], "lowest": 1.0, "inner": 2, "share": 0.98}, "kg")
    assert row["ours"] == 2 and row["note"] == "basin 98 %; others at 0.139 kg (0.959)"


def test_where_a_curve_is_lowest_has_no_goal():
    curve = {"inner": 1, "share": 1.0, "lowest": TRUE_LAME}
    part = {"values": [900.0, 1000.0], "curves": {"cdf": {"all": curve}}, "off": [0.0]}
    parts = {f"cut along {name}": part for name in lame.NAMES}
    assert all(_lame(parts)[f"lowest_{name}_cdf"]["goal"] is None for name in lame.NAMES)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quick_form_finds_the_truth_lowest_and_goes_on_after_an_interruption(tmp_path):
    result = fig4.fig4(tmp_path, quick=True)
    figures = result["figures"]
    assert all(f["ok"] for name, f in figures.items() if name.startswith("least_squares_error"))
    for name, figure in figures.items():
        if name.startswith("lowest"):
            assert figure["value"] == pytest.approx(TRUE_LAME if name.startswith(("lowest_mu", "lowest_lam")) else 1)
    assert figures["minima_drift_coverage_all"]["value"] == 1
    assert figures["minima_tumble_coverage_all"]["value"] > 5
    assert all((tmp_path / p["file"]).is_file() for p in result["images"])
    lines = (tmp_path / "landscapes.jsonl").read_text()
    assert fig4.fig4(tmp_path, quick=True)["figures"] == figures
    assert (tmp_path / "landscapes.jsonl").read_text() == lines
