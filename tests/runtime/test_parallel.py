"""Jobs over workers: the same results by every engine, and what happens when a worker dies or a job fails."""

import os
import subprocess
import sys
import time

import pytest
from job_cases import die, die_once, die_when_told, fail, most_at_a_time, one_thread, square

from gradsim.errors import InputError
from gradsim.runtime.parallel import ENGINES, WorkerError, run_jobs

PARALLEL = ["processes", pytest.param("ray", marks=pytest.mark.slow)]


@pytest.fixture(autouse=True)
def workers_can_import_the_jobs(monkeypatch):
    """Those of Ray take PYTHONPATH, and not the path that pytest sets."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.path.dirname(__file__), *sys.path]))


@pytest.mark.parametrize("engine", ["serial", *PARALLEL])
def test_every_engine_gives_every_result_once(engine):
    told = []
    results = run_jobs(square, [3.0, 1.0, 2.0], engine, report=lambda *counts: told.append(counts))
    assert sorted(results) == [(0, 9.0), (1, 1.0), (2, 4.0)]
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("engine", PARALLEL)
def test_a_job_whose_worker_was_killed_is_run_again(engine, tmp_path):
    items = [str(tmp_path / name) for name in "abc"]
    assert sorted(run_jobs(die_once, items, engine, workers=2, retries=3)) == [(k, "alive") for k in range(3)]


def test_no_job_is_lost_where_a_worker_dies_while_its_results_are_used(tmp_path):
    found = []
    for result in run_jobs(die_when_told, [str(tmp_path / name) for name in "abcd"], "processes", workers=2):
        found.append(result)
        (tmp_path / "told").touch()
        time.sleep(0.5)  # the pool breaks before the next job is given to it
    assert sorted(found) == list(enumerate("abcd"))


@pytest.mark.slow
def test_a_cluster_of_others_runs_no_more_jobs_at_a_time_than_it_was_told(tmp_path):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        found = dict(run_jobs(most_at_a_time, [str(tmp_path / name) for name in "abcd"], "ray", workers=1))
    finally:
        ray.shutdown()
    assert found == {k: 1 for k in range(4)}


@pytest.mark.parametrize("engine", PARALLEL)
def test_a_job_that_kills_every_worker_ends_the_run_with_its_name(engine):
    with pytest.raises(WorkerError, match=r"job 0 \('deadly'\).* 2 times"):
        list(run_jobs(die, ["deadly"], engine, retries=1))


@pytest.mark.parametrize("engine", ["serial", *PARALLEL])
def test_an_error_of_a_job_is_the_callers(engine):
    with pytest.raises(InputError, match="7 is wrong"):
        list(run_jobs(fail, [7], engine))


@pytest.mark.parametrize("engine", PARALLEL)
def test_a_worker_has_one_thread(engine):
    assert dict(run_jobs(one_thread, [0], engine)) == {0: (1, 1)}


def test_workers_do_not_outlive_a_parent_that_is_killed(tmp_path):
    note = tmp_path / "pid"
    program = f"""
from gradsim.runtime.parallel import run_jobs
from job_cases import wait_long
if __name__ == "__main__":
    list(run_jobs(wait_long, [{str(note)!r}], "processes"))
"""
    script = tmp_path / "parent.py"
    script.write_text(program)
    paths = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    parent = subprocess.Popen([sys.executable, str(script)], env={**os.environ, "PYTHONPATH": paths})
    _until(lambda: note.exists() and note.read_text())
    parent.kill()
    parent.wait()
    _until(lambda: not _runs(int(note.read_text())))


def _until(happened, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def _runs(pid: int) -> bool:
    """Whether the process lives; one that nobody has buried does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("engine", "workers", "words"),
    [("slurm", None, ", ".join(ENGINES)), ("processes", 0, "at least 1"), ("serial", 2, "--engine processes")],
)
def test_what_cannot_run_is_said_before_anything_runs(engine, workers, words):
    with pytest.raises(InputError, match=words):
        run_jobs(square, [1.0], engine, workers)
