"""Plots of a fit's report: estimates, search, starts, residual diagnostics, profile likelihoods.

They are drawn for a light page; a dark page inverts them.
"""

import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis, Tick
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation, LogLocator
from matplotlib.transforms import Bbox, BboxBase

from gradsim.app.report.sections import Section, estimate, has_error
from gradsim.identification.uncertainty.intervals import Z95

WIDTH, NARROW = 8.6, 4.1  # [in] of a column of the page, and of one on a phone
EQUAL_LOSS = 1e-4  # relative difference of losses below which they count as equal
DELTA_CHI2_95 = 3.84  # Δχ² at the ends of a 95 % interval
SHADED_STD = 5.0  # standard deviations of χ²/N that are shaded
DROPPED_AT = 0.18  # where the lines of dropped starts end, of the way from initial to final
INK, FAINT, ESTIMATE, TRUTH = "#1f2430", "#c9ced8", "#1d5fd0", "#d1660a"
SHADES = ListedColormap(mpl.colormaps["plasma"](np.linspace(0.03, 0.76, 256)))  # without the pale end
INKED = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor")
STYLE: dict[Any, Any] = dict.fromkeys(INKED, INK)
STYLE |= {"axes.spines.top": False, "axes.spines.right": False, "axes.titleweight": "bold", "axes.titlesize": 10}
STYLE |= {"font.sans-serif": ["DejaVu Sans"]}  # matplotlib brings it, and looks for each other one for every text
STYLE |= {"font.size": 9, "axes.titlelocation": "left", "axes.titley": 1.0, "legend.frameon": False, "axes.grid": False}
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
COMPRESSION = 3  # of PNGs: half the time of level 6, and some percent larger
TICK_MARGIN = 1e-6  # relative, by which a tick may lie outside of a logarithmic axis
MARKER = {"fmt": "o", "color": ESTIMATE, "ms": 5, "capsize": 4, "elinewidth": 1.8, "capthick": 1.8}


def png(draw: Callable[[], Figure]) -> bytes:
    """PNG of a figure in the style of the page."""
    return _file(draw, WIDTH, "png", dpi=150, pil_kwargs={"compress_level": COMPRESSION})


def svg(draw: Callable[[], Figure], width: float = WIDTH) -> bytes:
    """SVG of a figure in the style of the page, the same bytes at each call.

    Args:
        draw: Makes the figure, as wide as `column_width` says.
        width: Of the column [in]: `WIDTH` or `NARROW`.
    """
    return _file(draw, width, "svg", metadata={"Date": None})


def _file(draw: Callable[[], Figure], width: float, kind: str, **options: Any) -> bytes:
    size: dict[Any, Any] = {"figure.figsize": (width, 3.0), "svg.hashsalt": "gradsim"}
    with mpl.rc_context(STYLE | size):
        figure, buffer = draw(), io.BytesIO()
        _draw_powers_plainly(figure)
        if layout := figure.get_layout_engine():
            with _measured_once(figure):
                layout.execute(figure)
            figure.set_layout_engine(None)  # with one, `savefig` draws twice, and lays out again what it wrote before
        with _measured_once(figure):
            figure.savefig(buffer, format=kind, **options)
    return buffer.getvalue()


class _PlainPowers(LogFormatterSciNotation):
    """Powers of ten in characters of the font: matplotlib's parser of formulas takes ten times as long as text."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        formula = super().__call__(x, pos).removeprefix(r"$\mathdefault{").removesuffix("}$").replace(r"\times", "×")
        return re.sub(r"\^\{(-?\d+)\}", lambda power: power[1].translate(RAISED), formula)


class _VisiblePowers(LogLocator):
    """Ticks in view only: matplotlib makes those of a decade on both sides, too, and measures their labels."""

    def __call__(self) -> np.ndarray:
        ticks = np.asarray(super().__call__())
        low, high = sorted(self.axis.get_view_interval())  # pyright: ignore[reportOptionalMemberAccess] -- a tick has an axis
        return ticks[(ticks > low * (1 - TICK_MARGIN)) & (ticks < high * (1 + TICK_MARGIN))]


def _draw_powers_plainly(figure: Figure) -> None:
    """Exchange the locators and formatters that matplotlib chose for axes of powers of ten."""
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        if getattr(axis.get_transform(), "base", None) != 10 or axis.get_scale() != "log":
            continue
        for ticker, part in ((axis.major, "major"), (axis.minor, "minor")):
            if type(ticker.formatter) is LogFormatterSciNotation and type(ticker.locator) is LogLocator:
                plain = _PlainPowers(labelOnlyBase=ticker.formatter.labelOnlyBase)
                visible = _VisiblePowers(subs=(1.0,) if part == "major" else "auto")
                axis.set(**{f"{part}_formatter": plain, f"{part}_locator": visible})


@contextmanager
def _measured_once(figure: Figure) -> Iterator[None]:
    """Keeps what a layout and a drawing of a figure measure again and again: nearly all of their time.

    These are the room about each panel for its labels, and the ticks of each axis, which are made alike.
    """
    measured = []
    for axes in figure.axes:
        measured.append((axes, "get_tightbbox", _with_its_margins(axes, axes.get_tightbbox)))
        for axis in (axes.xaxis, axes.yaxis):
            measured += [(axis, "_update_ticks", _with_its_ticks(axis)), (axis, "_copy_tick_props", _leave_as_made)]
    for artist, name, method in measured:
        vars(artist)[name] = method
    try:
        yield
    finally:
        for artist, name, _ in measured:
            del vars(artist)[name]


def _with_its_ticks(axis: Axis) -> Callable[[], list[Tick]]:
    """The ticks of an axis, made anew only where its limits or its size change."""
    make = axis._update_ticks  # pyright: ignore[reportAttributeAccessIssue] -- private, and none public takes its place
    made: dict[tuple[float, ...], list[Tick]] = {}

    def ticks() -> list[Tick]:
        key = (*axis.get_view_interval(), *axis.axes.bbox.extents)
        if key not in made:
            made.clear()  # there is one set of them, which `make` changes
            made[key] = make()
        return made[key]

    return ticks


def _leave_as_made(source: Tick, target: Tick) -> None:
    """A new tick gets the look of the first one of its axis; ours have it from the axis, which is all that matplotlib then copies."""


def _with_its_margins(axes: Axes, measure: Callable[..., BboxBase | None]) -> Callable[..., BboxBase | None]:
    """The box about a panel and its labels, from their margins at the first call."""
    margins: list[np.ndarray | None] = []

    def box(*arguments: Any, **options: Any) -> BboxBase | None:
        if not margins:
            tight = measure(*arguments, **options)
            margins.append(None if tight is None else np.subtract(tight.extents, axes.bbox.extents))
        return None if margins[0] is None else Bbox.from_extents(*np.add(axes.bbox.extents, margins[0]))

    return box


def column_width() -> float:
    """Width [in] of the column that a figure is drawn for, by `png` or `svg`."""
    return mpl.rcParams["figure.figsize"][0]


def is_narrow() -> bool:
    """True if a figure is drawn for a phone: panels go below one another."""
    return column_width() < (WIDTH + NARROW) / 2


def intervals(section: Section, initial: Mapping[str, Sequence[float | None]]) -> Figure:
    """Each unknown in its range: starts, estimate with 95 % interval, truth; and its error in standard deviations.

    Args:
        section: The fit.
        initial: Initial values of the starts by name; may be empty.
    """
    count = len(section.unknowns)
    height = 0.62 * count + 1.15
    figure = Figure(figsize=(column_width(), height), layout="constrained")
    if section.compared and is_narrow():
        figure.set_figheight(height + 0.3 * count + 1.2)
        ranges, scores = figure.subplots(2, 1, height_ratios=(0.62 * count + 0.7, 0.3 * count + 0.7))
        scores.set(yticks=range(count), yticklabels=list(section.unknowns), ylim=(count - 0.5, -0.5))
    elif section.compared:
        ranges, scores = figure.subplots(1, 2, width_ratios=(3, 1.25), sharey=True)
    else:
        ranges, scores = figure.subplots(), None
    names = list(section.unknowns)
    for row, (name, u) in enumerate(section.unknowns.items()):
        low, width = u["low"], u["high"] - u["low"]
        ranges.barh(row, 1, height=0.36, color=FAINT, alpha=0.45, zorder=1)
        starts = [(x - low) / width for x in initial.get(name, ()) if x is not None]
        ranges.plot(starts, [row] * len(starts), "|", color=INK, alpha=0.55, ms=9, label="start", zorder=2)
        if u["truth"] is not None:
            position = (u["truth"] - low) / width
            ranges.plot(position, row, "D", color=TRUTH, ms=9, mfc="none", mew=1.8, label="truth", zorder=4)
        if u["value"] is not None:
            _estimate(ranges, u, row)
        ranges.text(0, row - 0.27, f"{u['low']:g}", ha="left", va="bottom", fontsize=7.5, alpha=0.75)
        ranges.text(1, row - 0.27, f"{u['high']:g} {u['unit']}", ha="right", va="bottom", fontsize=7.5, alpha=0.75)
        ranges.text(0.5, row - 0.27, f"{estimate(u)} {u['unit']}", ha="center", va="bottom")
        numbers = (u["value"], u["truth"], u["std"] or None, *(u["interval95"] or (None, None)))
        if scores is not None and has_error(u) and None not in numbers:
            value, truth, std, first, last = (float(x) for x in numbers if x is not None)
            scores.errorbar(
                (value - truth) / std, row, xerr=[[(value - first) / std], [(last - value) / std]], **MARKER
            )
    ranges.set(yticks=range(count), yticklabels=names, xlim=(-0.02, 1.02), xticks=[], ylim=(count - 0.5, -0.75))
    ranges.set_title(
        "Estimate and starts in the range" if is_narrow() else "Estimate, 95 % interval and starts within the range"
    )
    ranges.spines[["left", "bottom"]].set_visible(False)
    ranges.tick_params(left=False)
    handles = dict(zip(*reversed(ranges.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=3, fontsize=8)
    if scores is not None:
        scores.axvspan(-Z95, Z95, color=FAINT, alpha=0.35, lw=0)
        scores.axvline(0, color=TRUTH, lw=1.4)
        reach = max(4.0, *(abs(x) + 2.3 for x in _scores(section)))
        scores.set(xlim=(-reach, reach), xlabel="(estimate − truth) / sd")
        scores.set_title("Error")
        scores.tick_params(left=False)
        scores.spines["left"].set_visible(False)
    return figure


def _estimate(axes, unknown: Mapping, row: int) -> None:
    low, width = unknown["low"], unknown["high"] - unknown["low"]
    if not has_error(unknown):
        axes.plot((unknown["value"] - low) / width, row, "o", color=ESTIMATE, ms=5, label="best so far", zorder=3)
        return
    ends = [x for x in (unknown["interval95"] or ()) if x is not None]
    left, right = ends if len(ends) == 2 else (-math.inf, math.inf)
    ends = np.clip((np.array([left, right]) - low) / width, 0, 1)
    place = (unknown["value"] - low) / width
    axes.errorbar(place, row, xerr=abs(ends - place)[:, None], label="estimate, 95 %", zorder=3, **MARKER)


def _scores(section: Section) -> list[float]:
    rows = [u for u in section.unknowns.values() if None not in (u["truth"], u["value"]) and u["std"]]
    return [(u["value"] - u["truth"]) / u["std"] for u in rows]


def search(stages: Sequence[Mapping], section: Section) -> Figure:
    """The best start over the iterations: cost per frame, and distance of each unknown to its final value.

    Args:
        stages: Entries of `history.json`: stage, frames, iteration, cost, values.
        section: The fit; its ranges scale the distances.
    """
    figure = Figure(figsize=(column_width(), 6.2 if is_narrow() else 3.1), layout="constrained")
    loss, values = figure.subplots(2, 1) if is_narrow() else figure.subplots(1, 2)
    steps = [s for s in stages if s["cost"] is not None]
    iterations = [s["iteration"] for s in steps]
    loss.plot(iterations, [s["cost"] / s["frames"] for s in steps], "-", color=FAINT, zorder=1)
    for kind, mark in zip(dict.fromkeys(s["stage"] for s in steps), "os^Dv", strict=False):
        points = [(s["iteration"], s["cost"] / s["frames"]) for s in steps if s["stage"] == kind]
        loss.plot(*zip(*points, strict=True), mark, color=ESTIMATE, ms=4.5, label=kind)
    loss.set(xlabel="iterations", ylabel="loss per frame")
    if _spans_decades([s["cost"] / s["frames"] for s in steps]):
        loss.set_yscale("log")
    loss.set_title("Loss per stage")
    loss.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.2), ncols=3, borderaxespad=0)
    colors = SHADES(np.linspace(0, 1, max(2, len(section.unknowns))))
    for color, (name, u) in zip(colors, section.unknowns.items(), strict=False):
        if u["value"] is None:
            continue
        distances = [
            abs(s["values"][name] - u["value"]) / (u["high"] - u["low"]) for s in steps if name in s.get("values", {})
        ]
        values.plot(iterations[: len(distances)], [x or math.nan for x in distances], ".-", color=color, label=name)
    values.set(yscale="log", xlabel="iterations", ylabel="fraction of the range")
    values.set_title("Distance to the final value")
    if values.lines:
        values.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.2), ncols=2, borderaxespad=0)
    return figure


def starts(population: Mapping, section: Section) -> Figure:
    """Initial and final value of every start, colored by its cost; lines of dropped starts end early.

    Args:
        population: `starts` of `history.json`: names, initial, final, cost; None where a start was dropped.
        section: The fit, with truth and units.
    """
    names = population["names"]
    columns = min(2 if is_narrow() else 4, len(names))
    rows = math.ceil(len(names) / columns)
    figure = Figure(figsize=(column_width(), 2.5 * rows + 0.25), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    costs = [c for c in population["cost"] if c is not None and c > 0]
    norm = _norm(costs) if costs and max(costs) > (1 + EQUAL_LOSS) * min(costs) else None  # equal losses: one color
    for k, (axes, name) in enumerate(zip(grid, names, strict=False)):
        _lines_of_starts(axes, k, population, norm)
        u = section.unknowns.get(name)
        if u is not None and u["truth"] is not None:
            axes.axhline(u["truth"], color=TRUTH, lw=1.1, ls=(0, (4, 3)), zorder=0)
        axes.set(xlim=(-0.05, 1.08), xticks=[0, 1], xticklabels=["initial", "final"])
        axes.set_title(f"{name} [{u['unit']}]" if u and u["unit"] else name, fontsize=8)
    for axes in grid[len(names) :]:
        axes.set_axis_off()
    if norm:
        figure.colorbar(ScalarMappable(norm, SHADES), ax=grid.tolist(), label="final loss", shrink=0.85, pad=0.01)
    return figure


def _lines_of_starts(axes: Axes, k: int, population: Mapping, norm: Normalize | None) -> None:
    """Lines from the initial to the final values of unknown `k`: few artists, whatever the number of starts."""
    begun = np.array([begin[k] for begin in population["initial"]], dtype=float)
    ended = np.array([math.nan if end[k] is None else end[k] for end in population["final"]], dtype=float)
    colors = np.array([SHADES(norm(cost)) if norm and cost else SHADES(0.0) for cost in population["cost"]])
    whole = np.isfinite(ended)
    for among, reach, ends, color in ((~whole, DROPPED_AT, begun, FAINT), (whole, 1, ended, colors[whole])):
        lines = np.stack([np.zeros_like(begun), begun, np.full_like(begun, reach), ends], 1)[among]
        alpha = None if color is FAINT else 0.85
        axes.add_collection(LineCollection(list(lines.reshape(-1, 2, 2)), colors=color, linewidths=1.2, alpha=alpha))
    axes.plot(np.full((~whole).sum(), DROPPED_AT), begun[~whole], "x", color=FAINT, ms=4)
    axes.scatter(np.ones(whole.sum()), ended[whole], s=3.5**2, c=colors[whole], zorder=2.1)


def residual_diagnostics(diagnostics: Mapping) -> Figure:
    """χ²/N of every frame, and displacement of the outline.

    Args:
        diagnostics: `residual_diagnostics` of result.json.
    """
    chi2 = np.array([math.nan if x is None else x for x in diagnostics["chi2_per_n"]])
    counts, frames = np.array(diagnostics["counts"]), np.arange(len(chi2))
    shift = np.array([[math.nan if x is None else x for x in pair] for pair in diagnostics["shift"]]).reshape(-1, 2)
    figure = Figure(figsize=(column_width(), 4.4 if len(shift) else 2.7), layout="constrained")
    rows = figure.subplots(2 if len(shift) else 1, 1, sharex=True, squeeze=False)[:, 0]
    has_residuals = counts > 0
    width = SHADED_STD * np.sqrt(2 / np.maximum(counts, 1))
    rows[0].fill_between(
        frames[has_residuals],
        1 - width[has_residuals],
        1 + width[has_residuals],
        color=FAINT,
        alpha=0.4,
        lw=0,
        step="mid",
    )
    rows[0].plot(frames, chi2, "o-", color=ESTIMATE, ms=3.5, lw=1.2)
    rows[0].set_ylabel("χ²/N of the frame")
    finite = chi2[np.isfinite(chi2)]
    if len(finite) and finite.max() > 10:
        rows[0].set_yscale("log")
        rows[0].set_ylim(bottom=min(0.3, max(1e-3, finite.min() / 2)))
    else:
        rows[0].set_ylim(0, max(2.0, 1.1 * finite.max(initial=0.0)))
    rows[0].set_title("Shaded: 5 sd of pure noise" if is_narrow() else "Shaded: 5 standard deviations of pure noise")
    if len(shift):
        rows[1].axhline(0, color=FAINT, lw=1)
        for values, color, name in ((shift[:, 0], ESTIMATE, "right"), (shift[:, 1], INK, "down")):
            rows[1].plot(frames, values, ".-", color=color, lw=1.2, label=name)
        rows[1].set_ylabel("outline offset [px]")
    for axes in rows:
        if diagnostics["contact"] is not None:
            axes.axvline(diagnostics["contact"] - 0.5, color=TRUTH, lw=1.2, ls=(0, (4, 3)), label="first contact")
        if diagnostics["explained"] and diagnostics["explained"] < len(frames):
            axes.axvline(diagnostics["explained"] - 0.5, color=INK, lw=1.2, ls=":", label="explained up to here")
    rows[-1].set_xlabel("frame")
    if rows[-1].get_legend_handles_labels()[0]:
        figure.legend(
            *rows[-1].get_legend_handles_labels(), loc="outside lower center", ncols=2 if is_narrow() else 4, fontsize=8
        )
    return figure


def profiles(curves: Sequence[Mapping]) -> Figure:
    """Δχ² along each direction, with the parabola of the error bars.

    Args:
        curves: `profiles` of result.json.
    """
    columns = min(1 if is_narrow() else 2, len(curves))
    rows = math.ceil(len(curves) / columns)
    figure = Figure(figsize=(column_width(), 3.0 * rows + 0.3), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, profile in zip(grid, curves, strict=False):
        at, delta = np.array(profile["at"]), np.array(profile["delta"])
        low, high = profile["interval95"]
        if low is not None and high is not None:
            axes.axvspan(low, high, color=FAINT, alpha=0.35, lw=0)
        axes.axhline(DELTA_CHI2_95, color=INK, lw=0.8, ls=":")
        axes.plot(at, profile["parabola"], "--", color=TRUTH, lw=1.3, label="parabola of the error bar")
        axes.plot(at, delta, "o-", color=ESTIMATE, ms=3.5, lw=1.3, label="profile")
        axes.axvline(profile["estimate"], color=FAINT, lw=1, zorder=0)
        axes.set(ylim=(-0.4, 12), ylabel="Δχ²")
        axes.set_xlabel(f"{profile['name']} [{profile['unit']}]" if profile["unit"] else profile["name"])
        axes.set_title("Parabolic" if profile["parabolic"] else "Not parabolic")
        axes.locator_params(axis="x", nbins=5)
        axes.ticklabel_format(axis="x", useOffset=False)
        inside = at[delta < 20]
        if len(inside) > 1:
            axes.set_xlim(inside.min(), inside.max())
    for axes in grid[len(curves) :]:
        axes.set_axis_off()
    figure.legend(
        *grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=1 if is_narrow() else 2, fontsize=8
    )
    return figure


def _norm(costs: Sequence[float]) -> Normalize:
    """Color scale of costs."""
    if _spans_decades(costs):
        return LogNorm(min(costs), max(costs))
    return Normalize(min(costs), max(costs))


def _spans_decades(numbers: Sequence[float]) -> bool:
    """True if the numbers are positive and span more than a factor of 10."""
    return bool(numbers) and min(numbers) > 0 and max(numbers) > 10 * min(numbers)
