"""The goal as a run folder shows it: its pictures, and where its outlines go in films."""

from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from gradsim.app.control_reach import silhouettes
from gradsim.control.picture_goal import PictureGoal
from gradsim.geometry.image_io import to_bytes
from gradsim.runtime.atomic import whole
from gradsim.visualization.control_video import Sought

if TYPE_CHECKING:
    from gradsim.control.setup import Setup


def write_goal(folder: Path, setup: "Setup") -> list[dict[str, str]]:
    """Write goal.png, or goal_1.png and so on where there are several; their names and captions.

    Each can be given again with --goal: a silhouette is grey, and a picture has the background of the scene.
    """
    from PIL import Image

    cameras, listed = setup.task.goal.cameras, []
    named = len(cameras) == len(setup.pictures) > 1
    for k, picture in enumerate(setup.pictures):
        name = "goal.png" if len(setup.pictures) == 1 else f"goal_{k + 1}.png"
        is_grey = bool((picture == picture[:1]).all())
        pixels = to_bytes(picture[0] if is_grey else picture.permute(1, 2, 0))
        with whole(folder / name) as draft:
            Image.fromarray(pixels).save(draft)
        listed.append({"file": name, "text": f"{name}, as `{cameras[k]}` sees it" if named else name})
    return listed


def sought(setup: "Setup", goal: PictureGoal) -> tuple[str, list[Sought]]:
    """The first camera that sees the goal, and what it is to see in which frames."""
    count, length = len(setup.task.goal.frames), setup.plant.frames
    inside = silhouettes(goal)
    found = []
    for k in range(min(count, len(goal.frames))):
        shown: Tensor = setup.pictures[k if setup.at_goal is None and k < len(setup.pictures) else 0]
        found.append(Sought(goal.frames[k] % length, shown.permute(1, 2, 0).numpy(), inside[k].numpy()))
    return setup.task.goal.cameras[0], found
