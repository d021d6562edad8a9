"""What a fit leaves behind that was stopped: a page with what is known so far, and how to go on."""

import shlex
from pathlib import Path

from gradsim.app.job import video_as_given
from gradsim.app.report import write_report
from gradsim.identification.fit import SCHEMA, versions, write_json
from gradsim.identification.unknowns import Space
from gradsim.runtime.checkpoint import Checkpoint


def write_interrupted(out: Path, title: str, seed: int, space: Space, keeper: Checkpoint) -> dict:
    """Write result.json (status "interrupted"), history.json and report.html from the last checkpoint.

    Args:
        out: The run folder.
        title: Of the page.
        seed: Of the job.
        space: Its unknowns.
        keeper: Knows how far it came.

    Returns:
        The content of result.json: the values of the best start so far, without error bars.
    """
    state = keeper.load("search") or {}
    stages = state.get("history", [])
    effort = (keeper.load("sample") or state).get("effort", {})
    write_json(out / "history.json", {"stages": stages, "starts": {}})
    content = {
        "schema": SCHEMA,
        "command": "fit",
        "title": title,
        "video": video_as_given(out),
        "status": "interrupted",
        "resume": f"gradsim fit --resume {shlex.quote(str(out))}",
        "unknowns": _so_far(space, stages[-1]["values"] if stages else {}),
        "stages": len(stages),
        "iterations": stages[-1]["iteration"] if stages else 0,
        **{key: effort.get(key, 0) for key in ("rollouts", "cpu_seconds", "wall_seconds")},
        "seed": seed,
        "versions": versions(),
    }
    write_json(out / "result.json", content)
    write_report(out)
    return content


def _so_far(space: Space, values: dict[str, float]) -> dict[str, dict]:
    unknown = {"std": None, "interval95": None, "identifiable": False, "truth": None}
    found = {}
    for k, (name, unit) in enumerate(zip(space.names, space.units, strict=True)):
        low, high = space.range(k)
        found[name] = {"value": values.get(name), **unknown, "unit": unit, "low": low, "high": high}
    return found
