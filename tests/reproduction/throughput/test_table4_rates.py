"""Table 4 (right): what it times, how it counts, and its quick form."""

import math

import pytest
import torch
from tolerances import SOLVED, near

from gradsim.runtime.checkpoint import Ledger
from gradsim.runtime.progress import NullProgress
from gradsim_reproduction.throughput import table4_rates
from gradsim_reproduction.throughput.cases import CELLS, SUBSTEPS, Rollout, last_place, rates


@pytest.mark.parametrize("tets", CELLS)
def test_a_box_has_the_tetrahedra_that_it_is_named_for(tets):
    assert 5 * math.prod(CELLS[tets]) == len(Rollout(tets, 2, SUBSTEPS, 1, "cpu").leaves["box.mu"][0]) == tets


def test_the_backward_pass_reaches_every_tetrahedron_the_start_and_the_ground():
    rollout = Rollout(100, 9, SUBSTEPS, 2, "cpu")
    slopes = dict(zip(rollout.leaves, rollout.backward(last_place)(), strict=True))
    assert slopes["box.mu"].shape == slopes["box.lam"].shape == (2, 100)
    assert all(slope.isfinite().all() and slope.abs().sum() > 0 for slope in slopes.values())
    assert (slopes["box.mu"] != 0).all() and torch.equal(slopes["box.mu"][0], slopes["box.mu"][1])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_case_has_a_rate_and_many_worlds_have_those_of_physics():
    one, two = (rates(100, worlds, repeats=1, work=1) for worlds in (1, 2))
    assert set(table4_rates.CASES) < set(one) and set(two) == {"dp_forward", "dp_backward"}
    assert all(rate > 0 for rate in (*one.values(), *two.values()))


def test_growth_is_the_exponent_of_the_time_of_a_step():
    found = {("cpu", 1, n): {"dp_forward": 1e6 / n**0.8} for n in CELLS}
    found |= {("cpu", 8, n): {"dp_forward": 1e6 / n} for n in CELLS}
    assert table4_rates.growth(found, "dp_forward") == pytest.approx(0.8)
    assert table4_rates.growth(found, "dp_forward", worlds=8) == pytest.approx(1.0)


def test_figures_stand_beside_the_paper_s_and_the_original_s():
    rate = {"dp_forward": 6e4, "dp_backward": 3e4, "dr_forward": 1e3, "dr_forward_aa": 2e3, "dpdr_backward": 500.0}
    found = {("cpu", 1, n): rate for n in CELLS} | {("cpu", 8, 100): {"dp_forward": 1e5, "dp_backward": 5e4}}
    times = [{"what": what, "object": "box", "minutes": 0.1, "error": 1e-9} for what in table4_rates.MINUTES]
    told = table4_rates.figures(found, times, 0.3)
    assert told["dp_forward_1000"]["paper"] == 4174 and told["dpdr_backward_10000"]["paper"] == 248
    assert told["dp_forward_100_worlds8"] == {"value": 1e5, "paper": None, "goal": None, "ok": True}
    assert told["vs_original_forward_backward_100"]["value"] == pytest.approx(2e4 / 5500)
    assert told["minutes_control_episode"]["ok"] and told["growth_dp_forward"]["value"] == near(0, SOLVED, scale=1.0)


def test_a_gpu_that_fails_costs_no_rate_of_the_cpu(tmp_path, monkeypatch):
    def timed(tets, worlds, device, repeats, work):
        if device == "cuda":
            raise RuntimeError("out of memory")
        return {"dp_forward": 1.0}

    monkeypatch.setattr(table4_rates, "gpu", lambda: None)
    monkeypatch.setattr(table4_rates, "rates", timed)
    found, notes = table4_rates.measure_rates(Ledger(tmp_path / "rates.jsonl"), table4_rates.QUICK, NullProgress())
    assert set(found) == {("cpu", 1, n) for n in table4_rates.QUICK["tets"]}
    assert len(notes) == 3 and all(note.endswith("cuda: out of memory") for note in notes)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quick_form_times_everything_and_goes_on_after_an_interruption(tmp_path):
    result = table4_rates.table4_rates(tmp_path, quick=True)
    figures = result["figures"]
    assert figures["error_mass"]["value"] < 1e-6 and figures["error_deformable"]["value"] < 1e-6
    assert all((tmp_path / p["file"]).is_file() for p in result["images"])
    lines = (tmp_path / "rates.jsonl").read_text()
    assert table4_rates.table4_rates(tmp_path, quick=True)["figures"] == figures
    assert (tmp_path / "rates.jsonl").read_text() == lines
