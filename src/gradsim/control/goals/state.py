"""Goals in the state: a target position of a body, or steady approach to one."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from gradsim.control.goals.base import Goal, Truth, within
from gradsim.errors import InputError
from gradsim.geometry.validation import lengths

if TYPE_CHECKING:
    from gradsim.control.plant import Episode


@final
class ApproachGoal(Goal):
    """Approach a position at a given speed.

        c* = c(0) + d min(1, V T/|d|),  d = place - c(0);       loss = √(1 + |c(T) - c*|²/scale²) - 1

    c is the centre of mass, T the duration of the episode. The goal is the same for every piece of a trajectory, wherever
    disturbances have put the body: a policy can be trained on short pieces (`train_truncated`), whose gradients stay
    bounded, or planned for a short time ahead (`mpc.py`). At a speed that the body can sustain, the final loss is 0.

    Args:
        body: Name of the body.
        place: Target of the centre of mass (3,) [m].
        speed: V [m/s].
        axes: Axes that count: (0,) leaves the height free.
        scale: Distance [m] below which the loss is quadratic, above linear.
        truth: See `Goal`.

    Raises:
        InputError: If `place` has another shape, or a number is out of its range.
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


@final
class StateGoal(Goal):
    """Target position of a body's centre of mass or of all vertices.

    The loss is the mean over x, y, z (and vertices) of squared distances [m²]: the supervision of the paper's
    *diffphysics* baseline, and for a centre of mass at the last frame the position error of its Figure 6.

    Args:
        body: Name of the body.
        place: Target of the centre of mass (3,), or of all vertices of a soft body (n, 3) [m].
        frames: One or several frames; None: all frames, as the paper's baseline.
        truth: See `Goal`; None: `place`, if it is that of the centre.

    Raises:
        InputError: If `place` has another shape.
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
