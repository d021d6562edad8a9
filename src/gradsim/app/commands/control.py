"""`gradsim control`: a folder with a policy that was searched for, films of it, and how it was found."""

import json
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from gradsim.app.commands import control_result
from gradsim.app.commands.control_result import cost, show, write_goal
from gradsim.app.commands.control_search import ready, search
from gradsim.app.controls_file import write_controls
from gradsim.app.job import METHODS, ControlJob
from gradsim.app.report.control import write_control_report
from gradsim.app.run_directory import compare, desk, finished
from gradsim.control.goals.image import PictureGoal
from gradsim.control.training.history import History
from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_path, write_json
from gradsim.runtime.checkpoint import CheckpointFile
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.scene.node import did_you_mean
from gradsim.visualization.player import write_player

if TYPE_CHECKING:
    from gradsim.control.task.setup import Setup


QUICK = 40  # pictures in a film of a trial


def control(job: ControlJob, out: Path, resume: bool = False, progress: Progress | None = None) -> dict:
    """Search for a policy; writes task.yaml, scene.yaml, goal.png, policy.pt, history.json, films, plots and a page.

    Ctrl-C leaves a folder with what is known so far, status "interrupted".

    Args:
        job: What to do.
        out: The run folder.
        resume: Go on with an unfinished search there; its answer is that of one that was never interrupted.
        progress: Is told what happens.

    Returns:
        The content of result.json. That of a finished run if it is to be resumed.

    Raises:
        InputError: If anything that was given is wrong, or the folder holds an unfinished run and `resume` is False,
            or one of other input and `resume` is True.
    """
    progress, out = progress or NullProgress(), Path(out)
    _check(job)
    task = job.load()
    if resume and finished(out):
        compare(out, job, task)
        progress.stage(f"{out} is finished already")
        return json.loads((out / "result.json").read_text(encoding="utf-8"))
    progress.stage("building the model")
    setup = ready(job)
    with desk(out, job, task, resume) as place:
        setup.task.save(out / "task.yaml")
        setup.task.scene.save(out / "scene.yaml")
        goal, began = {"pictures": write_goal(out, setup)}, time.monotonic()
        memory = CheckpointFile(place.folder / "search.pt", place.job)
        try:
            result = _answered(job, setup, memory, out, progress)
            result |= {"goal": goal, "wall_seconds": time.monotonic() - began}
        except KeyboardInterrupt:
            go_on = f"gradsim control --resume {shlex.quote(str(out))}"
            history = History.of_checkpoint(memory)
            _keep(history, out)
            result = control_result.interrupted(job, setup.task.name, history, go_on) | {"goal": goal}
        write_json(out / "result.json", result)
        write_control_report(out)
        if result["status"] != "interrupted":
            place.clear()
    progress.done()
    return result


def _check(job: ControlJob) -> None:
    if job.method not in METHODS:
        hint = did_you_mean(job.method, METHODS) or f"; choose one of {', '.join(METHODS)}."
        raise InputError(f"there is no method {job.method!r}{hint}")
    if job.iterations is not None and job.iterations < 1:
        raise InputError(f"iterations is {job.iterations}; it has to be at least 1.")


def _keep(history: History, out: Path) -> None:
    """Write history.json and, once there are any, the best and the last policy."""
    history.save(out / "history.json")
    if history.policies:
        with atomic_path(out / "policy.pt") as draft:
            torch.save({name: state for name, state in history.policies.items() if name in ("best", "last")}, draft)


def _answered(job: ControlJob, setup: "Setup", keeper: CheckpointFile, out: Path, progress: Progress) -> dict:
    """Search, film and measure; the content of result.json."""
    done = len(History.of_checkpoint(keeper))
    going_on = f", on from {done}" if done else ""
    some = f", {setup.search.iterations} iterations" if job.method != "mpc" else f", {setup.plant.intervals} intervals"
    progress.stage(f"searching: {job.method}{some}{going_on}")
    policy, history = search(job, setup, keeper, progress)
    _keep(history, out)
    progress.stage(f"filming the {', '.join(control_result.entries(history))} iteration")
    goal = setup.goal
    assert isinstance(goal, PictureGoal)  # tasks from files have no other
    shown = show(out, setup, goal, policy, history, QUICK if job.quick else None)
    write_controls(out, setup.plant, shown.best)
    write_player(out / "player.html", setup.task.scene, shown.best.trajectory.drawn, name="best")
    progress.stage("measuring what an iteration costs")
    spent = cost(setup.plant, policy, goal, len(history) - 1, 1 if job.quick else 2)
    result = control_result.content(job, setup, history, shown, spent)
    result["parameters"] = sum(p.numel() for p in policy.parameters())
    return result
