"""Pictures of piles: how one falls, what others end as, energies, and how well gradients agree."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from gradsim import video
from gradsim.geometry.image_io import to_bytes
from gradsim.geometry.surface import Surface
from gradsim.physics.model import Model
from gradsim.render.renderer import Renderer
from gradsim.render.shading.shading import Shading
from gradsim.runtime.atomic import atomic_path
from gradsim_reproduction.contact import pile_scenes

STYLE: dict[Any, Any] = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "legend.frameon": False}
BLUE, ORANGE = "#1d5fd0", "#c2410c"
MOMENTS, SHOWN = (0, 450, 600, 1000), 4  # frames of the first pile, and how many others
EVERY = 16  # steps between two frames of the film


def draw(out: Path, model: Model, records: Sequence[dict], seed: int) -> list[dict]:
    """Write film and pictures; returns what a report lists."""
    out.mkdir(parents=True, exist_ok=True)
    given = pile_scenes.random_pile(model, list(range(1 + SHOWN)), seed)
    trajectory = model.unchecked(model.values(given), pile_scenes.STEPS + 1)
    surface, render = trajectory.surface, Renderer.of(model.scene, shading=Shading.paper("shading"))

    def frames(world: int, rows: Sequence[int]) -> np.ndarray:
        part = Surface(surface.vertices[world : world + 1, list(rows)], surface.parts)
        return to_bytes(render(part)[0].movedim(1, -1))

    with torch.no_grad():
        film = np.concatenate([frames(0, [k]) for k in range(0, pile_scenes.STEPS + 1, EVERY)])
        rows = [np.concatenate(list(frames(0, MOMENTS)), 1)]
        rows.append(np.concatenate([frames(k, [pile_scenes.STEPS])[0] for k in range(1, 1 + SHOWN)], 1))
    video.write_preview(out / "pile.webm", film, 1 / (pile_scenes.STEP * EVERY) / 2)  # at half the speed
    with mpl.rc_context(STYLE):
        sheets = {
            "piles": (
                _piles(rows),
                "Piles",
                "Above: one pile from start to end. Below: the ends of others. The pit is not drawn.",
            ),
            "checks": (
                _checks(records),
                "Checks",
                "Left: energy over time, a line a scene. Right: secants that change no contact; the widest counts.",
            ),
        }
        for name, (sheet, _, _) in sheets.items():
            with atomic_path(out / f"{name}.png") as draft:
                sheet.savefig(draft, dpi=150, format="png")
    return [{"file": f"{name}.png", "title": title, "caption": text} for name, (_, title, text) in sheets.items()]


def _piles(rows: Sequence[np.ndarray]) -> Figure:
    figure = Figure(figsize=(8.6, 4.4), layout="constrained")
    for ax, row in zip(figure.subplots(len(rows)), rows, strict=True):
        ax.imshow(row, interpolation="nearest")
        ax.axis("off")
    return figure


def _checks(records: Sequence[dict]) -> Figure:
    figure = Figure(figsize=(8.6, 2.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for record in records:
        energy = np.array(record["energy"])
        left.plot(
            np.linspace(0, pile_scenes.STEPS * pile_scenes.STEP, len(energy)), energy, color=BLUE, alpha=0.3, lw=0.7
        )
    left.set_xlabel("time in s")
    left.set_ylabel("energy in J")
    left.set_ylim(bottom=0)
    points = [(float(w), off, record["growth"]) for record in records for w, off in record["secants"].items()]
    if points:
        width, off, _ = np.array(points).T
        jitter = np.exp(0.12 * np.random.default_rng(0).standard_normal(len(width)))
        right.loglog(width * jitter, off, ".", color=ORANGE, ms=4, alpha=0.6)
        ends = np.array([width.min() / 1.5, width.max() * 1.5])
        right.loglog(ends, np.median(off * width) / ends, color="0.4", lw=1, label="rounding / width")
        right.legend()
    right.xaxis.set_minor_formatter(NullFormatter())
    right.axhline(1e-3, color="0.7", lw=1, ls="--")
    right.set_xlabel("width of the secant")
    right.set_ylabel("relative error")
    return figure
