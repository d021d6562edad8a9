"""Plots of `reproduce foreign`: errors of all unknowns by kind and status, and a sheet of the videos."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsim.errors import Status
from gradsim_reproduction.foreign.scenes import KINDS
from gradsim_reproduction.plotting import ERROR_FLOOR, FAINT, SAFE, image_grid, new_figure, write_figures

COLORS = {Status.OK: SAFE[2], Status.MISMATCH: SAFE[1], Status.UNIDENTIFIABLE: SAFE[0]}
OTHER = SAFE[3]
SHOWN = 6  # recordings of each kind on the sheet
STRONGEST = 0.85  # of the ink of the last frame


def draw(out: Path, records: Sequence[Mapping], tosses: Sequence[Mapping]) -> list[dict[str, str]]:
    """Write the plots; returns their entries for `result.json`."""
    return write_figures(
        out,
        {
            "errors": (
                lambda: _errors(records, tosses),
                "Errors by kind and status",
                "One mark per unknown, colored by what the fit said. Above the line and green: a silent failure.",
            ),
            "videos": (
                lambda: _videos(out, [*records, *tosses]),
                "Videos",
                "The first of each kind, all frames in one image, later ones stronger.",
            ),
        },
    )


def _errors(records: Sequence[Mapping], tosses: Sequence[Mapping]) -> Figure:
    figure, rng = new_figure(9.2, 3.6), np.random.default_rng(0)
    left, right = figure.subplots(1, 2)
    engines = list(dict.fromkeys(r["kind"] for r in tosses))
    noisy = [r for r in (*records, *tosses) if r["mode"] == "8bit"]
    for ax, part, key, limit, kinds in (
        (left, noisy, "z", 5.0, [*KINDS, *engines]),
        (right, [r for r in records if r["mode"] == "float"], "error", 0.01, list(KINDS)),
    ):
        for r in part:
            values = [abs(u[key]) for u in r["unknowns"].values() if u[key] is not None]
            x = kinds.index(r["kind"]) + rng.uniform(-0.3, 0.3, len(values))
            floor = 1e-3 if key == "z" else ERROR_FLOOR
            color = COLORS.get(r["status"], OTHER)
            ax.plot(x, np.nan_to_num(values, nan=1e3).clip(floor, 1e3), "o", ms=3.5, mew=0, alpha=0.65, color=color)
        ax.axhline(limit, color="black", lw=1)
        ax.set(yscale="log", xticks=range(len(kinds)), xlim=(-0.6, len(kinds) - 0.4))
        ax.set_xticklabels(kinds, fontsize=8)
        ax.grid(axis="y", color=FAINT, lw=0.4)
    left.set(title="8-bit videos with noise", ylabel="|error| / standard deviation")
    right.set(title="exact coverage", ylabel="relative error")
    for status, color in COLORS.items():
        left.plot([], [], "o", ms=4, mew=0, color=color, label=str(status))
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _videos(out: Path, records: Sequence[Mapping]) -> Figure:
    kinds = list(dict.fromkeys(r["kind"] for r in records))
    names = sorted({(kinds.index(r["kind"]), r["number"]) for r in records if r["number"] < SHOWN})
    figure, cells = image_grid(len(names), 2 * SHOWN, 9.2, 0.95)
    for ax, (k, number) in zip(cells, names, strict=False):
        ax.axis("on")
        masks = np.load(out / "masks" / f"{kinds[k]} {number}.npy")[::3]
        strength = np.linspace(0.2, STRONGEST, len(masks))[:, None, None]
        ax.imshow(1 - (masks * strength).max(0), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set(visible=True, color=FAINT)
        ax.set_title(f"{kinds[k]} {number}", fontsize=6)
    return figure
