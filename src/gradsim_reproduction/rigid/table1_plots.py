"""Plots of Table 1: errors of every object next to the paper's, how fast they fall, and error bars."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsim.errors import Status
from gradsim_reproduction.plotting import (
    BLUE,
    ERROR_FLOOR,
    GREY,
    ORANGE,
    Draw,
    dots,
    new_figure,
    write_figures,
    z_histogram,
)

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
COLORS = {"video": BLUE, "3-D": ORANGE, "baseline": GREY}
AFTER = 4  # times the effort of the longest fit: errors stay where they ended


def draw(out: Path, records: Sequence[Mapping], rows: Mapping[str, Sequence[Mapping]], paper: Mapping) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    figures = {
        "errors": (lambda: _errors(records, rows, paper), "Errors of the mass",
                   "One mark per object; the bar is reported in the paper."),
        "effort": (lambda: _effort(records), "Error over effort",
                   "Median over objects; the band holds half of them. Rollouts count forward sensitivities of all starts."),
    }  # fmt: skip
    return write_figures(out, figures | error_bar_figure(records))


def error_bar_figure(records: Sequence[Mapping]) -> dict[str, tuple[Draw, str, str]]:
    """Histogram of errors over error bars of the 8-bit fits; nothing where there are none."""
    noisy = [r for r in records if r["sight"] == "8bit" and r["status"] != Status.MISMATCH]
    draw = lambda: z_histogram(z_by_smoothness(noisy))
    if not any(r["sight"] == "8bit" for r in records):
        return {}
    return {"error_bars": (draw, "Errors over error bars, 8-bit frames", "Against the normal distribution.")}


def z_by_smoothness(records: Sequence[Mapping]) -> list[tuple[str, str, list[float]]]:
    """Label, color and z of smooth and of nonsmooth likelihoods."""
    groups = []
    for nonsmooth, label, color in ((False, "smooth", BLUE), (True, "nonsmooth", ORANGE)):
        z = [z for r in records if r["kinked"] == nonsmooth for z in r["z"].values()]
        groups.append((f"{label} likelihood ({len(z)})", color, z))
    return groups


def _errors(records: Sequence[Mapping], rows: Mapping[str, Sequence[Mapping]], paper: Mapping) -> Figure:
    errors = {name: _relative(row) for name, row in rows.items()}
    errors |= {mode: _relative([r for r in records if r["sight"] == mode]) for mode in COLUMNS if mode not in rows}
    columns = [name for name in COLUMNS if len(list(errors.get(name, []))) or name.split()[0] in paper]
    figure, rng = new_figure(9.2, 4.0), np.random.default_rng(0)
    ax = figure.subplots()
    for k, name in enumerate(columns):
        from_video = name.split()[0] in ("float", "8bit", "foreign")
        kind = "3-D" if name.startswith("states") else "video" if from_video else "baseline"
        dots(ax, k, list(errors.get(name, [])), rng, 0.3, COLORS[kind], ms=3, alpha=0.5)
        reported = paper.get(name, paper.get(name.split()[0]))
        if reported:
            ax.plot([k - 0.4, k + 0.4], [reported[1]] * 2, color="black", lw=2)
    ax.plot([], [], color="black", lw=2, label="paper")
    for kind, colour in COLORS.items():
        ax.plot([], [], "o", color=colour, ms=4, mew=0, label=kind)
    ax.set(yscale="log", ylabel="relative error of the mass", xticks=range(len(columns)))
    ax.set_xticklabels([COLUMNS[name] for name in columns], fontsize=8)
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _relative(records: Sequence[Mapping]) -> np.ndarray:
    return np.array([abs(r["values"][name] / r["truth"][name] - 1) for r in records for name in r["values"]])


def _effort(records: Sequence[Mapping]) -> Figure:
    figure = new_figure(9.2, 3.4)
    steps, rollouts = figure.subplots(1, 2, sharey=True)
    for mode, label, colour in (
        ("float", "video, least squares", COLORS["video"]),
        ("states", "3-D, least squares", COLORS["3-D"]),
    ):
        courses = [np.array(r["course"]) for r in records if r["sight"] == mode]
        for ax, column in ((steps, 0), (rollouts, 1)):
            last = max((c[-1, column] for c in courses), default=1)
            grid = np.geomspace(1, AFTER * last, 120)
            _band(ax, grid, [_last_error(c[:, column], c[:, 2], grid) for c in courses], colour, label, "-")
    for mode, label, colour in (
        ("float descent", "video, gradient descent, one start", COLORS["video"]),
        ("states descent", "3-D, gradient descent, one start", COLORS["3-D"]),
    ):
        courses = [np.array(r["course"]) for r in records if r["sight"] == mode]
        if courses:
            count = np.arange(1, len(courses[0]) + 1)
            _band(steps, count, courses, colour, label, "--")
            _band(rollouts, 2 * count, courses, colour, label, "--")  # one forward and one backward
    steps.set(xscale="log", yscale="log", xlabel="iterations", ylabel="relative error of the mass")
    rollouts.set(xscale="log", xlabel="rollouts (of descent: forward and backward)")
    rollouts.legend(fontsize=8)
    return figure


def _last_error(at: np.ndarray, errors: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The error of the last entry up to each place of the grid; NaN before the first."""
    place = np.searchsorted(at, grid, "right") - 1
    return np.where(place >= 0, np.maximum(errors[place.clip(0)], ERROR_FLOOR), np.nan)


def _band(ax, grid: np.ndarray, courses: Sequence[np.ndarray], colour: str, label: str, line: str) -> None:
    if not len(courses):
        return
    common = np.sum(np.isfinite(courses), 0) * 2 > len(courses)
    low, middle, high = np.nanquantile(np.array(courses)[:, common], (0.25, 0.5, 0.75), 0)
    ax.plot(grid[common], middle, line, color=colour, label=label)
    ax.fill_between(grid[common], low, high, color=colour, alpha=0.15, lw=0)
