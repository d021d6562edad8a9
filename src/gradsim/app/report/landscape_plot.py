"""The picture of a landscape: the cost along one or two unknowns, for pixels and for the far-seeing residuals."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from gradsim.app.report.plots import ESTIMATE, FAINT, INK, SHADES, TRUTH, WIDTH
from gradsim.identification.landscape import Axis, Landscape

TITLES = {"pixels": "Pixels", "cdf": "Row and column CDF"}
RANGE = 1e10  # the scale shows so many below the largest cost: float frames have none at the truth


def draw(found: Landscape, marks: Mapping[str, Sequence[Mapping[str, float]]]) -> Figure:
    """Both costs, with marks.

    Args:
        found: The landscape.
        marks: Points by name of the unknown, under "truth", "estimate", "starts", "ends" (of the starts, in their
            order; empty where one was dropped) and "path" (of the best start, in order); each may be empty.
    """
    return _plane(found, marks) if len(found.axes) == 2 else _line(found, marks)


def _line(found: Landscape, marks: Mapping) -> Figure:
    figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True)
    (axis,) = found.axes
    for axes, (kind, title) in zip(panels, TITLES.items(), strict=True):
        cost = _shown(getattr(found, kind))
        axes.plot(axis.values, cost, color=INK, lw=1.4)
        for k, point in enumerate(_of(marks, "truth", axis)):
            axes.axvline(point, color=TRUTH, lw=1.6, ls=(0, (4, 3)), label="truth" if not k else None)
        for k, point in enumerate(_of(marks, "estimate", axis)):
            axes.axvline(point, color=ESTIMATE, lw=1.2, label="estimate" if not k else None)
        starts = _of(marks, "starts", axis)
        axes.plot(starts, _at(axis.values, cost, starts), "x", color=INK, ms=5, label="starts" if starts else None)
        path = _of(marks, "path", axis)
        if path:
            line = {"color": ESTIMATE, "lw": 0.8, "ms": 3, "label": "path of the best"}
            axes.plot(path, _at(axis.values, cost, path), ".-", **line)
        axes.set(yscale="log", ylabel="Σ r²", xscale="log" if axis.logarithmic else "linear")
        axes.set_title(title)
    panels[-1].set_xlabel(_label(axis))
    _legend(figure, panels[0])
    return figure


def _plane(found: Landscape, marks: Mapping) -> Figure:
    figure = Figure(figsize=(WIDTH, 4.3), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    across, up = found.axes
    for axes, (kind, title) in zip(panels, TITLES.items(), strict=True):
        cost = _shown(getattr(found, kind))
        norm = LogNorm(np.nanmin(cost), np.nanmax(cost))
        axes.set_facecolor(FAINT)  # where rollouts diverge
        axes.pcolormesh(across.values, up.values, cost.T, norm=norm, cmap=SHADES, shading="nearest", rasterized=True)
        figure.colorbar(ScalarMappable(norm, SHADES), ax=axes, label="Σ r²", shrink=0.9, location="bottom")
        _journeys(axes, found.axes, marks)
        path = _both(marks, "path", found.axes)
        axes.plot(*path, ".-", color="white", lw=1.1, ms=4, label="path of the best" if len(path[0]) else None)
        truth, estimate = (_both(marks, kind, found.axes) for kind in ("truth", "estimate"))
        axes.plot(*truth, "D", color=TRUTH, ms=10, mfc="none", mew=2, label="truth" if truth[0] else None)
        axes.plot(*estimate, "o", color=ESTIMATE, mec="white", ms=6, label="estimate" if estimate[0] else None)
        scales = {"xscale": "log" if across.logarithmic else "linear", "yscale": "log" if up.logarithmic else "linear"}
        axes.set(xlabel=_label(across), xlim=across.values[[0, -1]], ylim=up.values[[0, -1]], **scales)
        axes.set_title(title)
    panels[0].set_ylabel(_label(up))
    _legend(figure, panels[0])
    return figure


def _journeys(axes, pair: Sequence[Axis], marks: Mapping) -> None:
    """Every start, with a line to where it ended."""
    first, second = (axis.name for axis in pair)
    shown = {"mfc": "none", "mec": "white", "ms": 5}
    for k, (start, end) in enumerate(zip(marks["starts"], marks["ends"], strict=True)):
        if end:
            axes.plot([start[first], end[first]], [start[second], end[second]], "-", color="white", lw=0.6, alpha=0.5)
        axes.plot(start[first], start[second], "s", label="starts" if not k else None, **shown)


def _of(marks: Mapping, kind: str, axis: Axis) -> list[float]:
    return [point[axis.name] for point in marks[kind] if axis.name in point]


def _both(marks: Mapping, kind: str, axes: Sequence[Axis]) -> tuple[list[float], list[float]]:
    points = [point for point in marks[kind] if all(axis.name in point for axis in axes)]
    first, second = ([point[axis.name] for point in points] for axis in axes)
    return first, second


def _shown(cost: np.ndarray) -> np.ndarray:
    """Costs that a logarithmic scale can show: nan where infinite, and not too far below the largest."""
    finite = np.where(np.isfinite(cost), cost, np.nan)
    return np.maximum(finite, max(np.nanmax(finite) / RANGE, 1e-300))


def _at(values: np.ndarray, cost: np.ndarray, where: Sequence[float]) -> np.ndarray:
    """Cost of the nearest grid point."""
    return np.array([cost[np.abs(values - x).argmin()] for x in where])


def _label(axis: Axis) -> str:
    return f"{axis.name} [{axis.unit}]" if axis.unit else axis.name


def _legend(figure: Figure, axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    found = dict(zip(labels, handles, strict=True))
    if found:
        ground = {"facecolor": FAINT, "edgecolor": "none", "frameon": True, "framealpha": 1.0}
        figure.legend(found.values(), found.keys(), loc="outside upper center", ncols=4, fontsize=8, **ground)
