"""Rows that another experiment has made already: baselines that take long have a command of their own."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path


def rows_of(
    name: str, make: Callable[[Path], dict], numbers: Sequence[int], seed: int, out: Path, quick: bool
) -> list[dict]:
    """The rows of an experiment for some samples.

    They come from the folder of its name in `out`, or in the folder that `out` is in (as `reproduce all` lays them out),
    if it was run there for the same seed and as quickly; else it is run now, into the first of these.

    Args:
        name: Of the experiment.
        make: Runs it into a folder; returns the content of its `result.json`.
        numbers: Of the samples; those that the experiment left out are left out.
        seed: Of the data set.
        out: Folder of the experiment that asks.
        quick: Whether it is the small form.
    """
    wanted = set(numbers)
    found = finished(name, seed, out, quick) or make(Path(out) / name)
    return [row for row in found["rows"] if row["number"] in wanted]


def finished(name: str, seed: int, out: Path, quick: bool) -> dict | None:
    """What such a run wrote into its `result.json`, or None where there is none."""
    folders = Path(out) / name, Path(out).resolve().parent / name
    return next((kept for kept in map(_kept, folders) if kept and _same(kept, seed, quick)), None)


def _kept(folder: Path) -> dict | None:
    path = folder / "result.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _same(result: dict, seed: int, quick: bool) -> bool:
    return result.get("seed") == seed and result.get("quick") == quick
