"""`gradsim control`: policy search into a run folder."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from gradsim.app.commands.control_goal import write_goal
from gradsim.app.commands.control_result import (
    control_result,
    interrupted_result,
    iteration_cost,
    stored_iterations,
    write_policy_videos,
)
from gradsim.app.commands.control_search import search, set_up
from gradsim.app.controls_file import answer_words, constant_controls, write_controls
from gradsim.app.job import METHODS, ControlArguments
from gradsim.app.report.control import write_control_report
from gradsim.app.run_directory import RunDirectory
from gradsim.control.goals.image import ImageGoal
from gradsim.control.training.history import History
from gradsim.errors import InputError, Status
from gradsim.runtime.atomic import atomic_path, write_json
from gradsim.runtime.checkpoint import CheckpointFile
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.scene.exporters.substitution import with_values
from gradsim.scene.node import did_you_mean
from gradsim.visualization.player import write_player

if TYPE_CHECKING:
    from gradsim.control.task.setup import Setup


QUICK_FRAMES = 40  # frames in a video of the small version


def control(arguments: ControlArguments, out: Path, resume: bool = False, progress: Progress | None = None) -> dict:
    """Search for a policy; writes task.yaml, scene.yaml, answer.yaml (the scene with a launch or a push that was found), goal.png, policy.pt, history.json, videos, plots and a report.

    Ctrl-C leaves the last checkpoint, with status "interrupted".

    Args:
        arguments: Arguments of the command.
        out: Run folder.
        resume: Continue unfinished training; the result is that of an uninterrupted one.
        progress: Receives stages and iterations.

    Returns:
        Content of result.json.

    Raises:
        InputError: If an argument is wrong, or `out` holds an unfinished run and `resume` is False, or a run with other
            inputs.
    """
    progress, directory = progress or NullProgress(), RunDirectory(Path(out))
    _check(arguments)
    task = arguments.load_task()
    if resume and directory.is_finished:
        directory.require_same_inputs(arguments, task)
        progress.stage(f"{directory.path} is finished already")
        return directory.result()
    progress.stage("building the model")
    setup, folder = set_up(arguments), directory.path
    with directory.open(arguments, task, resume) as run_checkpoint:
        setup.task.save(folder / "task.yaml")
        setup.task.scene.save(folder / "scene.yaml")
        goal, began = {"images": write_goal(folder, setup)}, time.monotonic()
        checkpoint = CheckpointFile(run_checkpoint.folder / "search.pt", run_checkpoint.job)
        try:
            result = _search_and_render(arguments, setup, checkpoint, folder, progress)
            result |= {"goal": goal, "wall_seconds": time.monotonic() - began}
        except KeyboardInterrupt:
            command = f"gradsim control --resume {shlex.quote(str(folder))}"
            history = History.of_checkpoint(checkpoint)
            _save_history(history, folder)
            result = interrupted_result(arguments, setup.task.name, history, command) | {"goal": goal}
        write_json(folder / "result.json", result)
        write_control_report(folder)
        if result["status"] != Status.INTERRUPTED:
            run_checkpoint.clear()
    progress.done()
    return result


def _check(arguments: ControlArguments) -> None:
    if arguments.method not in METHODS:
        hint = did_you_mean(arguments.method, METHODS) or f"; choose one of {', '.join(METHODS)}."
        raise InputError(f"unknown method {arguments.method!r}{hint}")
    if arguments.iterations is not None and arguments.iterations < 1:
        raise InputError(f"iterations is {arguments.iterations}; use at least 1.")


def _save_history(history: History, folder: Path) -> None:
    """Write history.json and, if there are any, the best and the last policy."""
    history.save(folder / "history.json")
    if history.policies:
        with atomic_path(folder / "policy.pt") as draft:
            torch.save({name: state for name, state in history.policies.items() if name in ("best", "last")}, draft)


def _search_and_render(
    arguments: ControlArguments, setup: "Setup", checkpoint: CheckpointFile, folder: Path, progress: Progress
) -> dict:
    """Search, render and time; content of result.json."""
    done = len(History.of_checkpoint(checkpoint))
    origin = f", on from {done}" if done else ""
    is_mpc = arguments.method == "mpc"
    count = f"{setup.plant.intervals} intervals" if is_mpc else f"{setup.config.iterations} iterations"
    progress.stage(f"searching: {arguments.method}, {count}{origin}")
    policy, history = search(arguments, setup, checkpoint, progress)
    _save_history(history, folder)
    progress.stage(f"rendering the {', '.join(stored_iterations(history))} iteration")
    goal = setup.goal
    assert isinstance(goal, ImageGoal)  # the only kind in task files
    max_frames = QUICK_FRAMES if arguments.quick else None
    policies = write_policy_videos(folder, setup, goal, policy, history, max_frames)
    write_controls(folder, setup.plant, policies.best)
    write_player(folder / "player.html", setup.task.scene, policies.best.trajectory.scene_surface, name="best")
    progress.stage("timing an iteration")
    cost = iteration_cost(setup.plant, policy, goal, len(history) - 1, 1 if arguments.quick else 2)
    result = control_result(arguments, setup, history, policies, cost)
    result["parameters"] = sum(p.numel() for p in policy.parameters())
    scene, constant = setup.task.scene, constant_controls(folder, setup.task.scene)
    if constant:
        with_values(scene, constant).save(folder / "answer.yaml")
        result["verdict"]["words"] += f" {answer_words(scene, constant)}"
        result["answer"] = constant
    return result
