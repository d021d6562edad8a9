"""Pictures of the pendula: films at the truth, and errors of every unknown."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from gradsim.identification import synthetic
from gradsim.identification.api import model_for
from gradsim_reproduction.pendulums.fits import CLOSE
from gradsim_reproduction.pendulums.tasks import Task, moved
from gradsim_reproduction.plotting import BLUE, ERROR_FLOOR, GREY, ORANGE, new_figure, write_figures

SHOWN = 8  # frames of a film on the sheet


def draw(out: Path, tasks: Sequence[Task], records: Sequence[dict]) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    error_text = (
        "One dot per video of float frames; angles, rates and velocities as shares of their range, all else relative "
        "to the truth. Line: the goal."
    )
    figures = {
        "films": (lambda: _videos(tasks, records), "Videos", "First video of each task at its truth, evenly spaced."),
        "errors": (lambda: _errors(tasks, records), "Errors of every unknown", error_text),
    }
    noisy = [task for task in tasks if any(r["noise"] and r["task"] == task.name for r in records)]
    if noisy:
        text = "8-bit frames with noise of σ = 1/255: errors over the Cramér–Rao bound; two in three within ± 1."
        figures["noise"] = (lambda: _noise(noisy, records), "Errors with noise", text)
    return write_figures(out, figures)


def _videos(tasks: Sequence[Task], records: Sequence[dict]) -> Figure:
    sheet = new_figure(9, 1.25 * len(tasks) + 0.2)
    spots = sheet.subplots(len(tasks), SHOWN, squeeze=False)
    for row, task in zip(spots, tasks, strict=True):
        truth = next(r["truth"] for r in records if r["task"] == task.name)
        space, frames = task.space(), task.scene.timing.frames
        model = model_for(task.scene, space)
        trajectory = moved(model, space, space.inner(torch.tensor(truth, dtype=torch.float64)), frames)
        shown = np.linspace(0, frames - 1, SHOWN).round().astype(int).tolist()
        for ax, picture, k in zip(row, synthetic.film(task.scene, trajectory.at(shown)), shown, strict=True):
            ax.imshow(picture.clamp(0, 1).numpy(), interpolation="nearest")
            ax.set_xticks([])
            ax.set_yticks([])
            ax.set_xlabel(f"{k / task.scene.timing.fps:.2f} s", fontsize=7, labelpad=1)
        row[0].set_ylabel(task.name, fontsize=8)
    return sheet


def _errors(tasks: Sequence[Task], records: Sequence[dict]) -> Figure:
    return _by_unknown(tasks, [r for r in records if not r["noise"]], "errors")


def _noise(tasks: Sequence[Task], records: Sequence[dict]) -> Figure:
    return _by_unknown(tasks, [r for r in records if r["noise"]], "z")


def _by_unknown(tasks: Sequence[Task], records: Sequence[dict], key: str) -> Figure:
    """One column of dots for each unknown of each task: "errors" (logarithmic) or "z"."""
    figure = new_figure(9, 4.2)
    ax, labels = figure.subplots(), []
    for k, task in enumerate(tasks):
        part = [r[key] for r in records if r["task"] == task.name]
        for name in task.space().names:
            values = np.array([r[name] for r in part])
            x = len(labels) + (np.linspace(-0.25, 0.25, len(values)) if len(values) > 1 else np.zeros(1))
            y = np.maximum(values, ERROR_FLOOR) if key == "errors" else values
            ax.plot(x, y, ".", ms=4, color=(BLUE, ORANGE)[k % 2], alpha=0.7)
            labels.append(f"{task.name}: {_short(name)}")
    if key == "errors":
        ax.axhline(CLOSE, lw=0.8, color=GREY)
        ax.set_yscale("log")
    else:
        ax.axhspan(-1, 1, color="#e5e7eb", lw=0, zorder=0)
    ax.set_xticks(range(len(labels)), labels, rotation=60, ha="right", rotation_mode="anchor", fontsize=7)
    ax.set_ylabel("error" if key == "errors" else "error / bound")
    return figure


def _short(name: str) -> str:
    """An unknown without the body it belongs to."""
    owner, _, own = name.partition(".")
    return "gravity" if owner == "gravity" else own.replace("_", " ")
