"""Figures of an experiment: a value, the paper's, our goal, and whether it is met.

Finished items of a long experiment, so that a run that was interrupted keeps them.

A file of JSON lines: the settings first, then one line an item. A line is written and synced in one go; one that a
crash tore is ignored, so its item is made again.

Many independent jobs of an experiment, kept in its ledger as they finish.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gradsim.errors import InputError
from gradsim.identification.fit import SCHEMA
from gradsim.runtime.atomic import write_json
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


class Ledger:
    """Items by key, kept on disk.

        ledger = Ledger(out / "finished.jsonl", {"seed": seed, "quick": quick})
        for k in range(20):
            rows.append(ledger.once(f"scene {k}", lambda: solve(k)))

    Args:
        path: The file; made with its folder where it is missing.
        settings: All that an item depends on beside its key, as JSON holds it; versions are added.

    Raises:
        InputError: If the file was made with other settings.
    """

    def __init__(self, path: str | Path, settings: Mapping | None = None):
        self.path, self._items = Path(path), {}
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
        """The item, or None where it is not finished."""
        return self._items.get(key)

    def put(self, key: str, item: Mapping) -> dict:
        """Keep an item; it is on disk when this returns.

        Returns:
            The item as it will be read again (lists for tuples, text for keys), so that a run that goes on computes
            with the same as one that was never interrupted.
        """
        line = _plain({"key": key, "item": item})
        self._append(line)
        self._items[key] = line["item"]
        return line["item"]

    def once(self, key: str, make: Callable[[], Mapping]) -> dict:
        """The item, made now if it is not finished."""
        kept = self.get(key)
        return self.put(key, make()) if kept is None else kept

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
            # begins a line of its own, whatever the last crash left
            file.write(b"\n" + json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _compare(self, kept: Mapping, wanted: Mapping) -> None:
        names = [name for name in {**kept, **wanted} if kept.get(name) != wanted.get(name)]
        if names:
            other = "; ".join(f"{name}: {kept.get(name)!r} then, {wanted.get(name)!r} now" for name in names)
            raise InputError(
                f"{self.path} holds items of other settings ({other}); choose another folder or remove it."
            )


def _plain(content: object):
    """As JSON gives it back. Infinite numbers stay."""
    return json.loads(json.dumps(content, default=lambda value: value.tolist()))


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
