"""Plots of `gradsim explain`, from its result.json."""

import math
from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from gradsim.app.report.plots import ESTIMATE, FAINT, INK, SHADES, TRUTH, WIDTH

CAPTIONS = {
    "sensitivity": "First-order displacement of the body for a change of 1 % (of a hundredth of the natural scale, for unknowns "
    "that may be 0). Gray: a body is in contact. Diamonds: the contact that causes a verdict. Dashed: the body's radius; "
    "above it the tangent does not describe a change of 1 %.",
    "growth": "Largest growth factor of an error in the initial state; without contact it only drifts. Dashed: an error of a "
    "thousandth of the body is as large as the body.",
    "audit": "Difference between the tangent and secants of growing width, relative to the larger. A tangent holds up to the "
    "width where its line crosses one half (dashed); near 1 it is a local slope that differs from the trend.",
}


def sensitivity(result: Mapping) -> Figure:
    """Displacement for 1 % of each unknown over time, with contacts marked."""
    figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    axes = figure.subplots()
    times, size = np.array(result["times"]), result["size"]
    step = times[-1] / ((len(times) - 1) * result["substeps"])
    for _, first, last in result["contacts"]:
        axes.axvspan(first * step, (last + 1) * step, color=FAINT, alpha=0.45, lw=0)
    floor = 1e-9 * size
    for color, (name, row) in zip(_shades(result), result["sensitivity"].items(), strict=True):
        displacement = np.array([math.nan if s is None else 0.01 * s * size for s in row])
        if not np.nanmax(np.append(displacement, 0)) > floor:
            continue
        axes.plot(times, np.where(displacement > floor, displacement, math.nan), "-", color=color, lw=1.6, label=name)
        finding = result["gradients"][name]
        if finding["step"] is not None:
            at = finding["step"] * step
            near = np.interp(at, times, np.nan_to_num(displacement))
            axes.plot(at, max(near, floor), "D", color=color, ms=6, mec=INK, mew=0.8, zorder=4)
    axes.axhline(size, color=TRUTH, lw=1.1, ls=(0, (4, 3)))
    axes.set(xlabel="time [s]", ylabel="displacement for 1 % [m]", yscale="log", xlim=(0, times[-1]))
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return figure


def growth(result: Mapping) -> Figure:
    """Growth of an error σ(t), with and without contact."""
    lyapunov = result["lyapunov"]
    figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
    axes = figure.subplots()
    values = [math.nan if g is None else g for g in lyapunov["growth"]]
    axes.plot(result["times"], lyapunov["growth_without_contact"], "-", color=FAINT, lw=1.8, label="without contact")
    axes.plot(result["times"], values, "-", color=ESTIMATE, lw=1.8, label="with contact")
    axes.axhline(1 / lyapunov["error"], color=TRUTH, lw=1.1, ls=(0, (4, 3)))
    axes.set(xlabel="time [s]", ylabel="growth of an error", yscale="log", xlim=(0, result["times"][-1]))
    axes.legend(loc="upper left", fontsize=8)
    return figure


def audit(result: Mapping) -> Figure:
    """Difference between tangents and secants, over the width of the secant."""
    audit_result = result["audit"]
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    axes = figure.subplots()
    for color, (name, row) in zip(_shades(result), audit_result["difference"].items(), strict=True):
        values = np.array([math.nan if d is None else max(d, 1e-9) for d in row])
        if result["gradients"][name]["verdict"] != "zero":
            axes.plot(audit_result["widths"], values, ".-", color=color, label=name)
    axes.axhline(0.5, color=TRUTH, lw=1.1, ls=(0, (4, 3)))
    axes.set(
        xscale="log", yscale="log", xlabel="half width of the secant, relative", ylabel="|secant − tangent| / larger"
    )
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return figure


def _shades(result: Mapping):
    return SHADES(np.linspace(0, 1, max(2, len(result["gradients"]))))[: len(result["gradients"])]
