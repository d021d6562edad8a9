"""Experiments: one runner, resumable ledgers, figures with goals (`gradsim.app.figures`), `result.json`.

An experiment is a function of a `Run` that returns further content of `result.json` and its figures:

    @experiment("table1", "Mass from video (Table 1)", parallel=True)
    def table1(run: Run) -> Outcome:
        records = run.records(run.ledger("fits.jsonl"), jobs, fit_one)
        return {"records": records}, {"error": figure(worst(records), paper=9e-5, goal=1e-8)}
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Protocol

from gradsim.app.figures import Figures, write_result
from gradsim.runtime.atomic import remove_abandoned_drafts
from gradsim.runtime.checkpoint import Ledger
from gradsim.runtime.parallel import run_jobs
from gradsim.runtime.progress import NullProgress, Progress

Outcome = tuple[dict, Figures]  # further content of result.json, and its figures


class Experiment(Protocol):
    """Runs into a folder and returns the content of `result.json`; own options follow these parameters."""

    def __call__(
        self, out: Path, quick: bool = False, seed: int = 0, progress: Progress | None = None, **options: Any
    ) -> dict: ...


@dataclass(frozen=True)
class Run:
    """One run of an experiment.

    Args:
        out: Folder; exists.
        quick: Small form, minutes instead of hours.
        seed: Seed of everything random.
        progress: Receives stages and shares.
        scenes: Number of scenes, objects or fits instead of the default; None: the default.
        engine, workers: See `gradsim.runtime.parallel.run_jobs`.
    """

    out: Path
    quick: bool
    seed: int
    progress: Progress
    scenes: int | None = None
    engine: str = "serial"
    workers: int | None = None

    def ledger(self, file: str, **settings: Any) -> Ledger:
        """Ledger in the folder; its settings are the seed and these."""
        return Ledger(self.out / file, {"seed": self.seed, **settings}, self.progress)

    def records(
        self, ledger: Ledger, jobs: Mapping[str, Any], function: Callable[[Any], Mapping], label: str = "fits"
    ) -> list[dict]:
        """Records of all jobs by the engine of the run; see `run_missing`."""
        return run_missing(ledger, jobs, function, self.engine, self.workers, self.progress, label)


def experiment(name: str, title: str, *, parallel: bool = False) -> Callable[[Callable[..., Outcome]], Experiment]:
    """Decorator: a function of a `Run` and own options becomes an `Experiment`.

    It makes the folder, runs the function, and writes `result.json` with title, seed, command, provenance and figures.

    Args:
        name: On the command line.
        title: Title of the report.
        parallel: Whether it takes `scenes`, `engine` and `workers`.
    """
    unset = dict.fromkeys(("scenes", "workers")) | {"engine": "serial"} if parallel else {}

    def wrap(function: Callable[..., Outcome]) -> Experiment:
        @wraps(function)
        def run(
            out: Path, quick: bool = False, seed: int = 0, progress: Progress | None = None, **options: Any
        ) -> dict:
            progress, out = progress or NullProgress(), Path(out)
            made = not out.exists()
            out.mkdir(parents=True, exist_ok=True)
            remove_abandoned_drafts(out)
            shared = {key: options.pop(key) for key in unset if key in options}
            try:
                result, figures = function(Run(out, quick, seed, progress, **shared), **options)
            except BaseException:
                if made and not any(out.iterdir()):  # for want of data or packages, say
                    out.rmdir()
                raise
            progress.done()
            command = _command(name, {"scenes": shared.get("scenes"), **options, "quick": quick})
            return write_result(out, command, {"title": title, "seed": seed, "quick": quick, **result}, figures)

        kinds = inspect.signature(function).parameters.values()
        parameters = [p for p in inspect.signature(run, follow_wrapped=False).parameters.values()][:4]
        extra = [inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=unset[key]) for key in unset]
        options_of_function = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in list(kinds)[1:]]
        run.__signature__ = inspect.Signature([*parameters, *extra, *options_of_function])  # type: ignore[attr-defined]
        return run

    return wrap


def _command(name: str, options: Mapping[str, Any]) -> str:
    """Command line that reproduces a run."""
    words = [f"reproduce {name}"]
    for key, value in options.items():
        if value is True:
            words.append(f"--{key}")
        elif isinstance(value, int | str | Path) and value is not False:
            words.append(f"--{key} {value}")
    return " ".join(words)


def run_missing(
    ledger: Ledger,
    jobs: Mapping[str, Any],
    function: Callable[[Any], Mapping],
    engine: str = "serial",
    workers: int | None = None,
    progress: Progress | None = None,
    label: str = "jobs",
) -> list[dict]:
    """Records of all jobs, in their order; those missing in the ledger are computed.

        records = run_missing(ledger, {f"object {k}": (k, seed) for k in range(200)}, solve, engine="ray")

    Args:
        ledger: Stores each record as soon as it is computed.
        jobs: Arguments by key.
        function: Function of one argument, at the top of a module; returns a record that JSON can hold.
        engine, workers: See `gradsim.runtime.parallel.run_jobs`.
        progress: Receives the number of finished jobs.
        label: Name of the jobs, plural.

    Raises:
        RuntimeError: If a job returned no record.
    """
    progress = progress or NullProgress()
    missing = [key for key in jobs if ledger.get(key) is None]
    if missing:
        finished = len(jobs) - len(missing)
        progress.stage(f"{label}: {len(missing)}" + f" ({finished} finished before)" * bool(finished))
    for k, record in run_jobs(function, [jobs[key] for key in missing], engine, workers, report=progress.fraction):
        ledger.put(missing[k], record)
    records = {key: record for key in jobs if (record := ledger.get(key)) is not None}
    if lost := [key for key in jobs if key not in records]:
        raise RuntimeError(f"{label}: no record of {', '.join(lost)}; run the same command again.")
    return list(records.values())
