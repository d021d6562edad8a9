"""`gradsim reproduce pybullet`: PyBullet + REINFORCE on the mass of test objects (a row of the paper's Table 1).

Every object is searched twice: from a start in the range of masses, as everywhere else here, and from one between 0 and
the number of its vertices, in kg, as the paper's H.1 has it.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from gradsim.dataset import test_numbers
from gradsim.errors import InputError
from gradsim.runtime.optional import require_extra
from gradsim.runtime.progress import Progress
from gradsim_reproduction.baselines.bullet_plots import draw
from gradsim_reproduction.baselines.bullet_search import MASS, STARTS, solve
from gradsim_reproduction.baselines.cached import rows_of
from gradsim_reproduction.baselines.reinforce import Plan
from gradsim_reproduction.runner import Outcome, Run, experiment, figure
from gradsim_reproduction.tables import write_table

OBJECTS, QUICK = 24, 2
SHORT = 25  # steps of the quick form
PAPER = {"mass_rel_err": 0.3668, "mass_abs_err": 0.0928}  # paper, Table 1
NAMES = {"mass_rel_err": "mean relative error", "mass_abs_err": "mean error [kg]"}
WORDS = {"range": "start U[2, 12] kg", "vertices": "start U[0, number of vertices] kg, as in the paper"}


@experiment("pybullet", "PyBullet + REINFORCE", parallel=True)
def pybullet(run: Run) -> Outcome:
    """Search for the masses of test objects; writes searches.jsonl, table.md and a plot. Quick: 2 objects, 25 steps.

    Raises:
        InputError: If PyBullet is not installed.
    """
    require_extra("pybullet", "the baseline PyBullet + REINFORCE", "baselines")
    numbers = test_numbers(run.scenes or (QUICK if run.quick else OBJECTS))
    plan = asdict(Plan(steps=SHORT) if run.quick else Plan())
    jobs = {
        f"{number}, {start}": {"number": number, "seed": run.seed, "start": start, "plan": plan}
        for number in numbers
        for start in STARTS
    }
    records = run.records(run.ledger("searches.jsonl", plan=plan), jobs, solve, "PyBullet + REINFORCE: searches")
    figures = summary(records)
    notes = f"{len(numbers)} of the 200 test objects. The targets are PyBullet's own videos, as in the paper's Fig. 4."
    result = {
        "rows": [{key: value for key, value in record.items() if key != "means"} for record in records],
        "table": write_table(run.out, "Table 1: PyBullet + REINFORCE", _lines(figures), notes),
        "pictures": draw(run.out, records, plan),
        "plan": plan,
        "cpu_seconds": sum(record["cpu_seconds"] for record in records),
    }
    return result, figures


def rows(
    numbers: Sequence[int],
    seed: int,
    out: Path,
    progress: Progress | None = None,
    quick: bool = False,
    unknowns: Sequence[str] = (MASS,),
) -> list[dict]:
    """The rows of those samples that are among its objects, from starts in the range; see `ROWS`.

    Raises:
        InputError: If PyBullet is not installed, or more than the mass is asked for.
    """
    if tuple(unknowns) != (MASS,):
        raise InputError(f"PyBullet + REINFORCE looks for {MASS} alone, as in the paper; got {', '.join(unknowns)}.")
    found = rows_of("pybullet", lambda folder: pybullet(folder, quick, seed, progress), numbers, seed, out, quick)
    return [row for row in found if row["start"] == "range"]


def summary(records: Sequence[dict]) -> dict[str, dict]:
    """Errors by start: means, as the paper's, medians, and what the searches gained."""
    figures = {}
    for start in STARTS:
        own = [r for r in records if r["start"] == start]
        off = np.array([abs(r["values"][MASS] - r["truth"][MASS]) for r in own])
        before = np.array([abs(r["begun"] - r["truth"][MASS]) for r in own])
        truth = np.array([r["truth"][MASS] for r in own])
        paper = PAPER if start == "vertices" else dict.fromkeys(PAPER)
        figures |= {
            f"mass_rel_err_mean ({start})": figure(float(np.mean(off / truth)), paper=paper["mass_rel_err"]),
            f"mass_abs_err_mean ({start})": figure(float(np.mean(off)), paper=paper["mass_abs_err"]),
            f"mass_rel_err_median ({start})": figure(float(np.median(off / truth))),
            f"mass_rel_err_median_at_start ({start})": figure(float(np.median(before / truth))),
            f"nearer_than_the_start ({start})": figure(float(np.mean(off < before))),
        }
    # what REINFORCE would need to find is there: the loss of PyBullet's film at the true mass
    figures["loss_at_truth_largest"] = figure(max(r["losses"]["truth"] for r in records), goal=0.0)
    figures["cpu_seconds_median"] = figure(float(np.median([r["cpu_seconds"] for r in records])))
    return figures


def _lines(figures: dict[str, dict]) -> list[dict]:
    """Lines of the table."""
    lines = []
    for start in reversed(STARTS):
        for key, name in NAMES.items():
            one = figures[f"{key}_mean ({start})"]
            lines.append({"name": f"{name}, {WORDS[start]}", "paper": one["paper"], "ours": one["value"]})
    return lines
