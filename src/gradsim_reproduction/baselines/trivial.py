"""Rows that look at no film: the mean of the training set, and a draw from the range."""

from collections.abc import Sequence
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
    drawn = (sample("rigid", k, seed) for k in range(QUICK if quick else TRAINING))
    training = [one.truth for one in drawn if one.split == "train"]
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
        drawn = space.numbers(space.draw(np.random.default_rng([GUESS + seed, one.number]), 1))[0]
        guess = dict(zip(space.names, drawn.tolist(), strict=True))
        rows.append(row(one, {name: guess[name] for name in unknowns}))
    return rows


def row(one: Sample, values: dict[str, float], cpu_seconds: float = 0.0, **more: object) -> dict:
    """What a baseline says of a sample, beside the truth."""
    truth = {name: one.truth[name] for name in values}
    return {
        "number": one.number,
        "object": one.object,
        "truth": truth,
        "values": values,
        "cpu_seconds": cpu_seconds,
        **more,
    }
