"""Experiments: one runner, resumable ledgers, figures with goals, `result.json`.

@experiment("table1", "Mass from video (Table 1)", parallel=True)
def table1(run: Run) -> Outcome:
    records = run.records(run.ledger("fits.jsonl"), jobs, fit_one)
    return {"records": records}, {"error": figure(worst(records), paper=9e-5, goal=1e-8)}
"""

import inspect
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Protocol

from gradsim.identification.fit import SCHEMA
from gradsim.runtime.atomic import write_json
from gradsim.runtime.checkpoint import Ledger
from gradsim.runtime.parallel import run_jobs
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.runtime.provenance import provenance, versions

Figures = dict[str, dict]  # by name, see `figure`
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
        seed: Of everything random.
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

    def ledger(self, file: str, **settings: Any) -> "Ledger":
        """Ledger in the folder; its settings are the seed and these."""
        return Ledger(self.out / file, {"seed": self.seed, **settings}, self.progress)

    def records(
        self, ledger: "Ledger", jobs: Mapping[str, Any], function: Callable[[Any], Mapping], label: str = "fits"
    ) -> list[dict]:
        """Records of all jobs by the engine of the run; see `run_missing`."""
        return run_missing(ledger, jobs, function, self.engine, self.workers, self.progress, label)


def experiment(name: str, title: str, *, parallel: bool = False) -> Callable[[Callable[..., Outcome]], Experiment]:
    """Decorator: a function of a `Run` and own options becomes an `Experiment`.

    It makes the folder, runs the function, and writes `result.json` with title, seed, command, provenance and figures.

    Args:
        name: On the command line.
        title: Of the report.
        parallel: Whether it takes `scenes`, `engine` and `workers`.
    """
    unset = dict.fromkeys(("scenes", "workers")) | {"engine": "serial"} if parallel else {}

    def wrap(function: Callable[..., Outcome]) -> Experiment:
        @wraps(function)
        def run(
            out: Path, quick: bool = False, seed: int = 0, progress: Progress | None = None, **options: Any
        ) -> dict:
            progress, out = progress or NullProgress(), Path(out)
            out.mkdir(parents=True, exist_ok=True)
            shared = {key: options.pop(key) for key in unset if key in options}
            result, figures = function(Run(out, quick, seed, progress, **shared), **options)
            progress.done()
            command = _command(name, {"scenes": shared.get("scenes"), **options, "quick": quick})
            return write_result(out, command, {"title": title, "seed": seed, "quick": quick, **result}, figures)

        kinds = inspect.signature(function).parameters.values()
        parameters = [p for p in inspect.signature(run, follow_wrapped=False).parameters.values()][:4]
        extra = [inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=unset[key]) for key in unset]
        own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in list(kinds)[1:]]
        run.__signature__ = inspect.Signature([*parameters, *extra, *own])  # type: ignore[attr-defined]
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


def figure(value: float, paper: float | None = None, goal: float | None = None, ok: bool | None = None) -> dict:
    """One figure: value, the paper's value, our goal, and whether it is met (by default: value ≤ goal)."""
    met = ok if ok is not None else (goal is None or value <= goal)
    return {"value": value, "paper": paper, "goal": goal, "ok": bool(met)}


def write_result(folder: Path, command: str, result: dict, figures: Figures) -> dict:
    """Write `result.json` with its figures, and return its content."""
    content = {"schema": SCHEMA, "status": "ok", "versions": versions(), "made_by": provenance(), **result}
    content |= {"command": command, "figures": figures}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "result.json", content)
    return content


class Ledger:
    """Finished items by key in a file of JSON lines, so that an interrupted run resumes after them.

    The first line holds the settings, each further line one item. A line is written and synced in one go; a line that
    was torn by a crash is ignored, so its item is computed again.

        ledger = Ledger(out / "finished.jsonl", {"seed": seed, "quick": quick})
        rows = [ledger.once(f"scene {k}", solve, k) for k in range(20)]

    Args:
        path: The file; made with its folder if missing.
        settings: Everything that an item depends on apart from its key, as JSON; versions are added.
        progress: Receives each key that is computed.

    Raises:
        InputError: If the file was made with other settings.
    """

    def __init__(self, path: str | Path, settings: Mapping | None = None, progress: Progress | None = None):
        self.path, self.progress, self._items = Path(path), progress or NullProgress(), {}
        wanted = _plain({**(settings or {}), "versions": versions()})
        lines = self._read()
        if not lines:
            self._append({"settings": wanted})
        for line in lines:
            if "settings" in line:
                self._compare(line["settings"], wanted)
            else:
                self._items[line["key"]] = line["item"]

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: str) -> dict | None:
        """The item, or None if it is not finished."""
        return self._items.get(key)

    def put(self, key: str, item: Mapping) -> dict:
        """Append an item; it is on disk when this returns.

        Returns:
            The item as it will be read again (lists for tuples, text for keys), so that a resumed run computes with the
            same values as one that was never interrupted.
        """
        line = _plain({"key": key, "item": item})
        self._append(line)
        self._items[key] = line["item"]
        return line["item"]

    def once(self, key: str, make: Callable[..., Mapping], *args: Any) -> dict:
        """The item; computed now as `make(*args)` if it is not finished."""
        item = self.get(key)
        if item is None:
            self.progress.stage(key)
            item = self.put(key, make(*args))
        return item

    def _read(self) -> list[dict]:
        if not self.path.is_file():
            return []
        lines = []
        for text in self.path.read_bytes().splitlines():
            try:
                line = json.loads(text)
            except ValueError:  # torn
                continue
            if isinstance(line, dict) and ("settings" in line or {"key", "item"} <= line.keys()):
                lines.append(line)
        return lines

    def _append(self, line: Mapping) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            # starts on a new line, whatever the last crash left
            file.write(b"\n" + json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _compare(self, stored: Mapping, wanted: Mapping) -> None:
        names = [name for name in {**stored, **wanted} if stored.get(name) != wanted.get(name)]
        if names:
            other = "; ".join(f"{name}: {stored.get(name)!r} then, {wanted.get(name)!r} now" for name in names)
            raise InputError(
                f"{self.path} holds items of other settings ({other}); choose another folder or remove it."
            )


def _plain(content: object):
    """Content after a round trip through JSON; infinite numbers stay."""
    return json.loads(json.dumps(content, default=lambda value: value.tolist()))


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
        function: Of one argument, at the top of a module; returns a record that JSON can hold.
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
    for k, record in run_jobs(function, [jobs[key] for key in missing], engine, workers, report=progress.share):
        ledger.put(missing[k], record)
    records = {key: record for key in jobs if (record := ledger.get(key)) is not None}
    if lost := [key for key in jobs if key not in records]:
        raise RuntimeError(f"{label}: no record of {', '.join(lost)}; run the same command again.")
    return list(records.values())
