"""Plot of a cost landscape along one or two unknowns, for pixel and CDF residuals."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from gradsim.app.report.plots import ESTIMATE, FAINT, INK, SHADES, TRUTH, WIDTH
from gradsim.identification.landscape import Axis, Landscape

TITLES = {"pixels": "Pixels", "cdf": "Row and column CDF"}
RANGE = 1e10  # largest over smallest cost shown: the cost of float frames at the truth is 0


def draw(grid: Landscape, marks: Mapping[str, Sequence[Mapping[str, float]]]) -> Figure:
    """Plot both costs, with marks.

    Args:
        grid: The landscape.
        marks: Points by name of the unknown, under "truth", "estimate", "starts", "ends" (of the starts, in the same
            order; empty where one was dropped) and "path" (of the best start); each may be empty.
    """
    return _plane(grid, marks) if len(grid.axes) == 2 else _line(grid, marks)


def _line(grid: Landscape, marks: Mapping) -> Figure:
    figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True)
    (axis,) = grid.axes
    for axes, (kind, title) in zip(panels, TITLES.items(), strict=True):
        cost = _log_values(getattr(grid, kind))
        axes.plot(axis.values, cost, color=INK, lw=1.4)
        for k, point in enumerate(_values(marks, "truth", axis)):
            axes.axvline(point, color=TRUTH, lw=1.6, ls=(0, (4, 3)), label="truth" if not k else None)
        for k, point in enumerate(_values(marks, "estimate", axis)):
            axes.axvline(point, color=ESTIMATE, lw=1.2, label="estimate" if not k else None)
        starts = _values(marks, "starts", axis)
        axes.plot(starts, _nearest(axis.values, cost, starts), "x", color=INK, ms=5, label="starts" if starts else None)
        path = _values(marks, "path", axis)
        if path:
            line = {"color": ESTIMATE, "lw": 0.8, "ms": 3, "label": "path of the best start"}
            axes.plot(path, _nearest(axis.values, cost, path), ".-", **line)
        axes.set(yscale="log", ylabel="Σ r²", xscale="log" if axis.logarithmic else "linear")
        axes.set_title(title)
    panels[-1].set_xlabel(_label(axis))
    _legend(figure, panels[0])
    return figure


def _plane(grid: Landscape, marks: Mapping) -> Figure:
    figure = Figure(figsize=(WIDTH, 4.3), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    across, up = grid.axes
    for axes, (kind, title) in zip(panels, TITLES.items(), strict=True):
        cost = _log_values(getattr(grid, kind))
        norm = LogNorm(np.nanmin(cost), np.nanmax(cost))
        axes.set_facecolor(FAINT)  # where rollouts diverge
        axes.pcolormesh(across.values, up.values, cost.T, norm=norm, cmap=SHADES, shading="nearest", rasterized=True)
        figure.colorbar(ScalarMappable(norm, SHADES), ax=axes, label="Σ r²", shrink=0.9, location="bottom")
        _plot_starts(axes, grid.axes, marks)
        path = _points(marks, "path", grid.axes)
        axes.plot(*path, ".-", color="white", lw=1.1, ms=4, label="path of the best start" if len(path[0]) else None)
        truth, estimate = (_points(marks, kind, grid.axes) for kind in ("truth", "estimate"))
        axes.plot(*truth, "D", color=TRUTH, ms=10, mfc="none", mew=2, label="truth" if truth[0] else None)
        axes.plot(*estimate, "o", color=ESTIMATE, mec="white", ms=6, label="estimate" if estimate[0] else None)
        scales = {"xscale": "log" if across.logarithmic else "linear", "yscale": "log" if up.logarithmic else "linear"}
        axes.set(xlabel=_label(across), xlim=across.values[[0, -1]], ylim=up.values[[0, -1]], **scales)
        axes.set_title(title)
    panels[0].set_ylabel(_label(up))
    _legend(figure, panels[0])
    return figure


def _plot_starts(axes, pair: Sequence[Axis], marks: Mapping) -> None:
    """Every start, with a line to its end."""
    first, second = (axis.name for axis in pair)
    style = {"mfc": "none", "mec": "white", "ms": 5}
    for k, (start, end) in enumerate(zip(marks["starts"], marks["ends"], strict=True)):
        if end:
            axes.plot([start[first], end[first]], [start[second], end[second]], "-", color="white", lw=0.6, alpha=0.5)
        axes.plot(start[first], start[second], "s", label="starts" if not k else None, **style)


def _values(marks: Mapping, kind: str, axis: Axis) -> list[float]:
    return [point[axis.name] for point in marks[kind] if axis.name in point]


def _points(marks: Mapping, kind: str, axes: Sequence[Axis]) -> tuple[list[float], list[float]]:
    points = [point for point in marks[kind] if all(axis.name in point for axis in axes)]
    first, second = ([point[axis.name] for point in points] for axis in axes)
    return first, second


def _log_values(cost: np.ndarray) -> np.ndarray:
    """Costs for a logarithmic scale: NaN where infinite, clipped to `RANGE` below the largest."""
    finite = np.where(np.isfinite(cost), cost, np.nan)
    return np.maximum(finite, max(np.nanmax(finite) / RANGE, 1e-300))


def _nearest(values: np.ndarray, cost: np.ndarray, points: Sequence[float]) -> np.ndarray:
    """Cost at the nearest grid points."""
    return np.array([cost[np.abs(values - x).argmin()] for x in points])


def _label(axis: Axis) -> str:
    return f"{axis.name} [{axis.unit}]" if axis.unit else axis.name


def _legend(figure: Figure, axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    entries = dict(zip(labels, handles, strict=True))
    if entries:
        ground = {"facecolor": FAINT, "edgecolor": "none", "frameon": True, "framealpha": 1.0}
        figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=4, fontsize=8, **ground)
