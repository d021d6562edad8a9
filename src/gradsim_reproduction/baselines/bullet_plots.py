"""How REINFORCE through PyBullet walks: relative error of the mass over the steps, from both kinds of starts."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsim_reproduction.baselines.bullet_search import EVERY, MASS, STARTS
from gradsim_reproduction.plotting import BLUE, INK, ORANGE, new_figure, write_figures

TITLES = {"range": "start in [2, 12] kg", "vertices": "start in [0, number of vertices] kg (paper)"}


def draw(out: Path, records: Sequence[Mapping], plan: Mapping) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    caption = (
        f"One line per object. Rewards decay by {plan['decay']} per step, so the search stalls after about 60 steps."
    )
    return write_figures(out, {"searches": (lambda: _searches(records, plan), "REINFORCE through PyBullet", caption)})


def _searches(records: Sequence[Mapping], plan: Mapping) -> Figure:
    figure = new_figure(8.0, 3.2)
    panels = figure.subplots(1, len(STARTS), sharey=True)
    largest = max(abs(mass / r["truth"][MASS] - 1) for r in records for mass in r["means"])
    for ax, start, color in zip(panels, STARTS, (BLUE, ORANGE), strict=True):
        part = [r for r in records if r["start"] == start]
        errors = np.array([np.abs(np.array(r["means"]) / r["truth"][MASS] - 1) for r in part])
        steps = np.arange(errors.shape[1]) * EVERY
        ax.semilogy(steps, errors.T, color=color, alpha=0.35, linewidth=0.8)
        ax.semilogy(steps, np.median(errors, 0), color=INK, linewidth=2, label="median")
        ax.set(title=TITLES[start], xlabel=f"step ({plan['samples']} rollouts each)", ylim=(1e-4, 2 * largest))
    panels[0].set_ylabel("relative error of the mass")
    panels[0].legend()
    return figure
