"""The differentiability table as Markdown: cells, the paper's table, and the parameters of each cell."""

import re
from collections.abc import Callable, Mapping, Sequence

from gradsim_reproduction.differentiability.cells import COLUMNS, PAPER_COLUMNS, ROWS, Cell

Cells = Mapping[str, Mapping[str, Cell]]
WIDE = 6  # columns side by side


def markdown(cells: Cells) -> str:
    """Sections "The table", "The paper's table" and one for each row, with the parameters of its cells.

    Args:
        cells: By row and column.
    """
    linked = lambda row, column: _linked(cells[row][column])
    ticked = lambda row, column: "✓" if column in ROWS[row].paper else ""
    ours = _blocks(list(cells), tuple(COLUMNS), linked)
    paper = _blocks([row for row in cells if ROWS[row].paper], PAPER_COLUMNS, ticked)
    return "\n".join(["## The table", "", *ours, "## The paper's table", "", *paper, *_words(cells)])


def _blocks(rows: Sequence[str], columns: Sequence[str], entry: Callable[[str, str], str]) -> list[str]:
    """Tables of some columns each, so that they fit a page."""
    lines = []
    for block in (columns[k : k + WIDE] for k in range(0, len(columns), WIDE)):
        lines += _head("", *(COLUMNS[column][0] for column in block))
        lines += [_line(ROWS[row].title, *(entry(row, column) for column in block)) for row in rows] + [""]
    return lines


def _linked(cell: Cell) -> str:
    """The mark of a cell, which leads to its words; bold where the paper has a tick."""
    title = ROWS[cell.row].title
    text = f"[{mark(cell)}](#{re.sub('[^a-z0-9 -]', '', title.lower()).replace(' ', '-')})"
    return f"**{text}**" if cell.column in ROWS[cell.row].paper else text


def mark(cell: Cell) -> str:
    """A tick or a cross with the error against differences, a dash, or "open"."""
    if cell.reason:
        return "–" if cell.absent else "open"
    return f"{'✓' if cell.status == 'green' else '✗'}\u00a0{_short(cell.differences)}"


def _words(cells: Cells) -> list[str]:
    lines = []
    for row, row_cells in cells.items():
        lines += [f"## {ROWS[row].title}", "", *_head("test", "parameters", "differences", "forward")]
        for column, cell in row_cells.items():
            if cell.reason:
                text = cell.reason if cell.absent else f"open: {cell.reason}"
                lines.append(_line(COLUMNS[column][0], text, "–" if cell.absent else "open", ""))
                continue
            names = ", ".join(f"`{name}`" for name in cell.slopes)
            forward = "" if cell.forward is None else _short(cell.forward)
            lines.append(_line(f"`{row}-{column}`", names, mark(cell), forward))
        lines.append("")
    return lines


def _head(*titles: str) -> list[str]:
    return [_line(*titles), f"|{'---|' * len(titles)}"]


def _line(*entries: str) -> str:
    return f"| {' | '.join(entries)} |"


def _short(value: float) -> str:
    return f"{value:.0e}".replace("e-0", "e-")
