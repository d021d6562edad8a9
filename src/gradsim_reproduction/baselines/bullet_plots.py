"""How REINFORCE through PyBullet walks: relative error of the mass over the steps, from both kinds of starts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from gradsim.runtime.atomic import atomic_path
from gradsim_reproduction.baselines.bullet_search import EVERY, MASS, STARTS

STYLE: dict[Any, Any] = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "legend.frameon": False}
COLOURS = {"range": "#1d5fd0", "vertices": "#c2410c"}
TITLES = {"range": "start in [2, 12] kg", "vertices": "start in [0, number of vertices] kg (paper)"}


def draw(out: Path, records: Sequence[Mapping], plan: Mapping) -> list[dict]:
    """Write the picture; returns what a report lists."""
    with mpl.rc_context(STYLE):
        page = Figure(figsize=(8.0, 3.2), layout="constrained")
        spots = page.subplots(1, len(STARTS), sharey=True)
        largest = max(abs(mass / r["truth"][MASS] - 1) for r in records for mass in r["means"])
        for ax, start in zip(spots, STARTS, strict=True):
            own = [r for r in records if r["start"] == start]
            errors = np.array([np.abs(np.array(r["means"]) / r["truth"][MASS] - 1) for r in own])
            steps = np.arange(errors.shape[1]) * EVERY
            ax.semilogy(steps, errors.T, color=COLOURS[start], alpha=0.35, linewidth=0.8)
            ax.semilogy(steps, np.median(errors, 0), color="#111827", linewidth=2, label="median")
            ax.set(title=TITLES[start], xlabel=f"step ({plan['samples']} rollouts each)", ylim=(1e-4, 2 * largest))
        spots[0].set_ylabel("relative error of the mass")
        spots[0].legend()
        with atomic_path(Path(out) / "searches.png") as draft:
            page.savefig(draft, dpi=150, format="png")
    caption = (
        f"One line an object; rewards decay by {plan['decay']} a step, so that the walk stands still after some 60."
    )
    return [{"file": "searches.png", "title": "REINFORCE through PyBullet", "caption": caption}]
