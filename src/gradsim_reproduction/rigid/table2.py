"""Mass and four numbers of contact at once from video (the paper's Table 2), over different objects, from honest starts.

Mass, stiffness, damping, friction stiffness and friction of every test object of the data set are fitted jointly. Truths
and starts are uniform over the same ranges, from different streams. What is identifiable is judged at the truth, which no
fit sees: every relative bound below 10 % at σ = 1/255. A wrong fit with status "ok" is a silent failure.
"""

import math
from collections.abc import Sequence

from gradsim.app.figures import figure
from gradsim.dataset import sample, test_numbers
from gradsim.errors import Status
from gradsim_reproduction.rigid import table2_plots
from gradsim_reproduction.rigid.fits import FitJob, run_fit
from gradsim_reproduction.rigid.records import (
    at_least,
    baseline_rows,
    error_bars,
    errors_of,
    mean,
    median,
    object_count,
    select,
    share,
    short,
    worst,
)
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.tables import write_table

OBJECTS, QUICK = 200, 4
MODES = {"float": 1.0, "states": 0.2, "8bit": 0.005, "foreign": 0.005}  # share of the objects, the first ones
QUICKLY = {"float": 1.0, "states": 0.5}
SEARCHED = 0.005  # share of the objects that CMA-ES looks for, too
STARTS = {"8bit": 8, "foreign": 4}
KEYS = ("mass", "damping", "stiffness", "friction_stiffness", "friction")  # columns of Table 2
PAPER = {  # Table 2: relative errors
    "average": (1.7713, 3.7145, 2.3410, 4.1157, 0.4463),
    "random": (10.0007, 4.18, 2.5454, 5.0241, 0.5558),
    "convnet": (0.029, 0.14, 0.14, 0.17, 0.096),
    "states": (1.70e-8, 0.036, 0.0020, 0.0007, 0.0107),
    "float": (2.87e-4, 0.4, 0.0026, 0.0017, 0.0073),
}
LABELS = {"mass": "mass", "damping": "k_d", "stiffness": "k_e", "friction_stiffness": "k_f", "friction": "μ"}
SOLVED = 1e-6  # largest relative error of a scene that is solved


@experiment("table2", "Mass and contact from video (Table 2)", parallel=True)
def table2(run: Run) -> Outcome:
    """Fit five unknowns of all objects; writes table.md, fits.jsonl and plots. Quick: 4 objects instead of 200."""
    numbers = test_numbers(run.scenes or (QUICK if run.quick else OBJECTS))
    records = run.records(run.ledger("fits.jsonl"), plan(numbers, run.seed, run.quick), run_fit)
    rows = baseline_rows(run, numbers, names(numbers[0], run.seed), SEARCHED)
    figures = summary(records, rows)
    result: dict = {"records": [short(r) for r in records]}
    result["images"] = table2_plots.draw(run.out, records, rows, PAPER["float"], KEYS)
    title = "Table 2: mass and contact from video"
    result["table"] = write_table(run.out, title, table_rows(figures), _notes(len(numbers)))
    return result, figures


def names(number: int, seed: int) -> tuple[str, ...]:
    """All unknowns of a sample."""
    return tuple(sample("rigid", number, seed).truth)


def plan(numbers: Sequence[int], seed: int, quick: bool) -> dict[str, FitJob]:
    """All fits, by ledger key."""
    jobs = [
        FitJob(number, names(number, seed), mode, seed, STARTS.get(mode, 16))
        for mode, part in (QUICKLY if quick else MODES).items()
        for number in numbers[: math.ceil(part * len(numbers))]
    ]
    return {job.key: job for job in jobs}


def summary(records: list[dict], rows: dict[str, list[dict]]) -> dict[str, dict]:
    """Shares that are solved and flagged, medians of every unknown, error bars and baselines."""
    exact = select(records, "float")
    known, wrong = [r for r in exact if r["identifiable"]], [r for r in exact if worst(r) > SOLVED]
    errors = [worst(r) for r in known]
    figures = {
        "share_all_below_1e6": at_least(share(errors, SOLVED), 0.95),
        "identifiable_share": at_least(mean([r["identifiable"] for r in exact]), 0.8),
        "silent_failures": figure(sum(r["status"] == Status.OK for r in wrong), goal=0),
        "missed_flags": figure(sum(r["status"] == Status.OK for r in exact if not r["identifiable"]), goal=0),
        "false_flags": figure(sum(r["status"] != Status.OK for r in known), goal=0),
        "rel_err_median": figure(median(errors)),
        "rel_err_worst": figure(max(errors, default=math.nan)),
    }
    for key, paper in zip(KEYS, PAPER["float"], strict=True):
        figures[f"rel_err_median_{key}"] = figure(median(errors_of(known, key)), paper=paper, goal=paper)
    for key, paper in zip(KEYS, PAPER["float"], strict=True):
        figures[f"rel_err_mean_{key}"] = figure(mean(errors_of(exact, key)), paper=paper, ok=True)
    figures["starts_converged"] = figure(mean([r["converged"] for r in known]))
    figures["cpu_seconds_median"] = figure(median([r["cpu_seconds"] for r in exact]), goal=4.0)
    figures["cpu_seconds_mean"] = figure(mean([r["cpu_seconds"] for r in exact]))
    states = [r for r in select(records, "states") if r["identifiable"]]
    for key, paper in zip(KEYS, PAPER["states"], strict=True):
        figures[f"diffphysics_rel_err_median_{key}"] = figure(median(errors_of(states, key)), paper=paper)
    figures["diffphysics_share_below_1e6"] = figure(share([worst(r) for r in states], SOLVED))
    figures["diffphysics_count"] = figure(len(states))
    figures["count"] = figure(len(known))
    figures |= error_bars(select(records, "8bit"))
    for mode in ("8bit", "foreign"):
        for key in KEYS if (part := select(records, mode)) else ():
            figures[f"{mode}_rel_err_median_{key}"] = figure(median(errors_of(part, key)))
    if foreign := select(records, "foreign"):
        figures["foreign_mismatch_share"] = figure(mean([r["status"] == Status.MISMATCH for r in foreign]))
        figures["foreign_count"] = figure(len(foreign))
    for name, row in rows.items():
        for key, paper in zip(KEYS, PAPER.get(name, (None,) * len(KEYS)), strict=True):
            relative = [
                abs(r["values"][n] / r["truth"][n] - 1) for r in row for n in r["truth"] if n.split(".")[1] == key
            ]
            figures[f"{name}_rel_err_mean_{key}"] = figure(mean(relative), paper=paper, ok=True)
        figures[f"{name}_count"] = figure(len(row))
    return figures


def table_rows(figures: dict[str, dict]) -> list[dict]:
    """A row for every unknown of every row of the paper's table, and of ours that it has not."""
    kinds = (
        ("average", "average", "average_rel_err_mean_{}", "average_count"),
        ("random", "random", "random_rel_err_mean_{}", "random_count"),
        ("convnet", "ConvNet (the paper's ConvLSTM)", "convnet_rel_err_mean_{}", "convnet_count"),
        ("cma", "CMA-ES on pixels", "cma_rel_err_mean_{}", "cma_count"),
        ("states", "3-D supervision, least squares", "diffphysics_rel_err_median_{}", "diffphysics_count"),
        ("float", "video, least squares", "rel_err_median_{}", "count"),
        ("8bit", "video with noise in 8 bits", "8bit_rel_err_median_{}", "count_8bit"),
        ("foreign", "another renderer, four times the steps", "foreign_rel_err_median_{}", "foreign_count"),
    )
    rows = []
    for name, label, wanted, count in kinds:
        note = object_count(figures[count]["value"]) if count in figures else ""
        for key, paper in zip(KEYS, PAPER.get(name, (None,) * len(KEYS)), strict=True):
            ours = figures.get(wanted.format(key), {}).get("value")
            rows.append({"name": f"{label}: {LABELS[key]}", "paper": paper, "ours": ours, "note": note})
    return [row for row in rows if row["paper"] is not None or row["ours"] is not None]


def _notes(objects: int) -> str:
    return (
        f"Relative errors over the first of {objects} test objects. From float frames and 3-D, medians over the scenes that are "
        "identifiable at the truth; from 8 bits and another renderer, over all; means for average, random, ConvNet and CMA-ES."
    )
