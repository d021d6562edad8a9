"""The table of designed verdicts as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from gradsim_reproduction.plotting import SAFE, new_figure, write_figures

RIGHT, WRONG = SAFE[2], SAFE[1]
WORDS = {"ok": "identifiable", "unidentifiable": "open", "mismatch": "mismatch", "failed": "failed"}


def draw(out: Path, records: Sequence[Mapping]) -> list[dict]:
    """Write the table as a plot; returns its entry for `result.json`."""
    right = sum(r["right"] for r in records)
    caption = f"{right} of {len(records)} cases judged as designed."
    return write_figures(out, {"verdicts": (lambda: _table(records), "Designed verdicts", caption)})


def _table(records: Sequence[Mapping]) -> Figure:
    figure = new_figure(10.5, 0.24 * len(records) + 0.9)
    axis = figure.subplots()
    axis.axis("off")
    axis.set(xlim=(0, 1), ylim=(len(records) + 0.5, -1))
    columns = {0.0: "case", 0.42: "expected", 0.54: "the fit says", 0.66: "null direction", 0.97: ""}
    for x, heading in columns.items():
        axis.text(x, -0.5, heading, fontsize=8, weight="bold", va="center")
    for k, record in enumerate(records):
        colour = RIGHT if record["right"] else WRONG
        cells = [record["case"], WORDS[record["expected"]], WORDS[record["status"]], _direction(record["null"])]
        for x, text in zip(columns, cells, strict=False):
            axis.text(x, k + 0.3, text, fontsize=7, va="center")
        axis.text(0.97, k + 0.3, "right" if record["right"] else "WRONG", fontsize=7, va="center", color=colour)
        if k % 2:
            axis.axhspan(k - 0.2, k + 0.8, color="0.95", zorder=0, lw=0)
    return figure


def _direction(null: Sequence[Mapping[str, float]]) -> str:
    """Null directions in short: the last part of each name with its coefficient."""
    parts = [
        "  ".join(f"{value:+.2f} {name.rpartition('.')[2]}" for name, value in one.items() if abs(value) > 0.02)
        for one in null
    ]
    return (
        "; ".join(parts)
        .replace("friction_stiffness", "k_f")
        .replace("stiffness", "k_e" if "k_f" in str(parts) else "stiffness")
    )
