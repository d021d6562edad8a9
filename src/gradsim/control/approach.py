"""A goal for a part of the way: nearer to a place, as far as a speed allows.

    c* = c(0) + d min(1, V T/|d|),  d = place - c(0);       loss = √(1 + |c(T) - c*|²/scale²) - 1

c is the centre of mass, T the time of the episode that is shown. It asks the same of every piece of a motion, wherever
disturbances have put the body: so a policy can be trained by short pieces (`truncated.py`), whose gradients stay tame, or
planned for a short time ahead (`mpc.py`). At a speed that the body can keep, what is left at the end is 0.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from gradsim.control.goal import Goal, Truth
from gradsim.errors import InputError
from gradsim.geometry.validation import lengths

if TYPE_CHECKING:
    from gradsim.control.plant import Episode


@final
class Approach(Goal):
    """Where a body should go, and how fast.

    Args:
        body: Its name.
        place: Of the centre of its mass (3,) [m].
        speed: V [m/s].
        axes: That count: (0,) asks nothing of the height.
        scale: Distances below it count by their square, those above by themselves [m].
        truth: For figures, see `Goal`.

    Raises:
        InputError: If the place is none, or a number is out of its range.
    """

    def __init__(
        self,
        body: str,
        place: Tensor,
        speed: float,
        axes: Sequence[int] = (0, 1, 2),
        scale: float = 0.1,
        truth: Truth | None = None,
    ):
        super().__init__(truth)
        if not isinstance(place, Tensor) or place.shape != (3,):
            got = f"shape {tuple(place.shape)}" if isinstance(place, Tensor) else repr(place)
            raise InputError(f"the place that `{body}` should approach is {got}; expected a tensor (3) [m].")
        if not axes or not set(axes) <= {0, 1, 2}:
            raise InputError(f"the axes that count are {tuple(axes)}; expected some of 0, 1, 2.")
        self.body, self.place, self.axes = body, place.detach().double(), list(axes)
        self.speed, self.scale = (float(lengths(n, v)[0]) for n, v in (("speed", speed), ("scale", scale)))
        if not math.isfinite(self.speed):
            raise InputError(f"the speed is {self.speed} m/s; expected a finite number.")

    def loss(self, episode: "Episode", iteration: int = 0) -> Tensor:
        c, times = episode.centre(self.body)[:, [0, -1]][..., self.axes], episode.trajectory.times
        before, after = c[:, 0].detach(), c[:, 1]
        way = self.place[self.axes].to(c) - before
        reach = self.speed * (times[-1] - times[0]).item()
        length = torch.linalg.vector_norm(way, dim=1, keepdim=True)
        wanted = before + way * (reach / length.clamp(min=reach))
        return (1 + ((after - wanted) / self.scale).square().sum(1)).sqrt() - 1
