"""Figures of an experiment: a value, the paper's, our goal, and whether it is met."""

from pathlib import Path

from gradsim.experiments.provenance import provenance
from gradsim.identify.fit import SCHEMA, versions, write_json


def figure(value: float, paper: float | None = None, goal: float | None = None, ok: bool | None = None) -> dict:
    """One figure. Without `ok`, it is met if the value is at most the goal."""
    met = ok if ok is not None else (goal is None or value <= goal)
    return {"value": value, "paper": paper, "goal": goal, "ok": bool(met)}


def asked(name: str, quick: bool, scenes: int | None) -> str:
    """The command that makes these figures again."""
    return f"reproduce {name}" + f" --scenes {scenes}" * bool(scenes) + " --quick" * quick


def write_result(folder: Path, command: str, result: dict, figures: dict[str, dict]) -> dict:
    """Write `result.json` with its figures, and return its content."""
    content = {"schema": SCHEMA, "status": "ok", "versions": versions(), "made_by": provenance(), **result}
    content |= {"command": command, "figures": figures}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "result.json", content)
    return content
