"""Pictures of the loss over the Lamé parameters: cuts along each, and the map with the ways of descents."""

from collections.abc import Mapping

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from gradsim_reproduction.landscapes.lame import NAMES
from gradsim_reproduction.landscapes.scenes import LAME, TRUE_LAME
from gradsim_reproduction.plotting import FAINT, SAFE, WIDTH, new_figure

COLOURS = {"coverage": SAFE[0], "softras": SAFE[1], "cdf": SAFE[3]}
TITLES = {"coverage": "exact coverage", "softras": "SoftRas", "cdf": "CDF"}
LINES = {"all": "-", "tenth": (0, (1, 1.5)), "ends": (0, (4, 2))}
FRAMES = {"all": "all frames", "tenth": "every tenth", "ends": "first and last"}
LETTERS = {"mu": "μ", "lam": "λ"}
RANGE = 1e6  # the scale shows so many below the largest loss
WORDS = (
    "Above: cuts through the truth, over the largest of each curve; dots: minima other than the truth's. Below: all frames, "
    "on a logarithmic scale; crosses: the truth."
)
WAYS = " Squares with lines: evenly spread starts of Adam and where they ended, filled where within 1 % of the truth."


def sheet(parts: Mapping[str, dict]) -> Figure:
    """Cuts above, maps below."""
    figure = new_figure(WIDTH, 7.4)
    above, below = figure.subfigures(2, 1, height_ratios=(1, 1.25), squeeze=False)[:, 0]
    cuts = above.subplots(1, 2, sharey=True)
    for ax, name in zip(cuts, NAMES, strict=True):
        _cut(ax, parts[f"cut along {name}"], name)
    cuts[0].set_ylabel("loss / largest loss")
    handles, labels = cuts[0].get_legend_handles_labels()
    above.legend(handles, labels, fontsize=8, ncols=3, loc="outside lower center")
    maps = below.subplots(1, 2, sharex=True, sharey=True)
    for ax, sight in zip(maps, ("coverage", "cdf"), strict=True):
        _map(below, ax, parts, sight)
    maps[0].set_ylabel("λ [Pa]")
    return figure


def _cut(ax, part: Mapping, name: str) -> None:
    values = np.array(part["values"])
    ax.axvline(TRUE_LAME, color=FAINT, lw=1, zorder=0)
    for sight, some in part["curves"].items():
        for selection, style in LINES.items():
            curve = some[selection]
            label = f"{TITLES[sight]}, {FRAMES[selection]}"
            loss = np.array(curve["loss"]) / max(curve["loss"])
            ax.plot(values, loss, color=COLOURS[sight], ls=style, lw=1.2, label=label)
            others = [one for one in curve["minima"] if not one["end"] and one["place"] != curve["lowest"]]
            ax.plot([o["place"] for o in others], [o["loss"] for o in others], ".", color=COLOURS[sight], ms=5)
    ax.set_xlabel(f"{LETTERS[name]} [Pa]; true: 1000")


def _map(figure, ax, parts: Mapping, sight: str) -> None:
    plane, searches = parts["plane"], parts.get("searches for lame", {"descents": {}})["descents"].get(sight)
    values = np.array(plane["values"])
    loss = np.array(plane["losses"][sight])
    top = loss[np.isfinite(loss)].max()
    shades = LogNorm(top / RANGE, top)
    shown = np.maximum(np.where(np.isfinite(loss), loss, np.nan), top / RANGE)
    ax.set_facecolor(FAINT)  # where rollouts diverge
    ax.pcolormesh(values, values, shown.T, norm=shades, cmap="viridis", shading="nearest", rasterized=True)
    figure.colorbar(ScalarMappable(shades, "viridis"), ax=ax, label="loss", location="right", shrink=0.9)
    for start, end in zip(searches["starts"], searches["ends"], strict=True) if searches else ():
        home = np.abs(np.array(end) / TRUE_LAME - 1).max() < 0.01
        ax.plot(*zip(start, end, strict=True), "-", color="white", lw=0.6, alpha=0.7, clip_on=False)
        ax.plot(*start, "s", mec="white", mfc="white" if home else "none", ms=4, clip_on=False)
    ax.plot(TRUE_LAME, TRUE_LAME, "x", color="#d55e00", ms=9, mew=2)
    ax.set(xlabel="μ [Pa]", xlim=LAME, ylim=LAME)
    share = f": {100 * searches['share']:.0f} % of the starts come home" if searches else ""
    ax.set_title(TITLES[sight] + share, fontsize=9)
