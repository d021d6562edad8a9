"""Pictures of the pendula: films at the truth, and errors of every unknown."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

from gradsim.identification import synthetic
from gradsim.identification.api import model_for
from gradsim.runtime.atomic import atomic_path
from gradsim_reproduction.images.fig7_plots import STYLE
from gradsim_reproduction.pendulums.fits import CLOSE
from gradsim_reproduction.pendulums.tasks import Task, moved

BLUE, ORANGE = "#1d5fd0", "#c2410c"
SHOWN = 8  # frames of a film on the sheet
FLOOR = 1e-16  # errors below are drawn there


def draw(out: Path, tasks: Sequence[Task], records: Sequence[dict]) -> list[dict]:
    """Write the pictures; returns what a report lists."""
    sheets = {
        "films": (_films(tasks, records), "Films", "The first film of each task at its truth, evenly spaced frames.")
    }
    with mpl.rc_context(STYLE):
        text = (
            "A dot is a film of float frames; angles, rates and velocities count as shares of their range, all else relative "
            "to the truth. The line is the goal."
        )
        sheets["errors"] = (_errors(tasks, records), "Errors of every unknown", text)
        noisy = [task for task in tasks if any(r["noise"] and r["task"] == task.name for r in records)]
        if noisy:
            text = "8-bit frames with noise of σ = 1/255: errors over the Cramér–Rao bound; two in three within ± 1."
            sheets["noise"] = (_noise(noisy, records), "Errors with noise", text)
        for name, (sheet, _, _) in sheets.items():
            with atomic_path(out / f"{name}.png") as draft:
                sheet.savefig(draft, dpi=150, format="png")
    return [{"file": f"{name}.png", "title": title, "caption": text} for name, (_, title, text) in sheets.items()]


def _films(tasks: Sequence[Task], records: Sequence[dict]) -> Figure:
    sheet = Figure(figsize=(9, 1.25 * len(tasks) + 0.2), layout="constrained")
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
    sheet = Figure(figsize=(9, 4.2), layout="constrained")
    ax, labels, place = sheet.subplots(), [], 0
    for k, task in enumerate(tasks):
        own = [r["errors"] for r in records if r["task"] == task.name and not r["noise"]]
        for name in task.space().names:
            values = np.maximum([r[name] for r in own], FLOOR)
            spread = np.linspace(-0.25, 0.25, len(values)) if len(values) > 1 else [0.0]
            ax.semilogy(place + np.array(spread), values, ".", ms=4, color=(BLUE, ORANGE)[k % 2], alpha=0.7)
            labels.append(f"{task.name}: {_short(name)}")
            place += 1
    ax.axhline(CLOSE, lw=0.8, color="#555555")
    ax.set_xticks(range(place), labels, rotation=60, ha="right", rotation_mode="anchor", fontsize=7)
    ax.set_ylabel("error")
    return sheet


def _noise(tasks: Sequence[Task], records: Sequence[dict]) -> Figure:
    sheet = Figure(figsize=(9, 3.6), layout="constrained")
    ax, labels, place = sheet.subplots(), [], 0
    ax.axhspan(-1, 1, color="#e5e7eb", lw=0)
    for k, task in enumerate(tasks):
        own = [r["z"] for r in records if r["task"] == task.name and r["noise"]]
        for name in task.space().names:
            values = [r[name] for r in own]
            spread = np.linspace(-0.25, 0.25, len(values)) if len(values) > 1 else [0.0]
            ax.plot(place + np.array(spread), values, ".", ms=5, color=(BLUE, ORANGE)[k % 2])
            labels.append(f"{task.name}: {_short(name)}")
            place += 1
    ax.set_xticks(range(place), labels, rotation=60, ha="right", rotation_mode="anchor", fontsize=7)
    ax.set_ylabel("error / bound")
    return sheet


def _short(name: str) -> str:
    """An unknown without the body it belongs to."""
    owner, _, own = name.partition(".")
    return "gravity" if owner == "gravity" else own.replace("_", " ")
