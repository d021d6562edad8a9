"""Figures that ask whether model and error bars are right: what a fit leaves, and χ² along weak directions."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from gradsim.app.plots import ESTIMATE, FAINT, INK, TRUTH, WIDTH

LEVEL = 3.84  # Δχ² at the ends of a 95 % interval
SURE = 5.0  # standard deviations of χ²/N that are shaded


def leftover(left: Mapping) -> Figure:
    """χ²/N of every frame, and how far the outline is off.

    Args:
        left: `leftover` of `result.json`.
    """
    chi2 = np.array([math.nan if x is None else x for x in left["chi2_per_n"]])
    counts, frames = np.array(left["counts"]), np.arange(len(chi2))
    shift = np.array([[math.nan if x is None else x for x in pair] for pair in left["shift"]]).reshape(-1, 2)
    figure = Figure(figsize=(WIDTH, 4.4 if len(shift) else 2.7), layout="constrained")
    rows = figure.subplots(2 if len(shift) else 1, 1, sharex=True, squeeze=False)[:, 0]
    told = counts > 0
    wide = SURE * np.sqrt(2 / np.maximum(counts, 1))
    rows[0].fill_between(frames[told], 1 - wide[told], 1 + wide[told], color=FAINT, alpha=0.4, lw=0, step="mid")
    rows[0].plot(frames, chi2, "o-", color=ESTIMATE, ms=3.5, lw=1.2)
    rows[0].set_ylabel("χ²/N of the frame")
    seen = chi2[np.isfinite(chi2)]
    if len(seen) and seen.max() > 10:
        rows[0].set_yscale("log")
        rows[0].set_ylim(bottom=min(0.3, max(1e-3, seen.min() / 2)))
    else:
        rows[0].set_ylim(0, max(2.0, 1.1 * seen.max(initial=0.0)))
    rows[0].set_title("Shaded: what noise makes of it (5 standard deviations)")
    if len(shift):
        rows[1].axhline(0, color=FAINT, lw=1)
        for values, colour, name in ((shift[:, 0], ESTIMATE, "to the right"), (shift[:, 1], INK, "down")):
            rows[1].plot(frames, values, ".-", color=colour, lw=1.2, label=name)
        rows[1].set_ylabel("outline is off [px]")
    for axes in rows:
        if left["contact"] is not None:
            axes.axvline(left["contact"] - 0.5, color=TRUTH, lw=1.2, ls=(0, (4, 3)), label="first contact")
        if left["explained"] and left["explained"] < len(frames):
            axes.axvline(left["explained"] - 0.5, color=INK, lw=1.2, ls=":", label="explained alone until here")
    rows[-1].set_xlabel("frame")
    if rows[-1].get_legend_handles_labels()[0]:
        figure.legend(*rows[-1].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return figure


def profiles(found: Sequence[Mapping]) -> Figure:
    """Δχ² along each direction, beside the parabola of the error bars.

    Args:
        found: `profiles` of `result.json`.
    """
    columns = min(2, len(found))
    rows = math.ceil(len(found) / columns)
    figure = Figure(figsize=(WIDTH, 3.0 * rows + 0.3), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, profile in zip(grid, found, strict=False):
        at, delta = np.array(profile["at"]), np.array(profile["delta"])
        low, high = profile["interval95"]
        if low is not None and high is not None:
            axes.axvspan(low, high, color=FAINT, alpha=0.35, lw=0)
        axes.axhline(LEVEL, color=INK, lw=0.8, ls=":")
        axes.plot(at, profile["parabola"], "--", color=TRUTH, lw=1.3, label="parabola of the error bar")
        axes.plot(at, delta, "o-", color=ESTIMATE, ms=3.5, lw=1.3, label="profile")
        axes.axvline(profile["estimate"], color=FAINT, lw=1, zorder=0)
        axes.set(ylim=(-0.4, 12), ylabel="Δχ²")
        axes.set_xlabel(f"{profile['name']} [{profile['unit']}]" if profile["unit"] else profile["name"])
        axes.set_title("A parabola" if profile["parabolic"] else "Not a parabola")
        axes.locator_params(axis="x", nbins=5)
        axes.ticklabel_format(axis="x", useOffset=False)
        inside = at[delta < 20]
        if len(inside) > 1:
            axes.set_xlim(inside.min(), inside.max())
    for axes in grid[len(found) :]:
        axes.set_axis_off()
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)
    return figure
