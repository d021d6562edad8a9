"""Pictures of Fig. 11: the Lamé parameters, and reward and likelihood of REINFORCE through PyBullet."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsim_reproduction.landscapes import lame_plots
from gradsim_reproduction.plotting import FAINT, INK, SAFE, new_figure, write_figures

BULLET_WORDS = (
    "The cubes of Fig. 4 in PyBullet, 1 kg at the truth. Above: the reward over the range. Middle: its product with the negative "
    "log-likelihood of a mass around three estimates (dots: the estimate), which REINFORCE lowers by five samples at the "
    "estimate. Below: the means of REINFORCE from there, by the rate of Adam whose end has the lowest loss; thin: by the others."
)


def draw(out: Path, parts: Mapping[str, dict], boxes: Mapping[str, dict]) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    figures = {"lame": (lambda: lame_plots.sheet(parts), "(a) The Lamé parameters of a beam", lame_plots.WORDS)}
    if boxes:
        figures["pybullet"] = lambda: _boxes(boxes), "(b) PyBullet and REINFORCE", BULLET_WORDS
    return write_figures(out, figures)


def _boxes(boxes: Mapping[str, dict]) -> Figure:
    searched = any(box["ways"] for box in boxes.values())
    rows = 3 if searched else 2
    figure = new_figure(8.6, 2.3 * rows + 0.3)
    panels = figure.subplots(rows, len(boxes), sharey="row", squeeze=False)
    for column, (kind, box) in zip(panels.T, boxes.items(), strict=True):
        mass = np.array(box["mass"])
        for ax in column[:2]:
            ax.axvline(1, color=FAINT, lw=1, zorder=0)
            ax.set_xlabel("mass [kg]")
        column[0].plot(mass, box["reward"], color=INK, lw=1.2)
        for colour, start, row in zip(SAFE, box["estimate"], box["surrogate"], strict=False):
            column[1].plot(mass, row, color=colour, lw=1.2, label=f"estimate {start:g} kg")
            column[1].plot(start, np.interp(start, mass, row), "o", color=colour, ms=4)
        column[1].set_yscale("symlog", linthresh=1)
        for colour, (best, *others) in zip(SAFE, box["ways"], strict=False):
            for way in others:
                column[2].plot(way["means"], color=colour, lw=0.7, alpha=0.4)
            column[2].plot(best["means"], color=colour, lw=1.6)
            column[2].axhline(1, color=FAINT, lw=1, zorder=0)
            column[2].set_xlabel("steps")
        column[0].set_title(kind, loc="left", fontsize=10, fontweight="bold")
    for ax, title in zip(panels[:, 0], ("reward", "reward × likelihood", "mean mass [kg]"), strict=False):
        ax.set_ylabel(title)
    figure.legend(*panels[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure
