"""Plots of cables: prediction over recording, and errors over time."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsim_reproduction.plotting import DATA, FIT, WIDTH, new_figure, write_figures
from gradsim_reproduction.reality.cable_recordings import ENDS, FPS, GIVEN, Recording
from gradsim_reproduction.reality.films import Clip, write_film

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
    pictures["cable_errors"] = (
        lambda: _errors(records, recordings),
        "Errors over time",
        "Mean absolute error of each evaluation run over its coordinates. Runs that are thrown above their ends part from the prediction there.",
    )
    films = [
        write_film(
            out / f"cable{cable}.gif",
            _clips(record, recordings[cable]["eval"]),
            FPS / EVERY,
            f"Cable {cable}: film",
            "Recorded (orange) and predicted (blue) cables of the evaluation runs, in real time, seen from the side.",
        )
        for cable, record in records.items()
    ]
    return write_figures(out, pictures) + films


def _clips(record: Mapping, runs: list[Recording]) -> list[Clip]:
    """Runs with their predictions, every `EVERY` frames."""
    clips = []
    for run, predicted in zip(runs, record["predictions"], strict=True):
        frames = GIVEN + EVERY * np.arange(len(predicted))
        full = run.x[frames].copy()
        full[:, ENDS:-ENDS] = predicted
        error = record["run_error_mm"][run.name]
        clips.append(Clip(f"{run.name}: {error:.1f} mm", run.x[frames][:, None], full[:, None]))
    return clips


def _errors(records: Mapping[int, Mapping], recordings: Mapping[int, Mapping]) -> Figure:
    figure = new_figure(WIDTH, 2.2)
    for panel, (cable, record) in zip(figure.subplots(1, len(records), squeeze=False)[0], records.items(), strict=True):
        for run, predicted in zip(recordings[cable]["eval"], record["predictions"], strict=True):
            frames = GIVEN + EVERY * np.arange(len(predicted))
            off = np.abs(np.array(predicted) - run.x[frames][:, ENDS:-ENDS]).mean((1, 2))
            panel.plot(frames / FPS, 1e3 * off, lw=1, label=run.name)
        panel.set_title(f"Cable {cable}", fontsize=7)
        panel.set_xlabel("time [s]", fontsize=7)
        panel.tick_params(labelsize=6)
        panel.legend(fontsize=5)
    figure.axes[0].set_ylabel("error [mm]", fontsize=7)
    return figure


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
