"""Records of fits of thrown objects, and what is counted over them."""

import importlib.util
import math
from collections.abc import Mapping, Sequence

import numpy as np

from gradsim.app.figures import figure
from gradsim.errors import Status
from gradsim_reproduction.baselines import ROWS
from gradsim_reproduction.baselines.pybullet import MASS
from gradsim_reproduction.baselines.rows import cached_result
from gradsim_reproduction.runner import Run

BULLET = {"pybullet": "range", "pybullet_vertices": "vertices"}  # rows by where their searches began


def baseline_rows(run: Run, numbers: Sequence[int], names: Sequence[str], cma_share: float) -> dict[str, list[dict]]:
    """Records of the baselines by name.

    Average and random always; CMA-ES for a share of the objects unless quick; ConvNet and PyBullet + REINFORCE, which have
    a command of their own, if their folder is in the folder of this run or in its parent.
    """
    out, seed, quick = run.out, run.seed, run.quick
    make = lambda name, numbers: ROWS[name](numbers, seed, out, run.progress, quick, names)
    rows = {name: make(name, numbers) for name in ("average", "random")}
    if cached_result("convnet", seed, out, quick):
        rows["convnet"] = make("convnet", numbers)
    if tuple(names) == (MASS,) and (result := cached_result("pybullet", seed, out, quick)):
        part = [row for row in result["rows"] if row["number"] in set(numbers)]
        rows |= {key: [row for row in part if row["start"] == start] for key, start in BULLET.items()}
    searched = 0 if quick else math.ceil(cma_share * len(numbers))
    if searched and importlib.util.find_spec("cma"):
        rows["cma"] = make("cma", numbers[:searched])
    return rows


def object_count(count: int) -> str:
    """Number of objects, for the note of a row."""
    return f"{count} object" + "s" * (count != 1)


def select(records: Sequence[Mapping], mode: str) -> list:
    """Those of a mode of observation."""
    return [r for r in records if r["sight"] == mode]


def short(record: Mapping) -> dict:
    """Without the course, which the ledger has."""
    return {key: value for key, value in record.items() if key not in ("course", "losses", "bounds", "history")}


def worst(record: Mapping) -> float:
    """Largest relative error of a scene."""
    return max(record["errors"].values())


def errors_of(records: Sequence[Mapping], key: str) -> list[float]:
    """Relative errors of one unknown."""
    return [e for r in records for name, e in r["errors"].items() if name.split(".")[1] == key]


def error_bars(noisy: Sequence[Mapping]) -> dict[str, dict]:
    """Errors over error bars of 8-bit fits where the likelihood is smooth; where contact kinks it, coverage alone."""
    if not noisy:
        return {}
    right = [r for r in noisy if r["status"] != Status.MISMATCH]
    z = np.abs([z for r in right if not r["kinked"] for z in r["z"].values()])
    inside = {kink: [i for r in right if r["kinked"] == kink for i in r["inside"].values()] for kink in (False, True)}
    figures = {
        "z_count": figure(len(z)),
        "kinked_share": figure(mean([r["kinked"] for r in noisy])),
        "rel_err_median_8bit": figure(median([max(r["errors"].values()) for r in noisy])),
        "mismatch_8bit": figure(sum(r["status"] == Status.MISMATCH for r in noisy), goal=0),
        "count_8bit": figure(len(noisy)),
        "cpu_seconds_median_8bit": figure(median([r["cpu_seconds"] for r in noisy])),
    }
    if len(z):
        figures["z_rms"] = figure(float(np.sqrt(np.mean(z**2))), goal=1.2)
        figures["z_95"] = figure(float(np.quantile(z, 0.95)), goal=2.3)
    for kink, ending in ((False, ""), (True, "_kinked")):
        if inside[kink]:
            figures[f"covered_by_95{ending}"] = figure(mean(inside[kink]))
    return figures


def median(values: Sequence[float]) -> float:
    """NaN of nothing."""
    return float(np.median(values)) if len(values) else math.nan


def mean(values: Sequence[float]) -> float:
    """NaN of nothing."""
    return float(np.mean(values)) if len(values) else math.nan


def share(errors: Sequence[float], limit: float) -> float:
    """Share of errors below the limit."""
    return mean([e < limit for e in errors])


def at_least(value: float, goal: float) -> dict:
    """A figure that is met from its goal on upwards."""
    return figure(value, goal=goal, ok=value >= goal)
