"""A plan grows with the number of videos, and says what it was measured on."""

import json
import shutil

import pytest

from gradsim.dataset.generate import plan_generation
from gradsim.dataset.layout import DatasetLayout
from gradsim.errors import InputError


def test_time_and_bytes_are_those_of_the_records_times_the_number(made):
    layout = DatasetLayout.open(made)
    entries = [json.loads(layout.manifest(unit).read_text()) for unit in range(3)]
    cpu = sum(entry["cpu_s"] for entry in entries) / 5
    size = sum(path.stat().st_size for unit in range(3) for path in layout.files(unit).values()) / 5
    found = plan_generation(made, 1_000_000, cores=64)
    assert found.measured == 5
    assert found.cpu_hours == pytest.approx(1e6 * cpu / 3600)
    assert found.bytes == pytest.approx(1e6 * size)
    assert found.hours == pytest.approx(found.cpu_hours / (64 * found.use))
    assert 0 < found.use <= 1


def test_waiting_of_runs_counts(made, tmp_path):
    shutil.copytree(made, tmp_path / "D")
    (run,) = (tmp_path / "D/runs").glob("*.json")
    run.write_text(json.dumps({"engine": "processes", "workers": 2, "cpu_s": 30.0, "wall_s": 20.0}))
    assert plan_generation(tmp_path / "D", 100).use == pytest.approx(0.75)


def test_a_plan_needs_something_measured(made, tmp_path):
    with pytest.raises(InputError, match="n: got 0"):
        plan_generation(made, 0)
    shutil.copytree(made, tmp_path / "D")
    shutil.rmtree(tmp_path / "D" / "units")
    with pytest.raises(InputError, match="no finished videos"):
        plan_generation(tmp_path / "D", 10)
