"""Table 2: what is counted, and its quick form."""

import numpy as np
import pytest

from gradsim.dataset import sample, test_numbers
from gradsim_reproduction.rigid import table2
from gradsim_reproduction.rigid.fits import FitJob, run_fit

NAMES = ("body.mass", "ground.stiffness", "ground.damping", "ground.friction_stiffness", "ground.friction")


def record(error=1e-9, **changes):
    plain = {"number": 4, "sight": "float", "identifiable": True, "status": "ok", "errors": dict.fromkeys(NAMES, error)}
    return plain | {"converged": 0.5, "cpu_seconds": 1.0, "kinked": False} | changes


def test_five_numbers_of_a_thrown_box_are_found_to_a_millionth():
    box = next(n for n in test_numbers(60) if sample("rigid", n).object == "box")
    found = run_fit(FitJob(box, NAMES, "float", 0))
    assert found["identifiable"] and found["status"] == "ok"
    assert max(found["errors"].values()) < table2.SOLVED
    assert found["course"][-1][2] == pytest.approx(max(found["errors"].values()), rel=0.5, abs=1e-12)


def test_a_wrong_fit_is_silent_unless_it_says_so():
    records = [record(), record(0.1), record(0.1, status="mismatch"), record(0.1, status="ok", identifiable=False)]
    records += [record(0.1, status="unidentifiable", identifiable=False)]
    value = {name: figure["value"] for name, figure in table2.summary(records, {}).items()}
    assert value["identifiable_share"] == 3 / 5
    assert value["share_all_below_1e6"] == pytest.approx(1 / 3)
    assert value["silent_failures"] == 2 and value["missed_flags"] == 1 and value["false_flags"] == 1
    assert value["rel_err_median_friction"] == 0.1 and value["rel_err_worst"] == 0.1


def test_rows_of_the_paper_stand_beside_ours_column_by_column():
    errors = dict(zip(NAMES, (1e-5, 2e-5, 3e-5, 4e-5, 5e-5), strict=True))
    rows = {r["name"]: r for r in table2.table_rows(table2.summary([record(errors=errors)], {}))}
    assert rows["video, least squares: k_d"]["paper"] == 0.4 and rows["video, least squares: k_d"]["ours"] == 3e-5
    assert rows["video, least squares: k_e"]["paper"] == 0.0026 and rows["video, least squares: k_e"]["ours"] == 2e-5
    assert rows["average: μ"]["paper"] == 0.4463 and rows["average: μ"]["ours"] is None


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quick_form_solves_its_scenes(tmp_path):
    figures = table2.table2(tmp_path, quick=True)["figures"]
    assert figures["share_all_below_1e6"]["value"] == 1
    assert figures["silent_failures"]["value"] == 0
    assert np.isfinite(figures["average_rel_err_mean_mass"]["value"])
    assert (tmp_path / "errors.png").stat().st_size > 10_000
