"""A goal in three dimensions: where the centre of mass or every vertex of a body should be.

It is the supervision of the paper's *diffphysics* baseline, which pictures do without. The loss is the mean over x, y, z
(and vertices) of squared distances [m²]; of a centre of mass at the last frame, the position error of Figure 6.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from gradsim.control.goal import Goal, Truth, within
from gradsim.errors import InputError

if TYPE_CHECKING:
    from gradsim.control.plant import Episode


@final
class StateGoal(Goal):
    """Where a body should be.

    Args:
        body: Its name.
        place: Of the centre of its mass (3,), or of all vertices of a soft body (n, 3) [m].
        frames: When: one or several, or None for all of the episode, which rewards each instant, as the paper's
            baseline does.
        truth: For figures, see `Goal`; None: the place, if it is that of the centre.

    Raises:
        InputError: If the place has another shape.
    """

    def __init__(self, body: str, place: Tensor, frames: int | Sequence[int] | None = -1, truth: Truth | None = None):
        if not isinstance(place, Tensor) or place.ndim not in (1, 2) or place.shape[-1] != 3:
            got = f"shape {tuple(place.shape)}" if isinstance(place, Tensor) else repr(place)
            raise InputError(f"the goal of `{body}` is {got}; expected a tensor (3) of its centre, or (n, 3).")
        self.body, self.place = body, place.detach()
        self.frames = frames if frames is None or isinstance(frames, Sequence) else [frames]
        last = -1 if self.frames is None else self.frames[-1]
        super().__init__(truth or (Truth(body, self.place, frame=last) if place.ndim == 1 else None))

    def loss(self, episode: "Episode", iteration: int = 0) -> Tensor:
        trajectory = episode.trajectory
        x = episode.centre(self.body)[:, :, None] if self.place.ndim == 1 else self._vertices(trajectory)
        frames = slice(None) if self.frames is None else within(self.frames, len(trajectory.times))
        return (x[:, frames] - self.place.to(x)).square().flatten(1).mean(1)

    def _vertices(self, trajectory) -> Tensor:
        x = trajectory[self.body].get("x", torch.empty(0))
        if x.ndim != 4 or x.shape[2:] != self.place.shape:
            raise InputError(
                f"the goal of `{self.body}` has {len(self.place)} vertices; the body has "
                f"{x.shape[2] if x.ndim == 4 else 'none that move by themselves'}: give the place of its centre (3)."
            )
        return x
