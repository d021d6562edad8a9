"""50 designed cases, identifiable and not, each with the verdict that a fit has to come to, written down before it.

Half leave one combination of unknowns open; the other half differ from these in one thing that fixes it
(`verdict_cases`). Truths and starts are uniform over the same ranges, from different streams; videos are of 8 bits with
noise of σ = 1/255. Right is a verdict of an open case if its status is "unidentifiable", there is one null direction, it
is the expected one, and its explanation contains the expected words; of the others, if the status is "ok" and the truth is within
5 standard deviations.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from gradsim.app.figures import figure
from gradsim.errors import Status
from gradsim.identification import synthetic
from gradsim.identification.api import solve
from gradsim.identification.fit import Fit
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.unknowns import Space
from gradsim_reproduction.pendulums.tasks import observe_video
from gradsim_reproduction.plotting import SAFE, new_figure, write_figures
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.statistics.verdict_cases import CASES, VerdictCase
from gradsim_reproduction.tables import write_table

QUICK = (0, 1, 20, 21, 30, 31)  # mass in flight, a pendulum's damping, a rope: what costs least
STARTS = 4, 2  # base number, and more for each unknown
ALIGNED = 0.99  # cosine between the null direction and the expected one
SMALL = 0.05  # coefficient that counts as none
FAR = 5.0  # standard deviations that a right fit may be off


@experiment("verdicts", "Designed verdicts", parallel=True)
def verdicts(run: Run) -> Outcome:
    """Fit all cases; writes cases.jsonl, table.md and a plot. Quick: 6 cases instead of 50; `scenes`: the first ones."""
    chosen = range(min(run.scenes, len(CASES))) if run.scenes else QUICK if run.quick else range(len(CASES))
    jobs = {f"{CASES[k].name}, seed {run.seed}": (k, run.seed) for k in chosen}
    records = run.records(run.ledger("cases.jsonl", experiment="verdicts"), jobs, judge, "cases")
    right = sum(r["right"] for r in records)
    open_ones = [r for r in records if r["expected"] == Status.UNIDENTIFIABLE]
    known = [r for r in records if r["expected"] == Status.OK]
    figures = {
        "verdicts_right": figure(right, goal=len(records), ok=right == len(records)),
        "cases": figure(len(records)),
        "missed_flags": figure(sum(r["status"] == Status.OK for r in open_ones), goal=0),
        "false_flags": figure(sum(r["status"] == Status.UNIDENTIFIABLE for r in known), goal=0),
        "other_verdicts": figure(sum(r["status"] not in (Status.OK, Status.UNIDENTIFIABLE) for r in records), goal=0),
        "null_directions_right": figure(
            sum(r["direction_right"] for r in open_ones),
            goal=len(open_ones),
            ok=all(r["direction_right"] for r in open_ones),
        ),
        "explanations_right": figure(
            sum(r["words_right"] for r in open_ones), goal=len(open_ones), ok=all(r["words_right"] for r in open_ones)
        ),
        "cpu_seconds": figure(sum(r["cpu_seconds"] for r in records)),
    }
    rows = [{"name": key, "paper": None, "ours": one["value"]} for key, one in figures.items()]
    result: dict = {"cases": records, "images": draw(run.out, records)}
    result["table"] = write_table(run.out, "Designed verdicts", rows, "The paper gives no verdicts.")
    return result, figures


def judge(job: tuple[int, int]) -> dict:
    """Fit one case, and compare its verdict with the expected one."""
    number, seed = job
    case = CASES[number]
    scene = case.scene()
    truth_seed, noise, starts = (int(x) for x in np.random.default_rng([seed, number]).integers(2**31, size=3))
    space = Space(scene, case.unknowns)
    truth = synthetic.draw_truth(scene, case.unknowns, truth_seed)
    model = model_for(synthetic.own_steps(scene), space)
    with torch.no_grad():
        trajectory = model.rollout(parameter_values(scene, truth))
    problem = Problem(model, observe_video(scene, trajectory, noise), space)
    fit = solve(problem, MultistartConfig(starts=STARTS[0] + STARTS[1] * len(space), grow=6), starts)
    return {"case": case.name, **compare_verdict(case, fit, truth)}


def compare_verdict(case: VerdictCase, fit: Fit, truth: Mapping[str, float]) -> dict:
    """A fit's verdict next to the expected one."""
    expected = Status.OK if case.null is None else Status.UNIDENTIFIABLE
    off = {name: abs(e.value - truth[name]) / e.std for name, e in fit.unknowns.items()}
    directions = [direction.combination for direction in fit.null_directions]
    explanation = " ".join(direction.explanation for direction in fit.null_directions)
    direction = case.null is None or (len(directions) == 1 and _same(directions[0], case.null))
    words = case.null is None or case.words in explanation
    near = case.null is not None or max(off.values()) < FAR
    return {
        "expected": expected,
        "status": fit.status,
        "direction_right": direction,
        "words_right": words,
        "right": bool(fit.status == expected and direction and words and near),
        "expected_null": case.null,
        "null": [{name: round(c, 4) for name, c in one.items()} for one in directions],
        "explanation": explanation,
        "off": {name: round(x, 3) if math.isfinite(x) else None for name, x in off.items()},
        "relative_error": {name: abs(e.value / truth[name] - 1) for name, e in fit.unknowns.items()},
        "chi2_per_n": fit.chi2_per_n,
        "cpu_seconds": fit.cpu_seconds,
    }


def _same(direction: Mapping[str, float], expected: Mapping[str, float | None]) -> bool:
    """True if a direction is the expected one; where that has no number, whether the coefficient is not small."""
    if None in expected.values():
        return all(abs(direction[name]) > SMALL for name in expected)
    names: Sequence[str] = list(expected)
    a, b = (np.array([float(one[name] or 0.0) for name in names]) for one in (direction, expected))
    return bool(abs(a @ b) / (np.linalg.norm(a) * np.linalg.norm(b)) > ALIGNED)


RIGHT, WRONG = SAFE[2], SAFE[1]
WORDS = {
    Status.OK: "identifiable",
    Status.UNIDENTIFIABLE: "open",
    Status.UNCONVERGED: "unconverged",
    Status.APPROXIMATE: "approximate",
    Status.MISMATCH: "mismatch",
    Status.FAILED: "failed",
}


def draw(out: Path, records: Sequence[Mapping]) -> list[dict]:
    """Write the table as a plot; returns its entry for `result.json`."""
    right = sum(r["right"] for r in records)
    caption = f"{right} of {len(records)} cases judged as designed."
    return write_figures(out, {"verdicts": (lambda: _table(records), "Designed verdicts", caption)})


def _table(records: Sequence[Mapping]) -> Figure:
    figure = new_figure(10.5, 0.24 * len(records) + 0.9)
    axis = figure.subplots()
    axis.axis("off")
    axis.set(xlim=(0, 1), ylim=(len(records) + 0.5, -1))
    columns = {0.0: "case", 0.42: "expected", 0.54: "the fit says", 0.66: "null direction", 0.97: ""}
    for x, heading in columns.items():
        axis.text(x, -0.5, heading, fontsize=8, weight="bold", va="center")
    for k, record in enumerate(records):
        colour = RIGHT if record["right"] else WRONG
        cells = [record["case"], WORDS[record["expected"]], WORDS[record["status"]], _direction(record["null"])]
        for x, text in zip(columns, cells, strict=False):
            axis.text(x, k + 0.3, text, fontsize=7, va="center")
        axis.text(0.97, k + 0.3, "right" if record["right"] else "WRONG", fontsize=7, va="center", color=colour)
        if k % 2:
            axis.axhspan(k - 0.2, k + 0.8, color="0.95", zorder=0, lw=0)
    return figure


def _direction(null: Sequence[Mapping[str, float]]) -> str:
    """Null directions in short: the last part of each name with its coefficient."""
    parts = [
        "  ".join(f"{value:+.2f} {name.rpartition('.')[2]}" for name, value in one.items() if abs(value) > 0.02)
        for one in null
    ]
    return (
        "; ".join(parts)
        .replace("friction_stiffness", "k_f")
        .replace("stiffness", "k_e" if "k_f" in str(parts) else "stiffness")
    )
