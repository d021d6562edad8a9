"""Pictures of Fig. 4: curves over the mass with every second minimum marked, cuts and map of the Lamé parameters."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsim_reproduction.landscapes import lame_plots
from gradsim_reproduction.landscapes.fig4_table import FRAMES, SEEN, WORDED
from gradsim_reproduction.landscapes.scenes import RIGID, TRUE_MASS
from gradsim_reproduction.plotting import FAINT, INK, SAFE, WIDTH, new_figure, write_figures

COLOURS: dict[str, str] = dict(
    zip(("coverage", "softras", "softras_colour", "cdf", "pybullet"), (*SAFE, INK), strict=True)
)
LINES = {"all": "-", "first_and_last": (0, (4, 2)), "fifth": (0, (1, 1.5)), "first_and_middle": "-."}
SHORT = {**WORDED, "tumble, continuous": "tumble, cont."}
MANY = 20  # minima, from which on lines and dots are thinner
NAMED = {**SEEN, "pybullet": "PyBullet"}


def draw(out: Path, parts: Mapping[str, dict]) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    words = lame_plots.WORDS + lame_plots.WAYS
    return write_figures(
        out,
        {
            "rigid": (lambda: _rigid(parts), "The mass of a cube", RIGID_WORDS),
            "views": (lambda: _views(parts), "Every view and choice of frames", VIEWS_WORDS),
            "lame": (lambda: lame_plots.sheet(parts), "The Lamé parameters of a beam", words),
        },
    )


RIGID_WORDS = (
    "Mean squared difference of pixels from the film of a cube of 1 kg, over the largest of each curve. Dots: minima other than "
    "the truth's. The paper's range; its release draws something like the drift. A cube that tumbles over ground has tens of "
    "minima, in PyBullet as here."
)
VIEWS_WORDS = (
    "The four losses of the paper's release, by view (rows) and motion (columns), each over its largest. Numbers: minima "
    "within the range, and the share of it that leads downhill to the truth, for all frames."
)


def line(ax, values: np.ndarray, curve: Mapping, colour: str, style="-", label: str | None = None) -> None:
    """A curve over its largest, with its minima but for the lowest marked."""
    loss = np.array(curve["loss"]) / max(curve["loss"])
    others = [one for one in curve["minima"] if not one["end"] and one["place"] != curve["lowest"]]
    ax.plot(values, loss, color=colour, ls=style, lw=1.2 if len(others) < MANY else 0.7, label=label)
    size = 4 if len(others) < MANY else 2
    ax.plot([o["place"] for o in others], [o["loss"] for o in others], ".", color=colour, ms=size)


def _rigid(parts: Mapping[str, dict]) -> Figure:
    figure = new_figure(WIDTH, 6.2)
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for ax, kind in zip(panels.flat, RIGID, strict=True):
        part = parts[f"curves of {kind}"]
        curves = {view: part["curves"][view] for view in ("coverage", "softras")}
        axes = dict.fromkeys(curves, np.array(part["mass"]))
        box = parts.get(f"PyBullet, {kind}", {})
        if "curves" in box:
            curves["pybullet"], axes["pybullet"] = box["curves"], np.array(box["mass"])
        ax.axvline(TRUE_MASS, color=FAINT, lw=1, zorder=0)
        for view, some in curves.items():
            for selection in ("all", "first_and_last"):
                label = f"{NAMED[view]}, {FRAMES[selection]}"
                line(ax, axes[view], some[selection], COLOURS[view], LINES[selection], label)
        ax.set_title(WORDED[kind], loc="left", fontsize=10, fontweight="bold")
    for ax in panels[1]:
        ax.set_xlabel("mass [kg]; true: 1")
    for ax in panels[:, 0]:
        ax.set_ylabel("loss / largest loss")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _views(parts: Mapping[str, dict]) -> Figure:
    views = list(parts[f"curves of {RIGID[0]}"]["curves"])
    figure = new_figure(WIDTH, 0.7 + 1.8 * len(views))
    panels = figure.subplots(len(views), len(RIGID), sharex=True, sharey=True)
    for column, kind in zip(panels.T, RIGID, strict=True):
        part = parts[f"curves of {kind}"]
        for ax, view in zip(column, views, strict=True):
            ax.axvline(TRUE_MASS, color=FAINT, lw=1, zorder=0)
            for selection, style in LINES.items():
                curve = part["curves"][view][selection]
                line(ax, np.array(part["mass"]), curve, COLOURS[view], style, FRAMES[selection])
            every = part["curves"][view]["all"]
            ax.set_title(f"{every['inner']}; {100 * every['share']:.3g} %", loc="right", fontsize=8, color=INK)
        column[0].set_title(SHORT[kind], loc="left", fontsize=9, fontweight="bold")
        column[-1].set_xlabel("mass [kg]")
    for ax, view in zip(panels[:, 0], views, strict=True):
        ax.set_ylabel(f"{SEEN[view]}\nloss / largest", fontsize=8)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)
    return figure
