"""Comparison tables: paper | ours | ratio, as Markdown and for the page of a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from gradsim.runtime.atomic import atomic_path


def write_table(out: Path, title: str, rows: Sequence[Mapping], notes: str = "") -> dict:
    """Write `table.md` into a folder; what it returns goes into a result under "table", where the page finds it.

        table = write_table(out, "Table 1", [{"name": "∇Sim, mass", "paper": 9.01e-5, "ours": 3e-13}])

    Args:
        out: The folder.
        title: Rows of the table.
        rows: Each with "name", "paper" and "ours" (None where there is none), and perhaps a "note".
        notes: A sentence or two below it.
    """
    filled = [{"note": "", "ratio": ratio(row["paper"], row["ours"]), **row} for row in rows]
    table = {"title": title, "rows": filled, "notes": notes}
    with atomic_path(Path(out) / "table.md") as draft:
        draft.write_text(markdown(table), encoding="utf-8")
    return table


def markdown(table: Mapping) -> str:
    """A table as `write_table` returns it, as text."""
    noted = any(row["note"] for row in table["rows"])
    headings = ["", "paper", "ours", "ratio", *(["note"] if noted else [])]
    lines = [f"| {' | '.join(headings)} |", "|---|" + "---:|" * 3 + "---|" * noted]
    for row in table["rows"]:
        cells = [
            row["name"],
            *(short(row[key]) for key in ("paper", "ours", "ratio")),
            *([row["note"]] if noted else []),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return f"## {table['title']}\n\n" + "\n".join(lines) + "\n" + f"\n{table['notes']}\n" * bool(table["notes"])


def ratio(paper: float | None, ours: float | None) -> float | None:
    """Paper over ours: how many times smaller ours is; None where either is missing or zero."""
    return paper / ours if paper and ours else None


def short(value: float | str | None) -> str:
    """Three digits; a dash for what is missing."""
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:.3g}"
