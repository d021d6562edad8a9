"""Report page of `gradsim control`: one self-contained HTML file."""

import json
from functools import partial
from pathlib import Path

from gradsim.app.report import control_plots
from gradsim.app.report.page import data_uri, plot, template
from gradsim.control.training.history import History
from gradsim.runtime.atomic import atomic_path

STAGES = "stages.png"


def write_control_report(folder: Path) -> Path:
    """Write report.html and convergence.png from result.json, history.json, videos and images.

    Args:
        folder: Run folder.

    Returns:
        Path of the report.
    """
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    history = History.parse(json.loads((folder / "history.json").read_text(encoding="utf-8")))
    draw = partial(control_plots.convergence, history, result["reach"]["position_error"])
    player = folder / "player.html"
    goals = result["goal"]["images"]
    page = template("control.html.j2").render(
        result=result,
        stages=data_uri(folder / STAGES) if (folder / STAGES).is_file() else "",
        videos=[(data_uri(folder / video["file"]), video["text"]) for video in result["videos"]],
        goals=[(data_uri(folder / goal["file"]), goal["text"]) for goal in goals] if len(goals) > 1 else [],
        convergence=plot(folder / "convergence.png", draw, "", control_plots.CAPTION) if len(history) else None,
        player=player.read_text(encoding="utf-8") if player.is_file() else "",
        facts=[(label, result[key]) for label, key in FACTS if result.get(key) is not None],
    )
    path = folder / "report.html"
    with atomic_path(path) as draft:
        draft.write_text(page, encoding="utf-8")
    return path


FACTS = (
    ("iterations", "iterations"),
    ("iterations to reach the goal", "iterations_to_reach"),
    ("rollouts", "rollouts"),
    ("simulated steps", "steps"),
    ("steps of one rollout", "steps_per_rollout"),
    ("CPU time [s]", "cpu_seconds"),
    ("CPU time of an iteration [s]", "cpu_seconds_per_iteration"),
    ("physics of an iteration [s]", "physics_seconds"),
    ("images of an iteration [s]", "image_seconds"),
    ("policy parameters", "parameters"),
    ("outputs of the policy", "outputs"),
)
