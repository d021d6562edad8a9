"""Goals: the loss of an episode that training minimizes, and distances that only figures use."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from gradsim.errors import InputError

if TYPE_CHECKING:
    from gradsim.control.plant import Episode


@dataclass(frozen=True, eq=False)
class Truth:
    """True position of a body at the goal: for figures, never used in training.

    Args:
        body: Name of the body.
        centre: Centre of mass (3,) [m].
        vertices: Vertices of a soft body (n, 3) [m], in the order of its state x; else None.
        frame: Frame of the goal; -1 is the last.
    """

    body: str
    centre: Tensor
    vertices: Tensor | None = None
    frame: int = -1


class Goal(ABC):
    """Loss of episodes.

    Args:
        truth: True goal position for `distance` and `position_error`; None: unknown.
    """

    def __init__(self, truth: Truth | None = None):
        self.truth = truth

    @abstractmethod
    def loss(self, episode: "Episode", iteration: int = 0) -> Tensor:
        """Loss (worlds,), differentiable; it may depend on the training iteration."""

    @final
    def distance(self, episode: "Episode") -> Tensor | None:
        """Distance (worlds,) [m] of the centre of mass from its goal, for figures; None without a truth."""
        away = self._away(episode)
        return None if away is None else torch.linalg.vector_norm(away, dim=-1)

    @final
    def position_error(self, episode: "Episode") -> Tensor | None:
        """Mean over x, y and z of the squared distance (worlds,) [m²], as in the paper's Figure 6; None without a truth."""
        away = self._away(episode)
        return None if away is None else away.square().mean(-1)

    @torch.no_grad()
    def _away(self, episode: "Episode") -> Tensor | None:
        if self.truth is None:
            return None
        return episode.centre(self.truth.body)[:, self.truth.frame] - self.truth.centre


def within(frames: Sequence[int], length: int) -> list[int]:
    """Frames that an episode of this length has; -1 is its last.

    An episode is shorter than the scene while the training horizon grows.

    Raises:
        InputError: If it has none of them.
    """
    present = [frame for frame in frames if -length <= frame < length]
    if not present:
        raise InputError(
            f"the goal is in frame {', '.join(map(str, frames))}; the episode has frames 0 to {length - 1}: give it more "
            "frames, or a goal at -1, the last."
        )
    return present


@final
class Reward(Goal):
    """Goal that maximizes a reward; its negative is the loss.

    Args:
        function: Differentiable function from an `Episode` to a reward for each world (worlds,):
            `Reward(lambda episode: episode.centre()[:, -1, 0])` is the final position along x.
        truth: See `Goal`.
    """

    def __init__(self, function: "Callable[[Episode], Tensor]", truth: Truth | None = None):
        super().__init__(truth)
        self.function = function

    def loss(self, episode: "Episode", iteration: int = 0) -> Tensor:
        reward, worlds = self.function(episode), len(episode.centre())
        if not isinstance(reward, Tensor) or reward.shape != (worlds,):
            got = f"a tensor {tuple(reward.shape)}" if isinstance(reward, Tensor) else repr(reward)
            raise InputError(f"the reward of an episode is {got}; it needs one number for each world, ({worlds}).")
        return -reward
