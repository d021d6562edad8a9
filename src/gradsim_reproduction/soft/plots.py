"""Pictures of the soft bodies' table: errors beside the paper's, error bars, and the bodies themselves."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsim_reproduction.plotting import (
    BLUE,
    ERROR_FLOOR,
    GREEN,
    ORANGE,
    blended_frames,
    dots,
    image_grid,
    new_figure,
    write_figures,
    z_histogram,
)
from gradsim_reproduction.soft.scenes import instance

COLOURS = {"beam": BLUE, "ball": ORANGE, "cloth": GREEN}
TITLES = {"float": "silhouettes, float", "states": "vertices in 3-D", "8bit": "8-bit film", "foreign": "other renderer and steps"}  # fmt: skip
COLUMNS = {"mu": "μ", "lam": "λ", "density": "ρ", "velocity": "v"}
PAPER = {"float": {"mu": 0.0054, "lam": 0.0056, "velocity": 0.026}, "states": {"mu": 0.0025, "lam": 0.0024, "velocity": 0.127}}  # fmt: skip
SHOWN = 12  # bodies on the sheet


def draw(out: Path, records: Sequence[Mapping], fields: Sequence[Mapping], seed: int) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    z = [z for r in records if r["sight"] == "8bit" for z in r["z"].values()]
    figures = {
        "errors": (lambda: _errors(records), "Errors of few unknowns",
                   "One mark per unknown; the bar is reported in the paper."),
        "bodies": (lambda: _bodies(records, seed), "Bodies",
                   "The first instances at their true parameters; frames are blended, later ones stronger."),
        "error_bars": (lambda: z_histogram([("8-bit video", BLUE, z)], 6), "Errors over error bars, 8-bit video",
                       "Against the normal distribution."),
    }  # fmt: skip
    if fields:
        figures["fields"] = (
            lambda: _fields(fields),
            "Masses and velocities vertex by vertex",
            "Errors on the part that the data determine to 1 %, and over all vertices, and the paper's.",
        )
    return write_figures(out, figures)


def _errors(records: Sequence[Mapping]) -> Figure:
    figure, rng = new_figure(9.2, 3.4), np.random.default_rng(0)
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
                dots(ax, k, found, rng, 0.28, colour, ms=3)
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


def _bodies(records: Sequence[Mapping], seed: int) -> Figure:
    chosen = list({r["number"]: r for r in records if r["sight"] == "float"}.values())[:SHOWN]
    figure, cells = image_grid(len(chosen), 6, 9.2, 1.75)
    for ax, r in zip(cells, chosen, strict=False):
        body = instance(r["number"], seed)
        ax.imshow(blended_frames(body.scene, r["truth"], 3), interpolation="nearest")
        ax.set_title(body.name, fontsize=7)
    return figure


def _fields(fields: Sequence[Mapping]) -> Figure:
    figure, rng = new_figure(8, 3.2), np.random.default_rng(0)
    kinds = list(dict.fromkeys((r["quantity"], r["sight"]) for r in fields))
    ax = figure.subplots()
    for k, (quantity, sight) in enumerate(kinds):
        some = [r for r in fields if (r["quantity"], r["sight"]) == (quantity, sight)]
        for key, marker, shift in (("error", "o", -0.17), ("full_error", "x", 0.17)):
            x = k + shift + rng.uniform(-0.12, 0.12, len(some))
            colours = [COLOURS[r["kind"]] for r in some]
            ax.scatter(x, np.maximum([r[key] for r in some], ERROR_FLOOR), c=colours, s=14, marker=marker)
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
