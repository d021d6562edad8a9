"""Convergence plots of `gradsim control`: every iteration, and the best one so far.

The upper axis counts rollouts: a line search or a population takes several of them per iteration.
"""

import math
from collections.abc import Sequence
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gradsim.app.report.plots import ESTIMATE, FAINT, INK, SHADES, TRUTH, WIDTH
from gradsim.control.training.history import History

MAX_LABELS = 8  # entries of a legend
CAPTION = (
    "Raw: each iteration. Best so far: the iteration with the lowest loss up to then. Losses of different colors are "
    "different losses and cannot be compared."
)


def convergence(history: History, bound: float | None = None) -> Figure:
    """Loss, gradient norm and, where the truth is known, position error over iterations and rollouts.

    Args:
        history: At least one iteration.
        bound: Position error at which the goal counts as reached [m²], drawn as a line.
    """
    has_error = any(math.isfinite(error) for error in history.raw("position_error"))
    figure = Figure(figsize=(WIDTH, 5.6 if has_error else 3.1), layout="constrained")
    grid = figure.subplots(2 if has_error else 1, 2, squeeze=False)
    (loss, gradient), lower = grid[0], grid[1:]
    _loss(loss, history)
    gradient.set_title("Norm of the gradient")
    if any(math.isfinite(norm) for norm in history.raw("gradient_norm")):
        _series(gradient, history.raw("gradient_norm"), INK)
    else:
        gradient.text(0.5, 0.5, "not used by this method", ha="center", transform=gradient.transAxes)
        gradient.set_yticks([])
    for raw, best in lower:
        _series(raw, history.raw("position_error"), ESTIMATE)
        raw.set_title("Position error, raw [m²]")
        best.step(range(len(history)), history.at_best("position_error"), where="post", color=ESTIMATE, lw=1.6)
        _logarithmic(best, history.at_best("position_error"))
        best.set_title("Position error, best so far by the loss [m²]")
        best.sharey(raw)
        for axes in (raw, best) if bound is not None else ():
            axes.axhline(bound, color=TRUTH, lw=1.2, ls=(0, (4, 3)))
            axes.text(0.99, bound, "goal", color=TRUTH, ha="right", va="bottom", transform=axes.get_yaxis_transform())
    for axes in grid.flat:
        axes.set_xlim(-0.5, max(1, len(history)) - 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in grid[-1]:
        axes.set_xlabel("iteration")
    if history.total()[-1] != len(history):
        for axes in grid[0]:
            _count_rollouts(axes, history.total())
    return figure


def _loss(axes: Axes, history: History) -> None:
    """Raw loss, one color for each kind."""
    entries = list(enumerate(history.iterations))
    runs = [list(run) for _, run in groupby(entries, key=lambda pair: pair[1].kind)]
    names = list(dict.fromkeys(entry.stage for entry in history.iterations))
    for run in runs:
        stage = run[0][1].stage
        color = SHADES(names.index(stage) / max(1, len(names) - 1)) if len(names) > 1 else ESTIMATE
        _series(axes, [entry.loss for _, entry in run], color, run[0][0], stage)
    _logarithmic(axes, history.raw("loss"))
    axes.set_title("Loss, raw")
    if 1 < len(names) <= MAX_LABELS:
        handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        axes.legend(handles.values(), handles.keys(), fontsize=8, loc="best")


def _series(axes: Axes, values: Sequence[float], color, first: int = 0, label: str = "") -> None:
    axes.plot(range(first, first + len(values)), values, "o-", color=color, ms=3, lw=1.2, label=label)
    _logarithmic(axes, values)


def _logarithmic(axes: Axes, values: Sequence[float]) -> None:
    numbers = [x for x in values if math.isfinite(x)]
    if numbers and min(numbers) > 0 and max(numbers) > 10 * min(numbers):
        axes.set_yscale("log")


def _count_rollouts(axes: Axes, totals: Sequence[float]) -> None:
    """Cumulative rollouts on an upper axis."""
    above = axes.twiny()
    above.set_xlim(axes.get_xlim())
    ticks = sorted({int(t) for t in axes.get_xticks() if 0 <= t < len(totals)})
    above.set_xticks(ticks, [f"{totals[t]:g}" for t in ticks])
    above.set_xlabel("rollouts")
    above.spines["top"].set(visible=True, color=FAINT)
