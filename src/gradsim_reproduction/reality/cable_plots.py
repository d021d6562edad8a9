"""Plots of cables: prediction over recording, and errors over time."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsim_reproduction.plotting import DATA, FIT, WIDTH, new_figure, write_figures
from gradsim_reproduction.reality.cable_recordings import ENDS, GIVEN, Recording

MOMENTS = (0.0, 1.0, 2.5, 4.9)  # [s]
EVERY = 5  # frames between two stored predictions


def draw(out: Path, records: Mapping[int, Mapping], recordings: Mapping[int, Mapping]) -> list[dict[str, str]]:
    """Write plots into a folder.

    Args:
        out: The folder.
        records: Result of each cable.
        recordings: Runs of each cable.

    Returns:
        File, title and caption of each image.
    """
    pictures = {}
    for cable, record in records.items():
        runs = recordings[cable]["eval"]
        pictures[f"cable{cable}"] = (
            lambda record=record, runs=runs: _shapes(record, runs),
            f"Cable {cable}",
            "Recorded (orange) and predicted (blue) cables, seen along y, at four times of each evaluation run.",
        )
    return write_figures(out, pictures)


def _shapes(record: Mapping, runs: list[Recording]) -> Figure:
    figure = new_figure(WIDTH, 1.6 * len(runs))
    axes = figure.subplots(len(runs), len(MOMENTS), squeeze=False)
    for row, run, predicted in zip(axes, runs, record["predictions"], strict=True):
        for panel, moment in zip(row, MOMENTS, strict=True):
            k = min(int(moment * 100 / EVERY), len(predicted) - 1)
            x = run.x[GIVEN + EVERY * k]
            full = np.concatenate([x[:ENDS], np.array(predicted[k]), x[-ENDS:]])
            panel.plot(x[:, 0], x[:, 2], color=DATA, lw=3)
            panel.plot(full[:, 0], full[:, 2], color=FIT, lw=1)
            panel.set_aspect("equal")
            panel.set_title(f"{run.name}, {moment:g} s", fontsize=7)
            panel.tick_params(labelsize=6)
    return figure
