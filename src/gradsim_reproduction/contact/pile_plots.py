"""Pictures of piles: how one falls, what others end as, energies, and how well gradients agree."""

from collections.abc import Sequence
from pathlib import Path

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
from gradsim_reproduction.contact import pile_scenes
from gradsim_reproduction.plotting import BLUE, ORANGE, new_figure, write_figures

MOMENTS, SHOWN = (0, 450, 600, 1000), 4  # frames of the first pile, and how many others
EVERY = 16  # steps between two frames of the film


def draw(out: Path, model: Model, records: Sequence[dict], seed: int) -> list[dict]:
    """Write video and plots; returns the entries of the plots for `result.json`."""
    given = pile_scenes.random_pile(model, list(range(1 + SHOWN)), seed)
    trajectory = model.unchecked(model.values(given), pile_scenes.STEPS + 1)
    surface, render = trajectory.surface, Renderer.of(model.scene, shading=Shading.paper("shading"))

    def frames(world: int, rows: Sequence[int]) -> np.ndarray:
        part = Surface(surface.vertices[world : world + 1, list(rows)], surface.parts)
        return to_bytes(render(part)[0].movedim(1, -1))

    with torch.no_grad():
        frames_of_first = np.concatenate([frames(0, [k]) for k in range(0, pile_scenes.STEPS + 1, EVERY)])
        rows = [np.concatenate(list(frames(0, MOMENTS)), 1)]
        rows.append(np.concatenate([frames(k, [pile_scenes.STEPS])[0] for k in range(1, 1 + SHOWN)], 1))
    video.write_preview(out / "pile.webm", frames_of_first, 1 / (pile_scenes.STEP * EVERY) / 2)  # at half the speed
    texts = {
        "piles": "Top: one pile from start to end. Bottom: the ends of others. The pit is not drawn.",
        "checks": "Left: energy over time, one line per scene. Right: secants without contact changes; the widest one counts.",
    }
    return write_figures(
        out,
        {
            "piles": (lambda: _piles(rows), "Piles", texts["piles"]),
            "checks": (lambda: _checks(records), "Checks", texts["checks"]),
        },
    )


def _piles(rows: Sequence[np.ndarray]) -> Figure:
    figure = new_figure(8.6, 4.4)
    for ax, row in zip(figure.subplots(len(rows)), rows, strict=True):
        ax.imshow(row, interpolation="nearest")
        ax.axis("off")
    return figure


def _checks(records: Sequence[dict]) -> Figure:
    figure = new_figure(8.6, 2.8)
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
