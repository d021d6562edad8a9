"""The image of Fig. 6: position errors of all goals and their means, next to the paper's."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradsim.control.task.setup import Setup
from gradsim.control.training.history import History, State
from gradsim.visualization.control_video import Screen, Sought, write_video
from gradsim.visualization.sheets import sheet
from gradsim_reproduction.plotting import INK, new_figure, save_image, write_figures

COLORS = {
    "image": "#1d5fd0", "place in 3-D, Adam": "#c2410c", "place in 3-D": "#d99a6c", "not shared": "#15803d",
    "heavy rim": "#15803d", "heavy rim, place in 3-D, Adam": "#86c79a", "random": "#9ca3af", "cma": "#7c3aed",
    "reinforce": "#0e7490", "ppo": "#a16207",
}  # fmt: skip
PAPER = {  # its curves of Fig. 6, by iteration as it counts
    "gear": {
        "image": {0: 4.474, 1: 3.177, 2: 2.212, 5: 1.788, 9: 0.769, 19: 0.441, 39: 0.107},
        "place in 3-D": {0: 4.474, 1: 1.293, 2: 0.512, 5: 0.232, 9: 0.135, 19: 0.082, 39: 0.082},
    },
    "cloth": {
        "image": {0: 7.894, 1: 5.557, 2: 4.167, 5: 3.088, 9: 3.045, 19: 1.677, 39: 0.199},
        "place in 3-D": {0: 8.542, 1: 8.102, 2: 7.741, 5: 6.895, 9: 6.084, 19: 4.340, 39: 1.837},
    },
}
LABELS = {"image": "picture, ours", "place in 3-D": "place in 3-D, same search"}
MARKERS = {"image": "o", "place in 3-D": "x"}
LEAST = 1e-6  # errors below are drawn there: a tenth of a pixel's worth is far above


def draw(out: Path, name: str, runs: Sequence[History], floor: float | None = None) -> dict:
    """Write the curves of a task as an image; returns its entry for `result.json`.

    Args:
        out: The folder.
        name: The task, and the image.
        runs: Runs of all methods and goals.
        floor: A position error [m²], for a line.
    """
    text = (
        "Position error, mean over x, y and z of the squared distance of the centres of mass. Thin: each goal, thick: the "
        "mean over goals, raw; below, best so far as the search's own loss chooses it."
    ) + (" Black: the paper's." if name in PAPER else "")
    return write_figures(out, {name: (lambda: _curves(name, runs, floor), f"Fig. 6, {name}", text)})[0]


def _curves(name: str, runs: Sequence[History], floor: float | None) -> Figure:
    methods = list(dict.fromkeys(run.names.get("method", "image") for run in runs))
    figure = new_figure(10.5, 6.6)
    (raw, rolled), (best, chosen) = figure.subplots(2, 2, sharey=True)
    for method in methods:
        part = [run for run in runs if run.names.get("method", "image") == method]
        for axes, over, how in (
            (raw, False, History.raw), (rolled, True, History.raw),
            (best, False, History.at_best), (chosen, True, History.at_best),
        ):  # fmt: skip
            _method(axes, part, over, how, COLORS[str(method)], LABELS.get(str(method), str(method)))
    for axes in (raw, best):
        for key, points in PAPER.get(name, {}).items():
            axes.plot(
                *zip(*points.items(), strict=True), MARKERS[key], color=INK, ms=5, mfc="none", label=f"{key}, paper"
            )
        axes.set_xlabel("iteration")
    for axes in (rolled, chosen):
        axes.set(xscale="log", xlabel="rollouts of one world, forward")
    for axes in (raw, rolled, best, chosen):
        axes.set_yscale("log")
        axes.grid(alpha=0.2)
        if floor is not None:
            axes.axhline(floor, color=INK, lw=0.8, ls=(0, (4, 3)), label="undeformed, at rest at the goal")
    raw.set(ylabel="position error, raw [m²]", title="iterations")
    best.set(ylabel="position error, best so far [m²]")
    rolled.set_title("rollouts")
    handles, labels = raw.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=8)
    return figure


def _method(axes: Axes, runs: Sequence[History], over: bool, how, colour: str, label: str) -> None:
    """The runs of a method, and their mean where all have as many iterations."""
    curves = [np.maximum(how(run, "position_error"), LEAST) for run in runs]
    places = [np.array(run.total("rollouts")) if over else np.arange(len(run)) for run in runs]
    for x, y in zip(places, curves, strict=True):
        axes.plot(x, y, color=colour, lw=0.6, alpha=0.45)
    length = min(map(len, curves))
    mean = np.mean([y[:length] for y in curves], 0)
    axes.plot(places[0][:length], mean, color=colour, lw=2.2, label=label)


STAGES = ("first", "middle", "best", "last")


def draw_stages(
    out: Path, task: str, setup: Setup, policies: Mapping[str, State], history: History
) -> tuple[list[dict], dict]:
    """Write a video of each, and TASK_stages.png with instants of all.

    Args:
        out: The folder.
        task: For the names of files.
        setup: The task; its policy ends as the last that is shown.
        policies: Policies of the search, by name.
        history: Of that search.

    Returns:
        The videos and the image, as a report lists them.
    """
    screen = Screen(setup.task.scene, setup.task.goal.cameras[0], [_goal_image(setup)])
    videos, stills = [], []
    at = {"first": 0, "middle": len(history) // 2, "best": history.best, "last": len(history) - 1}
    for k in sorted(set(at.values())):
        names = [name for name in STAGES if at[name] == k]
        setup.policy.load_state_dict(policies[names[0]])
        with torch.no_grad():
            motion = setup.plant.rollout(setup.policy).trajectory  # pyright: ignore[reportArgumentType]
        file, error = f"{task}_{names[0]}.webm", history.raw("position_error")[k]
        write_video(out / file, screen.video(motion), screen.fps)
        text = f"{' and '.join(names)}: iteration {k}"
        videos.append(
            {"file": file, "text": f"{task.capitalize()}, {text}, error {error:.2g} m². Next to it the goal."}
        )
        stills.append((screen.instants(motion), text))
    stills.append((screen.enlarged(screen.goals[0]), "goal"))
    images, labels = zip(*stills, strict=True)
    file = f"{task}_stages.png"
    save_image(out / file, sheet(images, 2 if screen.is_wide else len(stills), labels))
    caption = "Instants of the first goal's motion, the last one clearest; the outline is where the goal is."
    return videos, {"file": file, "title": f"The {task}", "caption": caption}


def _goal_image(setup: Setup) -> Sought:
    """The goal as videos show it."""
    goal, image = setup.goal, setup.images[0].permute(1, 2, 0)
    return Sought(setup.plant.frames - 1, image.numpy(), goal.targets[0].numpy())  # pyright: ignore[reportAttributeAccessIssue] -- an ImageGoal
