"""What can be optimised (the paper's Table 6), measured: the gradient of every cell against differences and forward mode.

The paper ticks 29 cells and shows no numbers. Here a tick is a gradient in float64 that is not zero and agrees with central
differences to 1e-7 and, where there are forward sensitivities, with those to 1e-12; see `differentiability.py`.
"""

from collections.abc import Mapping

from gradsim.runtime.atomic import atomic_path
from gradsim_reproduction.differentiability import cells as table
from gradsim_reproduction.differentiability import plots
from gradsim_reproduction.differentiability.cells import COLUMNS, PAPER_COLUMNS, ROWS, Cell
from gradsim_reproduction.differentiability.page import markdown
from gradsim_reproduction.runner import Outcome, Run, experiment, figure
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
    result = {"cells": _content(cells), "pictures": plots.draw(run.out, cells)}
    result["table"] = write_table(run.out, "Table 6: quantities with a gradient", rows(cells), WORDS)
    return result, summary(cells)


WORDS = (
    "How many quantities of a body have a gradient; ours is measured: not zero, and that of central differences to 1e-7. The "
    "paper ticks and measures none."
)


def summary(cells: Mapping[str, Mapping[str, Cell]]) -> dict[str, dict]:
    """How many cells are green, of the paper's and beyond, and the largest errors."""
    every = {(row, column): cell for row, own in cells.items() for column, cell in own.items()}
    count = lambda status: sum(cell.status == status for cell in every.values())
    ticked = [cell for (row, column), cell in every.items() if column in ROWS[row].paper]
    share = sum(cell.status == "green" for cell in ticked) / len(ticked)
    measured = [cell for cell in every.values() if cell.slopes]
    green = count("green")
    return {
        "paper_cells_green": figure(share, goal=1.0, ok=share == 1),
        "cells_total": figure(green, paper=len(ticked)),
        "cells_beyond_paper": figure(green - sum(cell.status == "green" for cell in ticked)),
        "cells_red": figure(count("red"), goal=0),
        "cells_missing": figure(count("missing")),
        "parameters_checked": figure(sum(len(cell.slopes) for cell in measured)),
        "worst_rel_error": figure(max(cell.differences for cell in measured), goal=1e-7),
        "worst_forward_error": figure(max(cell.forward or 0.0 for cell in measured), goal=1e-12),
    }


def rows(cells: Mapping[str, Mapping[str, Cell]]) -> list[dict]:
    """Of the table: a body, and all of them. Numbers of quantities, of which more is better, so that there is no ratio."""
    table = []
    for row, own in cells.items():
        right = {column for column, cell in own.items() if cell.status == "green"}
        paper = ROWS[row].paper
        note = f"{len(right & set(paper))} of the paper's {len(paper)} among them" if paper else ""
        table.append({"name": ROWS[row].title, "paper": len(paper) or None, "ours": len(right), "note": note})
    total = {key: sum(line[key] or 0 for line in table) for key in ("paper", "ours")}
    return [{**line, "ratio": None} for line in [*table, {"name": "all", "note": "", **total}]]


def _content(cells: Mapping[str, Mapping[str, Cell]]) -> dict:
    return {row: {column: _entry(cell) for column, cell in own.items()} for row, own in cells.items()}


def _entry(cell: Cell) -> dict:
    ticked = cell.column in PAPER_COLUMNS and cell.column in ROWS[cell.row].paper
    found = {"status": cell.status, "paper": ticked}
    if cell.reason:
        return found | {"reason": cell.reason}
    slopes = {name: vars(slope) for name, slope in cell.slopes.items()}
    return found | {"differences": cell.differences, "forward": cell.forward, "parameters": slopes}
