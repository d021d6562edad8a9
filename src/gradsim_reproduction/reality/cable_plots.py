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
RANGE = 80.0  # [mm] of the colors of residuals


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
    worst = max(records.values(), key=lambda record: np.mean(list(record["crossed_error_mm"].values())))
    pictures["cable_residuals"] = (
        lambda: _residuals(worst),
        f"Residuals of cable {worst['cable']}",
        "Prediction minus recording of the training runs, each by a fit to the half that did not have it: predicted markers from one end to the other against time, along x, y and z.",
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


def _residuals(record: Mapping) -> Figure:
    runs = record["residuals"]
    figure = new_figure(WIDTH, 0.75 * len(runs) + 0.5)
    axes = figure.subplots(len(runs), 3, squeeze=False, sharex=True)
    for row, (name, residual) in zip(axes, runs.items(), strict=True):
        off = 1e3 * np.array(residual)
        for panel, axis, values in zip(row, "xyz", off.transpose(2, 1, 0), strict=True):
            extent = (GIVEN / FPS, (GIVEN + EVERY * off.shape[0]) / FPS, len(values) + 0.5, 0.5)
            panel.imshow(values, cmap="RdBu_r", vmin=-RANGE, vmax=RANGE, aspect="auto", extent=extent)
            panel.set_title(f"{name}, {axis}: {np.abs(values).mean():.0f} mm", fontsize=6, pad=2)
            panel.tick_params(labelsize=5)
    for panel in axes[-1]:
        panel.set_xlabel("time [s]", fontsize=6)
    figure.colorbar(axes[0, 0].images[0], ax=axes, label="prediction minus recording [mm]", shrink=0.5)
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
