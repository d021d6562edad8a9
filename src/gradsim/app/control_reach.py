"""Whether a motion reached its goal: figures that no search sees.

Reached: at the end it is away by at most a twentieth of what it was away at the start. That is measured between centres
of mass [m] where the goal's place is known, else between the centres of the silhouettes in the goal's pictures [px].
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gradsim.control.picture_goal import PictureGoal
from gradsim.render.silhouettes import Silhouettes

if TYPE_CHECKING:
    from gradsim.control.plant import Episode

SHARE = 0.05  # of the way from the start to the goal
LEAST = {"m": 0.0, "px": 1.0}  # silhouettes of one place differ by less than a pixel


@dataclass(frozen=True)
class Reach:
    """How far a goal is, and how near is near enough.

    Args:
        way: From the start to the goal.
        unit: "m" or "px".
    """

    way: float
    unit: str

    @classmethod
    def of(cls, goal: PictureGoal, episode: "Episode") -> "Reach":
        """Of the start of an episode."""
        if goal.truth is not None:
            start = episode.centre(goal.truth.body)[0, 0].detach()
            return cls(float(torch.linalg.vector_norm(start - goal.truth.centre)), "m")
        return cls(_apart(goal, episode, start=True), "px")

    @property
    def bound(self) -> float:
        """Away by so much at most, the goal is reached."""
        return max(SHARE * self.way, LEAST[self.unit])

    @property
    def position_error(self) -> float | None:
        """The same as a mean over x, y and z of squared distances [m²]; None where no place is known."""
        return self.bound**2 / 3 if self.unit == "m" else None

    def away(self, goal: PictureGoal, episode: "Episode") -> float:
        """How far an episode ends from the goal; infinity where it cannot be seen there."""
        distance = goal.distance(episode)
        return _apart(goal, episode) if distance is None else float(distance[0])

    def words(self, away: float) -> str:
        """So far from the goal, in words."""
        return f"ends {away:.3g} {self.unit} from the goal" if math.isfinite(away) else "ends out of view"


def silhouettes(goal: PictureGoal) -> list[Tensor]:
    """Where bodies are in the goal's pictures (height, width) in [0, 1]; of colours, what differs from the background."""
    if not goal.colours:
        return [target.detach() for target in goal.targets]
    empty = [torch.as_tensor(sees.background, dtype=torch.float64)[:, None, None] for sees in goal.sees]
    return [((t - e).abs().amax(0) > 0.1).double() for t, e in zip(goal.targets, empty, strict=True)]


@torch.no_grad()
def _apart(goal: PictureGoal, episode: "Episode", start: bool = False) -> float:
    """Mean distance of the centres of silhouettes over the pictures [px]."""
    found = []
    for sees, target, frame in zip(goal.sees, silhouettes(goal), goal.frames, strict=True):
        seen = episode.trajectory.at([0 if start else frame])
        draw = sees.union if isinstance(sees, Silhouettes) else sees.alpha
        found.append(_centre(draw(seen.surface, seen.values)[0, 0]) - _centre(target))
    apart = float(torch.linalg.vector_norm(torch.stack(found), dim=-1).mean())
    return apart if math.isfinite(apart) else math.inf


def _centre(mask: Tensor) -> Tensor:
    """Column and row of a silhouette's centre [px]; not numbers where it is empty."""
    rows, columns = (torch.arange(n, dtype=mask.dtype) + 0.5 for n in mask.shape)
    return torch.stack([(mask.sum(0) * columns).sum(), (mask.sum(1) * rows).sum()]) / mask.sum()
