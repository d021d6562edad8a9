"""Pictures of the soft bodies' table: errors beside the paper's, error bars, and the bodies themselves."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

from gradsim.identification import synthetic
from gradsim.identification.api import placed
from gradsim.physics.model import Model
from gradsim.runtime.atomic import atomic_path
from gradsim_reproduction.soft.scenes import instance

STYLE = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "legend.frameon": False}
COLOURS = {"beam": "#1d5fd0", "ball": "#c2410c", "cloth": "#15803d"}
TITLES = {"float": "silhouettes, float", "states": "vertices in 3-D", "8bit": "8-bit film", "foreign": "other renderer and steps"}  # fmt: skip
COLUMNS = {"mu": "μ", "lam": "λ", "density": "ρ", "velocity": "v"}
PAPER = {"float": {"mu": 0.0054, "lam": 0.0056, "velocity": 0.026}, "states": {"mu": 0.0025, "lam": 0.0024, "velocity": 0.127}}  # fmt: skip
SHOWN = 12  # bodies on the sheet
FLOOR = 1e-16  # errors below are drawn there


def draw(out: Path, records: Sequence[Mapping], fields: Sequence[Mapping], seed: int) -> list[dict]:
    """Write the pictures; returns what a report lists."""
    sheets = {
        "errors": (lambda: _errors(records), "Errors of few unknowns",
                   "One mark a number that was asked for; the bar is what the paper reports."),
        "bodies": (lambda: _bodies(records, seed), "Bodies",
                   "The first instances at their true parameters, frames blended, later ones stronger."),
        "error_bars": (lambda: _bars(records), "Errors over error bars, 8-bit film", "Against the normal distribution."),
    }  # fmt: skip
    if fields:
        sheets["fields"] = (
            lambda: _fields(fields),
            "Masses and velocities vertex by vertex",
            "Errors on the part that the data determine to 1 %, and over all vertices, beside the paper's.",
        )
    for name, (figure, _, _) in sheets.items():
        with mpl.rc_context(STYLE), atomic_path(out / f"{name}.png") as draft:
            figure().savefig(draft, dpi=150, format="png")
    return [{"file": f"{name}.png", "title": title, "caption": text} for name, (_, title, text) in sheets.items()]


def _errors(records: Sequence[Mapping]) -> Figure:
    figure, rng = Figure(figsize=(9.2, 3.4), layout="constrained"), np.random.default_rng(0)
    spots = figure.subplots(1, len(TITLES), sharey=True)
    for ax, (sight, title) in zip(spots, TITLES.items(), strict=True):
        for k, key in enumerate(COLUMNS):
            for kind, colour in COLOURS.items():
                found = [
                    e
                    for r in records
                    if r["sight"] == sight and r["kind"] == kind
                    for name, e in r["errors"].items()
                    if name.split(".")[1] == key
                ]
                x = k + rng.uniform(-0.28, 0.28, len(found))
                ax.plot(x, np.maximum(found, FLOOR), "o", color=colour, ms=3, alpha=0.65, mew=0)
            paper = PAPER.get(sight, {}).get(key)
            if paper:
                ax.plot([k - 0.38, k + 0.38], [paper, paper], color="black", lw=2)
        ax.set(yscale="log", title=title, xticks=range(len(COLUMNS)), xticklabels=COLUMNS.values())
    spots[0].set_ylabel("relative error")
    for kind, colour in COLOURS.items():
        spots[0].plot([], [], "o", color=colour, ms=4, mew=0, label=kind)
    spots[0].plot([], [], color="black", lw=2, label="paper")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _bars(records: Sequence[Mapping]) -> Figure:
    figure = Figure(figsize=(6, 2.8), layout="constrained")
    ax, grid = figure.subplots(), np.linspace(-4, 4, 200)
    z = [z for r in records if r["sight"] == "8bit" for z in r["z"].values()]
    ax.hist(np.clip(z, -4, 4), bins=np.linspace(-4, 4, 33), density=True, histtype="step", color="#1d5fd0", lw=1.6)
    ax.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), color="black", lw=1, label="normal")
    ax.set(xlabel="error / standard deviation", ylabel="density")
    ax.legend(fontsize=8)
    return figure


def _bodies(records: Sequence[Mapping], seed: int) -> Figure:
    chosen = list({r["number"]: r for r in records if r["sight"] == "float"}.values())[:SHOWN]
    rows = -(-len(chosen) // 6)
    figure = Figure(figsize=(9.2, 1.75 * rows), layout="constrained")
    for ax in (spots := figure.subplots(rows, 6, squeeze=False)).flat:
        ax.axis("off")
    for ax, r in zip(spots.flat, chosen, strict=False):
        one = instance(r["number"], seed)
        with torch.no_grad():
            trajectory = Model(one.scene).rollout(placed(one.scene, r["truth"]))
        frames, background = synthetic.film(one.scene, trajectory).numpy(), np.array(one.scene.background)
        weight = np.linspace(0.25, 1, len(frames))[:, None, None, None]
        ax.imshow(np.clip(background + ((frames - background) * weight)[::3].min(0), 0, 1), interpolation="nearest")
        ax.set_title(one.name, fontsize=7)
    return figure


def _fields(fields: Sequence[Mapping]) -> Figure:
    figure, rng = Figure(figsize=(8, 3.2), layout="constrained"), np.random.default_rng(0)
    kinds = list(dict.fromkeys((r["quantity"], r["sight"]) for r in fields))
    ax = figure.subplots()
    for k, (quantity, sight) in enumerate(kinds):
        some = [r for r in fields if (r["quantity"], r["sight"]) == (quantity, sight)]
        for key, marker, shift in (("error", "o", -0.17), ("full_error", "x", 0.17)):
            x = k + shift + rng.uniform(-0.12, 0.12, len(some))
            colours = [COLOURS[r["kind"]] for r in some]
            ax.scatter(x, np.maximum([r[key] for r in some], FLOOR), c=colours, s=14, marker=marker)
    for kind, colour in COLOURS.items():
        ax.scatter([], [], c=colour, s=14, marker="s", label=kind)
    ax.scatter([], [], c="black", s=14, marker="o", label="on what is determined to 1 %")
    ax.scatter([], [], c="black", s=14, marker="x", label="over all vertices")
    labels = [
        f"{quantity.replace('_', ' ')}\n{TITLES.get(sight, 'three films, textured')}" for quantity, sight in kinds
    ]
    ax.set(yscale="log", ylabel="relative error", xticks=range(len(kinds)), xticklabels=labels)
    ax.legend(fontsize=8)
    return figure
