"""A goal that is seen: pictures of where things should be, and nothing else.

    loss = mean over pictures of loss(image of the episode in that frame, picture)

Only the frames that have a picture are drawn. Silhouettes are those of the bodies alone, as if grounds and obstacles
were of glass: nothing should hide the body in the picture.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from gradsim.control.goal import Goal, Truth, within
from gradsim.control.goal_picture import Given, Sees, listed, target_of
from gradsim.errors import InputError
from gradsim.losses import L1, MSE, Blurred, ImageLoss, Pyramid, Schedule, coarse_to_fine, stage
from gradsim.render.silhouettes import Silhouettes

if TYPE_CHECKING:
    from gradsim.control.plant import Episode

DIFFERENCES = (MSE, L1, Pyramid)  # losses that take any numbers; the others read an image as a share of a body


@final
class PictureGoal(Goal):
    """Pictures of the goal, of one or more cameras, in one or more frames.

    Args:
        sees: The renderer of each picture, or one of all: `Silhouettes.of(scene, camera)`, which is the fastest, or a
            `Renderer`.
        pictures: Paths or tensors, see `target_of`; one or several.
        frames: Of each picture, or one of all; -1 is the last of an episode.
        loss: A loss of images or its name, or a `Schedule` of them by iteration; by default the CDF for 30 iterations,
            which sees the body anywhere, then the difference of pixels.
        colours: Compare colours, as the paper does (loss "mse"); else silhouettes.
        background: The empty scene (3, height, width) of each picture, or None: that of the renderer.
        truth: For figures, see `Goal`.

    Raises:
        InputError: If a picture is not what its camera makes (see `target_of`), there are not as many renderers, frames
            or backgrounds as pictures, or the loss does not compare colours.
    """

    def __init__(
        self,
        sees: Sees | Sequence[Sees],
        pictures: Given | Sequence[Given],
        frames: int | Sequence[int] = -1,
        loss: Schedule | ImageLoss | str | None = None,
        colours: bool = False,
        background: Sequence[Tensor | None] | None = None,
        truth: Truth | None = None,
    ):
        super().__init__(truth)
        given = listed(pictures)
        if not given:
            raise InputError("the goal has no picture; give at least one.")
        self.sees: list[Sees] = _each(sees, len(given), "renderers")
        self.frames: list[int] = _each(frames, len(given), "frames")
        empty = [None] * len(given) if background is None else _each(background, len(given), "backgrounds")
        self.colours, self.schedule = colours, _schedule(loss, colours)
        self.targets = [
            target_of(picture, eye, colours, B) for picture, eye, B in zip(given, self.sees, empty, strict=True)
        ]

    def loss(self, episode: "Episode", iteration: int = 0) -> Tensor:
        compare, trajectory = self.schedule.at(iteration), episode.trajectory
        frames = within(self.frames, len(trajectory.times))
        part = trajectory.at(sorted(set(frames)))
        losses = []
        for sees, target, frame in zip(self.sees, self.targets, self.frames, strict=True):
            if frame in frames:
                image = self._image(sees, part.at([sorted(set(frames)).index(frame)]))
                losses.append(compare(image[:, 0], target))
        return torch.stack(losses).mean(0)

    def stage(self, iteration: int) -> str:
        """What the loss of an iteration is called."""
        return self.schedule.at(iteration).name

    def image(self, episode: "Episode", picture: int = 0) -> Tensor:
        """What is compared with a picture: (worlds, height, width), or (worlds, 3, height, width) in colours."""
        return self._image(self.sees[picture], episode.trajectory.at([self.frames[picture]]))[:, 0]

    def _image(self, sees: Sees, seen) -> Tensor:
        if self.colours:
            return sees(seen.drawn, seen.values)
        mask = sees.union if isinstance(sees, Silhouettes) else sees.alpha
        return mask(seen.surface, seen.values)


def _each(given, count: int, what: str) -> list:
    """One for each picture."""
    several = isinstance(given, Sequence) and not isinstance(given, str)
    found = list(given) if several else [given] * count
    if len(found) != count:
        raise InputError(f"the goal has {count} pictures and {len(found)} {what}; give one for each, or one for all.")
    return found


def _schedule(loss: Schedule | ImageLoss | str | None, colours: bool) -> Schedule:
    if loss is None:
        loss = Schedule(stage("mse", 1)) if colours else coarse_to_fine()
    found = loss if isinstance(loss, Schedule) else Schedule(stage(loss, 1))
    for each in found.stages if colours else ():
        inner = each.loss.loss if isinstance(each.loss, Blurred) else each.loss
        if not isinstance(inner, DIFFERENCES):
            known = ", ".join(kind.name for kind in DIFFERENCES)
            raise InputError(f"the loss {each.loss.name!r} reads silhouettes; colours are compared by {known}.")
    return found
