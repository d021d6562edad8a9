"""Plots of a plan: gains of changes, and a map of standard deviations over two choices."""

from collections.abc import Mapping

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from gradsim.app.report.plots import ESTIMATE, FAINT, INK, SHADES, TRUTH, WIDTH

ROW = 0.34  # height of a bar [in]
LONGEST = 78  # characters of a label


def gains(plan: Mapping) -> Figure:
    """Bars of the gains of single changes and of the best designs."""
    rows = [(row, ESTIMATE) for row in plan["single_changes"]] + [(row, TRUTH) for row in plan["designs"][:5]]
    rows = [(row, color) for row, color in rows if row["gain"] is not None and row["gain"] > 0]
    figure = Figure(figsize=(WIDTH, 1.0 + 2 * ROW * len(rows)), layout="constrained")
    axes = figure.subplots()
    for k, (row, color) in enumerate(rows):
        axes.barh(-k, row["gain"] - 1, left=1.0, color=color, height=0.35)
        label = row["words"].rpartition(":")[0] if row["words"].count(":") else row["words"]
        label = label if len(label) < LONGEST else f"{label[: LONGEST - 1]}…"
        axes.text(
            0.0,
            -k + 0.3,
            f"{label}: {row['gain']:.3g} ×",
            fontsize=7.5,
            va="center",
            transform=axes.get_yaxis_transform(),
            color=INK,
        )
    low, high = (end([1.0, *(row["gain"] for row, _ in rows)]) for end in (min, max))
    axes.set(xscale="log", yticks=[], xlim=(0.97 * low, max(1.1, 1.03 * high)), ylim=(-len(rows) + 0.4, 0.7))
    axes.set_xlabel("present standard deviation over that with the change")
    for formatter in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_major_locator(MaxNLocator(6) if high < 10 else LogLocator())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.spines["left"].set_visible(False)
    return figure


def plane(plan: Mapping, present: Mapping, best: Mapping) -> Figure:
    """Maps of the standard deviation of each wanted number."""
    content = plan["map"]
    names, (x, y) = list(content["sd"]), content["values"]
    figure = Figure(figsize=(WIDTH, 3.9), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(names), sharey=True))
    for axes, name in zip(panels, names, strict=True):
        sd = 100 * np.array([[np.nan if v is None else v for v in row] for row in content["sd"][name]], float)
        sd = np.where(np.isfinite(sd), sd, np.nan)
        axes.set_facecolor(FAINT)
        mesh = axes.pcolormesh(
            x, y, sd, norm=LogNorm(np.nanmin(sd), np.nanmax(sd) * 1.0001), cmap=SHADES, shading="nearest"
        )
        bar = figure.colorbar(mesh, ax=axes)
        bar.set_label("± %")
        bar.formatter = FuncFormatter(lambda x, _: f"{x:.2g}")
        bar.ax.yaxis.set_minor_formatter(bar.formatter)
        bar.update_ticks()
        for place, mark in ((present, "x"), (best, "o")):
            at = [place[k] for k in content["names"]]
            axes.plot(*at, mark, color="white", mec="white", mfc="none", ms=9, mew=2, clip_on=False)
        axes.set(xlabel=content["names"][0])
        axes.set_title(name)
    panels[0].set_ylabel(content["names"][1])
    return figure
