"""The differentiability table as a picture: errors by colour, the paper's ticks framed."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from gradsim_reproduction.differentiability.cells import COLUMNS, ROWS, Cell
from gradsim_reproduction.differentiability.check import GREEN
from gradsim_reproduction.plotting import DATA, INK, new_figure, write_figures

LOWEST = 1e-13  # error of the palest colour
RED, PALE = DATA, "#f1f2f5"
CELL = (0.62, 0.36)  # [in]


def draw(out: Path, cells: Mapping[str, Mapping[str, Cell]]) -> list[dict[str, str]]:
    """Write the picture into a folder; returns its file, title and caption."""
    caption = (
        "The number is the largest relative error of the gradients of a cell against central differences, the darker the "
        "smaller. Framed: ticked in the paper. –: physics has no such quantity. open: gradsim has not. Orange: wrong."
    )
    title = "Error of the gradient by body and quantity"
    return write_figures(out, {"table6": (lambda: _heat(cells), title, caption)})


def _heat(cells: Mapping[str, Mapping[str, Cell]]) -> Figure:
    wide, high = CELL[0] * len(COLUMNS) + 2.0, CELL[1] * len(cells) + 1.2
    figure = new_figure(wide, high)
    axes, shades = figure.subplots(), mpl.colormaps["Blues"]
    axes.set(xlim=(0, len(COLUMNS)), ylim=(len(cells), 0))
    axes.set_xticks(np.arange(len(COLUMNS)) + 0.5, [title for title, _ in COLUMNS.values()], rotation=40, ha="left")
    axes.set_yticks(np.arange(len(cells)) + 0.5, [ROWS[row].title for row in cells])
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    for side in axes.spines.values():
        side.set_visible(False)
    for y, (row, own) in enumerate(cells.items()):
        for x, column in enumerate(COLUMNS):
            cell = own[column]
            share = _share(cell)
            face = {"green": shades(0.15 + 0.7 * share), "red": RED}.get(cell.status, PALE)
            axes.add_patch(Rectangle((x + 0.03, y + 0.05), 0.94, 0.9, facecolor=face, edgecolor="none"))
            if column in ROWS[row].paper:
                axes.add_patch(Rectangle((x + 0.06, y + 0.09), 0.88, 0.82, fill=False, edgecolor=INK, lw=1.2))
            dark = cell.status == "red" or (cell.status == "green" and share > 0.5)
            axes.text(x + 0.5, y + 0.52, _text(cell), ha="center", va="center", color="white" if dark else INK)
    return figure


def _share(cell: Cell) -> float:
    """0 at the largest error that passes, 1 at `LOWEST`."""
    if not cell.slopes:
        return 0.0
    spread = np.log10(GREEN) - np.log10(LOWEST)
    return float(np.clip((np.log10(GREEN) - np.log10(max(cell.differences, 1e-300))) / spread, 0, 1))


def _text(cell: Cell) -> str:
    if cell.reason:
        return "–" if cell.absent else "open"
    return f"{cell.differences:.0e}".replace("e-0", "e-")
