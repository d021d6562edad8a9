"""All tables and figures of the paper, one after another, each in a folder of its own, and one page over all of them."""

import inspect
import os
import time
from collections.abc import Mapping
from pathlib import Path

from gradsim.app import experiments
from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_path
from gradsim.runtime.checkpoint import Ledger
from gradsim.runtime.progress import NullProgress, Progress
from gradsim_reproduction.runner import write_result
from gradsim_reproduction.tables import markdown

PAPER = (
    *("convnet", "pybullet"),  # before the tables, which read their rows
    *("table1", "table2", "table3", "table4", "table4-rates", "table6"),
    *("fig3", "fig4", "fig6", "fig7", "fig11", "fig12"),
    *("coverage", "verdicts"),
)
FEW = 3  # pictures of an experiment on the common page; the others are on its own


def everything(
    out: Path,
    quick: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
    scenes: int | None = None,
    engine: str | None = None,
    workers: int | None = None,
) -> dict:
    """Run them; what is finished is kept in `all.jsonl`, and an interrupted run goes on after it.

    An experiment that lacks an optional package is left out and named, as is one that fails.

    Args:
        out: Gets a folder for each, and result.json and tables.md over all.
        quick: Their small forms.
        seed: Of everything random.
        progress: Is told what happens.
        scenes, engine, workers: For those that take them.
    """
    out, progress = Path(out), progress or NullProgress()
    done = Ledger(out / "all.jsonl", {"quick": quick, "seed": seed, "scenes": scenes})
    options = {"scenes": scenes, "engine": engine, "workers": workers}
    records, left_out = {}, {}
    for k, name in enumerate(PAPER):
        progress.share(k, len(PAPER))
        try:
            records[name] = done.once(name, lambda name=name: _one(name, out / name, quick, seed, progress, options))
        except InputError as error:
            left_out[name] = str(error)
        except (ArithmeticError, RuntimeError, ValueError) as error:  # the others can still be run
            left_out[name] = f"{type(error).__name__}: {error}"
    progress.done()
    tables = [table for record in records.values() for table in record["tables"]]
    with atomic_path(out / "tables.md") as draft:
        draft.write_text("\n".join(markdown(table) for table in tables), encoding="utf-8")
    result = {
        "title": "The paper's tables and figures",
        "status": "failed" if left_out else "ok",
        "notes": [f"{name} was left out: {reason}" for name, reason in left_out.items()],
        "tables": tables,
        "pictures": [picture for record in records.values() for picture in record["pictures"]],
        "seconds": {name: record["seconds"] for name, record in records.items()},
        "cpu_seconds": sum(record["seconds"]["cpu"] for record in records.values()),
        "wall_seconds": sum(record["seconds"]["wall"] for record in records.values()),
        "seed": seed,
    }
    figures = {f"{name}: {key}": value for name, r in records.items() for key, value in r["figures"].items()}
    return write_result(out, "reproduce all" + " --quick" * quick, result, figures)


def _one(name: str, out: Path, quick: bool, seed: int, progress: Progress, options: Mapping) -> dict:
    """Run one; what the common page says of it."""
    taken = inspect.signature(experiments.experiment(name)).parameters
    begun, wall = _cpu(), time.monotonic()
    progress.stage(name)
    result = experiments.reproduce(name, out, quick, seed, progress, **{k: v for k, v in options.items() if k in taken})
    pictures = [{**p, "file": f"{name}/{p['file']}"} for p in result.get("pictures", ())][:FEW]
    tables = [*([result["table"]] if result.get("table") else []), *result.get("tables", ())]
    told = {key: f for key, f in result["figures"].items() if f["goal"] is not None or f["paper"] is not None}
    seconds = {"cpu": _cpu() - begun, "wall": time.monotonic() - wall}
    return {"figures": told, "tables": tables, "pictures": pictures, "seconds": seconds}


def _cpu() -> float:
    """CPU time of this process and of its children that have ended [s]; workers of a cluster are not among them."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
