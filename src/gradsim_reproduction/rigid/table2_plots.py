"""Plots of Table 2: errors of every unknown and object next to the paper's, effort, and error bars."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsim_reproduction.plotting import BLUE, ERROR_FLOOR, GREEN, ORANGE, PURPLE, new_figure, write_figures
from gradsim_reproduction.rigid.records import errors_of, worst
from gradsim_reproduction.rigid.table1_plots import error_bar_figure

MODES = {
    "states": ("3-D supervision", ORANGE, "s"),
    "float": ("video, float frames", BLUE, "o"),
    "8bit": ("video, 8 bits and noise", PURPLE, "^"),
    "foreign": ("another renderer, finer steps", GREEN, "D"),
}

SOLVED = 1e-6  # largest relative error of a scene that is solved


def draw(
    out: Path,
    records: Sequence[Mapping],
    rows: Mapping[str, Sequence[Mapping]],
    paper: Sequence[float],
    keys: Sequence[str],
) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    figures = {
        "errors": (lambda: _errors(records, rows, paper, keys), "Errors of five unknowns",
                   "One mark per object; hollow where the scene is not identifiable. The bar is the paper's ∇Sim."),
        "effort": (lambda: _effort(records), "Largest error, and effort",
                   "Share of the scenes below an error, and CPU time of a fit."),
    }  # fmt: skip
    return write_figures(out, figures | error_bar_figure(records))


def _errors(
    records: Sequence[Mapping], rows: Mapping[str, Sequence[Mapping]], paper: Sequence[float], keys: Sequence[str]
) -> Figure:
    figure, rng = new_figure(9.2, 4.0), np.random.default_rng(0)
    ax = figure.subplots()
    modes = [mode for mode in MODES if any(r["sight"] == mode for r in records)]
    width = 0.8 / (len(modes) + len(rows))
    for k, key in enumerate(keys):
        left = k - 0.4 + width / 2
        for j, (name, row) in enumerate(rows.items()):
            errors = [
                abs(r["values"][n] / r["truth"][n] - 1) for r in row for n in r["truth"] if n.split(".")[1] == key
            ]
            x = left + width * j + rng.uniform(-0.4, 0.4, len(errors)) * width
            grey = str(0.35 + 0.4 * j / max(1, len(rows)))
            ax.plot(
                x, np.maximum(errors, ERROR_FLOOR), "x", color=grey, ms=3, alpha=0.5, label=name if k == 0 else None
            )
        for j, mode in enumerate(modes, len(rows)):
            label, colour, marker = MODES[mode]
            for known in (True, False):
                part = [r for r in records if r["sight"] == mode and r["identifiable"] == known]
                errors = np.maximum(errors_of(part, key), ERROR_FLOOR)
                x = left + width * j + rng.uniform(-0.4, 0.4, len(errors)) * width
                face = colour if known else "none"
                named = label if k == 0 and known else None
                ax.plot(x, errors, marker, color=colour, mfc=face, ms=3, alpha=0.6, mew=0.5, ls="", label=named)
        ax.plot([k - 0.42, k + 0.42], [paper[k]] * 2, color="black", lw=2)
    ax.plot([], [], color="black", lw=2, label="∇Sim, paper")
    ax.set(yscale="log", ylabel="relative error", xticks=range(len(keys)))
    ax.set_xticklabels(["mass", "$k_d$", "$k_e$", "$k_f$", "μ"])
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, markerscale=2)
    return figure


def _effort(records: Sequence[Mapping]) -> Figure:
    figure = new_figure(9.2, 3.0)
    error, seconds = figure.subplots(1, 2)
    for mode, (label, colour, _) in MODES.items():
        part = [r for r in records if r["sight"] == mode]
        for ax, values in (
            (error, [max(ERROR_FLOOR, worst(r)) for r in part if r["identifiable"]]),
            (seconds, [r["cpu_seconds"] for r in part]),
        ):
            if values:
                ax.step(
                    np.sort(values),
                    np.arange(1, len(values) + 1) / len(values),
                    where="post",
                    color=colour,
                    label=label,
                )
    error.axvline(SOLVED, color="black", lw=0.8, ls=":")
    error.set(xscale="log", xlabel="largest relative error of an identifiable scene", ylabel="share of scenes")
    seconds.set(xscale="log", xlabel="CPU time of a fit [s]")
    error.legend(fontsize=8, loc="lower right")
    return figure
