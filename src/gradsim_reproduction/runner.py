"""Figures of an experiment (a value, the paper's, our goal, whether it is met) and its independent jobs."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gradsim.identification.fit import SCHEMA
from gradsim.runtime.atomic import write_json
from gradsim.runtime.checkpoint import Ledger
from gradsim.runtime.parallel import run_jobs
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.runtime.provenance import provenance, versions


def figure(value: float, paper: float | None = None, goal: float | None = None, ok: bool | None = None) -> dict:
    """One figure. Without `ok`, it is met if the value is at most the goal."""
    met = ok if ok is not None else (goal is None or value <= goal)
    return {"value": value, "paper": paper, "goal": goal, "ok": bool(met)}


def asked(name: str, quick: bool, scenes: int | None) -> str:
    """The command that makes these figures again."""
    return f"reproduce {name}" + f" --scenes {scenes}" * bool(scenes) + " --quick" * quick


def write_result(folder: Path, command: str, result: dict, figures: dict[str, dict]) -> dict:
    """Write `result.json` with its figures, and return its content."""
    content = {"schema": SCHEMA, "status": "ok", "versions": versions(), "made_by": provenance(), **result}
    content |= {"command": command, "figures": figures}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "result.json", content)
    return content


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
        engine, workers: See `gradsim.runtime.parallel.run_jobs`.
        progress: Is told how many are finished.
        label: What they are.

    Raises:
        RuntimeError: If a job gave no record.
    """
    progress = progress or NullProgress()
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
