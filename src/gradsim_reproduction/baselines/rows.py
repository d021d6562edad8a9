"""Rows of the baselines: mean and random guess, and rows cached by another experiment."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from gradsim.dataset import Sample, sample
from gradsim.identification.unknowns import Space
from gradsim.runtime.progress import Progress

TRAINING, QUICK = 1000, 100  # numbers whose training split, 800 samples or 80, is averaged
GUESS = 4000  # added to the seed for draws, so that they come from another stream than truths and starts


def average(
    numbers: Sequence[int],
    seed: int,
    out: Path,
    progress: Progress | None = None,
    quick: bool = False,
    unknowns: Sequence[str] = ("body.mass",),
) -> list[dict]:
    """The mean of the 800 training samples for every test sample; arguments as of every row, see `ROWS`."""
    samples = (sample("rigid", k, seed) for k in range(QUICK if quick else TRAINING))
    training = [one.truth for one in samples if one.split == "train"]
    values = {name: float(np.mean([truth[name] for truth in training])) for name in unknowns}
    return [row(sample("rigid", k, seed), values) for k in numbers]


def random(
    numbers: Sequence[int],
    seed: int,
    out: Path,
    progress: Progress | None = None,
    quick: bool = False,
    unknowns: Sequence[str] = ("body.mass",),
) -> list[dict]:
    """A draw from the range for every test sample; arguments as of every row, see `ROWS`."""
    rows = []
    for one in (sample("rigid", k, seed) for k in numbers):
        space = Space(one.scene, one.unknowns)
        values = space.numbers(space.draw(np.random.default_rng([GUESS + seed, one.number]), 1))[0]
        guess = dict(zip(space.names, values.tolist(), strict=True))
        rows.append(row(one, {name: guess[name] for name in unknowns}))
    return rows


def row(one: Sample, values: dict[str, float], cpu_seconds: float = 0.0, **more: object) -> dict:
    """Record of a baseline: values for a sample, and the truth."""
    truth = {name: one.truth[name] for name in values}
    return {
        "number": one.number,
        "object": one.object,
        "truth": truth,
        "values": values,
        "cpu_seconds": cpu_seconds,
        **more,
    }


def cached_rows(
    name: str, make: Callable[[Path], dict], numbers: Sequence[int], seed: int, out: Path, quick: bool
) -> list[dict]:
    """The rows of an experiment for some samples.

    They come from the folder of its name in `out`, or in the folder that `out` is in (as `reproduce all` lays them out),
    if it was run there for the same seed and as quickly; else it is run now, into the first of these.

    Args:
        name: Name of the experiment.
        make: Runs it into a folder; returns the content of its `result.json`.
        numbers: Numbers of the samples; those that the experiment left out are left out.
        seed: Seed of the data set.
        out: Folder of the experiment that asks.
        quick: True: the small form.
    """
    wanted = set(numbers)
    result = cached_result(name, seed, out, quick) or make(Path(out) / name)
    return [row for row in result["rows"] if row["number"] in wanted]


def cached_result(name: str, seed: int, out: Path, quick: bool) -> dict | None:
    """Content of `result.json` of such a run, or None."""
    folders = Path(out) / name, Path(out).resolve().parent / name
    return next((result for result in map(_read_result, folders) if result and _same(result, seed, quick)), None)


def _read_result(folder: Path) -> dict | None:
    path = folder / "result.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _same(result: dict, seed: int, quick: bool) -> bool:
    return result.get("seed") == seed and result.get("quick") == quick
