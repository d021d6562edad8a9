"""The picture of a fit of whole arrays: each on its mesh, its standard deviations, and the spectrum of bounds."""

import numpy as np
from matplotlib.figure import Figure

from gradsim.identify.field_fit import FieldFit
from gradsim.identify.fields import Piece
from gradsim.identify.spectrum import SHARP

LINES = 4000  # most edges of a mesh that are drawn


def draw(fit: FieldFit) -> Figure:
    """A row for each field: values, standard deviations; below them the spectrum."""
    pieces = fit.space.pieces
    figure = Figure(figsize=(9.0, 3.6 * len(pieces) + 2.6), layout="constrained")
    rows = figure.add_gridspec(len(pieces) + 1, 2, height_ratios=[3.6] * len(pieces) + [2.6])
    for k, p in enumerate(pieces):
        name, unit = p.field.name, f" [{p.kind.unit}]" if p.kind.unit else ""
        value, std = fit.values[name], fit.std[name]
        _on_mesh(figure, rows[k, 0], p, value, f"{name}{unit}", "viridis")
        _on_mesh(figure, rows[k, 1], p, std, f"standard deviation{unit}", "magma")
    axes = figure.add_subplot(rows[-1, :])
    bounds = fit.spectrum.bounds.numpy()
    shown = np.isfinite(bounds)
    axes.semilogy(np.arange(1, len(bounds) + 1)[shown], 100 * bounds[shown], ".", ms=4, color="#1d5fd0")
    axes.axhline(100 * SHARP, color="#c2410c", lw=1)
    axes.annotate("1 %", (1, 100 * SHARP), xytext=(0, 3), textcoords="offset points", color="#c2410c", fontsize=8)
    axes.set(xlabel="direction, sharpest first", ylabel="bound [%]", xlim=(0, max(2, fit.unknowns + 1)))
    axes.set_title(f"{fit.rank} of {fit.unknowns} directions are known to 1 %", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _on_mesh(figure: Figure, spot, p: Piece, value: np.ndarray, title: str, shades: str) -> None:
    axes = figure.add_subplot(spot, projection="3d")
    places, size = p.places, np.ptp(p.places, 0)
    edges = p.edges[:: max(1, len(p.edges) // LINES)]
    ends = np.concatenate([places[edges], np.full((len(edges), 1, 3), np.nan)], 1).reshape(-1, 3)
    axes.plot(*ends.T, color="#c8c8c8", lw=0.4)
    each = value.reshape(len(value), -1)
    number = np.linalg.norm(each, axis=1) if p.width > 1 else each[:, 0]
    free = np.isin(np.arange(len(places)), p.rows)
    finite = free & np.isfinite(number)
    points = axes.scatter(*places[finite].T, c=number[finite], cmap=shades, s=22, depthshade=False)
    axes.scatter(*places[~free].T, c="#c8c8c8", s=8, marker="s", depthshade=False)
    axes.scatter(*places[free & ~finite].T, c="#c2410c", s=22, marker="x", depthshade=False)
    if p.width == 3 and title.startswith(p.field.name):
        longest = max(np.linalg.norm(each, axis=1).max(), 1e-300)
        axes.quiver(*places[finite].T, *each[finite].T, length=0.15 * size.max() / longest, color="#404040", lw=0.6)
    axes.set_box_aspect(np.maximum(size, 0.2 * size.max()))
    axes.set_title(f"|{title}|" if p.width > 1 and not title.startswith("standard") else title, fontsize=9)
    axes.tick_params(labelsize=6)
    axes.locator_params(nbins=3)
    figure.colorbar(points, ax=axes, shrink=0.6, pad=0.12).ax.tick_params(labelsize=7)
