"""Figures of an explanation of gradients, from its `result.json`."""

import math
from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from gradsim.app.report.plots import ESTIMATE, FAINT, INK, SHADES, TRUTH, WIDTH

CAPTIONS = {
    "sensitivity": "How far, by the tangent, a change of 1 % (or of a hundredth of the natural scale, for what may be 0) moves "
    "the body. Grey: a body touches. Diamonds: the contact that a verdict names. Dashed: the body's radius; above it a "
    "tangent says nothing about 1 %.",
    "growth": "How many times an error of the start has grown, at most; without contact it would only drift. Dashed: where "
    "an error of a thousandth of the body is as large as the body.",
    "audit": "Difference between the tangent and secants of growing width, relative to the larger. A tangent holds up to "
    "where its line crosses one half (dashed); near 1 it is the slope of one tooth and not of the trend.",
}


def sensitivity(result: Mapping) -> Figure:
    """Effect of 1 % of each unknown over time, with contacts marked."""
    figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    axes = figure.subplots()
    times, size = np.array(result["times"]), result["size"]
    step = times[-1] / ((len(times) - 1) * result["substeps"])
    for _, first, last in result["contacts"]:
        axes.axvspan(first * step, (last + 1) * step, color=FAINT, alpha=0.45, lw=0)
    floor = 1e-9 * size
    for colour, (name, row) in zip(_shades(result), result["sensitivity"].items(), strict=True):
        moved = np.array([math.nan if s is None else 0.01 * s * size for s in row])
        if not np.nanmax(np.append(moved, 0)) > floor:
            continue
        axes.plot(times, np.where(moved > floor, moved, math.nan), "-", color=colour, lw=1.6, label=name)
        finding = result["gradients"][name]
        if finding["step"] is not None:
            at = finding["step"] * step
            near = np.interp(at, times, np.nan_to_num(moved))
            axes.plot(at, max(near, floor), "D", color=colour, ms=6, mec=INK, mew=0.8, zorder=4)
    axes.axhline(size, color=TRUTH, lw=1.1, ls=(0, (4, 3)))
    axes.set(xlabel="time [s]", ylabel="1 % moves the body by [m]", yscale="log", xlim=(0, times[-1]))
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return figure


def growth(result: Mapping) -> Figure:
    """σ(t), beside that of free flight."""
    found = result["lyapunov"]
    figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
    axes = figure.subplots()
    values = [math.nan if g is None else g for g in found["growth"]]
    axes.plot(result["times"], found["growth_without_contact"], "-", color=FAINT, lw=1.8, label="without contact")
    axes.plot(result["times"], values, "-", color=ESTIMATE, lw=1.8, label="this motion")
    axes.axhline(1 / found["error"], color=TRUTH, lw=1.1, ls=(0, (4, 3)))
    axes.set(xlabel="time [s]", ylabel="growth of an error", yscale="log", xlim=(0, result["times"][-1]))
    axes.legend(loc="upper left", fontsize=8)
    return figure


def audit(result: Mapping) -> Figure:
    """Tangents against secants."""
    found = result["audit"]
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    axes = figure.subplots()
    for colour, (name, row) in zip(_shades(result), found["difference"].items(), strict=True):
        values = np.array([math.nan if d is None else max(d, 1e-9) for d in row])
        if result["gradients"][name]["verdict"] != "zero":
            axes.plot(found["widths"], values, ".-", color=colour, label=name)
    axes.axhline(0.5, color=TRUTH, lw=1.1, ls=(0, (4, 3)))
    axes.set(
        xscale="log", yscale="log", xlabel="half width of the secant, relative", ylabel="|secant − tangent| / larger"
    )
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return figure


def _shades(result: Mapping):
    return SHADES(np.linspace(0, 1, max(2, len(result["gradients"]))))[: len(result["gradients"])]
