"""What result.json of `gradsim control` says: how near the goal was, after how many iterations, at what cost."""

import math
import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gradsim.app.control_job import NAMES, ControlJob
from gradsim.control.history import History
from gradsim.identification.fit import SCHEMA, versions

if TYPE_CHECKING:
    from gradsim.app.control_shown import Shown
    from gradsim.control.setup import Setup

UNKNOWN = "The goal is a picture alone, so nobody knows where in space it is; figures in metres are left out."


def entries(history: History) -> dict[str, int]:
    """The iteration of each policy that the history keeps."""
    last = len(history) - 1
    numbers = {"first": 0, "middle": history.middle, "best": history.best, "last": last}
    return {name: k for name in NAMES if name in history.policies and (k := numbers[name]) is not None}


def content(job: ControlJob, setup: "Setup", history: History, shown: "Shown", spent: Mapping[str, float]) -> dict:
    """The content of result.json, but for the goal's pictures and what only the caller knows.

    Args:
        job: What was asked.
        setup: The task.
        history: At least one iteration.
        shown: Its films, and how near they came.
        spent: CPU seconds of an iteration's physics and pictures.
    """
    reach, rows = shown.reach, [_row(name, k, history) for name, k in entries(history).items()]
    first = None if job.method == "mpc" else _first(history, shown, setup.plant.frames)  # its iterations are of plans
    reached = shown.away["best"] <= reach.bound
    each = statistics.median(history.raw("seconds"))
    numbers = {
        "iterations_to_reach": first,
        "steps_per_rollout": setup.plant.steps,
        "cpu_seconds_per_iteration": each,
        **spent,
    }
    figures = {f"position_error_{row['name']}": _figure(row["position_error"]) for row in rows}
    if reach.position_error is not None:
        figures["position_error_best"] |= {"goal": reach.position_error, "ok": reached}
    return {
        **_head(job, setup.task.name),
        "status": "ok" if reached else "missed",
        "verdict": _verdict(reached, shown, first, job.quick),
        "figures": figures | {name: _figure(value) for name, value in numbers.items()},
        "policies": rows,
        "films": shown.films,
        "reach": _reach(shown),
        "best": history.best,
        "iterations": len(history),
        **{name: history.total(name)[-1] for name in ("rollouts", "steps")},
        "retreats": history.retreats,
        "cpu_seconds": history.total("seconds")[-1],
        **numbers,
        "outputs": setup.plant.outputs,
        "versions": versions(),
    }


def interrupted(job: ControlJob, title: str, history: History, resume: str) -> dict:
    """The content of result.json of a search that was stopped."""
    count = len(history)
    done = f"after {count} iteration{'s' if count != 1 else ''}" if count else "before the first iteration"
    words = f"The search was stopped {done}; what it knows is kept."
    rows = [_row(name, k, history) for name, k in entries(history).items()] if count else []
    return {
        **_head(job, title),
        "status": "interrupted",
        "verdict": {"title": "Stopped before the end", "words": words, "colour": "open"},
        "resume": resume,
        "policies": rows,
        "reach": {"position_error": None, "words": ""},
        "films": [],
        "iterations": count,
        "rollouts": history.total("rollouts")[-1] if count else 0,
        "steps": history.total("steps")[-1] if count else 0,
        "cpu_seconds": history.total("seconds")[-1] if count else 0.0,
        "versions": versions(),
    }


def _head(job: ControlJob, title: str) -> dict:
    own = {"task": str(job.task), "method": job.method, "quick": job.quick, "seed": job.seed}
    return {"schema": SCHEMA, "command": "control", "title": title, **own}


def _row(name: str, k: int, history: History) -> dict:
    entry = history.iterations[k]
    numbers = {key: getattr(entry, key) for key in ("loss", "distance", "position_error", "gradient_norm")}
    return {"name": name, "iteration": k, "stage": entry.stage, **{key: _known(x) for key, x in numbers.items()}}


def _first(history: History, shown: "Shown", frames: int) -> int | None:
    """The first iteration of whole films whose raw distance is within the bound; None: none, or not known."""
    if shown.reach.unit != "m":
        return None
    entries = enumerate(history.iterations)
    near = (k for k, e in entries if e.distance <= shown.reach.bound and e.frames == frames)
    return next(near, None)


def _reach(shown: "Shown") -> dict:
    reach = shown.reach
    words = (
        f"Reached: away by at most {reach.bound:.3g} {reach.unit} at the end; it is {reach.way:.3g} {reach.unit} at the "
        "start."
    )
    return {
        "bound": reach.bound,
        "way": _known(reach.way),
        "unit": reach.unit,
        "position_error": reach.position_error,
        "away": {name: _known(x) for name, x in shown.away.items()},
        "words": f"{words} {UNKNOWN}" if reach.unit == "px" else words,
    }


def _verdict(reached: bool, shown: "Shown", first: int | None, quick: bool) -> dict[str, str]:
    reach = shown.reach
    words = (
        f"The best policy {reach.words(shown.away['best'])}, which was {reach.way:.3g} {reach.unit} away at the start; "
        f"{reach.bound:.3g} {reach.unit} would do."
    )
    if reached:
        words += f" Iteration {first} was the first that came so near." if first is not None else ""
        return {"title": "The goal is reached", "words": words, "colour": "good"}
    if quick:
        hint = "This was a trial; leave out --quick for all iterations."
    elif first is None:
        hint = "More iterations may help, if the controls can bring it there at all."
    else:
        hint = f"Iteration {first} came so near, with a larger loss."
    return {"title": "The goal is missed", "words": f"{words} {hint}", "colour": "bad"}


def _figure(value: float | None) -> dict:
    return {"value": value, "paper": None, "goal": None, "ok": True}


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
