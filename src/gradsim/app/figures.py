"""Figures of a run with their goals, and `result.json` of a run that is not one fit."""

from pathlib import Path

from gradsim.errors import Status
from gradsim.identification.fit import SCHEMA
from gradsim.runtime.atomic import write_json
from gradsim.runtime.provenance import provenance, versions

Figures = dict[str, dict]  # by name, see `figure`


def figure(value: float | None, paper: float | None = None, goal: float | None = None, ok: bool | None = None) -> dict:
    """One figure: value, the paper's value, our goal, and whether it is met (by default: value ≤ goal); None: not measured."""
    is_met = ok if ok is not None else (goal is None or (value is not None and value <= goal))
    return {"value": value, "paper": paper, "goal": goal, "ok": bool(is_met)}


def write_result(folder: Path, command: str, result: dict, figures: Figures) -> dict:
    """Write `result.json` with its figures, and return its content."""
    content = {"schema": SCHEMA, "status": Status.OK, "versions": versions(), "made_by": provenance(), **result}
    content |= {"command": command, "figures": figures}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "result.json", content)
    return content
