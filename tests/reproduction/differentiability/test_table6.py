"""The paper's Table 6: what is counted, how it is shown, and the command."""

import json
import re

import pytest

from gradsim_reproduction.differentiability import table6
from gradsim_reproduction.differentiability.cells import COLUMNS, PAPER_COLUMNS, ROWS, Cell, parameters_of
from gradsim_reproduction.differentiability.check import Slope
from gradsim_reproduction.differentiability.page import markdown

RIGHT, WRONG = Slope(2e-9, 1e-15, True), Slope(0.3, 1e-15, True)
TICKS = 29


def every(wrong=()):
    """A table in which all cells are right but these."""
    slope = lambda row, column: WRONG if (row, column) in wrong else RIGHT
    return {
        row: {
            column: Cell(
                row,
                column,
                {"body.mass": slope(row, column)} if parameters_of(row, column) else {},
                "" if parameters_of(row, column) else "none",
                True,
            )
            for column in COLUMNS
        }
        for row in ROWS
    }


def test_the_ticks_of_the_paper_are_its_own():
    assert sum(len(row.paper) for row in ROWS.values()) == TICKS
    assert all(set(row.paper) <= set(PAPER_COLUMNS) for row in ROWS.values())
    assert ROWS["cloth"].paper == ("position", "velocity", "mass", "rest_length", "stiffness", "damping", "friction")


def test_one_wrong_cell_shows_in_every_figure():
    figures = table6.summary(every())
    assert figures["paper_cells_green"]["value"] == 1 and figures["cells_red"]["ok"]
    figures = table6.summary(every([("rigid", "mass")]))
    assert (
        figures["paper_cells_green"]["value"] == pytest.approx(1 - 1 / TICKS) and not figures["paper_cells_green"]["ok"]
    )
    assert figures["cells_red"]["value"] == 1 and not figures["cells_red"]["ok"]
    assert figures["worst_rel_error"]["value"] == 0.3 and not figures["worst_rel_error"]["ok"]


def test_the_table_counts_the_papers_ticks_and_those_that_are_right():
    cells = every([("rigid", "mass")])
    rows = {row["name"]: row for row in table6.rows(cells)}
    rigid = rows[ROWS["rigid"].title]
    ticks, subject_slopes = len(ROWS["rigid"].paper), sum(bool(cell.slopes) for cell in cells["rigid"].values())
    assert rigid["paper"] == ticks and rigid["ours"] == subject_slopes - 1 and rigid["ratio"] is None
    assert rigid["note"] == f"{ticks - 1} of the paper's {ticks} among them"
    assert rows["all"]["paper"] == TICKS
    assert rows["all"]["ours"] == table6.summary(cells)["cells_total"]["value"]
    assert rows[ROWS["pile"].title]["paper"] is None


def test_every_link_of_the_page_leads_to_a_heading():
    """Anchors are those of `myst_heading_anchors`: letters, digits and hyphens of the heading, hyphens for spaces."""
    text = markdown(every())
    heads = {line[3:].lower() for line in text.splitlines() if line.startswith("## ")}
    anchors = {"".join(c for c in head if c.isalnum() or c in " -").replace(" ", "-") for head in heads}
    assert set(re.findall(r"\(#([^)]*)\)", text)) <= anchors and "smoke-2-d" in anchors


def test_a_wrong_cell_is_marked_in_the_page():
    assert "✗" not in markdown(every())
    text = markdown(every([("rigid", "mass")]))
    assert text.count("✗\u00a03e-1") == 2, "in the table and among the words"


@pytest.mark.slow
def test_quick_run_is_green(tmp_path):
    result = table6.table6(tmp_path, quick=True)
    assert all(figure["ok"] for figure in result["figures"].values())
    content = json.loads((tmp_path / "result.json").read_text())
    assert content["figures"]["cells_total"]["value"] > 100
    assert (tmp_path / "table6.png").is_file() and (tmp_path / "table6.md").is_file()
    assert "| all | 29 |" in (tmp_path / "table.md").read_text()
