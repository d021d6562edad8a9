"""Films of what a search of Fig. 6 found: the first, middle, best and last iteration beside the goal."""

from collections.abc import Mapping
from pathlib import Path

import torch

from gradsim.control.task.setup import Setup
from gradsim.control.training.history import History, State
from gradsim.visualization.control_video import Screen, Sought, write_film
from gradsim.visualization.sheets import sheet
from gradsim_reproduction.plotting import save_image

NAMES = ("first", "middle", "best", "last")


def show(
    out: Path, task: str, setup: Setup, policies: Mapping[str, State], history: History
) -> tuple[list[dict], dict]:
    """Write a film of each, and TASK_stages.png with instants of all.

    Args:
        out: The folder.
        task: For the names of files.
        setup: The task; its policy ends as the last that is shown.
        policies: What the search kept, by name.
        history: Of that search.

    Returns:
        The films and the picture, as a report lists them.
    """
    screen = Screen(setup.task.scene, setup.task.goal.cameras[0], [_sought(setup)])
    films, stills = [], []
    at = {"first": 0, "middle": len(history) // 2, "best": history.best, "last": len(history) - 1}
    for k in sorted(set(at.values())):
        names = [name for name in NAMES if at[name] == k]
        setup.policy.load_state_dict(policies[names[0]])
        with torch.no_grad():
            motion = setup.plant.rollout(setup.policy).trajectory  # pyright: ignore[reportArgumentType]
        file, error = f"{task}_{names[0]}.webm", history.raw("position_error")[k]
        write_film(out / file, screen.film(motion), screen.fps)
        text = f"{' and '.join(names)}: iteration {k}"
        films.append({"file": file, "text": f"{task.capitalize()}, {text}, error {error:.2g} m². Beside it the goal."})
        stills.append((screen.instants(motion), text))
    stills.append((screen.enlarged(screen.goals[0]), "goal"))
    pictures, labels = zip(*stills, strict=True)
    file = f"{task}_stages.png"
    save_image(out / file, sheet(pictures, 2 if screen.is_wide else len(stills), labels))
    caption = "Instants of the first goal's motion, the last one clearest; the outline is where the goal is."
    return films, {"file": file, "title": f"The {task}", "caption": caption}


def _sought(setup: Setup) -> Sought:
    """The goal as films show it."""
    goal, shown = setup.goal, setup.pictures[0].permute(1, 2, 0)
    return Sought(setup.plant.frames - 1, shown.numpy(), goal.targets[0].numpy())  # pyright: ignore[reportAttributeAccessIssue] -- a PictureGoal
