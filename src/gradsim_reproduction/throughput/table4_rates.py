"""Rates of physics and rendering, forward and backward, and the time of an object (the paper's Table 4 right, Appendix I).

The paper's rates are of a laptop with a GTX 1060; ours are of one thread of a CPU, and of a GPU too where one is at hand.
The paper does not say how large its images are, nor the steps per image: here it is 64 × 64 pixels, and one
each step, the most expensive reading. The cases are in `throughput/cases.py`.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from gradsim.app.figures import figure
from gradsim.runtime.checkpoint import Ledger
from gradsim.runtime.progress import Progress
from gradsim_reproduction.plotting import INK, SAFE, new_figure, write_figures
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.tables import write_table
from gradsim_reproduction.throughput import identification_times
from gradsim_reproduction.throughput.cases import CELLS, WORK, gpu, rates

CASES = ("dp_forward", "dr_forward", "dp_backward", "dpdr_backward")  # the paper's columns
PAPER = {  # paper, Table 4 (right) [steps per second]
    100: (9057, 3504, 3721, 3057),
    200: (9057, 3478, 3780, 2963),
    400: (8751, 3357, 3750, 1360),
    1000: (4174, 1690, 1644, 1041),
    2000: (3967, 1584, 1655, 698),
    5000: (3871, 1529, 1553, 424),
    10000: (3721, 1500, 1429, 248),
}
# The release's physics on one core of a CPU such as ours [steps per CPU second]: forward, forward and backward, and that
# built again with -O3 -march=native.
ORIGINAL = {100: (14450, 5500, 6960), 1000: (4195, 1154, 1689), 10000: (523, 132, 204)}
MINUTES = {
    "mass": 5.0,
    "mass_by_descent": 5.0,
    "rigid_joint": 5.0,
    "deformable": 5.0,
}  # its least: "under 5-20 minutes"
EPISODE = 30.0  # paper, Appendix I [CPU minutes]
WORDED = {
    "dp_forward": "forward, physics",
    "dr_forward": "forward, pictures (SoftRas)",
    "dr_forward_aa": "forward, pictures (exact coverage)",
    "dp_backward": "backward, physics",
    "dpdr_backward": "backward, physics and pictures",
    "mass": "minutes: mass of a rigid body",
    "mass_by_descent": "minutes: the same by descent, one start",
    "rigid_joint": "minutes: five numbers of a rigid body",
    "deformable": "minutes: density and both Lamé parameters of a solid",
}
FULL = {"tets": tuple(CELLS), "worlds": (8, 64), "repeats": 4, "work": WORK, "kinds": tuple(MINUTES), "objects": 3}
QUICK = {"tets": (100, 1000, 10000), "worlds": (), "repeats": 1, "work": WORK // 4}
QUICK |= {"kinds": ("mass", "deformable"), "objects": 1}


@experiment("table4-rates", "Rates and times")
def table4_rates(run: Run) -> Outcome:
    """Time all cases; writes table.md, rates.jsonl and a plot. Quick: three sizes of one world, timed once; two fits."""
    plan = QUICK if run.quick else FULL
    ledger, threads = run.ledger("rates.jsonl", plan=plan), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rates_by_case, notes = measure_rates(ledger, plan, run.progress)
        times = [
            ledger.once(f"{what} {number}", identification_times.identification, what, number, run.seed)
            for what, number in identification_times.plan(plan["kinds"], plan["objects"])
        ]
        control = ledger.once("control", identification_times.episode, plan["repeats"])
    finally:
        torch.set_num_threads(threads)
    result = {"notes": notes, "times": times}
    result["rates"] = [{"device": d, "worlds": w, "tets": n, **r} for (d, w, n), r in rates_by_case.items()]
    result["images"] = draw(run.out, rates_by_case, PAPER, ORIGINAL)
    minutes = {what: [t["minutes"] for t in times if t["what"] == what] for what in plan["kinds"]}
    lines = rows(rates_by_case, minutes, control["minutes"])
    result["table"] = write_table(run.out, "Table 4 (right) and Appendix I", lines, WORDS)
    return result, figures(rates_by_case, times, control["minutes"])


def measure_rates(done: Ledger, plan: dict, progress: Progress) -> tuple[dict, list[str]]:
    """Rates by (device, worlds, tetrahedra), and why there are none of a GPU, or not all."""
    lacking = gpu()
    rates_by_case, notes = {}, [f"nothing is timed on a GPU: {lacking}"] if lacking else []
    for device in ["cpu"] if lacking else ["cpu", "cuda"]:
        for worlds in (1, *plan["worlds"]):
            for tets in plan["tets"]:
                key = f"{tets} tetrahedra, worlds: {worlds}, {device}"
                progress.stage(key)
                job = lambda t=tets, w=worlds, d=device: rates(t, w, d, plan["repeats"], plan["work"])
                try:
                    rates_by_case[device, worlds, tets] = done.once(key, job)
                except RuntimeError as error:  # of a driver, or for want of memory: the CPU's rates are worth having
                    if device == "cpu":
                        raise
                    notes.append(f"{key}: {error}")
    return rates_by_case, notes


WORDS = (
    "Steps a second; minutes of CPU time. The paper's rates are those of a GTX 1060, ours of one CPU thread, so that the "
    "ratio of rates, paper over ours, is below 1 where the one thread is faster. Original: the release's physics on one "
    "core of a CPU such as ours. The episode is 40 times an iteration that was timed."
)


def growth(rates_by_case: dict, case: str, device: str = "cpu", worlds: int = 1) -> float:
    """Exponent p of time a step ∝ tetrahedraᵖ, from a straight line through the logarithms."""
    rate = {n: r[case] for (d, w, n), r in rates_by_case.items() if (d, w) == (device, worlds)}
    return float(-np.polyfit(np.log(list(rate)), np.log(list(rate.values())), 1)[0])


def figures(rates_by_case: dict, times: list[dict], control: float) -> dict[str, dict]:
    """Rates by case, size, worlds and device; growth; how many times the original's; minutes and errors of fits."""
    by_name = {}
    for (device, worlds, tets), rate in rates_by_case.items():
        tail = ("" if device == "cpu" else f"_{device}") + (f"_worlds{worlds}" if worlds > 1 else "")
        for case, value in rate.items():
            paper = dict(zip(CASES, PAPER[tets], strict=True)).get(case) if worlds == 1 else None
            by_name[f"{case}_{tets}{tail}"] = figure(value, paper=paper)
    cpu_rates = {n: r for (d, w, n), r in rates_by_case.items() if (d, w) == ("cpu", 1)}
    for k, case in enumerate(CASES):
        paper = float(-np.polyfit(np.log(list(PAPER)), np.log([row[k] for row in PAPER.values()]), 1)[0])
        by_name[f"growth_{case}"] = figure(growth(rates_by_case, case), paper=paper)
    for tets, (forward, both, rebuilt) in ORIGINAL.items():
        if tets in cpu_rates:
            ours = 1 / (1 / cpu_rates[tets]["dp_forward"] + 1 / cpu_rates[tets]["dp_backward"])
            by_name[f"vs_original_forward_{tets}"] = figure(cpu_rates[tets]["dp_forward"] / forward)
            by_name[f"vs_original_forward_backward_{tets}"] = figure(ours / both)
            by_name[f"vs_original_rebuilt_forward_backward_{tets}"] = figure(ours / rebuilt)
    for what in dict.fromkeys(t["what"] for t in times):
        part, paper = [t for t in times if t["what"] == what], MINUTES[what]
        by_name[f"minutes_{what}"] = figure(float(np.median([t["minutes"] for t in part])), paper=paper, goal=paper)
        by_name[f"error_{what}"] = figure(max(t["error"] for t in part))
    return by_name | {"minutes_control_episode": figure(control, paper=EPISODE, goal=EPISODE)}


def rows(rates_by_case: dict, minutes: dict[str, list[float]], control: float) -> list[dict]:
    """Rows of the table: the paper's columns by size, then minutes."""
    table = []
    for (device, worlds, tets), rate in rates_by_case.items():
        for case, value in rate.items():
            paper = dict(zip(CASES, PAPER[tets], strict=True)).get(case) if worlds == 1 else None
            where = [device] * (device != "cpu") + [f"{worlds} worlds"] * (worlds > 1)
            note = f"original: {ORIGINAL[tets][0]}" if case == "dp_forward" and not where and tets in ORIGINAL else ""
            name = ", ".join([f"{tets} tetrahedra: {WORDED[case]}", *where])
            table.append({"name": name, "paper": paper, "ours": value, "note": note})
    for what, values in minutes.items():
        table.append({"name": WORDED[what], "paper": MINUTES[what], "ours": float(np.median(values)), "note": ""})
    return [*table, {"name": "minutes: a control episode", "paper": EPISODE, "ours": control, "note": ""}]


OURS, ORIGINAL_COLOR, MANY, EXACT = SAFE
PANELS = {
    "dp_forward": "forward, physics",
    "dr_forward": "forward, pictures",
    "dp_backward": "backward, physics",
    "dpdr_backward": "backward, physics and pictures",
}
PLOT_WORDS = (
    "Steps a second of one world, or of all worlds together. Ours: one thread of a CPU. The paper's: a laptop with a GPU. "
    "The original engine: its release on one core of such a CPU; backward, from its rate forward and backward."
)


def draw(out: Path, rates_by_case: Mapping, paper: Mapping[int, tuple], original: Mapping[int, tuple]) -> list[dict]:
    """Write the image; returns its entry for `result.json`.

    Args:
        out: The folder.
        rates_by_case: Rates by case, by (device, worlds, tetrahedra).
        paper: Its four columns by tetrahedra.
        original: Its forward rate, and forward and backward, by tetrahedra.
    """
    return write_figures(out, {"rates": (lambda: _rates(rates_by_case, paper, original), "Rates", PLOT_WORDS)})


def _rates(rates_by_case: Mapping, paper: Mapping[int, tuple], original: Mapping[int, tuple]) -> Figure:
    figure = new_figure(8.6, 6.2)
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for k, (ax, (case, title)) in enumerate(zip(panels.flat, PANELS.items(), strict=True)):
        _panel(ax, rates_by_case, case)
        ax.plot(list(paper), [row[k] for row in paper.values()], "s--", color=INK, ms=4, label="paper (GPU)")
        if case.startswith("dp_"):
            values = [row[0] if case == "dp_forward" else 1 / (1 / row[1] - 1 / row[0]) for row in original.values()]
            ax.plot(list(original), values, "^:", color=ORIGINAL_COLOR, ms=5, label="original engine (CPU)")
        ax.set_title(title, loc="left", fontsize=10, fontweight="bold")
        ax.set(xscale="log", yscale="log")
        ax.legend(fontsize=7, loc="lower left")
    for ax in panels[1]:
        ax.set_xlabel("tetrahedra")
    for ax in panels[:, 0]:
        ax.set_ylabel("steps a second")
    return figure


def _panel(ax, rates_by_case: Mapping, case: str) -> None:
    """One line for each device and number of worlds."""
    for device, worlds in dict.fromkeys((d, w) for d, w, _ in rates_by_case):
        rate = {n: r for (d, w, n), r in rates_by_case.items() if (d, w) == (device, worlds)}
        style = {"ls": "-" if device == "cpu" else "-.", "ms": 4, "color": OURS if worlds == 1 else MANY}
        label = ("ours" if device == "cpu" else f"ours, {device}") + (f", {worlds} worlds" if worlds > 1 else "")
        mark = "o" if worlds == 1 else "v" if worlds < 64 else "D"
        if all(case in r for r in rate.values()):
            ax.plot(list(rate), [r[case] for r in rate.values()], mark, label=label, **style)
        if case == "dr_forward" and worlds == 1:
            exact = [r["dr_forward_aa"] for r in rate.values()]
            ax.plot(list(rate), exact, mark, label=f"{label}, exact coverage", **{**style, "color": EXACT})
