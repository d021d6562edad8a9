"""The table of designed verdicts as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

from gradsim.runtime.atomic import atomic_path

mpl.use("Agg")

from matplotlib.figure import Figure

RIGHT, WRONG = "#009E73", "#D55E00"  # safe for the colour-blind (Okabe and Ito)
WORDS = {"ok": "identifiable", "unidentifiable": "open", "mismatch": "mismatch", "failed": "failed"}


def draw(out: Path, records: Sequence[Mapping]) -> list[dict]:
    """Write `verdicts.png`; returns what a report lists."""
    figure = Figure(figsize=(10.5, 0.24 * len(records) + 0.9), layout="constrained")
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
    with atomic_path(Path(out) / "verdicts.png") as draft:
        figure.savefig(draft, dpi=130, format="png")
    right = sum(r["right"] for r in records)
    caption = f"{right} of {len(records)} cases judged as was written down before the fit."
    return [{"file": "verdicts.png", "title": "Designed verdicts", "caption": caption}]


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
