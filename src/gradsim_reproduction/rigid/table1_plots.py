"""Pictures of Table 1: errors of every object beside the paper's, how fast they fall, and error bars."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from gradsim.runtime.atomic import atomic_path

STYLE = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "legend.frameon": False}
COLUMNS = {
    "average": "average",
    "random": "random",
    "convnet": "ConvNet",
    "pybullet": "PyBullet +\nREINFORCE",
    "cma": "CMA-ES",
    "states descent": "3-D,\ndescent",
    "states": "3-D, least\nsquares",
    "float descent": "video,\ndescent",
    "float": "video, least\nsquares",
    "8bit": "8-bit video",
    "foreign": "foreign\nvideo",
}
COLOURS = {"video": "#1d5fd0", "3-D": "#c2410c", "baseline": "#57534e"}
FLOOR = 1e-16  # errors below are drawn there
AFTER = 4  # times the effort of the longest fit: errors stay where they ended


def draw(out: Path, records: Sequence[Mapping], rows: Mapping[str, Sequence[Mapping]], paper: Mapping) -> list[dict]:
    """Write the pictures; returns what a report lists."""
    sheets = {
        "errors": (lambda: _errors(records, rows, paper), "Errors of the mass",
                   "One mark an object; the bar is what the paper reports."),
        "effort": (lambda: _effort(records), "Error over effort",
                   "Median over objects; the band holds half of them. Rollouts count forward sensitivities of all starts."),
    }  # fmt: skip
    if any(r["sight"] == "8bit" for r in records):
        sheets["error_bars"] = (lambda: bars(records), "Errors over error bars, 8-bit frames",
                                "Against the normal distribution.")  # fmt: skip
    return write_sheets(out, sheets)


def write_sheets(out: Path, sheets: Mapping[str, tuple[Callable[[], Figure], str, str]]) -> list[dict]:
    """Write a picture of each figure, title and caption; returns what a report lists."""
    for name, (figure, _, _) in sheets.items():
        save(out / f"{name}.png", figure)
    return [{"file": f"{name}.png", "title": title, "caption": text} for name, (_, title, text) in sheets.items()]


def save(path: Path, figure: Callable[[], Figure]) -> None:
    """Write a picture that appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE), atomic_path(path) as draft:
        figure().savefig(draft, dpi=150, format="png")


def _errors(records: Sequence[Mapping], rows: Mapping[str, Sequence[Mapping]], paper: Mapping) -> Figure:
    found = {name: _relative(row) for name, row in rows.items()}
    found |= {sight: _relative([r for r in records if r["sight"] == sight]) for sight in COLUMNS if sight not in rows}
    shown = [name for name in COLUMNS if len(found.get(name, [])) or name.split()[0] in paper]
    figure, rng = Figure(figsize=(9.2, 4.0), layout="constrained"), np.random.default_rng(0)
    ax = figure.subplots()
    for k, name in enumerate(shown):
        errors = np.maximum(found.get(name, []), FLOOR)
        kind = (
            "3-D"
            if name.startswith("states")
            else "video"
            if name in ("float", "8bit", "foreign", "float descent")
            else "baseline"
        )
        ax.plot(k + rng.uniform(-0.3, 0.3, len(errors)), errors, "o", color=COLOURS[kind], ms=3, alpha=0.5, mew=0)
        reported = paper.get(name, paper.get(name.split()[0]))
        if reported:
            ax.plot([k - 0.4, k + 0.4], [reported[1]] * 2, color="black", lw=2)
    ax.plot([], [], color="black", lw=2, label="paper")
    for kind, colour in COLOURS.items():
        ax.plot([], [], "o", color=colour, ms=4, mew=0, label=kind)
    ax.set(yscale="log", ylabel="relative error of the mass", xticks=range(len(shown)))
    ax.set_xticklabels([COLUMNS[name] for name in shown], fontsize=8)
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _relative(records: Sequence[Mapping]) -> np.ndarray:
    return np.array([abs(r["values"][name] / r["truth"][name] - 1) for r in records for name in r["values"]])


def _effort(records: Sequence[Mapping]) -> Figure:
    figure = Figure(figsize=(9.2, 3.4), layout="constrained")
    steps, rollouts = figure.subplots(1, 2, sharey=True)
    for sight, label, colour in (
        ("float", "video, least squares", COLOURS["video"]),
        ("states", "3-D, least squares", COLOURS["3-D"]),
    ):
        courses = [np.array(r["course"]) for r in records if r["sight"] == sight]
        for ax, column in ((steps, 0), (rollouts, 1)):
            last = max((c[-1, column] for c in courses), default=1)
            grid = np.geomspace(1, AFTER * last, 120)
            _band(ax, grid, [_held(c[:, column], c[:, 2], grid) for c in courses], colour, label, "-")
    for sight, label, colour in (
        ("float descent", "video, gradient descent, one start", COLOURS["video"]),
        ("states descent", "3-D, gradient descent, one start", COLOURS["3-D"]),
    ):
        courses = [np.array(r["course"]) for r in records if r["sight"] == sight]
        if courses:
            count = np.arange(1, len(courses[0]) + 1)
            _band(steps, count, courses, colour, label, "--")
            _band(rollouts, 2 * count, courses, colour, label, "--")  # one forward and one backward
    steps.set(xscale="log", yscale="log", xlabel="iterations", ylabel="relative error of the mass")
    rollouts.set(xscale="log", xlabel="rollouts (of descent: forward and backward)")
    rollouts.legend(fontsize=8)
    return figure


def _held(at: np.ndarray, errors: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The error of the last entry up to each place of the grid; NaN before the first."""
    place = np.searchsorted(at, grid, "right") - 1
    return np.where(place >= 0, np.maximum(errors[place.clip(0)], FLOOR), np.nan)


def _band(ax, grid: np.ndarray, courses: Sequence[np.ndarray], colour: str, label: str, line: str) -> None:
    if not len(courses):
        return
    seen = np.sum(np.isfinite(courses), 0) * 2 > len(courses)
    low, middle, high = np.nanquantile(np.array(courses)[:, seen], (0.25, 0.5, 0.75), 0)
    ax.plot(grid[seen], middle, line, color=colour, label=label)
    ax.fill_between(grid[seen], low, high, color=colour, alpha=0.15, lw=0)


def bars(records: Sequence[Mapping]) -> Figure:
    """Histogram of error over error bar, smooth and kinked likelihoods apart."""
    figure = Figure(figsize=(8.6, 2.8), layout="constrained")
    ax, grid = figure.subplots(), np.linspace(-4, 4, 200)
    for nonsmooth, colour in ((False, COLOURS["video"]), (True, COLOURS["3-D"])):
        some = [r for r in records if r["sight"] == "8bit" and r["kinked"] == nonsmooth and r["status"] != "mismatch"]
        z = [z for r in some for z in r["z"].values()]
        if z:
            label = f"{'nonsmooth' if nonsmooth else 'smooth'} likelihood ({len(z)})"
            bins = np.linspace(-4, 4, 33).tolist()
            ax.hist(np.clip(z, -4, 4), bins=bins, density=True, histtype="step", color=colour, label=label, lw=1.6)
    ax.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), color="black", lw=1, label="normal")
    ax.set(xlabel="error / standard deviation", ylabel="density")
    ax.legend()
    return figure
