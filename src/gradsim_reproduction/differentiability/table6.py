"""The paper's Table 6, measured: the gradient of every cell against differences and forward mode.

The paper ticks 29 cells and shows no numbers. Here a tick is a gradient in float64 that is not zero and agrees with central
differences to 1e-7 and, where there are forward sensitivities, with those to 1e-12; see `differentiability/check.py`.
"""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from gradsim.app.figures import figure
from gradsim.runtime.atomic import atomic_path
from gradsim_reproduction.differentiability import cells as table
from gradsim_reproduction.differentiability.cells import COLUMNS, PAPER_COLUMNS, ROWS, Cell
from gradsim_reproduction.differentiability.check import GREEN
from gradsim_reproduction.differentiability.page import markdown
from gradsim_reproduction.plotting import DATA, INK, new_figure, write_figures
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.tables import write_table


@experiment("table6", "What is differentiable")
def table6(run: Run) -> Outcome:
    """Measure every cell; writes table.md, table6.md (cells with their parameters) and a plot. Quick: one direction."""
    cells = {}
    for row, content in ROWS.items():
        run.progress.stage(content.title)
        cells[row] = {column: table.cell(row, column, run.seed, 1 if run.quick else 3) for column in COLUMNS}
    with atomic_path(run.out / "table6.md") as draft:
        draft.write_text(markdown(cells), encoding="utf-8")
    result = {"cells": _content(cells), "images": draw(run.out, cells)}
    result["table"] = write_table(run.out, "Table 6: quantities with a gradient", rows(cells), WORDS)
    return result, summary(cells)


WORDS = (
    "How many quantities of a body have a gradient; ours is measured: not zero, and that of central differences to 1e-7. The "
    "paper ticks and measures none."
)


def summary(cells: Mapping[str, Mapping[str, Cell]]) -> dict[str, dict]:
    """Numbers of green cells, of the paper's and beyond, and the largest errors."""
    all_cells = {(row, column): cell for row, row_cells in cells.items() for column, cell in row_cells.items()}
    count = lambda status: sum(cell.status == status for cell in all_cells.values())
    ticked = [cell for (row, column), cell in all_cells.items() if column in ROWS[row].paper]
    share = sum(cell.status == "green" for cell in ticked) / len(ticked)
    subject_slopes = [cell for cell in all_cells.values() if cell.slopes]
    green = count("green")
    return {
        "paper_cells_green": figure(share, goal=1.0, ok=share == 1),
        "cells_total": figure(green, paper=len(ticked)),
        "cells_beyond_paper": figure(green - sum(cell.status == "green" for cell in ticked)),
        "cells_red": figure(count("red"), goal=0),
        "cells_missing": figure(count("missing")),
        "parameters_checked": figure(sum(len(cell.slopes) for cell in subject_slopes)),
        "worst_rel_error": figure(max(cell.differences for cell in subject_slopes), goal=1e-7),
        "worst_forward_error": figure(max(cell.forward or 0.0 for cell in subject_slopes), goal=1e-12),
    }


def rows(cells: Mapping[str, Mapping[str, Cell]]) -> list[dict]:
    """Rows of the table: each body, and all. Numbers of quantities; more is better, so the ratio is omitted."""
    table = []
    for row, row_cells in cells.items():
        right = {column for column, cell in row_cells.items() if cell.status == "green"}
        paper = ROWS[row].paper
        note = f"{len(right & set(paper))} of the paper's {len(paper)} among them" if paper else ""
        table.append({"name": ROWS[row].title, "paper": len(paper) or None, "ours": len(right), "note": note})
    total = {key: sum(line[key] or 0 for line in table) for key in ("paper", "ours")}
    return [{**line, "ratio": None} for line in [*table, {"name": "all", "note": "", **total}]]


def _content(cells: Mapping[str, Mapping[str, Cell]]) -> dict:
    return {row: {column: _entry(cell) for column, cell in row_cells.items()} for row, row_cells in cells.items()}


def _entry(cell: Cell) -> dict:
    ticked = cell.column in PAPER_COLUMNS and cell.column in ROWS[cell.row].paper
    entry = {"status": cell.status, "paper": ticked}
    if cell.reason:
        return entry | {"reason": cell.reason}
    slopes = {name: vars(slope) for name, slope in cell.slopes.items()}
    return entry | {"differences": cell.differences, "forward": cell.forward, "parameters": slopes}


LOWEST = 1e-13  # error of the palest colour
RED, PALE = DATA, "#f1f2f5"
CELL = (0.62, 0.36)  # [in]


def draw(out: Path, cells: Mapping[str, Mapping[str, Cell]]) -> list[dict[str, str]]:
    """Write the image into a folder; returns its file, title and caption."""
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
    for y, (row, row_cells) in enumerate(cells.items()):
        for x, column in enumerate(COLUMNS):
            cell = row_cells[column]
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
