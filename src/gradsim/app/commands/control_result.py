"""Results of `gradsim control`: videos of the stored policies, cost of an iteration, and the content of result.json."""

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from gradsim.app.commands.control_goal import Reach, goal_overlays
from gradsim.app.commands.control_search import run_policy
from gradsim.app.job import POLICIES, ControlArguments
from gradsim.app.report.control import STAGES
from gradsim.control.goals.image import ImageGoal
from gradsim.control.training.history import History
from gradsim.errors import Status
from gradsim.identification.fit import SCHEMA
from gradsim.runtime.atomic import atomic_path
from gradsim.runtime.provenance import versions
from gradsim.visualization.control_video import Screen, write_video
from gradsim.visualization.sheets import sheet

if TYPE_CHECKING:
    from gradsim.control.goals.base import Goal
    from gradsim.control.plant import Episode, Plant
    from gradsim.control.task.setup import Setup

NO_POSITION = "The goal is an image, so its position in space is unknown; distances in meters are left out."


@dataclass(frozen=True)
class PolicyVideos:
    """Videos of the stored policies.

    Args:
        videos: File, caption and iteration of each.
        reach: When the goal counts as reached.
        distances: Final distance to the goal by policy.
        best: Episode of the best policy.
    """

    videos: list[dict]
    reach: Reach
    distances: dict[str, float]
    best: "Episode"


@dataclass(frozen=True)
class _PolicyImages:
    """Images of one iteration: its episode, its video, and several instants in one image."""

    episode: "Episode"
    video: np.ndarray
    instants: np.ndarray


def stored_iterations(history: History) -> dict[str, int]:
    """Iteration of each stored policy, by name."""
    last = len(history) - 1
    numbers = {"first": 0, "middle": history.middle, "best": history.best, "last": last}
    return {name: k for name in POLICIES if name in history.policies and (k := numbers[name]) is not None}


def write_policy_videos(
    out: Path, setup: "Setup", goal: ImageGoal, policy: nn.Module, history: History, max_frames: int | None = None
) -> PolicyVideos:
    """Render the stored policies and write stages.png; `policy` has the best state afterwards.

    Args:
        out: Run folder.
        setup: The task.
        goal: Goal of the task.
        policy: Policy that takes the states in the history.
        history: At least one iteration.
        max_frames: Frames in a video, see `Screen`.
    """
    screen = Screen(setup.task.scene, *goal_overlays(setup, goal), max_frames)
    images, stills, videos, distances, reach = {}, [], [], {}, None
    for name, k in stored_iterations(history).items():
        if k not in images:  # the best one is often the last
            policy.load_state_dict(history.policies[name], strict=False)  # it lacks the constants of the policy
            episode = run_policy(setup, policy)
            trajectory = episode.trajectory
            images[k] = _PolicyImages(episode, screen.video(trajectory), screen.instants(trajectory))
        reach = reach or Reach.of(goal, images[k].episode)
        distances[name] = reach.final_distance(goal, images[k].episode)
        write_video(out / f"{name}.webm", images[k].video, screen.fps)
        text = f"{name.capitalize()}: iteration {k}, {reach.words(distances[name])}."
        videos.append({"file": f"{name}.webm", "text": text, "iteration": k})
        stills.append((images[k].instants, f"{name}: iteration {k}"))
    policy.load_state_dict(history.policies["best"], strict=False)
    stills.append((screen.enlarged(screen.goals[-1]), "goal"))
    _write_sheet(out / STAGES, *zip(*stills, strict=True), columns=2 if screen.is_wide else len(stills))
    assert reach is not None  # the history has at least one iteration
    return PolicyVideos(videos, reach, distances, images[history.best].episode)


def iteration_cost(
    plant: "Plant", policy: nn.Module, goal: "Goal", iteration: int, repeats: int = 2
) -> dict[str, float]:
    """CPU seconds of one iteration of one world, minimum of some repeats.

    Args:
        plant: The plant.
        policy: The policy.
        goal: Loss of the images.
        iteration: Iteration whose loss is timed, where it changes.
        repeats: Number of repeats.

    Returns:
        `physics_seconds`: a rollout and the gradient of the final center of mass by the policy; `image_seconds`: the
        loss of a finished episode and its gradient by the states.
    """

    def physics():
        episode = plant.rollout(policy)  # pyright: ignore[reportArgumentType]
        episode.centre()[:, -1].sum().backward()

    episode = plant.rollout(policy)  # pyright: ignore[reportArgumentType]
    states = {
        body: {name: y.detach().requires_grad_(y.is_floating_point()) for name, y in arrays.items()}
        for body, arrays in episode.trajectory.states.items()
    }
    detached: Episode = replace(episode, trajectory=replace(episode.trajectory, states=states))

    def images():
        loss = goal.loss(detached, iteration).sum()
        if loss.requires_grad:
            loss.backward()

    seconds = {"physics_seconds": _min_seconds(physics, repeats), "image_seconds": _min_seconds(images, repeats)}
    policy.zero_grad()
    return seconds


def control_result(
    arguments: ControlArguments,
    setup: "Setup",
    history: History,
    policies: PolicyVideos,
    cost: Mapping[str, float],
) -> dict:
    """Content of result.json, without the entries that only the caller knows.

    Args:
        arguments: Arguments of the command.
        setup: The task.
        history: At least one iteration.
        policies: Videos and final distances.
        cost: CPU seconds of physics and images of an iteration.
    """
    reach, rows = policies.reach, [_row(name, k, history) for name, k in stored_iterations(history).items()]
    # iterations of mpc are those of its plans
    first = None if arguments.method == "mpc" else _first_to_reach(history, reach, setup.plant.frames)
    is_reached = policies.distances["best"] <= reach.bound
    numbers = {
        "iterations_to_reach": first,
        "steps_per_rollout": setup.plant.steps,
        "cpu_seconds_per_iteration": statistics.median(history.raw("seconds")),
        **cost,
    }
    figures = {f"position_error_{row['name']}": _figure(row["position_error"]) for row in rows}
    if reach.position_error is not None:
        figures["position_error_best"] |= {"goal": reach.position_error, "ok": is_reached}
    return {
        **_head(arguments, setup.task.name),
        "status": Status.OK if is_reached else Status.MISSED,
        "verdict": _verdict(is_reached, policies, first, arguments.quick),
        "figures": figures | {name: _figure(value) for name, value in numbers.items()},
        "policies": rows,
        "videos": policies.videos,
        "reach": _reach(policies),
        "best": history.best,
        "iterations": len(history),
        **{name: history.total(name)[-1] for name in ("rollouts", "steps")},
        "retreats": history.retreats,
        "cpu_seconds": history.total("seconds")[-1],
        **numbers,
        "outputs": setup.plant.outputs,
        "versions": versions(),
    }


def interrupted_result(arguments: ControlArguments, title: str, history: History, resume: str) -> dict:
    """Content of result.json of an interrupted search."""
    count = len(history)
    progress = f"after {count} iteration{'s' if count != 1 else ''}" if count else "before the first iteration"
    words = f"The search was stopped {progress}; its checkpoint is stored."
    rows = [_row(name, k, history) for name, k in stored_iterations(history).items()] if count else []
    return {
        **_head(arguments, title),
        "status": Status.INTERRUPTED,
        "verdict": {"title": "Stopped before the end", "words": words, "colour": "open"},
        "resume": resume,
        "policies": rows,
        "reach": {"position_error": None, "words": ""},
        "videos": [],
        "iterations": count,
        "rollouts": history.total("rollouts")[-1] if count else 0,
        "steps": history.total("steps")[-1] if count else 0,
        "cpu_seconds": history.total("seconds")[-1] if count else 0.0,
        "versions": versions(),
    }


def _write_sheet(path: Path, images: tuple[np.ndarray, ...], labels: tuple[str, ...], columns: int) -> None:
    from PIL import Image

    with atomic_path(path) as draft:
        Image.fromarray(sheet(images, columns, labels)).save(draft)


def _min_seconds(work: Callable[[], None], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


def _head(arguments: ControlArguments, title: str) -> dict:
    names = ("method", "quick", "seed")
    values = {"task": str(arguments.task), **{name: getattr(arguments, name) for name in names}}
    return {"schema": SCHEMA, "command": "control", "title": title, **values}


def _row(name: str, k: int, history: History) -> dict:
    entry = history.iterations[k]
    numbers = {key: getattr(entry, key) for key in ("loss", "distance", "position_error", "gradient_norm")}
    return {"name": name, "iteration": k, "stage": entry.stage, **{key: _finite(x) for key, x in numbers.items()}}


def _first_to_reach(history: History, reach: Reach, frames: int) -> int | None:
    """First iteration over all frames whose distance is within the bound; None if none is, or distances are in px."""
    if reach.unit != "m":
        return None
    entries = enumerate(history.iterations)
    return next((k for k, e in entries if e.distance <= reach.bound and e.frames == frames), None)


def _reach(policies: PolicyVideos) -> dict:
    reach = policies.reach
    words = (
        f"Reached: at most {reach.bound:.3g} {reach.unit} from the goal at the end, of {reach.initial:.3g} {reach.unit} at "
        "the start."
    )
    return {
        "bound": reach.bound,
        "way": _finite(reach.initial),
        "unit": reach.unit,
        "position_error": reach.position_error,
        "away": {name: _finite(x) for name, x in policies.distances.items()},
        "words": f"{words} {NO_POSITION}" if reach.unit == "px" else words,
    }


def _verdict(is_reached: bool, policies: PolicyVideos, first: int | None, quick: bool) -> dict[str, str]:
    reach = policies.reach
    words = (
        f"The best policy {reach.words(policies.distances['best'])}, of {reach.initial:.3g} {reach.unit} at the start; at "
        f"most {reach.bound:.3g} {reach.unit} counts as reached."
    )
    if is_reached:
        words += f" The first iteration to reach it was {first}." if first is not None else ""
        return {"title": "The goal is reached", "words": words, "colour": "good"}
    if quick:
        hint = "This was the small version; leave out --quick for all iterations."
    elif first is None:
        hint = "More iterations may help, if the controls can reach the goal at all."
    else:
        hint = f"Iteration {first} was near enough, but has a larger loss."
    return {"title": "The goal is missed", "words": f"{words} {hint}", "colour": "bad"}


def _figure(value: float | None) -> dict:
    return {"value": value, "paper": None, "goal": None, "ok": True}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
