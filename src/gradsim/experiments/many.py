"""Many independent jobs of an experiment, kept in its ledger as they finish."""

from collections.abc import Callable, Mapping
from typing import Any

from gradsim.experiments.ledger import Ledger
from gradsim.identify.progress import Progress, Silent
from gradsim.jobs import run_jobs


def many(
    ledger: Ledger,
    jobs: Mapping[str, Any],
    function: Callable[[Any], Mapping],
    engine: str = "serial",
    workers: int | None = None,
    progress: Progress | None = None,
    label: str = "jobs",
) -> list[dict]:
    """The records of all jobs, in their order; those that are not finished are made now.

        records = many(done, {f"object {k}": (k, seed) for k in range(200)}, solve, engine="ray")

    Args:
        ledger: Keeps each record as soon as it is there, so that a run that is interrupted goes on after it.
        jobs: Arguments by key.
        function: Of one argument, at the top of a module; returns a record as JSON can hold it.
        engine, workers: See `gradsim.jobs.run_jobs`.
        progress: Is told how many are finished.
        label: What they are.

    Raises:
        RuntimeError: If a job gave no record.
    """
    progress = progress or Silent()
    missing = [key for key in jobs if ledger.get(key) is None]
    if missing:
        kept = len(jobs) - len(missing)
        progress.stage(f"{label}: {len(missing)}" + f" ({kept} kept)" * bool(kept))
    for k, record in run_jobs(function, [jobs[key] for key in missing], engine, workers, report=progress.share):
        ledger.put(missing[k], record)
    records = {key: record for key in jobs if (record := ledger.get(key)) is not None}
    if lost := [key for key in jobs if key not in records]:
        raise RuntimeError(f"{label}: no record of {', '.join(lost)}; run the same command again.")
    return list(records.values())
