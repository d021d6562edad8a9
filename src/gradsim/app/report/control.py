"""The page of a run of `gradsim control`: one HTML file that needs nothing else."""

import json
from functools import partial
from pathlib import Path

from gradsim.app.report import control_plots
from gradsim.app.report.page import data_uri, drawn, template
from gradsim.control.training.history import History
from gradsim.runtime.atomic import atomic_path

STILLS = "stages.png"


def write_control_report(folder: Path) -> Path:
    """Write report.html, and convergence.png which is in it, from result.json, history.json, films and pictures.

    Args:
        folder: The run folder.

    Returns:
        The page.
    """
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    history = History.parse(json.loads((folder / "history.json").read_text(encoding="utf-8")))
    draw = partial(control_plots.convergence, history, result["reach"]["position_error"])
    player = folder / "player.html"
    goals = result["goal"]["pictures"]
    page = template("control.html.j2").render(
        result=result,
        stills=data_uri(folder / STILLS) if (folder / STILLS).is_file() else "",
        films=[(data_uri(folder / film["file"]), film["text"]) for film in result["films"]],
        goals=[(data_uri(folder / goal["file"]), goal["text"]) for goal in goals] if len(goals) > 1 else [],
        convergence=drawn(folder / "convergence.png", draw, "", control_plots.CAPTION) if len(history) else None,
        player=player.read_text(encoding="utf-8") if player.is_file() else "",
        facts=[(label, result[key]) for label, key in FACTS if result.get(key) is not None],
    )
    path = folder / "report.html"
    with atomic_path(path) as draft:
        draft.write_text(page, encoding="utf-8")
    return path


FACTS = (
    ("iterations", "iterations"),
    ("iterations to reach", "iterations_to_reach"),
    ("rollouts", "rollouts"),
    ("simulated steps", "steps"),
    ("steps of one rollout", "steps_per_rollout"),
    ("CPU time [s]", "cpu_seconds"),
    ("CPU time of an iteration [s]", "cpu_seconds_per_iteration"),
    ("physics of an iteration alone [s]", "physics_seconds"),
    ("pictures of an iteration [s]", "picture_seconds"),
    ("numbers of the policy", "parameters"),
    ("numbers it sets", "outputs"),
)
