"""The goal of a control run: its images and outlines, and when it counts as reached.

Reached: the final distance to the goal is at most 5 % of the initial distance. It is measured between centers of mass [m]
where the position of the goal is known, else between the centers of the silhouettes in the goal images [px]. No search
uses it.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gradsim.control.goals.image import ImageGoal
from gradsim.geometry.image_io import to_bytes
from gradsim.render.silhouettes import Silhouettes
from gradsim.runtime.atomic import atomic_path
from gradsim.visualization.control_video import Sought

if TYPE_CHECKING:
    from gradsim.control.plant import Episode
    from gradsim.control.task.setup import Setup

REACHED_FRACTION = 0.05  # of the distance between start and goal
RESOLUTION = {"m": 0.0, "px": 1.0}  # silhouettes of one position differ by less than a pixel


@dataclass(frozen=True)
class Reach:
    """Distance to a goal, and the distance at which it counts as reached.

    Args:
        initial: Distance between start and goal.
        unit: "m" or "px".
    """

    initial: float
    unit: str

    @classmethod
    def of(cls, goal: ImageGoal, episode: "Episode") -> "Reach":
        """From the start of an episode."""
        if goal.truth is not None:
            start = episode.centre(goal.truth.body)[0, 0].detach()
            return cls(float(torch.linalg.vector_norm(start - goal.truth.centre)), "m")
        return cls(_silhouette_distance(goal, episode, at_start=True), "px")

    @property
    def bound(self) -> float:
        """Largest distance at which the goal counts as reached."""
        return max(REACHED_FRACTION * self.initial, RESOLUTION[self.unit])

    @property
    def position_error(self) -> float | None:
        """The bound as a mean over x, y and z of squared distances [m²]; None in pixels."""
        return self.bound**2 / 3 if self.unit == "m" else None

    def final_distance(self, goal: ImageGoal, episode: "Episode") -> float:
        """Distance to the goal at the end of an episode; infinity out of view."""
        distance = goal.distance(episode)
        return _silhouette_distance(goal, episode) if distance is None else float(distance[0])

    def words(self, distance: float) -> str:
        """A final distance in words."""
        return f"ends {distance:.3g} {self.unit} from the goal" if math.isfinite(distance) else "ends out of view"


def silhouettes(goal: ImageGoal) -> list[Tensor]:
    """Masks of the bodies in the goal images (height, width) in [0, 1]; in color images, all but the background."""
    if not goal.colors:
        return [target.detach() for target in goal.targets]
    empty = [torch.as_tensor(sees.background, dtype=torch.float64)[:, None, None] for sees in goal.renderers]
    return [((t - e).abs().amax(0) > 0.1).double() for t, e in zip(goal.targets, empty, strict=True)]


def write_goal(folder: Path, setup: "Setup") -> list[dict[str, str]]:
    """Write goal.png, or goal_1.png and so on if there are several; returns file names and captions.

    Each can be used with --goal: a silhouette is gray, a color image has the background of the scene.
    """
    from PIL import Image

    cameras, captions = setup.task.goal.cameras, []
    is_per_camera = len(cameras) == len(setup.images) > 1
    for k, image in enumerate(setup.images):
        name = "goal.png" if len(setup.images) == 1 else f"goal_{k + 1}.png"
        is_gray = bool((image == image[:1]).all())
        pixels = to_bytes(image[0] if is_gray else image.permute(1, 2, 0))
        with atomic_path(folder / name) as draft:
            Image.fromarray(pixels).save(draft)
        captions.append({"file": name, "text": f"{name}, camera `{cameras[k]}`" if is_per_camera else name})
    return captions


def goal_overlays(setup: "Setup", goal: ImageGoal) -> tuple[str, list[Sought]]:
    """The first camera of the goal, and the goal images with frame and outline."""
    count, length = len(setup.task.goal.frames), setup.plant.frames
    masks = silhouettes(goal)
    overlays = []
    for k in range(min(count, len(goal.frames))):
        image: Tensor = setup.images[k if setup.at_goal is None and k < len(setup.images) else 0]
        overlays.append(Sought(goal.frames[k] % length, image.permute(1, 2, 0).numpy(), masks[k].numpy()))
    return setup.task.goal.cameras[0], overlays


@torch.no_grad()
def _silhouette_distance(goal: ImageGoal, episode: "Episode", at_start: bool = False) -> float:
    """Mean distance between silhouette centers of episode and goal, over the goal images [px]."""
    offsets = []
    for sees, target, frame in zip(goal.renderers, silhouettes(goal), goal.frames, strict=True):
        state = episode.trajectory.at([0 if at_start else frame])
        draw = sees.union if isinstance(sees, Silhouettes) else sees.alpha
        offsets.append(_centroid(draw(state.surface, state.values)[0, 0]) - _centroid(target))
    distance = float(torch.linalg.vector_norm(torch.stack(offsets), dim=-1).mean())
    return distance if math.isfinite(distance) else math.inf


def _centroid(mask: Tensor) -> Tensor:
    """Column and row of a mask's center [px]; NaN if it is empty."""
    rows, columns = (torch.arange(n, dtype=mask.dtype) + 0.5 for n in mask.shape)
    return torch.stack([(mask.sum(0) * columns).sum(), (mask.sum(1) * rows).sum()]) / mask.sum()
