"""Plots of the experiments: one matplotlib style, shared colors and panels, atomic writes.

A report lists what `write_figures` returns:

    images = write_figures(out, {"errors": (lambda: errors(records), "Errors", "One mark per object.")})
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from gradsim.identification import synthetic
from gradsim.identification.scene_models import parameter_values
from gradsim.physics.model import Model
from gradsim.physics.trajectory import Trajectory
from gradsim.runtime.atomic import atomic_path
from gradsim.scene import Scene

mpl.use("Agg")

STYLE: dict[Any, Any] = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "legend.frameon": False}
WIDTH = 8.6  # [in] of a report's column
BLUE, ORANGE, GREEN, PURPLE, GREY = "#1d5fd0", "#c2410c", "#15803d", "#7c3aed", "#6b7280"
INK, FAINT = "#1f2430", "#c9ced8"
FIT, DATA = BLUE, "#d1660a"
SAFE = ("#0072b2", "#d55e00", "#009e73", "#8c4a86")  # distinguishable by the colour-blind (Okabe and Ito)
ERROR_FLOOR = 1e-16  # smaller errors are drawn at this height

Draw = Callable[[], Figure]


def new_figure(width: float, height: float) -> Figure:
    """Empty figure, size in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def write_figures(out: Path, figures: Mapping[str, tuple[Draw, str, str]]) -> list[dict[str, str]]:
    """Write NAME.png for each drawing function, title and caption.

    Returns:
        File, title and caption of each, as `result.json` lists images.
    """
    for name, (draw, _, _) in figures.items():
        save_figure(Path(out) / f"{name}.png", draw)
    return [{"file": f"{name}.png", "title": title, "caption": text} for name, (_, title, text) in figures.items()]


def save_figure(path: Path, draw: Draw) -> None:
    """Draw in the common style and write atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE), atomic_path(path) as draft:
        draw().savefig(draft, dpi=150, format="png")


def save_image(path: Path, image: np.ndarray) -> None:
    """Write pixels (height, width, 3) uint8 atomically."""
    with atomic_path(path) as draft:
        Image.fromarray(image).save(draft, format="png")


def image_grid(count: int, columns: int, width: float, row_height: float) -> tuple[Figure, list[Axes]]:
    """Figure with `count` cells without axes, row by row.

    Args:
        count: Number of cells.
        columns: Cells per row.
        width: Width of the figure [in].
        row_height: Row height of each row [in].
    """
    rows = -(-count // columns)
    figure = new_figure(width, row_height * rows)
    cells = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax in cells:
        ax.axis("off")
    return figure, cells


def true_rollout(scene: Scene, values: Mapping[str, float]) -> Trajectory:
    """Trajectory of a scene with these parameter values, without gradients."""
    with torch.no_grad():
        return Model(scene).rollout(parameter_values(scene, dict(values)))


def blended_frames(scene: Scene, values: Mapping[str, float], every: int) -> np.ndarray:
    """Every `every`-th frame in one image (height, width, 3), later frames stronger."""
    frames = synthetic.render_video(scene, true_rollout(scene, values)).numpy()[::every]
    background, weight = np.array(scene.background), np.linspace(0.25, 1, len(frames))[:, None, None, None]
    return np.clip(background + ((frames - background) * weight).min(0), 0, 1)


def dots(
    ax: Axes, x: float, errors: Sequence[float], rng: np.random.Generator, spread: float, color: str, **style: Any
) -> None:
    """Errors as dots scattered by ± `spread` around x, at least `ERROR_FLOOR` high."""
    style = {"marker": "o", "ls": "", "ms": 3.5, "alpha": 0.65, "mew": 0, **style}
    ax.plot(x + rng.uniform(-spread, spread, len(errors)), np.maximum(errors, ERROR_FLOOR), color=color, **style)


def z_histogram(groups: Sequence[tuple[str, str, Sequence[float]]], width: float = WIDTH) -> Figure:
    """Densities of error over error bar against the unit normal.

    Args:
        groups: Label, color and values z; empty groups are skipped.
        width: Width of the figure [in].
    """
    figure = new_figure(width, 2.8)
    ax = figure.subplots()
    for label, color, z in groups:
        if len(z):
            bins = np.linspace(-4, 4, 33).tolist()
            ax.hist(np.clip(z, -4, 4), bins, density=True, histtype="step", color=color, label=label or None, lw=1.6)
    unit_normal(ax)
    ax.set(xlabel="error / standard deviation", ylabel="density")
    ax.legend(fontsize=8)
    return figure


def unit_normal(ax: Axes, **style: Any) -> None:
    """Density of the unit normal over ± 4."""
    grid = np.linspace(-4, 4, 200)
    density = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    ax.plot(grid, density, **{"color": "black", "lw": 1, "label": "unit normal", **style})
