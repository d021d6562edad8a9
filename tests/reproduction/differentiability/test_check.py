"""The differentiability table: every cell of it, and that it would show a gradient that is wrong, zero or missing.

`record_property` carries what was measured to `--junit-xml`.
"""

import json
import re
from pathlib import Path

import pytest
import torch

from gradsim_reproduction.differentiability import cells as table
from gradsim_reproduction.differentiability.cells import COLUMNS, ROWS
from gradsim_reproduction.differentiability.check import Slope, slopes
from gradsim_reproduction.differentiability.page import markdown

CELLS = [(row, column) for row in ROWS for column in COLUMNS if table.parameters_of(row, column)]
RECORDED = (
    "rigid",
    "cloth",
    "springs",
)  # a box with a texture, a smooth sheet, tubes without uv: the same code draws others

COMPILED = ("linkage", "meeting", "pile", "rod")  # some ten seconds of compilation each
# with kernels of their own, and by differences for nearly every parameter in tests/physics: rigid/test_rollout and test_rolling,
# soft/test_body and test_driven, smoke/test_solver
COVERED = ("ball", "cloth", "smoke", "springs")
FAST = (  # that those leave out
    ("ball", "geometry"),
    ("cloth", "geometry"),
    ("cloth", "gravity"),
    ("cloth", "rest_length"),
    ("springs", "geometry"),
    ("springs", "gravity"),
)
SHEETS = ("cloth", "springs")  # their kernels compile in some seconds, and are those of few other tests
DRAWN = ("camera", "light", "texture")


def _cell(row: str, column: str):
    covered = row in COVERED and (row, column) not in FAST
    seconds = row in COMPILED or (row not in RECORDED if column in DRAWN else covered)
    return pytest.param(row, column, marks=[pytest.mark.slow] * seconds, id=f"{row}-{column}")


@pytest.mark.parametrize("row, column", [_cell(*names) for names in CELLS])
def test_gradient_is_right_and_not_zero(row, column, record_property, request):
    """By every parameter of the cell: 1e-7 against central differences, 1e-12 against forward sensitivities."""
    if row in SHEETS and column not in DRAWN:
        request.getfixturevalue("unoptimized_kernels")
    cell = table.cell(row, column)
    record_property("slopes", json.dumps({name: vars(slope) for name, slope in cell.slopes.items()}))
    assert all(slope.acts for slope in cell.slopes.values()), cell.slopes
    assert cell.differences <= 1e-7, cell.slopes
    assert cell.forward is None or cell.forward <= 1e-12, cell.slopes
    assert cell.status == "green"


@pytest.mark.parametrize("row", ROWS)
def test_every_cell_of_a_row_has_parameters_or_a_reason(row):
    content = ROWS[row]
    assert set(content.cells) == set(COLUMNS)
    assert all(
        isinstance(content.cells[column], table.Absent | table.Missing) or table.parameters_of(row, column)
        for column in COLUMNS
    )
    assert all(table.parameters_of(row, column) for column in content.paper), "what the paper ticks has parameters"


def test_the_tables_of_the_docs_are_those_of_cells_that_pass():
    """Their rows, parameters and reasons are those of the code, all are ticks, and errors are at most what a tick allows."""
    page = (Path(__file__).parents[3] / "docs" / "reference" / "differentiability_table.md").read_text(encoding="utf-8")
    green = {
        f"{row}-{column}": {
            name if subject in (row, f"{row} film") else f"{subject}: {name}": vars(Slope(0.0, None, True))
            for subject, names in table.parameters_of(row, column).items()
            for name in names
        }
        for row, column in CELLS
    }
    number = re.compile(r"\b\de[-+]\d+\b")
    without_numbers = lambda text: re.sub(
        r"(?m)^(\| `.*\|) [^|]*\|$", r"\1", number.sub("N", text)
    )  # the last are forward
    assert without_numbers(markdown(table.from_tests(green))) == without_numbers(page)
    assert "✗" not in page and max(map(float, number.findall(page))) <= 1e-7


class Curve:
    """y = (a³, a b), with factors on the adjoint by a and on forward sensitivities."""

    def __init__(self, factor=1.0, forward=1.0):
        self.factor, self.forward = factor, forward

    def values(self):
        return {
            "a": torch.tensor([0.7]).double(),
            "b": torch.tensor([[1.0, -2.0]]).double(),
            "idle": torch.tensor([3.0]).double(),
        }

    def observe(self, given):
        worlds = max(len(v) for v in given.values())
        a, b, idle = (v.expand(worlds, *v.shape[1:]) for v in {**self.values(), **given}.values())
        a = a * self.factor + a.detach() * (1 - self.factor)
        return [a**3 + 0 * idle, a[:, None] * b]

    def tangent(self, along):
        values = self.values()
        a, b = values["a"], values["b"]
        worlds = max(len(v) for v in along.values())
        da, db = along.get("a", a.new_zeros(worlds)), along.get("b", b.new_zeros(worlds, 2))
        return [self.forward * 3 * a**2 * da, self.forward * (da[:, None] * b + a[:, None] * db)]


def test_exact_gradient_is_green():
    assert all(slope.green for slope in slopes(Curve(), ["a", "b"]).values())


def test_gradient_that_is_off_by_a_millionth_is_red():
    slope = slopes(Curve(factor=1 + 1e-6), ["a"])["a"]
    assert slope.differences == pytest.approx(1e-6, rel=1e-3) and not slope.green


def test_forward_sensitivity_that_differs_is_red():
    slope = slopes(Curve(forward=1 + 1e-9), ["b"])["b"]
    assert slope.differences < 1e-9 and slope.forward > 1e-11 and not slope.green


def test_zero_is_red_though_it_agrees():
    slope = slopes(Curve(), ["idle"])["idle"]
    assert slope.differences == 0 and not slope.acts and not slope.green
