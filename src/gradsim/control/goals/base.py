"""What a search lowers, and, for figures alone, how far an episode ends from where it should.

A goal of one's own: a number of each episode that should be large.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from gradsim.errors import InputError

if TYPE_CHECKING:
    from gradsim.control.plant import Episode
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradsim.control.plant import Episode


@dataclass(frozen=True, eq=False)
class Truth:
    """Where a body should be: what figures may know, and a search may not.

    Args:
        body: Its name.
        centre: Of its mass (3,) [m].
        vertices: Of a soft body (n, 3) [m], in the order of its state x; else None.
        frame: When; -1 is the last.
    """

    body: str
    centre: Tensor
    vertices: Tensor | None = None
    frame: int = -1


class Goal(ABC):
    """A loss of episodes.

    Args:
        truth: Where the body should be, for `distance` and `position_error`; None: nobody knows.
    """

    def __init__(self, truth: Truth | None = None):
        self.truth = truth

    @abstractmethod
    def loss(self, episode: "Episode", iteration: int = 0) -> Tensor:
        """How far each world is from the goal (worlds,), differentiable; the loss may change with the iteration."""

    @final
    def distance(self, episode: "Episode") -> Tensor | None:
        """From the centre of mass to the goal's (worlds,) [m], for figures; None without a truth."""
        away = self._away(episode)
        return None if away is None else torch.linalg.vector_norm(away, dim=-1)

    @final
    def position_error(self, episode: "Episode") -> Tensor | None:
        """Mean over x, y and z of the squared distance of the centres of mass (worlds,) [m²]: the paper's Figure 6."""
        away = self._away(episode)
        return None if away is None else away.square().mean(-1)

    @torch.no_grad()
    def _away(self, episode: "Episode") -> Tensor | None:
        if self.truth is None:
            return None
        return episode.centre(self.truth.body)[:, self.truth.frame] - self.truth.centre


def within(frames: Sequence[int], length: int) -> list[int]:
    """Those of the frames that an episode of so many frames has; -1 is its last.

    An episode may be shorter than the film, where a search lets the horizon grow.

    Raises:
        InputError: If it has none of them.
    """
    found = [frame for frame in frames if -length <= frame < length]
    if not found:
        raise InputError(
            f"the goal is in frame {', '.join(map(str, frames))}; the episode has frames 0 to {length - 1}: give it more "
            "frames, or a goal at -1, the last."
        )
    return found


@final
class Reward(Goal):
    """What a function of an episode says, to be raised; its negative is the loss.

    Args:
        function: From an `Episode` to a reward for each world (worlds,), differentiable:
            `Reward(lambda episode: episode.centre()[:, -1, 0])` is how far to the right a body gets.
        truth: For figures, see `Goal`.
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
