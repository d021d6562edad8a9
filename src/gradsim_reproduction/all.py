"""All tables and figures of the paper, one after another, each in a folder of its own, and one page over all of them."""

import inspect
import os
import time

from gradsim.app import experiments
from gradsim.errors import InputError, Status
from gradsim.runtime.atomic import atomic_path
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.tables import markdown

PAPER = (
    *("convnet", "pybullet"),  # before the tables, which read their rows
    *("table1", "table2", "table3", "table4", "table4-rates", "table6"),
    *("fig3", "fig4", "fig6", "fig7", "fig11", "fig12"),
    *("coverage", "verdicts"),
)
MAX_IMAGES = 3  # per experiment on the common page


@experiment("all", "The paper's tables and figures", parallel=True)
def everything(run: Run) -> Outcome:
    """Run all experiments of the paper into subfolders; writes all.jsonl and tables.md.

    Experiments that fail or lack an optional package are listed in the notes; the others still run.
    """
    ledger = run.ledger("all.jsonl", quick=run.quick, scenes=run.scenes)
    records, failures = {}, {}
    for k, name in enumerate(PAPER):
        run.progress.fraction(k, len(PAPER))
        try:
            records[name] = ledger.once(name, _run_one, name, run)
        except InputError as error:
            failures[name] = str(error)
        except (ArithmeticError, RuntimeError, ValueError) as error:  # the others can still be run
            failures[name] = f"{type(error).__name__}: {error}"
    tables = [table for record in records.values() for table in record["tables"]]
    with atomic_path(run.out / "tables.md") as draft:
        draft.write_text("\n".join(markdown(table) for table in tables), encoding="utf-8")
    result = {
        "status": Status.FAILED if failures else Status.OK,
        "notes": [f"{name} was left out: {reason}" for name, reason in failures.items()],
        "tables": tables,
        "images": [image for record in records.values() for image in record["images"]],
        "seconds": {name: record["seconds"] for name, record in records.items()},
        "cpu_seconds": sum(record["seconds"]["cpu"] for record in records.values()),
        "wall_seconds": sum(record["seconds"]["wall"] for record in records.values()),
    }
    return result, {f"{name}: {key}": value for name, r in records.items() for key, value in r["figures"].items()}


def _run_one(name: str, run: Run) -> dict:
    """Run one experiment; its entries on the common page."""
    parameters = inspect.signature(experiments.load_experiment(name)).parameters
    options = {"scenes": run.scenes, "engine": run.engine, "workers": run.workers}
    options = {key: value for key, value in options.items() if key in parameters}
    cpu, wall = _cpu(), time.monotonic()
    result = experiments.reproduce(name, run.out / name, run.quick, run.seed, run.progress, **options)
    images = [{**p, "file": f"{name}/{p['file']}"} for p in result.get("images", ())][:MAX_IMAGES]
    tables = [*([result["table"]] if result.get("table") else []), *result.get("tables", ())]
    figures = {key: f for key, f in result["figures"].items() if f["goal"] is not None or f["paper"] is not None}
    seconds = {"cpu": _cpu() - cpu, "wall": time.monotonic() - wall}
    return {"figures": figures, "tables": tables, "images": images, "seconds": seconds}


def _cpu() -> float:
    """CPU time of this process and of its children that have ended [s]; workers of a cluster are not among them."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
